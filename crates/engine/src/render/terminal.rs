//! Output of a job for a terminal, piece by piece: what could act on it is escaped, lines and tabs stay.
//!
//! A character may be split between two pieces; its first bytes wait for the rest, which are three at most.
use super::escape::{is_hidden, push_visible};
use std::fmt::Write as _;

/// Makes output printable, piece by piece.
#[derive(Debug, Default)]
pub struct Terminal {
    /// The first bytes of a character whose rest has not come.
    rest: Vec<u8>,
}

impl Terminal {
    /// Returns the next piece as it may be shown.
    pub fn show(&mut self, bytes: &[u8]) -> String {
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(bytes);
        let mut out = String::with_capacity(all.len() + 16);
        let mut chunks = all.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            chunk.valid().chars().for_each(|c| push(&mut out, c));
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && is_begun(invalid) {
                self.rest = invalid.to_vec();
            } else {
                push_bytes(&mut out, invalid);
            }
        }
        out
    }

    /// Returns what still waits, once nothing more comes.
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        push_bytes(&mut out, &std::mem::take(&mut self.rest));
        out
    }
}

fn push(out: &mut String, c: char) {
    if is_hidden(c) && !matches!(c, '\n' | '\t') {
        push_visible(out, c);
    } else {
        out.push(c);
    }
}

fn push_bytes(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        write!(out, "\\x{byte:02x}").expect("a String takes any text");
    }
}

/// Returns whether bytes are the start of a character that ends with bytes still to come.
fn is_begun(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[&[u8]], shown: &str) {
        let mut terminal = Terminal::default();
        let mut out: String = pieces.iter().map(|piece| terminal.show(piece)).collect();
        out += &terminal.finish();
        assert_eq!(out, shown, "{pieces:?}");
    }

    #[test]
    fn nothing_acts_on_the_terminal_and_lines_stay() {
        check(&[b"a\tb\n\x1b[2J\r\x07"], "a\tb\n\\x1b[2J\\r\\x07");
        check(&["\u{202e}\u{9b}".as_bytes()], "\\u{202e}\\u{9b}");
    }

    #[test]
    fn a_character_may_come_in_two_pieces() {
        let smile = "\u{1f600}".as_bytes();
        for at in 1..4 {
            check(&[&smile[..at], &smile[at..]], "\u{1f600}");
        }
        check(&[b"\xf0\x9f", b"x"], "\\xf0\\x9fx");
        check(&[b"\xff\xc3"], "\\xff\\xc3");
    }
}
