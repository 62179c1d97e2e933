//! Reads `--env NAME` and `--env-file PATH`: variables that a job is handed.
//!
//! Values go into [`EnvVar`]s and nowhere else: no refusal quotes a value, nor a line that could hold one. The
//! environment and the files are read by the caller and handed in.
use crate::requests::JobEnvironment;
use crate::text::printable;
use bailiwick_contract::bytes::{ByteString, Secret};
use bailiwick_contract::error::Failure;
use bailiwick_contract::job::EnvVar;

/// The largest `--env-file`, in bytes: what Linux lets a program's arguments and environment take up by default
/// (`ARG_MAX`, limits.h, is a quarter of the 8 MiB stack).
pub const ENV_FILE_BYTES_MAX: usize = 2 << 20;

/// An `--env-file` with its contents.
#[derive(Clone, PartialEq, Eq)]
pub struct EnvFile {
    /// The path, as it was given.
    pub path: ByteString,
    /// What is in it.
    pub contents: Secret,
}

impl core::fmt::Debug for EnvFile {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("EnvFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Gathers the variables that `names` and `files` ask for; `lookup` reads the caller's own environment.
///
/// # Errors
/// A user error for a bad name, `NAME=VALUE`, an unset name, a malformed line or a name that comes twice.
pub fn gather(
    names: &[Vec<u8>],
    lookup: &dyn Fn(&str) -> Option<Vec<u8>>,
    files: &[EnvFile],
) -> Result<JobEnvironment, Failure> {
    let mut gathered = JobEnvironment::default();
    for given in names {
        let name = forwarded(given)?;
        let Some(value) = lookup(name) else {
            return Err(Failure::user(
                "env_unset",
                format!("--env {name}: the variable is not set here"),
                format!("set {name} in the environment of this command, or leave --env {name} out"),
            ));
        };
        add(&mut gathered.vars, name, value, "--env")?;
    }
    for file in files {
        read_file(&mut gathered.vars, file)?;
        gathered.files.push(file.path.clone());
    }
    Ok(gathered)
}

fn forwarded(given: &[u8]) -> Result<&str, Failure> {
    if given.contains(&b'=') {
        return Err(Failure::user(
            "env_value_in_argv",
            "--env takes a name only; a value on the command line would be seen by every process of this host",
            "export the variable and pass its name, or write it to a file for --env-file",
        ));
    }
    name_of(given).ok_or_else(|| {
        Failure::user(
            "bad_env_name",
            format!("--env {}: this is no name of a variable", printable(given)),
            "a name is letters, digits and underscores, and does not begin with a digit",
        )
    })
}

fn name_of(bytes: &[u8]) -> Option<&str> {
    let head = bytes.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let tail = bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    if head && tail { core::str::from_utf8(bytes).ok() } else { None }
}

fn read_file(vars: &mut Vec<EnvVar>, file: &EnvFile) -> Result<(), Failure> {
    let contents = file.contents.expose();
    let shown = printable(file.path.as_bytes());
    if contents.len() > ENV_FILE_BYTES_MAX {
        return Err(bad_file(format!("--env-file {shown} is larger than 2 MiB")));
    }
    if core::str::from_utf8(contents).is_err() {
        return Err(bad_file(format!("--env-file {shown} is not UTF-8 text")));
    }
    for (index, line) in contents.split(|byte| *byte == b'\n').enumerate() {
        // Only LF ends a line: a value may hold any other character. One CR before it is a file from Windows.
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let trimmed = line.trim_ascii_start();
        if trimmed.is_empty() || trimmed.first() == Some(&b'#') {
            continue;
        }
        let Some((name, value)) = assignment(line) else {
            let number = index + 1;
            return Err(bad_file(format!(
                "--env-file {shown}, line {number}: it is no NAME=VALUE assignment"
            )));
        };
        add(vars, name, value.to_vec(), &format!("--env-file {shown}, line {}", index + 1))?;
    }
    Ok(())
}

fn assignment(line: &[u8]) -> Option<(&str, &[u8])> {
    let at = line.iter().position(|byte| *byte == b'=')?;
    Some((name_of(&line[..at])?, &line[at + 1..]))
}

fn bad_file(message: String) -> Failure {
    Failure::user(
        "bad_env_file",
        message,
        "one NAME=VALUE a line, blank lines and # comments; no quotes are taken off, no `export`",
    )
}

fn add(vars: &mut Vec<EnvVar>, name: &str, value: Vec<u8>, origin: &str) -> Result<(), Failure> {
    if value.contains(&0) {
        return Err(Failure::user(
            "bad_env_value",
            format!("{origin}: the value of {name} contains a NUL byte"),
            "an environment cannot carry NUL bytes; hand the data over as a file with --input",
        ));
    }
    if vars.iter().any(|var| var.name == name) {
        return Err(Failure::user(
            "env_twice",
            format!("{origin}: the variable {name} is given twice"),
            format!("leave one of the sources of {name} out"),
        ));
    }
    vars.push(EnvVar { name: name.into(), value: Secret::new(value) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(contents: &[u8]) -> EnvFile {
        EnvFile { path: "secrets.env".into(), contents: Secret::new(contents.to_vec()) }
    }

    fn from_file(contents: &[u8]) -> Result<Vec<(String, Vec<u8>)>, Failure> {
        let gathered = gather(&[], &|_| None, &[file(contents)])?;
        Ok(gathered.vars.into_iter().map(|var| (var.name, var.value.expose().to_vec())).collect())
    }

    #[test]
    fn a_file_is_read_line_by_line_and_values_stay_verbatim() {
        let text = "# note\n\nA= spaced =\"quoted\"\r\nB=a\u{2028}b\u{85}\u{b}\n  # indented\nC=";
        let read = from_file(text.as_bytes()).expect("a good file");
        let values: Vec<_> = read.iter().map(|(name, value)| (name.as_str(), &value[..])).collect();
        let odd = "a\u{2028}b\u{85}\u{b}";
        let want = [("A", &b" spaced =\"quoted\""[..]), ("B", odd.as_bytes()), ("C", &b""[..])];
        assert_eq!(values, want);
    }

    #[test]
    fn a_malformed_line_is_named_by_number_and_never_quoted() {
        for bad in
            ["hunter2", " A=hunter2", "export A=hunter2", "=hunter2", "1A=hunter2", "A =hunter2"]
        {
            let failure = from_file(format!("GOOD=1\n\n{bad}\n").as_bytes()).expect_err(bad);
            assert!(failure.message.contains("line 3"), "{failure}");
            assert!(!format!("{failure:?}").contains("hunter2"), "{bad}");
        }
        let not_text = from_file(b"A=\xff").expect_err("not UTF-8");
        assert_eq!(not_text.reason, "bad_env_file");
    }

    #[test]
    fn a_flag_takes_names_that_are_set_and_nothing_else() {
        let lookup = |name: &str| (name == "TOKEN").then(|| b"hunter2".to_vec());
        let ask = |name: &str| gather(&[name.as_bytes().to_vec()], &lookup, &[]);
        assert_eq!(ask("TOKEN").expect("set").vars[0].value.expose(), b"hunter2");
        for (name, reason) in [
            ("UNSET", "env_unset"),
            ("TOKEN=hunter2", "env_value_in_argv"),
            ("A-B", "bad_env_name"),
        ] {
            let failure = ask(name).expect_err(name);
            assert_eq!(failure.reason, reason);
            assert!(!format!("{failure:?}").contains("hunter2"));
        }
        let twice = gather(&[b"TOKEN".to_vec()], &lookup, &[file(b"TOKEN=x")]).expect_err("twice");
        assert_eq!(twice.reason, "env_twice");
        assert!(!format!("{:?}", file(b"TOKEN=hunter2")).contains("hunter2"));
    }
}
