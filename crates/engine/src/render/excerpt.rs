//! Makes an excerpt of captured output: its head and its tail, as text.
//!
//! What is not UTF-8 shows as U+FFFD; the bytes themselves stay with `logs`. It does not know the bound of a package,
//! only that no excerpt needs more than [`EXCERPT_BYTES_MAX`].

/// The most output that an excerpt is made of: 64 KiB, eight times the default bound of a package.
pub const EXCERPT_BYTES_MAX: usize = 64 << 10;

/// Returns the text of `head` and `tail`, between which `omitted` bytes were not kept.
#[must_use]
pub fn excerpt_of(head: &[u8], omitted: u64, tail: &[u8]) -> String {
    if omitted == 0 && head.len() + tail.len() <= EXCERPT_BYTES_MAX {
        return String::from_utf8_lossy(&[head, tail].concat()).into_owned();
    }
    let contiguous = omitted == 0 && tail.is_empty();
    let (head, tail) = if contiguous { head.split_at(head.len() / 2) } else { (head, tail) };
    let first = whole_at_end(&head[..head.len().min(EXCERPT_BYTES_MAX / 2)]);
    let last = whole_at_start(&tail[tail.len().saturating_sub(EXCERPT_BYTES_MAX / 2)..]);
    let dropped = head.len() - first.len() + tail.len() - last.len();
    let gap =
        omitted + u64::try_from(dropped).expect("usize fits into u64 on every supported host");
    let newline = if first.last().is_none_or(|byte| *byte == b'\n') { "" } else { "\n" };
    let (first, last) = (String::from_utf8_lossy(first), String::from_utf8_lossy(last));
    format!("{first}{newline}...[{gap} bytes omitted]\n{last}")
}

/// Returns `bytes` without a character that its end cuts in two.
fn whole_at_end(bytes: &[u8]) -> &[u8] {
    for back in 1..=bytes.len().min(3) {
        let length = match bytes[bytes.len() - back] {
            0x80..=0xbf => continue,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        };
        return if length > back { &bytes[..bytes.len() - back] } else { bytes };
    }
    bytes
}

/// Returns `bytes` without the rest of a character that its start cuts in two.
fn whole_at_start(bytes: &[u8]) -> &[u8] {
    let rest = bytes.iter().take(3).take_while(|byte| matches!(byte, 0x80..=0xbf)).count();
    &bytes[rest..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_whole_is_shown_whole() {
        assert_eq!(excerpt_of(b"done\n", 0, b""), "done\n");
        assert_eq!(excerpt_of(b"\xc3", 0, b"\xa4"), "ä");
        assert_eq!(excerpt_of(b"a\xff\0b", 0, b""), "a\u{fffd}\0b");
    }

    #[test]
    fn a_gap_is_counted_with_the_characters_that_it_splits() {
        assert_eq!(
            excerpt_of("aä".split_at(1).0.as_bytes(), 5, b"z"),
            "a\n...[5 bytes omitted]\nz"
        );
        assert_eq!(excerpt_of(b"a\xe4\xb8", 5, b"\xad\xa4z"), "a\n...[9 bytes omitted]\nz");
        let long = excerpt_of(&[b'x'; 100_000], 0, b"");
        assert!(long.contains("\n...[34464 bytes omitted]\n"), "{}", long.len());
    }
}
