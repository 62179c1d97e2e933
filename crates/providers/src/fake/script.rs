//! The script that says what jobs do: its form, its checks, and which rule a command meets.
//!
//! It is JSON, described in docs/fake.md: a list of rules, of which the first that matches counts. Nothing here reads a file or
//! a clock, and a script that says something odd is refused whole, before anything runs.
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::input::WsPath;
use serde::{Deserialize, Serialize};

/// Bytes that one job may print: what every reader of its output has to count and hash again.
const OUTPUT_BYTES_MAX: u64 = 256 << 20;

/// Bytes that one file may have.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// How long a job of a rule without `delay_ms` takes.
const DELAY_MS: u64 = 10;

/// The rules, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Script {
    pub(super) rules: Vec<Rule>,
}

/// What the jobs of one kind of command do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rule {
    /// One pattern an argument.
    pub(super) argv: Vec<ByteString>,
    /// How the job ends.
    #[serde(default)]
    pub(super) end: Ending,
    /// What it prints, in this order where the times are the same: `stdout`, `stderr`, `output`.
    #[serde(default)]
    stdout: ByteString,
    #[serde(default)]
    stderr: ByteString,
    #[serde(default)]
    output: Vec<Piece>,
    /// What lies in its directory when it comes to its own end.
    #[serde(default)]
    pub(super) files: Vec<Entry>,
    /// From its start to its own end.
    #[serde(default = "default_delay")]
    pub(super) delay_ms: u64,
    /// It only ends when it is killed.
    #[serde(default)]
    pub(super) ignores_sigterm: bool,
    /// Processor time that it is said to have used.
    #[serde(default)]
    pub(super) cpu_ms: u64,
    /// Memory that it is said to have used at its peak; more than its limit and it is killed for it.
    #[serde(default)]
    pub(super) memory_bytes: u64,
}

/// How a job comes to its own end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ending {
    /// With this status.
    ExitCode(u8),
    /// By a signal of its own making.
    Signal(i32),
    /// The command is not there (127), or cannot be executed (126).
    Refused(u8),
    /// Killed over a limit.
    Over(Over),
    /// The sandbox breaks, and this is what is said of it.
    Breaks(String),
}

impl Default for Ending {
    fn default() -> Self {
        Self::ExitCode(0)
    }
}

/// A limit that a job is killed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Over {
    Memory,
    Storage,
    Inodes,
}

/// Something that a job prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Piece {
    /// Where to.
    #[serde(default)]
    pub(super) stream: Stream,
    /// The bytes.
    #[serde(default)]
    pub(super) text: ByteString,
    /// Bytes that the job was given, after `text`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) echo: Option<Echo>,
    /// How often.
    #[serde(default = "once")]
    pub(super) repeat: u64,
    /// When, from the job's start.
    #[serde(default)]
    pub(super) at_ms: u64,
}

/// One of a job's two streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stream {
    #[default]
    Stdout,
    Stderr,
}

/// Something that a job was given and prints again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Echo {
    /// What it reads from standard input.
    Stdin,
    /// Its directory, as it sees it.
    Cwd,
    /// Its arguments after the first, with spaces between.
    Args,
    /// The value of a forwarded variable; nothing where it was not forwarded.
    Env(String),
}

/// Something that a job leaves; paths are relative to the directory it starts in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Entry {
    /// Where.
    pub(super) path: WsPath,
    /// A file's bytes.
    #[serde(default)]
    pub(super) content: ByteString,
    /// How often.
    #[serde(default = "once")]
    pub(super) repeat: u64,
    /// Permission bits of a file, in octal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    /// What it is, where it is no file.
    #[serde(default)]
    pub(super) kind: EntryKind,
}

/// What a job leaves.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum EntryKind {
    #[default]
    File,
    Directory,
    /// A symbolic link to this, wherever it leads.
    Link(ByteString),
    Fifo,
}

const fn once() -> u64 {
    1
}

const fn default_delay() -> u64 {
    DELAY_MS
}

impl Entry {
    /// How many bytes it has.
    pub(super) fn size(&self) -> u64 {
        if self.kind == EntryKind::File {
            self.content.as_bytes().len() as u64 * self.repeat
        } else {
            0
        }
    }

    /// Its permission bits.
    pub(super) fn mode(&self) -> u32 {
        // What `check` let through is octal.
        self.mode.as_ref().and_then(|mode| octal(mode)).unwrap_or(0o644)
    }
}

fn octal(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777)
}

/// What a job was given, for those who print it again.
pub(super) struct Given<'a> {
    pub(super) stdin: &'a [u8],
    pub(super) cwd: &'a [u8],
    pub(super) argv: &'a [ByteString],
    pub(super) env: &'a dyn Fn(&str) -> Vec<u8>,
}

impl Script {
    /// Reads a script, and checks all of it.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let script: Self = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        for (index, rule) in script.rules.iter().enumerate() {
            rule.check().map_err(|what| format!("rule {}: {what}", index + 1))?;
        }
        Ok(script)
    }

    /// Returns what a command does: the first rule that matches, or success without a word.
    pub(super) fn of(&self, argv: &[ByteString]) -> Rule {
        self.rules.iter().find(|rule| rule.matches(argv)).cloned().unwrap_or_default()
    }
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            argv: Vec::new(),
            end: Ending::default(),
            stdout: ByteString::default(),
            stderr: ByteString::default(),
            output: Vec::new(),
            files: Vec::new(),
            delay_ms: DELAY_MS,
            ignores_sigterm: false,
            cpu_ms: 0,
            memory_bytes: 0,
        }
    }
}

impl Rule {
    fn check(&self) -> Result<(), String> {
        if self.argv.is_empty() {
            return Err("`argv` has no pattern; [\"**\"] matches every command".into());
        }
        if self.argv.iter().rev().skip(1).any(|pattern| pattern.as_bytes() == REST) {
            return Err("`**` stands for the rest, so that nothing follows it".into());
        }
        match self.end {
            Ending::Refused(code) if !matches!(code, 126 | 127) => {
                return Err(format!("`refused` is 126 or 127, not {code}"));
            }
            // The signals of signal(7).
            Ending::Signal(signal) if !(1..=64).contains(&signal) => {
                return Err(format!("there is no signal {signal}"));
            }
            _ => {}
        }
        self.check_output()?;
        self.files.iter().try_for_each(check_entry)
    }

    fn check_output(&self) -> Result<(), String> {
        let mut produced = 0_u64;
        for piece in &self.output {
            if piece.repeat == 0 {
                return Err("`repeat` is at least 1".into());
            }
            let length = piece.text.as_bytes().len() as u64;
            produced = produced.saturating_add(length.saturating_mul(piece.repeat));
        }
        if produced > OUTPUT_BYTES_MAX {
            return Err(format!("a job prints at most {OUTPUT_BYTES_MAX} bytes here"));
        }
        Ok(())
    }

    fn matches(&self, argv: &[ByteString]) -> bool {
        let (patterns, rest) = match self.argv.split_last() {
            Some((last, before)) if last.as_bytes() == REST => (before, true),
            _ => (self.argv.as_slice(), false),
        };
        let enough = if rest { argv.len() >= patterns.len() } else { argv.len() == patterns.len() };
        enough && patterns.iter().zip(argv).all(|(p, a)| glob(p.as_bytes(), a.as_bytes()))
    }

    /// Whether the job reads its standard input.
    pub(super) fn reads_stdin(&self) -> bool {
        self.output.iter().any(|piece| piece.echo == Some(Echo::Stdin))
    }

    /// Puts everything that is printed into `output`, and what was given into its place.
    pub(super) fn resolve(mut self, given: &Given<'_>) -> Result<Self, String> {
        let whole =
            |stream, text: ByteString| Piece { stream, text, echo: None, repeat: 1, at_ms: 0 };
        let first = [
            whole(Stream::Stdout, std::mem::take(&mut self.stdout)),
            whole(Stream::Stderr, std::mem::take(&mut self.stderr)),
        ];
        let echoed = self.output.into_iter().map(|piece| piece.resolve(given));
        self.output = first.into_iter().chain(echoed).collect();
        self.output.retain(|piece| !piece.text.as_bytes().is_empty());
        self.output.sort_by_key(|piece| piece.at_ms);
        // What was given may be large, too.
        self.check_output()?;
        Ok(self)
    }

    /// What is printed, in order, once it is resolved.
    pub(super) fn pieces(&self) -> &[Piece] {
        &self.output
    }
}

fn check_entry(entry: &Entry) -> Result<(), String> {
    let length = entry.content.as_bytes().len() as u64;
    if entry.repeat == 0 || length.saturating_mul(entry.repeat) > FILE_BYTES_MAX {
        return Err(format!(
            "a file has at most {FILE_BYTES_MAX} bytes here, and `repeat` is at least 1"
        ));
    }
    if entry.mode.as_ref().is_some_and(|mode| octal(mode).is_none()) {
        return Err("`mode` is three octal digits, such as \"755\"".into());
    }
    if entry.kind != EntryKind::File && (length > 0 || entry.mode.is_some()) {
        return Err("only a file has `content` and `mode`".into());
    }
    Ok(())
}

impl Piece {
    fn resolve(mut self, given: &Given<'_>) -> Self {
        let echoed = match self.echo.take() {
            None => return self,
            Some(Echo::Stdin) => given.stdin.to_vec(),
            Some(Echo::Cwd) => given.cwd.to_vec(),
            Some(Echo::Env(name)) => (given.env)(&name),
            Some(Echo::Args) => {
                let args: Vec<&[u8]> =
                    given.argv.iter().skip(1).map(ByteString::as_bytes).collect();
                args.join(&b' ')
            }
        };
        self.text = [self.text.as_bytes(), &echoed].concat().into();
        self
    }
}

const REST: &[u8] = b"**";

/// Whether `pattern`, in which `*` stands for any bytes, is all of `text`.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let Some(star) = pattern.iter().position(|byte| *byte == b'*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(&pattern[..star]) else { return false };
    let mut parts: Vec<&[u8]> = pattern[star + 1..].split(|byte| *byte == b'*').collect();
    // The last part has to be the end; those before it are taken as early as they come.
    let last = parts.pop().unwrap_or_default();
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        let Some(at) = text.windows(part.len()).position(|window| window == part) else {
            return false;
        };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &[&str]) -> Vec<ByteString> {
        words.iter().map(|word| ByteString::from(*word)).collect()
    }

    #[test]
    fn a_star_stands_for_any_bytes_of_one_argument() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "ab", false),
            ("*.py", "x.py", true),
            ("a*b*c", "axbxbc", true),
            ("ab*ba", "aba", false),
            ("*a*", "bab", true),
            ("**", "x", true),
            ("plain", "plain", true),
            ("plain", "plainer", false),
        ] {
            assert_eq!(glob(pattern.as_bytes(), text.as_bytes()), fits, "{pattern} {text}");
        }
    }

    #[test]
    fn the_first_rule_that_matches_counts() {
        let script = Script::parse(
            br#"[{"argv": ["make", "**"], "end": {"exit_code": 2}},
                 {"argv": ["*", "one"], "stdout": "two words"},
                 {"argv": ["**"], "end": {"signal": 9}}]"#,
        )
        .expect("a script");
        assert_eq!(script.of(&argv(&["make"])).end, Ending::ExitCode(2));
        assert_eq!(script.of(&argv(&["make", "-j", "4"])).end, Ending::ExitCode(2));
        assert_eq!(script.of(&argv(&["x", "one"])).stdout.as_bytes(), b"two words");
        assert_eq!(script.of(&argv(&["x", "two"])).end, Ending::Signal(9));
        assert_eq!(Script::default().of(&argv(&["x"])), Rule::default());
    }

    #[test]
    fn a_script_that_says_something_odd_is_refused_whole() {
        for (text, why) in [
            ("{}", "expected a sequence"),
            (r#"[{"argv": ["x"], "exit": 1}]"#, "unknown field `exit`"),
            (r#"[{"argv": []}]"#, "rule 1: `argv` has no pattern"),
            (r#"[{"argv": ["x"]}, {"argv": ["**", "x"]}]"#, "rule 2: `**` stands for the rest"),
            (r#"[{"argv": ["x"], "end": {"refused": 125}}]"#, "`refused` is 126 or 127"),
            (r#"[{"argv": ["x"], "end": {"signal": 0}}]"#, "there is no signal 0"),
            (r#"[{"argv": ["x"], "end": {"exit_code": 256}}]"#, "256"),
            (r#"[{"argv": ["x"], "output": [{"text": "x", "repeat": 0}]}]"#, "at least 1"),
            (r#"[{"argv": ["x"], "output": [{"text": "xx", "repeat": 99999999999}]}]"#, "at most"),
            (r#"[{"argv": ["x"], "files": [{"path": "/etc/passwd"}]}]"#, "relative"),
            (r#"[{"argv": ["x"], "files": [{"path": "a", "mode": "4755"}]}]"#, "octal"),
            (
                r#"[{"argv": ["x"], "files": [{"path": "a", "kind": "fifo", "mode": "600"}]}]"#,
                "only a file",
            ),
        ] {
            let refused = Script::parse(text.as_bytes()).expect_err(text);
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn what_a_job_was_given_is_printed_in_its_place() {
        let script = Script::parse(
            br#"[{"argv": ["**"], "stderr": "last\n", "output": [
                   {"text": "in: ", "echo": "stdin"}, {"echo": "args", "at_ms": 5},
                   {"echo": {"env": "A"}, "repeat": 2}, {"echo": {"env": "B"}}]}]"#,
        )
        .expect("a script");
        let rule = script.of(&argv(&["x"]));
        assert!(rule.reads_stdin());
        let env = |name: &str| if name == "A" { b"v".to_vec() } else { Vec::new() };
        let argv = argv(&["x", "y", "z"]);
        let given = Given { stdin: b"read", cwd: b"/workspace", argv: &argv, env: &env };
        let rule = rule.resolve(&given).expect("small");
        let texts: Vec<_> = rule.pieces().iter().map(|piece| piece.text.to_text()).collect();
        assert_eq!(texts, ["last\n", "in: read", "v", "y z"]);
    }
}
