//! What the process was started with: arguments and environment, read here and nowhere else.
//!
//! Nothing is checked here; where state lives and which provider is meant is decided when a verb needs to know.
use bailiwick_contract::error::Failure;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal as _, stderr, stdout};
use std::path::{Path, PathBuf};

/// What the process was started with.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The arguments, the program's own name first.
    pub(crate) args: Vec<OsString>,
    /// `BAILIWICK_PROVIDER`.
    pub(crate) provider: Option<OsString>,
    /// `BAILIWICK_FAKE_SCRIPT`: what the jobs of the fake provider do.
    pub(crate) fake_script: Option<PathBuf>,
    /// `BAILIWICK_HOME`, `XDG_STATE_HOME` and `HOME`, empty ones left out.
    folders: [Option<OsString>; 3],
    /// Whether standard output is a terminal that may be coloured.
    pub(crate) colour: bool,
    /// Whether standard error is a terminal that can redraw a line.
    pub(crate) live: bool,
    /// Whether a live line on standard error may be coloured.
    pub(crate) live_colour: bool,
    /// `BAILIWICK_FAULTS`: where this process kills itself, or those that it works with.
    #[cfg(feature = "faults")]
    pub(crate) faults: Option<OsString>,
}

impl Settings {
    /// Reads arguments and environment.
    pub(crate) fn read() -> Self {
        let plain = variable("NO_COLOR").is_some();
        let dumb = variable("TERM").is_some_and(|term| term == "dumb");
        let live = stderr().is_terminal() && !dumb;
        Self {
            args: env::args_os().collect(),
            provider: variable("BAILIWICK_PROVIDER"),
            fake_script: variable("BAILIWICK_FAKE_SCRIPT").map(PathBuf::from),
            folders: ["BAILIWICK_HOME", "XDG_STATE_HOME", "HOME"].map(variable),
            colour: !plain && !dumb && stdout().is_terminal(),
            live,
            live_colour: live && !plain,
            #[cfg(feature = "faults")]
            faults: variable(bailiwick_isolation::faults::VARIABLE),
        }
    }

    /// Returns the home: `$BAILIWICK_HOME`, else `$XDG_STATE_HOME/bailiwick`, else `~/.local/state/bailiwick`.
    ///
    /// # Errors
    /// `no_home` where none of the three variables is of use.
    pub(crate) fn home(&self) -> Result<PathBuf, Failure> {
        let [own, state, user] = &self.folders;
        if let Some(home) = own {
            return std::path::absolute(home).map_err(|error| {
                let message = format!("the home of BAILIWICK_HOME cannot be used: {error}");
                Failure::environment("no_home", message, HOME_ADVICE)
            });
        }
        // The XDG base directory specification: a relative path is invalid and is ignored.
        let absolute = |folder: &Option<OsString>| {
            folder.as_deref().map(Path::new).filter(|path| path.is_absolute()).map(Path::to_owned)
        };
        if let Some(state) = absolute(state) {
            return Ok(state.join("bailiwick"));
        }
        let user = absolute(user).ok_or_else(|| {
            let message =
                "there is no place for state: BAILIWICK_HOME, XDG_STATE_HOME and HOME are unset";
            Failure::environment("no_home", message, HOME_ADVICE)
        })?;
        Ok(user.join(".local/state/bailiwick"))
    }
}

impl Settings {
    /// Returns the user's own directory, where it is known.
    pub(crate) fn user_home(&self) -> Option<&Path> {
        let [_, _, user] = &self.folders;
        user.as_deref().map(Path::new).filter(|path| path.is_absolute())
    }
}

const HOME_ADVICE: &str = "set BAILIWICK_HOME to a directory that you may write to";

/// Returns a variable of the caller's environment, unless it is unset or empty.
fn variable(name: &str) -> Option<OsString> {
    caller_variable(OsStr::new(name)).filter(|value| !value.is_empty())
}

/// Returns a variable of the caller's environment: what `--env NAME` forwards.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
pub(crate) fn caller_variable(name: &OsStr) -> Option<OsString> {
    env::var_os(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(folders: [Option<&str>; 3], home: Option<&str>) {
        let settings = Settings {
            args: Vec::new(),
            provider: None,
            fake_script: None,
            folders: folders.map(|folder| folder.map(OsString::from)),
            colour: false,
            live: false,
            live_colour: false,
            #[cfg(feature = "faults")]
            faults: None,
        };
        assert_eq!(settings.home().ok(), home.map(PathBuf::from), "{folders:?}");
    }

    #[test]
    fn the_first_variable_that_is_of_use_names_the_home() {
        check([Some("/b"), Some("/x"), Some("/h")], Some("/b"));
        check([None, Some("/x"), Some("/h")], Some("/x/bailiwick"));
        check([None, Some("relative"), Some("/h")], Some("/h/.local/state/bailiwick"));
        check([None, None, Some("/h")], Some("/h/.local/state/bailiwick"));
        check([None, None, Some("relative")], None);
        check([None, None, None], None);
    }
}
