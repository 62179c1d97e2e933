//! What jobs do here: one table of commands, with what a script says of each.
//!
//! A back end that executes runs the command; one that is scripted is given the rules. Both have to come to the same.
use bailiwick_contract::bytes::ByteString;
use std::fmt::Write as _;

/// A command and its rule.
#[derive(Debug, Clone, Copy)]
pub(super) struct Act {
    argv: &'static [&'static [u8]],
    /// The rule of the script, without its `argv`.
    rule: &'static str,
}

impl Act {
    pub(super) fn argv(self) -> Vec<ByteString> {
        self.argv.iter().map(|arg| ByteString::from(*arg)).collect()
    }
}

/// Makes the table, so that no command can be used whose rule the script lacks.
macro_rules! acts {
    ($($(#[$doc:meta])* $name:ident = [$($arg:expr),*], $rule:expr;)*) => {
        $($(#[$doc])* pub(super) const $name: Act =
            Act { argv: &[$($arg as &[u8]),*], rule: $rule };)*

        const ALL: &[Act] = &[$($name,)*];
    };
}

acts! {
    QUIET = [b"true"], "";
    HELLO = [b"echo", b"hello"], r#""stdout": "hello\n""#;
    FAILS = [b"sh", b"-c", b"echo oops >&2; exit 3"],
        r#""stderr": "oops\n", "end": {"exit_code": 3}"#;
    DIES = [b"sh", b"-c", b"kill -SEGV $$"], r#""end": {"signal": 11}"#;
    ABSENT = [b"bailiwick-no-such-command"], r#""end": {"refused": 127}"#;
    /// Needs a file `plain` that may not be executed.
    UNRUNNABLE = [b"/workspace/plain"], r#""end": {"refused": 126}"#;
    /// Needs far more memory than 64 MiB, and takes it slowly enough for a watch that has to wait for a processor.
    HUNGRY = [b"sh", b"-c", b"x=$(i=0; while [ $i -lt 300 ]; do head -c 1000000 /dev/zero; sleep 0.02; i=$((i+1)); done \
        | tr '\\0' x); echo ${#x}"],
        r#""memory_bytes": 300000000, "stdout": "300000000\n""#;
    SLOW = [b"sleep", b"600"], r#""delay_ms": 600000"#;
    /// Prints and then goes on for long.
    TALKS = [b"sh", b"-c", b"echo ready; exec sleep 600"],
        r#""stdout": "ready\n", "delay_ms": 600000"#;
    /// Prints once it cannot be asked to end any more.
    DEAF = [b"sh", b"-c", b"trap '' TERM; echo deaf; while :; do sleep 1; done"],
        r#""stdout": "deaf\n", "delay_ms": 600000, "ignores_sigterm": true"#;
    /// 1 000 000 bytes.
    FLOODS = [b"sh", b"-c", b"yes abcdefg | head -c 1000000"],
        r#""output": [{"text": "abcdefg\n", "repeat": 125000}]"#;
    /// 3 000 000 bytes, more than any chunk.
    WRITES = [b"sh", b"-c", b"yes 0123456 | head -c 3000000 > out.bin"],
        r#""files": [{"path": "out.bin", "content": "0123456\n", "repeat": 375000}]"#;
    /// Leaves a mark, so that it is seen whether it ran.
    MARKS = [b"sh", b"-c", b"echo ran > ran; echo ran"],
        r#""stdout": "ran\n", "files": [{"path": "ran", "content": "ran\n"}]"#;
    TOKEN = [b"sh", b"-c", b"printf '%s\\n' \"$TOKEN\""],
        r#""output": [{"echo": {"env": "TOKEN"}}, {"text": "\n"}]"#;
    /// Has the variable, and says nothing of it.
    DISCREET = [b"sh", b"-c", b"test -n \"$TOKEN\" && echo seen"], r#""stdout": "seen\n""#;
    WHERE = [b"pwd"], r#""output": [{"echo": "cwd"}, {"text": "\n"}]"#;
    COPIES = [b"cat"], r#""output": [{"echo": "stdin"}]"#;
    BOTH = [b"sh", b"-c", b"echo out; echo err >&2; echo out again"],
        r#""output": [{"text": "out\n"}, {"text": "err\n", "stream": "stderr"},
           {"text": "out again\n"}]"#;
    /// Says one thing, waits, and says another.
    COUNTS = [b"sh", b"-c", b"echo one; sleep 2; echo two"],
        r#""output": [{"text": "one\n"}, {"text": "two\n", "at_ms": 2000}], "delay_ms": 2010"#;
    /// Leaves one of everything.
    LEAVES = [b"sh", b"-c", b"mkdir -p d/e; echo x > d/e/f; ln -s /etc/passwd link; ln -s d inside; \
        mkfifo pipe; printf 12345 > a; chmod 755 a; printf x > d.txt"],
        r#""files": [{"path": "d/e/f", "content": "x\n"}, {"path": "link", "kind": {"link": "/etc/passwd"}},
           {"path": "inside", "kind": {"link": "d"}}, {"path": "pipe", "kind": "fifo"},
           {"path": "a", "content": "12345", "mode": "755"}, {"path": "d.txt", "content": "x"}]"#;
    /// Leaves a file whose name ends with the byte 0xFF.
    ODD = [b"sh", b"-c", b"printf odd > \"$(printf 'odd\\377')\""],
        r#""files": [{"path": {"base64": "b2Rk/w=="}, "content": "odd"}]"#;
    BYTES = [b"printf", b"%s", b"a\xff\xfeb"],
        r#""output": [{"text": {"base64": "Yf/+Yg=="}}]"#;
    ARGS = [b"printf", b"<%s>", b"", b"a b", b"--x", b"*"],
        r#""stdout": "<><a b><--x><*>""#;
    /// Writes 60 MB and then waits for what comes of it.
    FILLS = [b"sh", b"-c", b"head -c 60000000 /dev/zero > big; exec sleep 600"],
        r#""files": [{"path": "big", "content": "xxxxxxxx", "repeat": 7500000}]"#;
}

/// Returns the script that says what these commands do.
#[must_use]
pub fn script() -> String {
    let mut text = String::from("[");
    for (index, act) in ALL.iter().enumerate() {
        let argv = serde_json::to_string(&act.argv()).expect("bytes are JSON");
        let comma = if index == 0 { "" } else { "," };
        let rule = if act.rule.is_empty() { String::new() } else { format!(", {}", act.rule) };
        write!(text, "{comma}\n{{\"argv\": {argv}{rule}}}").expect("a String takes any text");
    }
    text.push_str("\n]\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_json_with_a_rule_a_command() {
        let parsed: serde_json::Value = serde_json::from_str(&script()).expect("JSON");
        assert_eq!(parsed.as_array().expect("a list").len(), ALL.len());
    }
}
