//! The flags of `run` and `exec` that say what a job is.
//!
//! Everything is checked before the provider or the store is touched. Values of variables are read here and go into the
//! request only; no message holds one.
use super::{bytes, parse_duration};
use crate::settings::caller_variable;
use bailiwick_contract::bytes::Secret;
use bailiwick_contract::error::Failure;
use bailiwick_contract::id::JobId;
use bailiwick_contract::job::Stdin;
use bailiwick_engine::env::{ENV_FILE_BYTES_MAX, EnvFile};
use bailiwick_engine::requests::{JobEnvironment, JobRequest};
use bailiwick_engine::{declare, env};
use clap::Args;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

// Without a doc comment: clap would show it in the place of the verb's own.
#[derive(Debug, Args)]
#[command(next_help_heading = "Job")]
pub(crate) struct JobArgs {
    /// Say which file the job will leave, and what for; repeatable
    #[arg(long, value_name = "NAME=PURPOSE")]
    declare: Vec<OsString>,
    /// Copy a host file or directory in first; repeatable
    #[arg(long, value_name = "NAME=HOST_PATH")]
    input: Vec<OsString>,
    /// Forward a variable of this shell by name; its value is never recorded; repeatable
    #[arg(long, value_name = "NAME")]
    env: Vec<OsString>,
    /// Forward the variables of a file of NAME=VALUE lines; repeatable
    #[arg(long, value_name = "PATH")]
    env_file: Vec<PathBuf>,
    /// The directory that the job starts in, relative to the workspace; it has to be there by then
    #[arg(long, value_name = "DIR")]
    cwd: Option<OsString>,
    /// What the job reads from standard input: a host file, or - for that of this command [default: nothing]
    #[arg(long, value_name = "FILE|-", allow_hyphen_values = true)]
    stdin: Option<OsString>,
    /// How long this job may take, checks included; at most the workspace's wall clock; units: ms, s, m, h, d
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, allow_hyphen_values = true)]
    timeout: Option<Duration>,
    /// Run `sh -c CMD` in the workspace once the job has ended by itself; if it fails, the job succeeded in part only;
    /// repeatable
    #[arg(long, value_name = "NAME=CMD")]
    check: Vec<OsString>,
    /// Read one number from a file that the job leaves; without one, the job succeeded in part only; repeatable
    #[arg(long, value_name = "NAME=FILE")]
    measure: Vec<OsString>,
    /// Show the job's output on standard error while it runs; on a terminal, what could act on it is escaped
    #[arg(long)]
    stream: bool,
    /// The job's id [default: a fresh one]
    #[arg(long, value_name = "ID", value_parser = JobId::parse)]
    job_id: Option<JobId>,
}

impl JobArgs {
    /// Returns the job that was asked for; `argv` is its command.
    ///
    /// # Errors
    /// For the first argument that is malformed, and for variables that cannot be read.
    pub(crate) fn request(self, argv: Vec<OsString>) -> Result<JobRequest, Failure> {
        let declares = self.declare.iter().map(|given| declare::artifact(given.as_bytes()));
        let inputs = self.input.iter().map(|given| declare::input(given.as_bytes()));
        let checks = self.check.iter().map(|given| declare::check(given.as_bytes()));
        let measures = self.measure.iter().map(|given| declare::measure(given.as_bytes()));
        let cwd = self.cwd.map(|given| declare::cwd(given.as_bytes())).transpose()?;
        Ok(JobRequest {
            job: self.job_id,
            argv: argv.into_iter().map(bytes).collect(),
            declares: declares.collect::<Result<_, _>>()?,
            inputs: inputs.collect::<Result<_, _>>()?,
            environment: environment(&self.env, self.env_file)?,
            cwd: cwd.flatten(),
            stdin: self.stdin.map_or(Stdin::Empty, stdin),
            timeout: self.timeout,
            checks: checks.collect::<Result<_, _>>()?,
            measures: measures.collect::<Result<_, _>>()?,
        })
    }

    /// Returns whether the job's output is shown while it runs.
    pub(crate) const fn stream(&self) -> bool {
        self.stream
    }
}

fn stdin(given: OsString) -> Stdin {
    if given == "-" { Stdin::Caller } else { Stdin::File(bytes(given)) }
}

fn environment(names: &[OsString], paths: Vec<PathBuf>) -> Result<JobEnvironment, Failure> {
    let names: Vec<Vec<u8>> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
    let lookup = |name: &str| caller_variable(OsStr::new(name)).map(OsStringExt::into_vec);
    let files = paths.into_iter().map(read_file).collect::<Result<Vec<_>, _>>()?;
    env::gather(&names, &lookup, &files)
}

/// Reads one byte more than may be there, so that the parser sees that a file is too large.
fn read_file(path: PathBuf) -> Result<EnvFile, Failure> {
    let limit = u64::try_from(ENV_FILE_BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    let mut contents = Vec::new();
    let read = File::open(&path).and_then(|file| file.take(limit).read_to_end(&mut contents));
    match read {
        Ok(_) => Ok(EnvFile { path: bytes(path.into()), contents: Secret::new(contents) }),
        Err(error) => Err(unreadable(&path, &error)),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let message =
        format!("--env-file {} cannot be read: {error}", path.to_string_lossy().escape_debug());
    let advice = "name a file of NAME=VALUE lines that you may read";
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory => {
            Failure::user("bad_env_file", message, advice)
        }
        _ => Failure::environment("env_file_unreadable", message, advice),
    }
}
