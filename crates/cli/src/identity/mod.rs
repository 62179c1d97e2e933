//! Who answers: the identity of the `culture.yaml` above the working directory, else the one that is built in.
//!
//! The file is somebody else's text: it is read once, up to a size, and nothing in it is ever run or opened but the
//! prompt file whose name follows from its backend. The form, and the names of prompt files, are the Culture mesh's.
mod culture;

use self::culture::Malformed;
use bailiwick_contract::error::Failure;
use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The name of the file.
const FILE: &str = "culture.yaml";

/// The largest file that is read; one with a long system prompt has some 10 KiB.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// The identity of a copy that runs outside any mesh: that of this repository.
const BUILT_IN: &str = include_str!("../../../../culture.yaml");

/// The prompt that belongs to it.
pub(crate) const BUILT_IN_PROMPT: &str = include_str!("../../../../AGENTS.colleague.md");

/// A name, what runs it, and where that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The `suffix`: what the mesh calls it.
    pub(crate) nick: String,
    /// What runs it, a word that can be part of a file name.
    pub(crate) backend: String,
    /// The model, where the file names one.
    pub(crate) model: Option<String>,
}

/// Why a `culture.yaml` is of no use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IdentityError {
    /// It could not be opened or read.
    #[error("it cannot be read: {0}")]
    Unreadable(io::Error),
    /// A link, a directory, a pipe or a device.
    #[error("it is not a regular file")]
    NotRegular,
    /// More than anybody writes by hand.
    #[error("it is larger than {FILE_BYTES_MAX} bytes")]
    TooLarge,
    /// YAML is UTF-8.
    #[error("it is not UTF-8")]
    NotText,
    /// It is text, but says something else.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// Where an identity comes from.
#[derive(Debug)]
pub(crate) enum Found {
    /// There is no file.
    BuiltIn(Identity),
    /// This file has it.
    File(PathBuf, Identity),
    /// This file is there and cannot be understood.
    Broken(PathBuf, IdentityError),
}

impl Found {
    /// Returns the file, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            Self::BuiltIn(_) => None,
            Self::File(path, _) | Self::Broken(path, _) => Some(path),
        }
    }

    /// Returns the identity.
    ///
    /// # Errors
    /// `bad_identity`.
    pub(crate) fn identity(&self) -> Result<&Identity, Failure> {
        match self {
            Self::BuiltIn(identity) | Self::File(_, identity) => Ok(identity),
            Self::Broken(path, error) => {
                let message = format!("`{}` holds no identity: {error}", shown(path));
                Err(Failure::user("bad_identity", message, ADVICE))
            }
        }
    }
}

/// What mends a file that is of no use.
pub(crate) const ADVICE: &str =
    "mend the file, or work outside its directory; `bailiwick explain identity` shows its form";

/// Returns who answers in the working directory; `home` is where the search upwards ends.
pub(crate) fn here(home: Option<&Path>) -> Found {
    // A working directory that is gone has no file above it.
    let start = std::env::current_dir().unwrap_or_default();
    // The working directory is known by its real name, the home by that of a variable.
    let home = home.and_then(|home| fs::canonicalize(home).ok());
    look(&start, home.as_deref(), rustix::process::geteuid().as_raw())
}

fn look(start: &Path, home: Option<&Path>, user: u32) -> Found {
    let Some(path) = find(start, home, user) else {
        return Found::BuiltIn(built_in());
    };
    match read(&path).and_then(|text| Ok(culture::parse(&text)?)) {
        Ok(identity) => Found::File(path, identity),
        Err(error) => Found::Broken(path, error),
    }
}

fn built_in() -> Identity {
    culture::parse(BUILT_IN).expect("a test reads the same file")
}

/// Looks for the nearest file, no higher than `home` and than the file system that `start` is on.
///
/// As with a configuration of git's, whoever may write above us must not name us: a file counts that belongs to
/// `user`, to root, or to the owner of `start`.
fn find(start: &Path, home: Option<&Path>, user: u32) -> Option<PathBuf> {
    let begin = fs::metadata(start).ok()?;
    for folder in start.ancestors() {
        if fs::metadata(folder).map(|found| found.dev()).ok() != Some(begin.dev()) {
            return None;
        }
        let path = folder.join(FILE);
        let owner = fs::symlink_metadata(&path).map(|found| found.uid()).ok();
        if owner.is_some_and(|owner| [user, 0, begin.uid()].contains(&owner)) {
            return Some(path);
        }
        if Some(folder) == home {
            return None;
        }
    }
    None
}

/// Reads a regular file; a pipe is not waited for and a link is not followed.
fn read(path: &Path) -> Result<String, IdentityError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::LOOP) => return Err(IdentityError::NotRegular),
        Err(error) => return Err(IdentityError::Unreadable(error.into())),
    };
    if !file.metadata().map_err(IdentityError::Unreadable)?.is_file() {
        return Err(IdentityError::NotRegular);
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(IdentityError::Unreadable)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > FILE_BYTES_MAX {
        return Err(IdentityError::TooLarge);
    }
    String::from_utf8(bytes).map_err(|_| IdentityError::NotText)
}

/// The prompt files of backends that do not follow the rule `AGENTS.<backend>.md`.
const PROMPTS: [(&str, &str); 3] =
    [("acp", "AGENTS.md"), ("claude", "CLAUDE.md"), ("gemini", "GEMINI.md")];

/// Returns the name of the prompt file that a backend loads.
pub(crate) fn prompt_name(backend: &str) -> String {
    match PROMPTS.iter().find(|(known, _)| *known == backend) {
        Some((_, name)) => (*name).to_owned(),
        None => format!("AGENTS.{backend}.md"),
    }
}

/// Returns whether there is something to load at the path of a prompt.
pub(crate) fn has_prompt(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() > 0)
}

/// How many entries of a directory are looked at for prompts.
const ENTRIES_MAX: usize = 4_096;

/// Returns the names of all prompt files in a directory, in order.
pub(crate) fn prompts(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let names =
        entries.take(ENTRIES_MAX).flatten().filter_map(|one| one.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| is_prompt(name) && has_prompt(&folder.join(name))).collect();
    names.sort_unstable();
    names
}

fn is_prompt(name: &str) -> bool {
    let by_rule = name.strip_prefix("AGENTS.").and_then(|rest| rest.strip_suffix(".md"));
    by_rule.is_some_and(culture::is_word) || PROMPTS.iter().any(|(_, known)| *known == name)
}

/// Returns a path or a word of somebody else's in printable form.
pub(crate) fn shown(path: &Path) -> String {
    path.to_string_lossy().chars().flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn folder() -> (tempfile::TempDir, u32) {
        let folder = tempfile::tempdir().expect("a folder");
        let owner = fs::metadata(folder.path()).expect("it is there").uid();
        (folder, owner)
    }

    fn write(path: &Path, nick: &str) {
        let text = format!("suffix: {nick}\nbackend: colleague\n");
        fs::write(path, text).expect("a file of our own");
    }

    fn nick(found: &Found) -> &str {
        &found.identity().expect("an identity").nick
    }

    #[test]
    fn the_built_in_identity_has_a_prompt_of_its_backend() {
        let identity = built_in();
        assert_eq!(identity.nick, "bailiwick");
        assert_eq!(prompt_name(&identity.backend), "AGENTS.colleague.md");
        assert!(BUILT_IN_PROMPT.starts_with("# bailiwick\n"));
    }

    #[test]
    fn the_nearest_file_above_is_found_and_the_home_ends_the_search() {
        let (folder, user) = folder();
        let deep = folder.path().join("a/b");
        fs::create_dir_all(&deep).expect("folders");
        let above = folder.path().join(FILE);
        assert_eq!(find(&deep, Some(folder.path()), user), None);
        write(&above, "above");
        assert_eq!(nick(&look(&deep, Some(folder.path()), user)), "above");
        assert_eq!(find(&deep, Some(&folder.path().join("a")), user), None);
        write(&deep.join(FILE), "near");
        assert_eq!(nick(&look(&deep, None, user)), "near");
    }

    #[test]
    fn what_is_not_a_small_regular_text_file_is_refused_and_not_waited_for() {
        let (folder, user) = folder();
        let path = folder.path().join(FILE);
        let check = |wanted: &str| {
            let found = look(folder.path(), None, user);
            let failure = found.identity().expect_err("it is of no use");
            assert!(failure.message.contains(wanted), "{failure:?}");
            assert_eq!(failure.reason, "bad_identity");
        };
        fs::create_dir(&path).expect("a folder");
        check("not a regular file");
        fs::remove_dir(&path).expect("ours");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .expect("a pipe");
        check("not a regular file");
        fs::remove_file(&path).expect("ours");
        symlink("/etc/passwd", &path).expect("a link");
        check("not a regular file");
        fs::remove_file(&path).expect("ours");
        fs::write(&path, b"suffix: \xff\nbackend: a\n").expect("ours");
        check("not UTF-8");
        let long = usize::try_from(FILE_BYTES_MAX).expect("it is small");
        fs::write(&path, format!("suffix: a\nbackend: a\n#{}", "x".repeat(long))).expect("ours");
        check("larger than 65536 bytes");
    }

    #[test]
    fn prompts_are_named_after_their_backends() {
        assert_eq!(prompt_name("claude"), "CLAUDE.md");
        assert_eq!(prompt_name("acp"), "AGENTS.md");
        assert_eq!(prompt_name("other"), "AGENTS.other.md");
        let (folder, _) = folder();
        for name in ["AGENTS.b.md", "AGENTS.a.md", "AGENTS.md", "README.md", "AGENTS..md"] {
            fs::write(folder.path().join(name), "x").expect("ours");
        }
        fs::write(folder.path().join("AGENTS.empty.md"), "").expect("ours");
        assert_eq!(prompts(folder.path()), ["AGENTS.a.md", "AGENTS.b.md", "AGENTS.md"]);
    }
}
