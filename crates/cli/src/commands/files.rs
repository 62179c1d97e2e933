//! `files`: what lies in a workspace, or the bytes of one file of it.
//!
//! It needs no job, and works for as long as the workspace has its disk. A name is escaped on a terminal and lossless in
//! JSON; `--read` gives the bytes themselves.
use crate::app::App;
use crate::args::{BaseArgs, bytes};
use crate::output::{Outcome, Stdout, note};
use bailiwick_contract::bytes::ByteString;
use bailiwick_contract::error::Failure;
use bailiwick_contract::files::{FileEntry, FileKind, FileListing};
use bailiwick_contract::id::WorkspaceId;
use bailiwick_contract::quantity;
use bailiwick_engine::files::{ByteRange, FilesRequest, LIMIT_DEFAULT};
use bailiwick_engine::text::printable;
use std::ffi::OsString;
use std::fmt::Write as _;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Also what lies in the directories that are found
    #[arg(long)]
    recursive: bool,
    /// Only what matches, at any depth: a name such as `*.rs`, or a path below PATH such as `src/**/*.rs`
    #[arg(long, value_name = "PATTERN")]
    glob: Option<String>,
    /// At most so many entries
    #[arg(long, value_name = "N", value_parser = quantity::count, default_value_t = LIMIT_DEFAULT,
          allow_hyphen_values = true)]
    limit: u64,
    /// Print the bytes of the file PATH, and nothing else
    #[arg(long, requires = "path", conflicts_with_all = ["recursive", "glob", "limit", "json"])]
    read: bool,
    /// Only the bytes from A up to B, B not included; `A:` and `:B` are open at one end
    #[arg(long, value_name = "A:B", value_parser = ByteRange::parse, requires = "read",
          allow_hyphen_values = true)]
    range: Option<ByteRange>,
    #[command(flatten)]
    base: BaseArgs,
    /// The workspace
    #[arg(value_parser = WorkspaceId::parse)]
    workspace: WorkspaceId,
    /// A place in it [default: all of it]
    path: Option<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  bailiwick files demo
  bailiwick files --glob '*.json' demo out
  bailiwick files --read --range 0:1024 demo out/report.json";

impl Args {
    pub(super) const fn json(&self) -> bool {
        self.base.json
    }
}

pub(super) fn run(args: Args, app: &App) -> Result<Outcome, Failure> {
    let engine = app.engine_for(&args.base, args.workspace.as_str())?;
    let path = args.path.map(bytes);
    if let (true, Some(path)) = (args.read, &path) {
        let (mut stdout, range) = (Stdout::default(), args.range.unwrap_or(ByteRange::WHOLE));
        let streamed = engine.read_file(&args.workspace, path, range, &mut stdout, &note);
        return stdout.finish(streamed);
    }
    let request = FilesRequest {
        workspace: args.workspace,
        path,
        recursive: args.recursive,
        glob: args.glob,
        limit: args.limit,
    };
    let listing = engine.files(&request)?;
    if args.base.json {
        return Ok(Outcome::json(&listing));
    }
    listing.attention.iter().for_each(|line| note(line));
    Ok(Outcome::text(table(&listing, args.limit)))
}

/// One line an entry: mode, size, path; a directory ends with `/`, a link says where it leads.
fn table(listing: &FileListing, limit: u64) -> String {
    let sizes: Vec<String> = listing.entries.iter().map(size).collect();
    let width = sizes.iter().map(String::len).max().unwrap_or_default();
    let mut out = String::new();
    for (entry, size) in listing.entries.iter().zip(&sizes) {
        writeln!(out, "{}  {size:>width$}  {}", entry.mode, shown(entry))
            .expect("a String takes any text");
    }
    if listing.more {
        let wider = limit.saturating_mul(10);
        writeln!(out, "...and more than these {limit}: pass --limit {wider}, a PATH or a --glob")
            .expect("a String takes any text");
    }
    out
}

fn size(entry: &FileEntry) -> String {
    entry.size_bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string())
}

fn shown(entry: &FileEntry) -> String {
    let path = printable(entry.path.as_bytes());
    match entry.kind {
        FileKind::File => path,
        FileKind::Directory => path + "/",
        FileKind::Link => {
            let target = entry.target.as_ref().map_or(&b""[..], ByteString::as_bytes);
            format!("{path} -> {}", printable(target))
        }
        FileKind::Special => path + " (special)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &[u8], kind: FileKind, size_bytes: Option<u64>) -> FileEntry {
        let target = (kind == FileKind::Link).then(|| ByteString::from("a\nb"));
        FileEntry { path: path.into(), kind, size_bytes, mode: "0644".into(), mtime: 0, target }
    }

    #[test]
    fn a_listing_is_one_printable_line_an_entry_and_says_that_it_was_cut() {
        let listing = FileListing {
            workspace_id: "demo".into(),
            path: ByteString::default(),
            entries: vec![
                entry(b"d", FileKind::Directory, None),
                entry(b"d/\x1b[2J\xff", FileKind::File, Some(1_234)),
                entry(b"l", FileKind::Link, None),
                entry(b"p", FileKind::Special, None),
            ],
            more: true,
            attention: Vec::new(),
        };
        expect_test::expect![[r"
            0644     -  d/
            0644  1234  d/\u{1b}[2J\xff
            0644     -  l -> a\nb
            0644     -  p (special)
            ...and more than these 4: pass --limit 40, a PATH or a --glob
        "]]
        .assert_eq(&table(&listing, 4));
    }
}
