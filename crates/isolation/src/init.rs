//! PID 1 of a sandbox: builds the sandbox around itself, starts the payload, reaps, and ends with it.
//!
//! It is the supervisor's fork and never executes anything; Landlock and seccomp are for payloads, not for it. It dies when
//! its supervisor does (PDEATHSIG, and the socket's end), and its own timer ends the job if the supervisor is stopped.
//! Sources: pid_namespaces(7), user_namespaces(7), prctl(2) `PR_SET_PDEATHSIG`.
use crate::apply::{LinuxKernel, apply, open_path, open_shared_memory};
use crate::payload::{Payload, PayloadPipes, Stage, Stopped};
use crate::plan::{INSIDE_ID, LandlockAccess, LandlockRule, Plan};
use crate::remains::init_name;
use crate::sys::creds;
use crate::sys::landlock::{Access, Ruleset, abi};
use crate::sys::process::{Ended, reap, used_by_children, wait_any};
use crate::sys::signal::{SignalFd, SignalSet, kill_all};
use crate::tree;
use crate::wire::{FromInit, JobEnd, PacketSocket, PayloadEnd, ToInit};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, Gid, Pid, Signal, Uid};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How much later than the supervisor's timer init's own fires, so that the supervisor is usually first.
const TIMER_MARGIN: Duration = Duration::from_millis(50);

/// The longest single wait; poll(2) takes no more than a `timespec` holds.
const LONG: Duration = Duration::from_secs(3_600);

/// What init inherits from its supervisor.
#[derive(Debug)]
pub(crate) struct Inherited {
    /// Its end of the socket.
    pub(crate) socket: PacketSocket,
    /// The payload's descriptors.
    pub(crate) pipes: PayloadPipes,
    /// The detached trees, where root made them.
    pub(crate) trees: Vec<OwnedFd>,
}

/// Why init gave up.
struct Broken {
    step: String,
    error: io::Error,
}

impl Broken {
    fn at(step: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let step = step.into();
        move |error| Self { step, error }
    }
}

/// Runs init to its end and returns the exit code of the process.
pub(crate) fn run(plan: &Plan, inherited: Inherited) -> u8 {
    let socket = inherited.socket;
    match set_up(plan, &socket, inherited.pipes, inherited.trees) {
        Ok(Some(payload)) => live(plan, &socket, payload),
        // The supervisor is gone: there is nobody to tell.
        Ok(None) => 1,
        Err(broken) => {
            let message = FromInit::Failed { step: broken.step, error: broken.error.to_string() };
            socket.send(&message, &[]).ok();
            1
        }
    }
}

fn set_up(
    plan: &Plan,
    socket: &PacketSocket,
    pipes: PayloadPipes,
    trees: Vec<OwnedFd>,
) -> Result<Option<Payload>, Broken> {
    // Held while the vfork'ed payload shares this memory, and read from a descriptor afterwards.
    SignalSet::ALL.block().map_err(Broken::at("block signals"))?;
    name_after(&plan.group).map_err(Broken::at("name init"))?;
    // A job's files do not depend on who asked for it.
    rustix::process::umask(Mode::WGRP | Mode::WOTH);
    if !take_identity(plan, socket)? {
        return Ok(None);
    }
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| Broken::at("ask to die with the supervisor")(error.into()))?;
    let trees = if plan.identity.by_root { trees } else { clone_trees(plan)? };
    let mut kernel = LinuxKernel::new(trees);
    apply(&plan.steps, &mut kernel)
        .map_err(|failed| Broken { step: failed.to_string(), error: failed.source })?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| Broken::at("make init undumpable")(error.into()))?;
    let rules = file_rules(&plan.landlock).map_err(Broken::at("make the Landlock rules"))?;
    let payload = Payload::prepare(&plan.payload, &plan.rlimits, &plan.affinity, rules, pipes)
        .map_err(Broken::at("prepare the payload"))?;
    if !enter_groups(plan, socket)? {
        return Ok(None);
    }
    say_started(plan, socket, &kernel)?;
    Ok(Some(payload))
}

/// Tells the supervisor, with what it watches where no group holds memory: that list of System V memory first.
fn say_started(plan: &Plan, socket: &PacketSocket, kernel: &LinuxKernel) -> Result<(), Broken> {
    let mut descriptors = Vec::new();
    let shared = if plan.watch.memory_bytes.is_some() {
        Some(open_shared_memory().map_err(Broken::at("open /proc/sysvipc/shm"))?)
    } else {
        None
    };
    if let Some(shared) = &shared {
        descriptors.push(shared.as_fd());
        descriptors.extend(kernel.watched());
    }
    // A supervisor that is gone is noticed by what comes next.
    socket.send(&FromInit::Started, &descriptors).ok();
    Ok(())
}

/// So that whoever settles a job whose supervisor was killed can wait for the end of its sandbox.
fn name_after(group: &str) -> io::Result<()> {
    let name = CString::new(init_name(group))?;
    Ok(rustix::thread::set_name(&name)?)
}

/// Becomes the job's user; `false` when the supervisor is gone.
fn take_identity(plan: &Plan, socket: &PacketSocket) -> Result<bool, Broken> {
    if !plan.identity.by_root {
        write_own_maps(plan).map_err(Broken::at("write the user namespace's maps"))?;
        return Ok(true);
    }
    let message = socket.receive::<ToInit>().map_err(Broken::at("wait for the maps"))?;
    if !matches!(message, Some((ToInit::Mapped, _))) {
        return Ok(false);
    }
    let (uid, gid) = (Uid::from_raw(INSIDE_ID), Gid::from_raw(INSIDE_ID));
    creds::become_ids(uid, gid).map_err(Broken::at("become the job's user"))?;
    Ok(true)
}

/// `setgroups` has to be denied before an ordinary user may write a group map (user_namespaces(7)).
fn write_own_maps(plan: &Plan) -> io::Result<()> {
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{INSIDE_ID} {} 1", plan.identity.uid))?;
    std::fs::write("/proc/self/gid_map", format!("{INSIDE_ID} {} 1", plan.identity.gid))
}

fn clone_trees(plan: &Plan) -> Result<Vec<OwnedFd>, Broken> {
    tree::clone_all(&plan.sources, plan.identity).map_err(|(step, error)| Broken { step, error })
}

fn file_rules(rules: &[LandlockRule]) -> io::Result<Option<Ruleset>> {
    if rules.is_empty() {
        return Ok(None);
    }
    let ruleset = Ruleset::create(Access::known_to(abi()?))?;
    for rule in rules {
        let path = open_path(&rule.path)?;
        ruleset.add_path(path.as_fd(), rights(rule.access))?;
    }
    Ok(Some(ruleset))
}

fn rights(access: LandlockAccess) -> Access {
    match access {
        LandlockAccess::Read => Access::READ,
        LandlockAccess::ReadWriteFile => Access::FILE,
        // A job that can make devices can forge an overlay's whiteouts.
        LandlockAccess::All => Access::ALL.without(Access::MAKE_CHAR | Access::MAKE_BLOCK),
    }
}

/// Enters the groups whose `tasks` files root opened (cgroups(7), version 1): a thread that writes `0` there moves itself.
fn enter_groups(plan: &Plan, socket: &PacketSocket) -> Result<bool, Broken> {
    if plan.groups.is_none() {
        return Ok(true);
    }
    let message = socket.receive::<ToInit>().map_err(Broken::at("wait for the groups"))?;
    let Some((ToInit::Enter, files)) = message else { return Ok(false) };
    for file in files {
        rustix::io::write(&file, b"0")
            .map_err(|error| Broken::at("enter the control group")(error.into()))?;
    }
    Ok(true)
}

/// Starts the payload, waits for its end, and ends what it left behind.
fn live(plan: &Plan, socket: &PacketSocket, mut payload: Payload) -> u8 {
    let message = match payload.start() {
        Ok(Ok(pid)) => {
            payload.release();
            wait_for(plan, socket, pid).map(ended)
        }
        Ok(Err(stopped)) => stopped_message(stopped, payload),
        Err(error) => Some(FromInit::Failed {
            step: "could not start the payload's process".into(),
            error: error.to_string(),
        }),
    };
    if let Some(message) = message {
        socket.send(&message, &[]).ok();
    }
    0
}

fn stopped_message(stopped: Stopped, payload: Payload) -> Option<FromInit> {
    match stopped.step {
        Stage::Gate => None,
        Stage::Command => {
            let found = payload.command_exists();
            payload.release();
            Some(ended(PayloadEnd::Refused { found }))
        }
        step => Some(FromInit::Failed {
            step: format!("could not {}", step.doing()),
            error: io::Error::from_raw_os_error(stopped.errno).to_string(),
        }),
    }
}

/// Kills and reaps all that is left, and says how the job ended.
///
/// The kernel would kill them too, but only after it has taken the mounts down, and that waits for other processors.
fn ended(payload: PayloadEnd) -> FromInit {
    let mut left_behind = 0;
    loop {
        // Nobody left to kill is what is wanted; whoever is forked meanwhile is met by the next turn.
        kill_all(Signal::KILL).ok();
        match wait_any() {
            Ok(Some(_)) => left_behind += 1,
            Ok(None) | Err(_) => break,
        }
    }
    let used = used_by_children();
    FromInit::Ended(JobEnd {
        payload,
        left_behind,
        cpu_us: used.user_us + used.system_us,
        resident_bytes_max: used.resident_bytes_max,
    })
}

/// Reaps until the payload has ended; `None` when the supervisor is gone.
fn wait_for(plan: &Plan, socket: &PacketSocket, payload: Pid) -> Option<PayloadEnd> {
    // A wall clock beyond what a clock can hold never ends.
    let wall = Duration::from_millis(plan.watch.wall_clock_ms).saturating_add(TIMER_MARGIN);
    let deadline = Instant::now().checked_add(wall);
    let children = SignalFd::new(SignalSet::EMPTY.with(Signal::CHILD)).ok()?;
    loop {
        if let Some(ended) = reap_until(payload) {
            return Some(match ended {
                Ended::Exited(code) => PayloadEnd::Exited(code),
                Ended::Killed(signal) => PayloadEnd::Killed(signal),
            });
        }
        let left = deadline.map_or(LONG, |at| at.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Some(PayloadEnd::TimedOut);
        }
        match wait_once(socket, &children, left.min(LONG))? {
            Order::None => {}
            Order::Terminate => {
                kill_all(Signal::TERM).ok();
            }
            Order::Kill => return Some(PayloadEnd::Killed(Signal::KILL.as_raw())),
        }
    }
}

/// What the supervisor wants.
enum Order {
    None,
    Terminate,
    Kill,
}

/// Waits for a child, the supervisor or the timer; `None` when the supervisor is gone.
fn wait_once(socket: &PacketSocket, children: &SignalFd, left: Duration) -> Option<Order> {
    let mut ready = [PollFd::new(socket, PollFlags::IN), PollFd::new(children, PollFlags::IN)];
    let timeout = Timespec::try_from(left).ok()?;
    match poll(&mut ready, Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(_) => return None,
    }
    let spoken = !ready[0].revents().is_empty();
    while let Ok(Some(_)) = children.read() {}
    if !spoken {
        return Some(Order::None);
    }
    match socket.receive::<ToInit>() {
        Ok(Some((ToInit::Terminate, _))) => Some(Order::Terminate),
        Ok(Some((ToInit::Kill, _))) => Some(Order::Kill),
        Ok(Some(_)) => Some(Order::None),
        Ok(None) | Err(_) => None,
    }
}

fn reap_until(payload: Pid) -> Option<Ended> {
    while let Ok(Some(reaped)) = reap() {
        if reaped.pid == payload {
            return Some(reaped.ended);
        }
    }
    None
}
