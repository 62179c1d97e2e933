//! Text for people: bytes of others made printable, lists and commands made short.
//!
//! What comes from argv, paths and names cannot act on a terminal or begin a line of ours once it went through here;
//! where it has to survive exactly, packages carry it in `provenance` instead.
use std::fmt::Write as _;

/// The longest argument that a summary shows, in characters.
const ARGUMENT_CHARS_MAX: usize = 48;

/// The longest command that a summary shows, in characters.
const COMMAND_CHARS_MAX: usize = 160;

/// Returns `bytes` as one line that cannot act on a terminal: controls, separators and non-UTF-8 are escaped.
#[must_use]
pub fn printable(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        chunk.valid().chars().for_each(|c| push_printable(&mut out, c));
        for byte in chunk.invalid() {
            write!(out, "\\x{byte:02x}").expect("a String takes any text");
        }
    }
    out
}

fn push_printable(out: &mut String, c: char) {
    // Beside controls: the line and paragraph separators, and the marks that turn the direction of text around.
    let acts = c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if acts {
        write!(out, "{}", c.escape_default()).expect("a String takes any text");
    } else {
        out.push(c);
    }
}

/// Returns a command as one short line; long arguments become `…`.
#[must_use]
pub fn command<'a>(argv: impl Iterator<Item = &'a [u8]>) -> String {
    let mut out = String::new();
    for argument in argv {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&shortened(argument, ARGUMENT_CHARS_MAX));
        if out.chars().count() > COMMAND_CHARS_MAX {
            return format!("{}…", out.chars().take(COMMAND_CHARS_MAX).collect::<String>());
        }
    }
    out
}

fn shortened(bytes: &[u8], chars_max: usize) -> String {
    // Escapes make text longer, never shorter, so a prefix decides.
    if bytes.len() > chars_max * 4 {
        return "…".into();
    }
    let text = printable(bytes);
    if text.chars().count() > chars_max { "…".into() } else { text }
}

/// Returns an argument as a shell would need it, for commands that a hint tells the caller to type.
#[must_use]
pub fn quoted(bytes: &[u8]) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-/:@%+,=".contains(byte);
    if !bytes.is_empty() && bytes.iter().all(plain) {
        return printable(bytes);
    }
    format!("'{}'", printable(bytes).replace('\'', "'\\''"))
}

/// Returns `text` cut to `bytes_max` bytes at a character, with `…` where something is missing.
#[must_use]
pub fn clipped(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.into();
    }
    let end = text.floor_char_boundary(bytes_max.saturating_sub('…'.len_utf8()));
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_others_starts_a_line_or_turns_the_terminal() {
        let odd = "a\n## Status\r\u{1b}[2J\u{2028}\u{202e}b".as_bytes();
        let line = printable(&[odd, b"\xff"].concat());
        assert_eq!(line, "a\\n## Status\\r\\u{1b}[2J\\u{2028}\\u{202e}b\\xff");
    }

    #[test]
    fn a_summary_shows_short_arguments_and_elides_long_ones() {
        let long = "x".repeat(100_000);
        let argv = ["python3", "-c", &long, "é"];
        assert_eq!(command(argv.iter().map(|arg| arg.as_bytes())), "python3 -c … é");
        let many = vec![&b"argument"[..]; 1_000];
        assert!(command(many.into_iter()).chars().count() <= COMMAND_CHARS_MAX + 1);
    }

    #[test]
    fn clipping_keeps_whole_characters() {
        assert_eq!(clipped("äöü", 6), "äöü");
        assert_eq!(clipped("äöüß", 6), "ä…");
    }

    #[test]
    fn a_hint_can_be_typed() {
        assert_eq!(quoted(b"report.json"), "report.json");
        assert_eq!(quoted(b"it's here"), "'it'\\''s here'");
    }
}
