//! The few flags that recipes take.
//!
//! Not an argument parser: a recipe lists the words that it knows, and any other word is refused, so that a typo
//! cannot turn a check into a no-op.

use crate::failure::Failure;

/// The words after a recipe's name, taken out one flag at a time.
#[derive(Debug)]
pub(crate) struct Options {
    words: Vec<String>,
}

impl Options {
    /// Returns the options in `words`.
    pub(crate) fn new(words: &[String]) -> Self {
        Self { words: words.to_vec() }
    }

    /// Takes `flag` out and returns whether it was there.
    pub(crate) fn switch(&mut self, flag: &str) -> bool {
        let before = self.words.len();
        self.words.retain(|word| word != flag);
        self.words.len() != before
    }

    /// Takes `flag` and the word behind it out.
    ///
    /// # Errors
    /// When `flag` is the last word.
    pub(crate) fn value(&mut self, flag: &str) -> Result<Option<String>, Failure> {
        let Some(place) = self.words.iter().position(|word| word == flag) else {
            return Ok(None);
        };
        if place + 1 == self.words.len() {
            return Err(Failure::new(format!("`{flag}` wants a value")));
        }
        let value = self.words.remove(place + 1);
        self.words.remove(place);
        Ok(Some(value))
    }

    /// Takes `flag` and the positive number behind it out.
    ///
    /// # Errors
    /// When what follows is no number above zero.
    pub(crate) fn count(&mut self, flag: &str) -> Result<Option<usize>, Failure> {
        let Some(text) = self.value(flag)? else { return Ok(None) };
        match text.parse() {
            Ok(count) if count > 0 => Ok(Some(count)),
            _ => Err(Failure::new(format!("`{flag}` wants a number above 0, not `{text}`"))),
        }
    }

    /// Returns nothing when every word was taken.
    ///
    /// # Errors
    /// When a word is left.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        match self.words.first() {
            None => Ok(()),
            Some(word) => Err(Failure::new(format!("`{word}` is not known here"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Options;

    fn options(words: &[&str]) -> Options {
        Options::new(&words.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn flags_are_taken_in_any_order() {
        let mut options = options(&["--check", "--runs", "20"]);
        assert_eq!(options.count("--runs").unwrap(), Some(20));
        assert!(options.switch("--check"));
        assert!(!options.switch("--save"));
        options.finish().unwrap();
    }

    #[test]
    fn a_zero_a_missing_value_and_a_typo_are_refused() {
        assert!(options(&["--runs", "0"]).count("--runs").is_err());
        assert!(options(&["--runs"]).count("--runs").is_err());
        assert!(options(&["--chekc"]).finish().is_err());
    }
}
