//! What the host holds while claims are tried: secrets, sockets and a process that a job must not find.
//!
//! Everything planted has a name of its own and goes away with the scene.
use crate::claim::{Control, Seen};
use bailiwick_testkit::{Output, TestEnv, User, processes_holding};
use rustix::process::{Pid, Signal};
use std::fs::{self, Permissions};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener};
use std::path::{Path, PathBuf};

/// The command that cargo built.
const BUILT: &str = env!("CARGO_BIN_EXE_bailiwick");

/// What the host holds while the claims of one theme are tried by one user.
pub(crate) struct Scene {
    pub(crate) env: TestEnv,
    /// Runs what only root may do outside; the test itself may be an ordinary user's.
    root: Option<TestEnv>,
    tag: String,
    words: Vec<(&'static str, String)>,
    planted: Vec<PathBuf>,
    sleepers: Vec<u32>,
    /// The names of processes, inside and outside, of which none may stay.
    processes: Vec<String>,
    /// Bound to all addresses; the kernel answers a connection without our help.
    tcp: TcpListener,
    udp: UdpSocket,
    _unix: (UnixListener, UnixListener),
}

impl Scene {
    /// Prepares the host for `user`.
    pub(crate) fn new(user: User) -> Self {
        let env = with_probe(user);
        let root = User::all().contains(&User::Root).then(|| with_probe(User::Root));
        let tag = tag(&env);
        let tcp = TcpListener::bind("0.0.0.0:0").expect("a port is free");
        let udp = UdpSocket::bind("0.0.0.0:0").expect("a port is free");
        udp.set_nonblocking(true).expect("a socket of ours");
        let hidden = PathBuf::from(format!("/var/tmp/bailiwick-claims-{tag}"));
        env.make_folder(&hidden, 0o755);
        let unix = unix_listeners(&hidden, &tag);
        let mut scene = Self {
            env,
            root,
            tag,
            words: Vec::new(),
            planted: vec![hidden.clone()],
            sleepers: Vec::new(),
            processes: Vec::new(),
            tcp,
            udp,
            _unix: unix,
        };
        scene.name_sockets(&hidden);
        scene.plant_files(&hidden);
        scene.start_sleeper();
        scene.share_memory();
        scene
    }

    fn name(&mut self, word: &'static str, value: impl Into<String>) {
        self.words.push((word, value.into()));
    }

    fn name_sockets(&mut self, hidden: &Path) {
        let tcp = self.tcp.local_addr().expect("it is bound").port();
        let udp = self.udp.local_addr().expect("it is bound").port();
        self.name("TCP", format!("127.0.0.1:{tcp}"));
        if let Some(address) = own_address() {
            self.name("HOST_TCP", SocketAddr::new(address, tcp).to_string());
            self.name("HOST_UDP", SocketAddr::new(address, udp).to_string());
        }
        self.name("ABSTRACT", self.tag.clone());
        self.name("UNIX", text(&hidden.join("socket")));
    }

    fn plant_files(&mut self, hidden: &Path) {
        let folder = self.env.home().parent().expect("it lies in a folder").to_owned();
        let account = self.account_folder().join(format!(".bailiwick-claims-{}", self.tag));
        let shown = folder.join("shown");
        self.env.make_folder(&shown, 0o755);
        let places = [
            ("VAR_TMP", hidden.join("planted")),
            ("BESIDE", folder.join("beside")),
            ("IN_SHOWN", shown.join("planted")),
            ("ACCOUNT", account.clone()),
        ];
        for (word, path) in places {
            self.plant(word, &path);
        }
        self.planted.push(account);
        symlink(hidden.join("planted"), shown.join("link")).expect("a link of ours");
        self.name("HOME", text(&self.env.home()));
        self.name("SHOWN", text(&shown));
        if self.root.is_some() {
            let etc = PathBuf::from(format!("/etc/bailiwick-claims-{}", self.tag));
            self.plant("ETC", &etc);
            self.planted.push(etc);
        }
    }

    /// Writes a file that everybody outside may read.
    fn plant(&mut self, word: &'static str, path: &Path) {
        fs::write(path, "planted\n").expect("a file of the test");
        fs::set_permissions(path, Permissions::from_mode(0o644)).expect("our own file");
        self.env.give(path);
        self.name(word, text(path));
    }

    /// Returns the user's folder in the list of accounts.
    fn account_folder(&self) -> PathBuf {
        let asked = self.env.host("sh", ["-c", "eval echo \"~$(id -un)\""]).exits(0);
        PathBuf::from(asked.out().trim_end())
    }

    /// Starts a process of the user's that has a name and a variable of its own.
    fn start_sleeper(&mut self) {
        let (name, variable) = (self.process_name(), format!("BWC_{}", self.tag));
        let pid = self.start(&format!("{variable}=1 {}", self.sleeping(&name)));
        self.name("NAME", name);
        self.name("VARIABLE", variable);
        self.name("PID", pid.to_string());
    }

    /// Makes a segment of the user's; there is none inside, whatever its id.
    fn share_memory(&mut self) {
        let made = self.env.host("ipcmk", ["--shmem", "4096"]).exits(0);
        let id = made.out().trim_end().rsplit(' ').next().expect("ipcmk prints an id").to_owned();
        self.name("SHARED", id);
    }

    /// Returns a name that no process had before: also a dead one keeps its name until it is reaped.
    pub(crate) fn process_name(&mut self) -> String {
        // The kernel keeps 15 bytes of a name (proc_pid_comm(5)).
        let name = format!("bwc{}-{}", self.processes.len(), self.tag);
        self.processes.push(name.clone());
        name
    }

    /// Returns a line that sleeps under `name`, which its `/proc` then shows.
    pub(crate) fn sleeping(&self, name: &str) -> String {
        let link = self.env.work().join(name);
        if !link.is_symlink() {
            let asked = self.env.host("sh", ["-c", "command -v sleep"]).exits(0);
            symlink(asked.out().trim_end(), &link).expect("a link of ours");
        }
        format!("./{name} 600")
    }

    /// Starts a line of shell in the background, as the user, outside; it is killed with the scene.
    pub(crate) fn start(&mut self, line: &str) -> u32 {
        let line = format!("{line} </dev/null >/dev/null 2>&1 & echo $!");
        let output = self.env.host("sh", ["-c", &line]).exits(0);
        let pid = output.out().trim_end().parse().expect("the shell prints an id");
        self.sleepers.push(pid);
        pid
    }

    /// Returns whether the process that a job must not signal still runs.
    pub(crate) fn sleeper_runs(&self) -> bool {
        let comm = fs::read(format!("/proc/{}/comm", self.word("PID"))).unwrap_or_default();
        comm.trim_ascii() == self.word("NAME").as_bytes()
    }

    /// Returns whether a datagram has arrived, and takes it.
    pub(crate) fn datagram(&self) -> bool {
        self.udp.recv(&mut [0; 16]).is_ok()
    }

    /// Returns the port of the host's UDP socket.
    pub(crate) fn udp_port(&self) -> u16 {
        self.udp.local_addr().expect("it is bound").port()
    }

    /// Returns letters and digits that no other scene has.
    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    /// Returns what stands for a word in braces.
    pub(crate) fn word(&self, word: &str) -> &str {
        let found = self.words.iter().find(|(name, _)| *name == word);
        &found.expect("a scene names it").1
    }

    /// Replaces the words in braces; `None` where one of them cannot be had here.
    pub(crate) fn fill(&self, line: &str) -> Option<String> {
        let mut filled = line.to_owned();
        for (word, value) in &self.words {
            filled = filled.replace(&format!("{{{word}}}"), value);
        }
        let left = ["{ETC}", "{HOST_TCP}", "{HOST_UDP}"];
        (!left.iter().any(|word| filled.contains(word))).then_some(filled)
    }

    /// Returns a folder that everybody may enter, which goes away with the scene.
    pub(crate) fn public_folder(&self) -> &Path {
        &self.planted[0]
    }

    /// Runs a line of shell with `./probe` in a job of its own.
    pub(crate) fn inside(&self, flags: &str, line: &str) -> Seen {
        let mut words =
            vec!["exec", "--json", "--wall-clock-seconds", "60", "--input", "probe=probe"];
        words.extend(flags.split_whitespace());
        words.extend(["--", "sh", "-c", line]);
        said(&self.env.run(words))
    }

    /// Runs the same line with `./probe` outside.
    pub(crate) fn outside(&self, control: Control, line: &str) -> Seen {
        let as_root = self.env.user() == User::Root;
        let env = match (control, &self.root) {
            (Control::Root, None) => return Seen::Lacking("its control needs root".into()),
            (Control::Root, Some(root)) if !as_root => root,
            _ => &self.env,
        };
        let namespaces: &[&str] = match control {
            Control::Namespaces if !as_root => &["-Urmn"],
            Control::HostName if !as_root => &["-Uru"],
            Control::OwnInit => &["-Urmnpf", "--mount-proc"],
            _ => return read(&env.host("sh", ["-c", line])),
        };
        // The shell has to stay process 1, so the line must not be the last thing that it does.
        let line = format!("{line}; :");
        read(&env.host("unshare", [namespaces, &["sh", "-c", &line]].concat()))
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let named = self.processes.iter().flat_map(|name| processes_holding(name));
        for pid in named.chain(self.sleepers.iter().copied()) {
            kill(pid);
        }
        drop(self.env.host("ipcrm", ["--shmem-id", self.word("SHARED")]));
        for path in &self.planted {
            if path.is_dir() {
                fs::remove_dir_all(path).ok();
            } else {
                fs::remove_file(path).ok();
            }
        }
    }
}

/// Ends a process that this test started, where it still runs.
pub(crate) fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        rustix::process::kill_process(pid, Signal::KILL).ok();
    }
}

/// Returns the children of `parent`; those of a command are supervisors.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    tasks
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|list| {
            list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()
        })
        .collect()
}

/// Reads what the probe said in a job.
pub(crate) fn said(output: &Output) -> Seen {
    if output.stdout.is_empty() {
        return Seen::Broken(output.to_string());
    }
    let package = output.json();
    package["evidence"][0]["excerpt"]
        .as_str()
        .map_or_else(|| Seen::Broken(package.to_string()), Seen::read)
}

fn read(output: &Output) -> Seen {
    match Seen::read(&String::from_utf8_lossy(&output.stdout)) {
        Seen::Broken(_) => Seen::Broken(output.to_string()),
        seen => seen,
    }
}

/// Returns an environment with the probe in its working folder.
pub(crate) fn with_probe(user: User) -> TestEnv {
    let env = TestEnv::with_sandbox(user, BUILT);
    let probe = probe();
    let bytes = fs::read(&probe).unwrap_or_else(|error| {
        panic!("there is no probe at {}: {error}; run `cargo xtask dist --probe`", probe.display())
    });
    let copy = env.write("probe", bytes);
    fs::set_permissions(copy, Permissions::from_mode(0o755)).expect("our own file");
    env
}

/// Returns where the probe is: among the programs to test, or among what cargo built beside the command.
#[expect(clippy::disallowed_methods, reason = "tests have their own variables")]
fn probe() -> PathBuf {
    match std::env::var_os("BAILIWICK_TEST_BIN").map(PathBuf::from) {
        Some(folder) if folder.join("probe").is_file() => folder.join("probe"),
        Some(folder) => folder.join("examples/probe"),
        None => Path::new(BUILT).with_file_name("examples").join("probe"),
    }
}

/// Returns the random part of the environment's folder, letters and digits only.
fn tag(env: &TestEnv) -> String {
    let name = text(env.home().parent().expect("it lies in a folder"));
    let random = name.rsplit('-').next().unwrap_or_default();
    random.chars().filter(char::is_ascii_alphanumeric).collect()
}

/// Returns the address that this host has towards others; asking sends nothing.
fn own_address() -> Option<std::net::IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Of RFC 5737, for documentation: nobody's.
    socket.connect("198.51.100.1:9").ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

fn unix_listeners(hidden: &Path, tag: &str) -> (UnixListener, UnixListener) {
    let path = hidden.join("socket");
    let with_path = UnixListener::bind(&path).expect("a socket of ours");
    fs::set_permissions(&path, Permissions::from_mode(0o777)).expect("our own socket");
    let address = UnixAddr::from_abstract_name(tag).expect("a short name");
    (with_path, UnixListener::bind_addr(&address).expect("a name of our own"))
}

fn text(path: &Path) -> String {
    path.to_str().expect("a path of the test is text").to_owned()
}
