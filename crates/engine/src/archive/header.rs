//! One header of a tar stream: POSIX ustar and pax, and the long names and large numbers of GNU tar.
//!
//! Pure: blocks in, values out. Sources: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Extended Header"; the GNU
//! tar manual, "Basic Tar Format".

/// The unit of a tar stream.
pub(super) const BLOCK: usize = 512;

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    Link,
    HardLink,
    /// Anything else, by its type flag.
    Other(u8),
}

/// What a header that belongs to the next entry holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extension {
    /// Records of the next entry.
    Pax,
    /// Records of all entries that follow.
    Global,
    /// The next entry's name.
    LongName,
    /// The next entry's target.
    LongTarget,
}

/// One entry's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) name: Vec<u8>,
    pub(super) target: Vec<u8>,
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) mtime: i64,
    pub(super) kind: Kind,
    flag: u8,
}

/// What extends the next entry's header.
#[derive(Debug, Default)]
pub(super) struct Extended {
    name: Option<Vec<u8>>,
    target: Option<Vec<u8>>,
    size: Option<u64>,
    mtime: Option<i64>,
}

/// Returns how many bytes follow contents of `size` up to the next block.
pub(super) const fn padding(size: u64) -> u64 {
    let block = BLOCK as u64;
    (block - size % block) % block
}

impl Header {
    /// Parses a block; `None` is a mark of the end.
    pub(super) fn parse(block: &[u8; BLOCK]) -> Result<Option<Self>, &'static str> {
        if block.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        check_sum(block)?;
        let flag = block[156];
        let name = match &block[257..263] {
            // Only there the prefix is a part of the name; GNU tar keeps other things in its place.
            b"ustar\0" if block[345] != 0 => {
                [text(&block[345..500]), b"/", text(&block[..100])].concat()
            }
            _ => text(&block[..100]).to_vec(),
        };
        let kind = kind_of(flag, &name);
        let size = u64::try_from(number(&block[124..136])?).map_err(|_| "a size is negative")?;
        let mode = u32::try_from(number(&block[100..108])? & 0o777).unwrap_or_default();
        let mtime = number(&block[136..148])?;
        let target = text(&block[157..257]).to_vec();
        Ok(Some(Self { name, target, size, mode, mtime, kind, flag }))
    }

    /// Returns what the contents of this header say about other ones.
    pub(super) const fn extends(&self) -> Option<Extension> {
        match self.flag {
            b'x' => Some(Extension::Pax),
            b'g' => Some(Extension::Global),
            b'L' => Some(Extension::LongName),
            b'K' => Some(Extension::LongTarget),
            _ => None,
        }
    }

    /// Returns the header with what came before it.
    pub(super) fn with(self, extended: Extended) -> Result<Self, &'static str> {
        let name = extended.name.unwrap_or(self.name);
        Ok(Self {
            // The name that counts decides: a field that cuts a longer one may end with any of its bytes.
            kind: kind_of(self.flag, &name),
            name,
            target: extended.target.unwrap_or(self.target),
            size: extended.size.unwrap_or(self.size),
            mtime: extended.mtime.unwrap_or(self.mtime),
            ..self
        })
    }
}

impl Extended {
    /// Takes the contents of an extending header in.
    pub(super) fn take(&mut self, kind: Extension, body: &[u8]) -> Result<(), &'static str> {
        match kind {
            Extension::LongName => self.name = Some(text(body).to_vec()),
            Extension::LongTarget => self.target = Some(text(body).to_vec()),
            Extension::Pax | Extension::Global => {
                let mut left = body;
                while !left.is_empty() {
                    let (key, value, rest) = record(left).ok_or("a pax record is malformed")?;
                    left = rest;
                    self.record(kind, key, value)?;
                }
            }
        }
        Ok(())
    }

    fn record(&mut self, kind: Extension, key: &[u8], value: &[u8]) -> Result<(), &'static str> {
        let is_global = kind == Extension::Global;
        match key {
            b"path" | b"linkpath" | b"size" if is_global => {
                Err("all entries share a name or a size")
            }
            // A file with holes that are not in the stream; its name and size are not what they seem.
            _ if key.starts_with(b"GNU.sparse.") => {
                Err("it holds a sparse file; write it without --sparse")
            }
            b"path" => {
                self.name = Some(value.to_vec());
                Ok(())
            }
            b"linkpath" => {
                self.target = Some(value.to_vec());
                Ok(())
            }
            b"size" => {
                let size = core::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                self.size = Some(size.ok_or("a pax size is no number")?);
                Ok(())
            }
            b"mtime" if !is_global => {
                let whole = value.split(|byte| *byte == b'.').next().unwrap_or_default();
                let seconds = core::str::from_utf8(whole).ok().and_then(|text| text.parse().ok());
                self.mtime = Some(seconds.ok_or("a pax time is no number")?);
                Ok(())
            }
            // Owners, groups, access times, comments, attributes: not ours to keep.
            _ => Ok(()),
        }
    }
}

/// Returns what an entry of this type flag and this name is.
fn kind_of(flag: u8, name: &[u8]) -> Kind {
    match flag {
        // Before POSIX a directory was a file whose name ends with a slash.
        b'0' | 0 | b'7' if name.last() == Some(&b'/') => Kind::Directory,
        b'0' | 0 | b'7' => Kind::File,
        b'5' => Kind::Directory,
        b'2' => Kind::Link,
        b'1' => Kind::HardLink,
        other => Kind::Other(other),
    }
}

/// Splits `LENGTH KEY=VALUE\n` off; returns key, value and what follows.
fn record(body: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let blank = body.iter().position(|byte| *byte == b' ')?;
    let length: usize = core::str::from_utf8(&body[..blank]).ok()?.parse().ok()?;
    let line = body.get(blank + 1..length)?.strip_suffix(b"\n")?;
    let equals = line.iter().position(|byte| *byte == b'=')?;
    Some((&line[..equals], &line[equals + 1..], &body[length..]))
}

/// Returns a field up to its NUL.
fn text(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Reads a number: octal digits, or after a first byte with its high bit a big-endian two's complement.
fn number(field: &[u8]) -> Result<i64, &'static str> {
    const BAD: &str = "a header holds no number where one belongs";
    if field[0] & 0x80 != 0 {
        // The high bit is the mark; the one below it is the sign.
        let sign = if field[0] & 0x40 == 0 { 0 } else { -1_i64 };
        let first = i64::from(field[0] & 0x7f) | (sign << 7);
        let mut value = first;
        for byte in &field[1..] {
            value = value.checked_mul(256).ok_or("a number is too large")? | i64::from(*byte);
        }
        return Ok(value);
    }
    let digits = text(field).trim_ascii();
    if digits.is_empty() {
        return Ok(0);
    }
    let digits = core::str::from_utf8(digits).map_err(|_| BAD)?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(BAD);
    }
    i64::from_str_radix(digits, 8).map_err(|_| BAD)
}

/// Compares the sum of all bytes, the sum's own counted as blanks.
fn check_sum(block: &[u8; BLOCK]) -> Result<(), &'static str> {
    const BAD: &str = "a header's checksum is wrong";
    let stored = number(&block[148..156]).map_err(|_| BAD)?;
    let bytes = || block[..148].iter().chain([b' '; 8].iter()).chain(&block[156..]);
    let unsigned: i64 = bytes().map(|byte| i64::from(*byte)).sum();
    // Some old writers added signed bytes up.
    let signed: i64 = bytes().map(|byte| i64::from(byte.cast_signed())).sum();
    if stored == unsigned || stored == signed { Ok(()) } else { Err(BAD) }
}
