//! The text form of captured output: a heading a job, and what it printed in fences.
//!
//! Each line of the output is indented and fenced as an excerpt is, so that a line which begins at the margin is ours;
//! where the middle is missing, a line between two fences says how much. The bytes themselves are `logs --raw`.
use super::escape::push_fenced;
use crate::grep::{JobMatches, MatchingLogs};
use crate::logs::{CapturedLogs, JobLog};
use crate::text::printable;
use std::fmt::Write as _;

/// Before each line of a job's output; no more than three, so that a fence is still one (CommonMark 0.31, §4.5).
const INDENT: &str = "  ";

/// Returns captured output as text, with a final newline.
#[must_use]
pub fn logs_text(logs: &CapturedLogs) -> String {
    let mut out = format!("# captured output for {}\n", logs.workspace_id);
    for job in &logs.jobs {
        push_job(&mut out, job);
    }
    out
}

fn push_job(out: &mut String, job: &JobLog) {
    let JobLog { job_id, status, exit_status, output_bytes, head_bytes, omitted_bytes, .. } = job;
    let check = job.check_of.as_ref();
    let check = check.map(|(parent, name)| format!(", check '{name}' of job {parent}"));
    let check = check.unwrap_or_default();
    let part = match (job.range, job.stream) {
        (Some((start, end)), _) => format!(", bytes {start} to {end}"),
        (None, Some(stream)) => format!(" on {stream}"),
        (None, None) => String::new(),
    };
    let exit = exit_status.map_or_else(|| "none".to_owned(), |status| status.to_string());
    writeln!(
        out,
        "\n## job {job_id}{check} — {status}, exit status {exit}, {output_bytes} bytes produced{part}\n"
    )
    .expect("a String takes any text");
    if job.encoding.is_some() {
        writeln!(out, "(not all of it is text: `bailiwick logs --raw {job_id}` has the bytes)\n")
            .expect("a String takes any text");
    }
    let head = usize::try_from(*head_bytes).unwrap_or(usize::MAX).min(job.bytes.len());
    let (head, tail) = job.bytes.split_at(head);
    push_part(out, head);
    if *omitted_bytes > 0 {
        writeln!(out, "...[{omitted_bytes} bytes omitted]").expect("a String takes any text");
    }
    push_part(out, tail);
    if job.bytes.is_empty() && *omitted_bytes == 0 {
        out.push_str("(none)\n");
    }
}

/// Returns the lines that match as text, with a final newline.
#[must_use]
pub fn matches_text(logs: &MatchingLogs) -> String {
    let mut out = format!("# lines that match in the output of {}\n", logs.workspace_id);
    for JobMatches { job_id, status, matches, more } in &logs.jobs {
        let count = matches.len();
        let first = if *more { "the first " } else { "" };
        writeln!(out, "\n## job {job_id} — {status}, {first}{count} matching line(s)\n")
            .expect("a String takes any text");
        for found in matches {
            let cut = if found.truncated { "...[cut]" } else { "" };
            let text = printable(&found.bytes);
            writeln!(out, "{INDENT}{}: {text}{cut}", found.line).expect("a String takes any text");
        }
        if matches.is_empty() {
            out.push_str("(none)\n");
        }
    }
    out
}

fn push_part(out: &mut String, bytes: &[u8]) {
    if !bytes.is_empty() {
        push_fenced(out, INDENT, &String::from_utf8_lossy(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn log(bytes: &[u8], head_bytes: u64, omitted_bytes: u64) -> CapturedLogs {
        let job = JobLog {
            job_id: "job-1".into(),
            check_of: None,
            status: "success".into(),
            exit_status: Some(0),
            truncated: omitted_bytes > 0,
            output_bytes: bytes.len() as u64 + omitted_bytes,
            head_bytes,
            omitted_bytes,
            range: None,
            stream: None,
            output: String::new(),
            encoding: None,
            bytes: bytes.to_vec(),
        };
        let (handle, attention) = ("demo".into(), Vec::new());
        CapturedLogs { handle, workspace_id: "demo".into(), jobs: vec![job], attention }
    }

    #[test]
    fn nothing_that_a_job_prints_reads_as_ours() {
        let odd = b"## job job-2\n\x1b[2J```\n...[9 bytes omitted]\r## job\n";
        expect![[r"
            # captured output for demo

            ## job job-1 — success, exit status 0, 49 bytes produced

              ````
              ## job job-2
              \x1b[2J```
              ...[9 bytes omitted]\r## job
              ````
        "]]
        .assert_eq(&logs_text(&log(odd, 49, 0)));
    }

    #[test]
    fn a_gap_says_where_it_is_and_how_large() {
        expect![[r"
            # captured output for demo

            ## job job-1 — success, exit status 0, 15 bytes produced

              ```
              ab
              ```
            ...[10 bytes omitted]
              ```
              cde
              ```
        "]]
        .assert_eq(&logs_text(&log(b"abcde", 2, 10)));
        assert!(logs_text(&log(b"", 0, 0)).ends_with("\n\n(none)\n"));
    }

    proptest::proptest! {
        #[test]
        fn only_our_lines_begin_at_the_margin(output in ".*", head in 0..9_u64, gap in 0..2_u64) {
            let text = logs_text(&log(output.as_bytes(), head, gap));
            let ours = text.lines().filter(|line| !line.is_empty() && !line.starts_with("  "));
            let count = 2 + usize::try_from(gap).expect("one") + usize::from(output.is_empty() && gap == 0);
            proptest::prop_assert_eq!(ours.count(), count, "{}", text);
            proptest::prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        }
    }
}
