//! A home, a working folder and an environment that one test has for itself.
use crate::output::Output;
use crate::programs;
use crate::user::User;
use rustix::process::{Pid, Signal};
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, Permissions};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The `PATH` of every command.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// How long a command may take before a test gives up: well beyond the slowest, a 30 s job.
const PATIENCE: Duration = Duration::from_secs(120);

/// A home, a working folder and an environment that one test has for itself.
///
/// Its folders are removed when it is dropped.
#[derive(Debug)]
pub struct TestEnv {
    user: User,
    folder: TempDir,
    bailiwick: PathBuf,
    variables: Vec<(OsString, OsString)>,
}

impl TestEnv {
    /// Makes one for `user`; `built` is the test crate's `env!("CARGO_BIN_EXE_bailiwick")`.
    #[must_use]
    pub fn new(user: User, built: &str) -> Self {
        let folder =
            tempfile::Builder::new().prefix("bailiwick-test-").tempdir().expect("a folder");
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("our own folder");
        let program = programs::bailiwick(Path::new(built));
        let bailiwick = match user.ids() {
            Some(_) => programs::for_everybody(&program),
            None => program,
        };
        let env = Self { user, folder, bailiwick, variables: Vec::new() };
        env.give(env.folder.path());
        for name in ["home", "work"] {
            env.make_folder(&env.folder.path().join(name), 0o700);
        }
        env
    }

    /// Makes one whose commands can run jobs: it fails where there is no supervisor.
    #[must_use]
    pub fn with_sandbox(user: User, built: &str) -> Self {
        let env = Self::new(user, built);
        programs::require_supervisor(&env.bailiwick);
        env
    }

    /// Sets a variable for all commands from here on.
    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.push((name.into(), value.into()));
    }

    /// Returns who runs the commands.
    #[must_use]
    pub const fn user(&self) -> User {
        self.user
    }

    /// Returns the command under test.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.bailiwick
    }

    /// Returns the home, `BAILIWICK_HOME`; it is made by the first command that needs it.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// Returns the folder in which commands run.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Writes a file of the user's below the working folder and returns its path.
    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.work().join(name);
        fs::write(&path, contents).expect("a file in the working folder");
        self.give(&path);
        path
    }

    /// Makes a folder of the user's.
    pub fn make_folder(&self, path: &Path, mode: u32) {
        DirBuilder::new().mode(mode).create(path).expect("a folder of the test");
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("our own folder");
        self.give(path);
    }

    /// Makes the user the owner of `path`.
    pub fn give(&self, path: &Path) {
        if let Some((uid, gid)) = self.user.ids() {
            chown(path, Some(uid), Some(gid)).expect("root may give a file away");
        }
    }

    /// Runs the command under test to its end.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Output {
        self.start(arguments).wait()
    }

    /// Runs the command under test with `--json` after the verb, and expects `code`.
    #[track_caller]
    pub fn json(&self, code: i32, arguments: &[&str]) -> serde_json::Value {
        let mut all = arguments.to_vec();
        all.insert(1, "--json");
        let output = self.run(all).exits(code);
        if output.stdout.is_empty() { output.error() } else { output.json() }
    }

    /// Starts the command under test.
    pub fn start<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Running {
        self.start_program(&self.bailiwick, arguments)
    }

    /// Runs a program of the host as the same user, in the same environment.
    pub fn host<A: AsRef<OsStr>>(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = A>,
    ) -> Output {
        self.start_program(Path::new(program), arguments).wait()
    }

    fn start_program<A: AsRef<OsStr>>(
        &self,
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Running {
        let mut command = self.user.command(program);
        command
            .args(arguments)
            .current_dir(self.work())
            .env_clear()
            .envs([("PATH", PATH), ("LANG", "C.UTF-8")])
            .env("HOME", self.folder.path().join("home"))
            .env("BAILIWICK_HOME", self.home())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let told = told(&command);
        let mut child = command.spawn().expect("the command can be started");
        let stdout = child.stdout.take().map(ChildStdout::into_reader).expect("it is piped");
        let stderr = child.stderr.take().map(ChildStderr::into_reader).expect("it is piped");
        Running { command: told, child, stdout, stderr }
    }
}

/// Returns a command in short, for messages.
fn told(command: &Command) -> String {
    let arguments = command.get_args().map(|argument| {
        argument
            .to_string_lossy()
            .chars()
            .take(200)
            .flat_map(char::escape_debug)
            .collect::<String>()
    });
    let program = command.get_program().to_string_lossy().into_owned();
    std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// Reads a stream to its end beside the test.
trait IntoReader {
    fn into_reader(self) -> Receiver<Vec<u8>>;
}

impl<R: Read + Send + 'static> IntoReader for R {
    fn into_reader(mut self) -> Receiver<Vec<u8>> {
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            self.read_to_end(&mut bytes).expect("a pipe can be read");
            // A test that does not wait for the output does not want it.
            drop(sender.send(bytes));
        });
        receiver
    }
}

/// A command that was started; it is killed where the test forgets it.
#[derive(Debug)]
#[must_use]
pub struct Running {
    command: String,
    child: Child,
    stdout: Receiver<Vec<u8>>,
    stderr: Receiver<Vec<u8>>,
}

impl Running {
    /// Returns the process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        let pid =
            i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("it has an id");
        rustix::process::kill_process(pid, signal).expect("the process is there");
    }

    /// Sends SIGKILL and returns what the command left.
    pub fn kill(self) -> Output {
        self.signal(Signal::KILL);
        self.wait()
    }

    /// Returns whether it has ended.
    #[must_use]
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child can be waited for").is_some()
    }

    /// Fails where the command has ended already, and shows what it left.
    #[track_caller]
    pub fn assert_alive(&mut self) {
        if self.has_ended() {
            let output = self.collect();
            panic!("it ended too early: {output}");
        }
    }

    /// Waits for the end of the command and of its output; a test that waits too long fails.
    pub fn wait(mut self) -> Output {
        self.collect()
    }

    fn collect(&mut self) -> Output {
        let deadline = Instant::now() + PATIENCE;
        let [stdout, stderr] = [&self.stdout, &self.stderr].map(|stream| {
            let left = deadline.saturating_duration_since(Instant::now());
            stream.recv_timeout(left).unwrap_or_else(|_| {
                panic!("after {PATIENCE:?} somebody still holds the output of {}", self.command)
            })
        });
        let status = self.child.wait().expect("a child can be waited for");
        Output { command: std::mem::take(&mut self.command), status, stdout, stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}
