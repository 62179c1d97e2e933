//! How contract types lie in columns: one small wrapper for each form.
//!
//! Enumerations and ids are their names, compound values are JSON, bytes are blobs, numbers are 64 bits as they are.
//! A column that does not read back is a damaged store, never a default.
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::time::Timestamp;
use rusqlite::Row;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde::Serialize;
use serde::de::value::{Error as NameError, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};

/// A compound value, as JSON text.
pub(crate) struct Json<T>(pub(crate) T);

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        serde_json::to_string(&self.0)
            .map(ToSqlOutput::from)
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?).map(Self).map_err(FromSqlError::other)
    }
}

/// A value whose JSON form is one plain string: an id, or a fieldless enumeration.
pub(crate) struct Name<T>(pub(crate) T);

impl<T: DeserializeOwned> FromSql for Name<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let text: StrDeserializer<'_, NameError> = value.as_str()?.into_deserializer();
        T::deserialize(text).map(Self).map_err(FromSqlError::other)
    }
}

/// Bytes, as a blob.
pub(crate) struct Blob(pub(crate) ByteString);

impl FromSql for Blob {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_blob().map(|bytes| Self(bytes.into()))
    }
}

/// An unsigned number, bit for bit in SQLite's signed one.
pub(crate) struct Whole(pub(crate) u64);

impl ToSql for Whole {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.cast_signed().into())
    }
}

impl FromSql for Whole {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        value.as_i64().map(|signed| Self(signed.cast_unsigned()))
    }
}

/// Returns the column of an instant.
pub(crate) const fn micros(at: Timestamp) -> Whole {
    Whole(at.as_micros())
}

/// Reads a column of JSON.
pub(crate) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    row.get(column).map(|Json(value)| value)
}

/// Reads a column that may be empty, of JSON.
pub(crate) fn json_or_none<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    row.get::<_, Option<Json<T>>>(column).map(|value| value.map(|Json(value)| value))
}

/// Reads a column that holds a name.
pub(crate) fn name<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    row.get(column).map(|Name(value)| value)
}

/// Reads a column that may be empty, and else holds a name.
pub(crate) fn name_or_none<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
) -> rusqlite::Result<Option<T>> {
    row.get::<_, Option<Name<T>>>(column).map(|value| value.map(|Name(value)| value))
}

/// Reads a column of bytes.
pub(crate) fn blob(row: &Row<'_>, column: usize) -> rusqlite::Result<ByteString> {
    row.get(column).map(|Blob(bytes)| bytes)
}

/// Reads a column of an unsigned number.
pub(crate) fn whole(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get(column).map(|Whole(number)| number)
}

/// Reads a column of an instant.
pub(crate) fn instant(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    whole(row, column).map(Timestamp::from_micros)
}

/// Reads a column that may be empty, and else holds an instant.
pub(crate) fn instant_or_none(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    row.get::<_, Option<Whole>>(column)
        .map(|value| value.map(|Whole(number)| Timestamp::from_micros(number)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bailiwick_contract::id::JobId;
    use bailiwick_contract::state::WorkspaceState;

    #[test]
    fn names_read_back_and_strangers_do_not() {
        let text = |name: &'static str| ValueRef::Text(name.as_bytes());
        let state = Name::<WorkspaceState>::column_result(text("ready")).expect("a state").0;
        assert_eq!(state, WorkspaceState::Ready);
        assert!(Name::<WorkspaceState>::column_result(text("rotten")).is_err());
        assert_eq!(Name::<JobId>::column_result(text("j")).expect("an id").0.as_str(), "j");
        assert!(Name::<JobId>::column_result(text("no id")).is_err());
    }

    #[test]
    fn numbers_keep_all_their_bits() {
        for number in [0, 1, u64::MAX / 2 + 1, u64::MAX] {
            let ToSqlOutput::Owned(value) = Whole(number).to_sql().expect("a number") else {
                panic!("a number is owned");
            };
            assert_eq!(Whole::column_result((&value).into()).expect("a number").0, number);
        }
    }
}
