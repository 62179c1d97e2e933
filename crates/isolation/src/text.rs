//! Whether a stream is text, told piece by piece.
//!
//! A stream is judged whole: a character may be split between two reads, and one bad byte makes all of it binary.

/// Decides whether a stream, taken whole, is UTF-8.
#[derive(Debug, Default)]
pub struct TextCheck {
    /// The beginning of a character whose end has not come yet; at most three bytes.
    open: Vec<u8>,
    broken: bool,
}

impl TextCheck {
    /// Takes the next bytes of the stream.
    pub fn take(&mut self, bytes: &[u8]) {
        if self.broken {
            return;
        }
        if self.open.is_empty() {
            self.check(bytes);
            return;
        }
        let joined = [self.open.as_slice(), bytes].concat();
        self.open.clear();
        self.check(&joined);
    }

    fn check(&mut self, bytes: &[u8]) {
        if let Err(error) = std::str::from_utf8(bytes) {
            match error.error_len() {
                Some(_) => self.broken = true,
                None => self.open = bytes[error.valid_up_to()..].to_vec(),
            }
        }
    }

    /// Returns whether all that was taken is UTF-8, and ends with a whole character.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.broken && self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_may_be_split_and_must_be_finished() {
        let mut check = TextCheck::default();
        for byte in "\u{20ac}".as_bytes() {
            check.take(&[*byte]);
        }
        assert!(check.is_whole());
        check.take(&"\u{20ac}".as_bytes()[..2]);
        assert!(!check.is_whole());
        check.take(b"x");
        check.take(b"fine again");
        assert!(!check.is_whole(), "one bad byte makes all of it binary");
    }
}
