//! What an owner says of a workspace: checked and bounded where it comes in, told where a package shows it.
//!
//! None of it changes what a job may do. It is text of others, so it is shown escaped like all such text, and no part
//! of it is interpreted but the time to live.
use crate::requests::AboutRequest;
use crate::text::printable;
use bailiwick_contract::error::Failure;
use bailiwick_contract::record::{About, WorkspaceRecord};
use bailiwick_contract::state::WorkspaceState;
use bailiwick_contract::time::Timestamp;
use std::collections::BTreeMap;

/// The longest purpose, owner, parent or label value, in bytes.
pub const TEXT_BYTES_MAX: usize = 256;

/// The longest label key, in bytes.
pub const LABEL_KEY_BYTES_MAX: usize = 64;

/// The most labels of one workspace.
pub const LABELS_MAX: usize = 32;

/// Returns what is recorded of what was asked for at `now`.
///
/// # Errors
/// [`Failure`] for what is empty, too long, too much or no key of a label.
pub(crate) fn recorded(asked: &AboutRequest, now: Timestamp) -> Result<About, Failure> {
    if asked.retain && asked.ttl.is_some() {
        return Err(Failure::user(
            "ttl_and_retain",
            "a workspace that is retained has no time to live",
            "pass either --ttl or --retain",
        ));
    }
    let expires_at = asked.ttl.map(|ttl| {
        let micros = u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX);
        Timestamp::from_micros(now.as_micros().saturating_add(micros))
    });
    Ok(About {
        purpose: text("--purpose", asked.purpose.as_ref())?,
        owner: text("--owner", asked.owner.as_ref())?,
        parent: text("--parent", asked.parent.as_ref())?,
        labels: labels(&asked.labels)?,
        expires_at,
        retain: asked.retain,
    })
}

fn text(flag: &str, given: Option<&String>) -> Result<Option<String>, Failure> {
    given.map(|given| bounded(flag, given)).transpose()
}

fn bounded(flag: &str, given: &str) -> Result<String, Failure> {
    let advice = format!("pass 1 to {TEXT_BYTES_MAX} bytes of text, or leave {flag} out");
    match given.len() {
        0 => Err(Failure::user("bad_about", format!("{flag} is empty"), advice)),
        1..=TEXT_BYTES_MAX => Ok(given.into()),
        length => Err(Failure::user(
            "bad_about",
            format!("{flag} has {length} bytes, and {TEXT_BYTES_MAX} are the most"),
            advice,
        )),
    }
}

fn labels(given: &[(String, String)]) -> Result<BTreeMap<String, String>, Failure> {
    if given.len() > LABELS_MAX {
        return Err(Failure::user(
            "bad_label",
            format!("{} labels were given, and {LABELS_MAX} are the most", given.len()),
            "leave some of them out",
        ));
    }
    let mut labels = BTreeMap::new();
    for (key, value) in given {
        check_key(key)?;
        let flag = format!("--label {key}");
        if labels.insert(key.clone(), bounded(&flag, value)?).is_some() {
            return Err(Failure::user(
                "bad_label",
                format!("{flag} was given twice"),
                "give each label once",
            ));
        }
    }
    Ok(labels)
}

/// Refuses a key that could be mistaken for something else in a command or a listing.
pub(crate) fn check_key(key: &str) -> Result<(), Failure> {
    let plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._/-".contains(&byte);
    if (1..=LABEL_KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(plain) {
        return Ok(());
    }
    Err(Failure::user(
        "bad_label",
        format!("`{}` is no key of a label", crate::text::clipped(&printable(key.as_bytes()), 80)),
        format!("a key is 1 to {LABEL_KEY_BYTES_MAX} characters of a-z 0-9 . _ / -"),
    ))
}

/// Returns the findings about what an owner said of a workspace, and about its end.
pub(crate) fn findings(record: &WorkspaceRecord) -> Vec<String> {
    let About { purpose, owner, parent, labels, expires_at, retain } = &record.about;
    let mut found = Vec::new();
    for (what, text) in [("purpose", purpose), ("owner", owner), ("parent", parent)] {
        found.extend(text.as_ref().map(|text| format!("{what}: {}", printable(text.as_bytes()))));
    }
    if !labels.is_empty() {
        let pairs = labels.iter().map(|(k, v)| format!("{k}={}", printable(v.as_bytes())));
        found.push(format!("labels: {}", pairs.collect::<Vec<_>>().join(", ")));
    }
    let over = matches!(record.state, WorkspaceState::Expired | WorkspaceState::Destroyed);
    found.extend(expires_at.map(|at| match over {
        true => format!("its time was set to end at {at}"),
        false => format!("expires at {at}"),
    }));
    if *retain {
        found.push("retained: prune leaves its record and its output alone".into());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    fn reason(asked: &AboutRequest) -> &'static str {
        recorded(asked, Timestamp::default()).expect_err("refused").reason
    }

    fn labelled(pairs: &[(&str, &str)]) -> AboutRequest {
        let labels = pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        AboutRequest { labels, ..AboutRequest::default() }
    }

    #[test]
    fn what_is_empty_too_long_or_too_much_is_refused() {
        for bad in ["", &"x".repeat(257)] {
            let purpose = Some(bad.to_owned());
            assert_eq!(reason(&AboutRequest { purpose, ..AboutRequest::default() }), "bad_about");
            assert_eq!(reason(&labelled(&[("k", bad)])), "bad_about");
        }
        for key in ["", "K", "a b", "ä", "a=b", &"k".repeat(65)] {
            assert_eq!(reason(&labelled(&[(key, "v")])), "bad_label", "{key}");
        }
        assert_eq!(reason(&labelled(&[("k", "1"), ("k", "2")])), "bad_label");
        let keys: Vec<String> = (0..33).map(|n| n.to_string()).collect();
        let many: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "v")).collect();
        assert_eq!(reason(&labelled(&many)), "bad_label");
        assert!(recorded(&labelled(&many[1..]), Timestamp::default()).is_ok());
        let ttl = Some(Duration::from_secs(1));
        assert_eq!(
            reason(&AboutRequest { ttl, retain: true, ..AboutRequest::default() }),
            "ttl_and_retain"
        );
    }

    #[test]
    fn a_time_to_live_ends_after_now_and_never_overflows() {
        let at = |now, ttl| {
            let asked = AboutRequest { ttl: Some(ttl), ..AboutRequest::default() };
            recorded(&asked, Timestamp::from_micros(now)).expect("good").expires_at
        };
        assert_eq!(at(7, Duration::from_millis(2)), Some(Timestamp::from_micros(2_007)));
        assert_eq!(at(7, Duration::MAX), Some(Timestamp::from_micros(u64::MAX)));
    }
}
