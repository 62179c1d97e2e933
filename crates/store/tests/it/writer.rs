//! A writer in a process of its own, which tests kill: `examples/writer.rs`.
//!
//! Cargo builds a package's examples before its tests, beside them.
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A writer process.
pub(crate) struct Writer {
    pub(crate) child: Child,
}

impl Writer {
    /// Starts a process that opens `count` pairs of intents in `stream`, and says each when it is durable.
    pub(crate) fn start(home: &Path, stream: &str, count: u64) -> Self {
        #[expect(clippy::disallowed_methods, reason = "the test needs a process to kill")]
        let child = Command::new(program())
            .arg(home)
            .args([stream, &count.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        Self { child }
    }

    /// Waits for the end and returns the sequence numbers that were acknowledged.
    pub(crate) fn acknowledged(mut self) -> Vec<u64> {
        let output = BufReader::new(self.child.stdout.take().expect("piped"));
        let seqs = output
            .lines()
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("durable ")?.parse().ok())
            .collect();
        self.child.wait().expect("ends");
        seqs
    }
}

fn program() -> PathBuf {
    let own = std::env::current_exe().expect("this binary");
    let deps = own.parent().expect("target/<profile>/deps");
    deps.with_file_name("examples").join("writer")
}
