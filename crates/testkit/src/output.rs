//! What a command left: exit code, standard output, standard error.
use serde_json::Value;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// What a command left.
#[derive(Debug, Clone)]
#[must_use]
pub struct Output {
    /// The command, for messages.
    pub(crate) command: String,
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// All of its standard output.
    pub stdout: Vec<u8>,
    /// All of its standard error.
    pub stderr: Vec<u8>,
}

impl Output {
    /// Returns the exit code; `None` where a signal ended the command.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Returns the signal that ended the command.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Fails unless the command ended with `code`.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code(), Some(code), "the exit code of {self}");
        self
    }

    /// Returns standard output as text.
    #[track_caller]
    #[must_use]
    pub fn out(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("standard output is text")
    }

    /// Returns standard error as text.
    #[track_caller]
    #[must_use]
    pub fn err(&self) -> &str {
        std::str::from_utf8(&self.stderr).expect("standard error is text")
    }

    /// Returns the one line of JSON on standard output.
    #[track_caller]
    #[must_use]
    pub fn json(&self) -> Value {
        one_line(self.out()).unwrap_or_else(|| panic!("standard output is no line of JSON: {self}"))
    }

    /// Returns the one line of JSON on standard error; standard output has to be empty.
    #[track_caller]
    #[must_use]
    pub fn error(&self) -> Value {
        assert!(self.stdout.is_empty(), "an error has no result: {self}");
        one_line(self.err()).unwrap_or_else(|| panic!("standard error is no line of JSON: {self}"))
    }

    /// Returns whether `needle` is anywhere in what the command printed.
    #[must_use]
    pub fn mentions(&self, needle: &str) -> bool {
        let holds =
            |bytes: &[u8]| bytes.windows(needle.len()).any(|part| part == needle.as_bytes());
        holds(&self.stdout) || holds(&self.stderr)
    }
}

impl std::fmt::Display for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = |bytes: &[u8]| -> String {
            String::from_utf8_lossy(bytes).chars().take(4_000).collect()
        };
        write!(f, "{}\n{}\n", self.command, self.status)?;
        write!(f, "stdout: {}\nstderr: {}", text(&self.stdout), text(&self.stderr))
    }
}

fn one_line(text: &str) -> Option<Value> {
    let line = text.strip_suffix('\n').filter(|line| !line.contains('\n'))?;
    serde_json::from_str(line).ok()
}
