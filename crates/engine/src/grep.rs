//! `logs --grep`: the lines of captured output that match.
//!
//! Output is bytes, and so is what is looked for: classes such as `\w` are ASCII. It reads a stream once, and keeps no more
//! than one line beside the bounded list of what it found; a pattern costs time in proportion to the output, whatever it is.
use crate::engine::Engine;
use bailiwick_contract::error::Failure;
use bailiwick_contract::provider::{ByteSink, Streams};
use bailiwick_contract::record::JobRecord;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use core::error::Error;
use regex::bytes::{Regex, RegexBuilder};
use serde::Serialize;

/// The most of a line that is looked at and shown: 64 KiB; what comes after it counts as not there.
const LINE_BYTES_MAX: usize = 64 << 10;

/// The most lines of one job that are shown.
const LINES_MAX: usize = 10_000;

/// The most bytes of one job's lines that are shown.
const BYTES_MAX: usize = 8 << 20;

/// The largest program that a pattern may become: 1 MiB, far above what a person types.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// The lines that match, of a job or of all jobs of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MatchingLogs {
    /// The handle as it was given.
    pub handle: String,
    /// The workspace.
    pub workspace_id: String,
    /// What was looked for.
    pub pattern: String,
    /// The jobs, oldest first.
    pub jobs: Vec<JobMatches>,
    /// What an earlier, killed verb left and this one settled, and what makes line numbers uncertain.
    pub attention: Vec<String>,
}

/// The lines of one job that match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JobMatches {
    /// The job.
    pub job_id: String,
    /// How it ended, or `running`.
    pub status: String,
    /// The lines, in order.
    pub matches: Vec<Match>,
    /// Whether there may be more of them than are shown.
    pub more: bool,
}

/// One line that matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Match {
    /// Its number among the lines that were kept; the first is 1.
    pub line: u64,
    /// The line without its end: text, or base64 where `encoding` says so.
    pub text: String,
    /// `base64` where the line is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encoding: Option<&'static str>,
    /// Whether the line is longer than what is shown of it.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub truncated: bool,
    /// The line as it is; for the text rendering.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

impl Engine<'_> {
    /// Returns the lines that match `pattern`, of a job or of all jobs of a workspace.
    ///
    /// # Errors
    /// `bad_pattern`, and as [`Engine::logs`].
    pub fn grep(
        &self,
        handle: &str,
        pattern: &str,
        streams: Streams,
    ) -> Result<MatchingLogs, Failure> {
        let regex = compiled(pattern)?;
        let (record, jobs, mut attention) = self.jobs_of(handle)?;
        let found = jobs.iter().map(|job| self.grep_one(job, &regex, streams));
        let found = found.collect::<Result<Vec<_>, Failure>>()?;
        attention.extend(jobs.iter().filter_map(cut_line));
        Ok(MatchingLogs {
            handle: handle.into(),
            workspace_id: record.id.as_str().into(),
            pattern: pattern.into(),
            jobs: found,
            attention,
        })
    }

    fn grep_one(
        &self,
        job: &JobRecord,
        regex: &Regex,
        streams: Streams,
    ) -> Result<JobMatches, Failure> {
        let mut lines = Lines::new(regex);
        let read = self.provider.stream_output(&job.id, streams, &mut lines, &self.cx());
        // A sink that is full ends the reading, and that is no trouble.
        if !lines.full {
            read.map_err(|error| self.provider_failure(error))?;
            lines.end_last();
        }
        let outcome = job.outcome.as_ref();
        Ok(JobMatches {
            job_id: job.id.as_str().into(),
            status: outcome.map_or("running", |outcome| outcome.status.name()).into(),
            matches: lines.found,
            more: lines.full,
        })
    }
}

fn compiled(pattern: &str) -> Result<Regex, Failure> {
    let built = RegexBuilder::new(pattern)
        .unicode(false)
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build();
    built.map_err(|error| {
        // The last line of its report says why; those before draw where.
        let told = error.to_string();
        let why = told.lines().last().unwrap_or_default().trim_start_matches("error: ");
        Failure::user(
            "bad_pattern",
            format!("--grep cannot be understood: {}", crate::text::printable(why.as_bytes())),
            "write a regular expression as the Rust crate `regex` reads it; (?i) ignores case, \\ quotes a sign",
        )
    })
}

/// Returns the line about output whose middle was not kept.
fn cut_line(job: &JobRecord) -> Option<String> {
    let output = &job.outcome.as_ref()?.output;
    (output.kept < output.bytes).then(|| {
        format!(
            "{} of {} bytes of job {} were kept: lines are missing in the middle, and numbers after it count kept lines",
            output.kept, output.bytes, job.id
        )
    })
}

/// Looks at output line by line.
struct Lines<'r> {
    regex: &'r Regex,
    /// The line so far, up to [`LINE_BYTES_MAX`].
    line: Vec<u8>,
    is_cut: bool,
    /// Whether a byte of the current line came.
    begun: bool,
    number: u64,
    bytes: usize,
    found: Vec<Match>,
    full: bool,
}

impl<'r> Lines<'r> {
    const fn new(regex: &'r Regex) -> Self {
        Self {
            regex,
            line: Vec::new(),
            is_cut: false,
            begun: false,
            number: 0,
            bytes: 0,
            found: Vec::new(),
            full: false,
        }
    }

    fn extend(&mut self, piece: &[u8]) {
        let room = LINE_BYTES_MAX - self.line.len();
        self.is_cut |= piece.len() > room;
        self.begun |= !piece.is_empty();
        self.line.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    fn end(&mut self) {
        self.number += 1;
        if self.regex.is_match(&self.line) {
            self.full = self.found.len() >= LINES_MAX || self.bytes + self.line.len() > BYTES_MAX;
            if !self.full {
                self.bytes += self.line.len();
                self.found.push(matching(self.number, &self.line, self.is_cut));
            }
        }
        self.line.clear();
        (self.is_cut, self.begun) = (false, false);
    }

    /// Ends a last line without a line feed.
    fn end_last(&mut self) {
        if self.begun {
            self.end();
        }
    }
}

impl ByteSink for Lines<'_> {
    fn push(&mut self, bytes: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            match piece.strip_suffix(b"\n") {
                Some(end) => {
                    self.extend(end);
                    self.end();
                }
                None => self.extend(piece),
            }
            if self.full {
                return Err("there is no room for more lines".into());
            }
        }
        Ok(())
    }
}

fn matching(line: u64, bytes: &[u8], truncated: bool) -> Match {
    let (text, encoding) = match core::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (STANDARD.encode(bytes), Some("base64")),
    };
    Match { line, text, encoding, truncated, bytes: bytes.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, pieces: &[&[u8]], found: &[(u64, &[u8])]) {
        let regex = compiled(pattern).expect("a pattern");
        let mut lines = Lines::new(&regex);
        pieces.iter().try_for_each(|piece| lines.push(piece)).expect("room");
        lines.end_last();
        let got: Vec<(u64, &[u8])> =
            lines.found.iter().map(|one| (one.line, one.bytes.as_slice())).collect();
        assert_eq!(got, found, "{pattern}");
    }

    #[test]
    fn lines_are_found_wherever_the_pieces_end() {
        check("b", &[b"a\nb", b"c\n", b"\nb"], &[(2, b"bc"), (4, b"b")]);
        check("^$", &[b"\n\nx\n"], &[(1, b""), (2, b"")]);
        check("a.c", &[b"a\xffc\n", b"abc"], &[(1, b"a\xffc"), (2, b"abc")]);
        check("x", &[], &[]);
    }

    #[test]
    fn a_long_line_takes_bounded_room_and_says_that_it_was_cut() {
        let regex = compiled("^a").expect("a pattern");
        let mut lines = Lines::new(&regex);
        for _ in 0..100 {
            lines.push(&[b'a'; 10_000]).expect("room");
            assert!(lines.line.len() <= LINE_BYTES_MAX);
        }
        lines.push(b"\n").expect("room");
        assert!(lines.found[0].truncated);
        assert_eq!(lines.found[0].bytes.len(), LINE_BYTES_MAX);
    }

    #[test]
    fn the_list_is_bounded_and_a_bad_pattern_is_refused() {
        let regex = compiled("").expect("a pattern");
        let mut lines = Lines::new(&regex);
        let pushed = lines.push(&[b'\n'; LINES_MAX + 1]);
        assert!(pushed.is_err() && lines.full && lines.found.len() == LINES_MAX);
        for bad in ["(", "a{999999}{9999}", "*"] {
            assert_eq!(compiled(bad).expect_err(bad).reason, "bad_pattern");
        }
    }
}
