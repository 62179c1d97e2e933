//! Ignore files: which entries of a source are left out, by the rules of gitignore(5).
//!
//! Patterns are relative to the source's root, whatever folder the file lies in. The last pattern that matches decides;
//! what is below an ignored directory cannot be taken back in.
use crate::failure::told;
use crate::text::printable;
use bailiwick_contract::error::Failure;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use rustix::fs::OFlags;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// The longest ignore file: 1 MiB, some twenty thousand patterns.
const IGNORE_BYTES_MAX: u64 = 1 << 20;

/// What one pattern says, beside what it matches.
#[derive(Debug, Clone, Copy)]
struct Rule {
    /// It began with `!`: what it matches is kept.
    keeps: bool,
    /// It ended with `/`.
    directories_only: bool,
}

/// The patterns of an ignore file.
#[derive(Debug)]
pub(crate) struct Ignore {
    globs: GlobSet,
    rules: Vec<Rule>,
}

impl Ignore {
    /// Reads an ignore file.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let shown = printable(path.as_os_str().as_bytes());
        let mut text = String::new();
        let read =
            open(path).and_then(|file| file.take(IGNORE_BYTES_MAX + 1).read_to_string(&mut text));
        if let Err(error) = read {
            let message = format!("--ignore-file {shown} cannot be read: {}", told(&error));
            let advice = "name a file of gitignore patterns, in UTF-8, that you may read";
            return Err(Failure::user("bad_ignore_file", message, advice));
        }
        if text.len() as u64 > IGNORE_BYTES_MAX {
            let message = format!("--ignore-file {shown} is longer than {IGNORE_BYTES_MAX} bytes");
            return Err(Failure::user("bad_ignore_file", message, "name a shorter file"));
        }
        Self::parse(&text).map_err(|(line, why)| {
            let message =
                format!("--ignore-file {shown}, line {line}: {}", printable(why.as_bytes()));
            Failure::user("bad_ignore_file", message, "mend the pattern, or leave it out")
        })
    }

    /// Parses patterns; an error names its line.
    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let (mut globs, mut rules) = (GlobSetBuilder::new(), Vec::new());
        for (index, line) in text.lines().enumerate() {
            let Some((pattern, rule)) = rule(line) else { continue };
            let glob = GlobBuilder::new(&pattern)
                .literal_separator(true)
                .backslash_escape(true)
                .build()
                .map_err(|error| (index + 1, error.to_string()))?;
            globs.add(glob);
            rules.push(rule);
        }
        let globs = globs.build().map_err(|error| (text.lines().count(), error.to_string()))?;
        Ok(Self { globs, rules })
    }

    /// Returns whether an entry is left out; `path` is relative to the source's root, and its parents were not left out.
    pub(crate) fn covers(&self, path: &[u8], is_directory: bool) -> bool {
        let matches = self.globs.matches(Path::new(OsStr::from_bytes(path)));
        let last = matches.into_iter().rev().map(|index| self.rules[index]);
        let mut last = last.filter(|rule| is_directory || !rule.directories_only);
        last.next().is_some_and(|rule| !rule.keeps)
    }

    /// The same for an entry whose parents are not known to be kept, such as one of an archive.
    pub(crate) fn covers_or_parent(&self, path: &[u8], is_directory: bool) -> bool {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        let mut parents = slashes.map(|(at, _)| &path[..at]);
        parents.any(|parent| self.covers(parent, true)) || self.covers(path, is_directory)
    }
}

/// Opens a regular file; a pipe or a device is refused, and not waited for.
fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}

/// Reads one line; `None` where it holds no pattern.
fn rule(line: &str) -> Option<(String, Rule)> {
    let line = without_trailing_blanks(line);
    if line.starts_with('#') {
        return None;
    }
    let (keeps, line) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
    let (directories_only, line) =
        line.strip_suffix('/').map_or((false, line), |rest| (true, rest));
    if line.is_empty() {
        return None;
    }
    // A slash at the beginning or inside ties a pattern to the root.
    let anchored = line.contains('/');
    let line = without_braces(line.strip_prefix('/').unwrap_or(line));
    let pattern = if anchored { line } else { format!("**/{line}") };
    Some((pattern, Rule { keeps, directories_only }))
}

fn without_trailing_blanks(line: &str) -> &str {
    let cut = line.trim_end_matches([' ', '\t', '\r']);
    // A blank behind a backslash belongs to the pattern.
    let escapes = cut.bytes().rev().take_while(|byte| *byte == b'\\').count();
    if escapes % 2 == 1 && cut.len() < line.len() { &line[..=cut.len()] } else { cut }
}

/// Braces mean themselves in an ignore file, and alternatives in a glob.
fn without_braces(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '{' | '}' => out.extend(['[', c, ']']),
            '\\' => {
                out.push(c);
                out.extend(chars.next());
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignored(patterns: &str, path: &str) -> bool {
        let (path, is_directory) =
            path.strip_suffix('/').map_or((path, false), |path| (path, true));
        let ignore = Ignore::parse(patterns).expect("good patterns");
        ignore.covers_or_parent(path.as_bytes(), is_directory)
    }

    #[test]
    fn patterns_mean_what_git_means() {
        let yes = [
            ("*.o", "a/b/c.o"),
            ("target", "x/target/y"),
            ("target/", "target/"),
            ("/build", "build"),
            ("doc/*.txt", "doc/a.txt"),
            ("**/cache", "a/b/cache"),
            ("a/**/b", "a/b"),
            ("a/**/b", "a/x/y/b"),
            ("abc/**", "abc/x/y"),
            ("\\#x", "#x"),
            ("\\!x", "!x"),
            ("a\\ ", "a "),
            ("[ab].c", "b.c"),
            ("[!ab].c", "c.c"),
            ("{a,b}", "{a,b}"),
            ("!keep\n*", "keep"),
            ("x  ", "x"),
        ];
        for (patterns, path) in yes {
            assert!(ignored(patterns, path), "{patterns:?} ignores {path}");
        }
        let no = [
            ("target/", "target"),
            ("/build", "a/build"),
            ("doc/*.txt", "doc/x/a.txt"),
            ("doc/*.txt", "a/doc/a.txt"),
            ("# x", "# x"),
            ("", "a"),
            ("*\n!keep", "keep"),
            ("a?c", "a/c"),
            ("{a,b}", "a"),
            ("abc/**", "abc"),
        ];
        for (patterns, path) in no {
            assert!(!ignored(patterns, path), "{patterns:?} keeps {path}");
        }
        assert!(ignored("dir/\n!dir/keep", "dir/keep"), "its directory is left out");
        assert_eq!(Ignore::parse("ok\n[").expect_err("no class").0, 2);
    }
}
