//! Reaches a job's supervisor from another process, and finds out what became of a job.
//!
//! The supervisor listens at `jobs/<id>/control.sock`; the path is opened through a directory descriptor, since a socket's own
//! path may have only 108 bytes (unix(7)).
use super::home::Home;
use super::{hold, trouble};
use bailiwick_contract::context::OpCx;
use bailiwick_contract::id::JobId;
use bailiwick_contract::provider::{ProviderError, Recovered, StopReply};
use bailiwick_isolation::record::OutcomeFile;
use bailiwick_isolation::wire::{Frame, FrameReader, Reply, Request, send};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FallocateFlags, FsWord, Mode, OFlags, fallocate, fstatfs, openat};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// How often a waiting caller looks whether it was cancelled.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How long after the grace a supervisor may take to answer; one that was stopped never does.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// How long a supervisor that was killed may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// Ends a job and waits for its outcome. A supervisor that does not answer is killed, and the job dies with it.
pub(super) fn stop(
    home: &Home,
    job: &JobId,
    grace: Duration,
    cx: &OpCx<'_>,
) -> Result<StopReply, ProviderError> {
    let dir = home.job(job);
    let Some(socket) = reach(&dir).map_err(trouble::on("reach the supervisor in", &dir))? else {
        return Ok(StopReply::NotRunning);
    };
    let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
    if send(socket.as_fd(), &Request::Stop { grace_ms }).is_err() {
        return Ok(StopReply::NotRunning);
    }
    let patience = grace.saturating_add(ANSWERS_WITHIN);
    if answers(&socket, patience, cx)? {
        return Ok(StopReply::Stopped);
    }
    kill_listener(&socket).map_err(trouble::on("kill the silent supervisor in", &dir))?;
    if answers(&socket, GONE_WITHIN, cx)? {
        return Ok(StopReply::Stopped);
    }
    let silent = io::Error::from(io::ErrorKind::TimedOut);
    Err(trouble::on("get an answer from the supervisor in", &dir)(silent))
}

/// Waits for a supervisor's word, or its end; returns whether either came in time.
fn answers(socket: &OwnedFd, patience: Duration, cx: &OpCx<'_>) -> Result<bool, ProviderError> {
    let mut reader = FrameReader::default();
    let deadline = cx.clock.monotonic().saturating_add(patience);
    loop {
        // Before the look at the socket: a caller that was held up itself may find the answer there.
        let is_late = cx.clock.monotonic() > deadline;
        if let Some(interrupted) = cx.interrupted() {
            return Err(interrupted.into());
        }
        let mut polled = [PollFd::new(socket, PollFlags::IN)];
        // A signal only makes the loop look sooner.
        poll(&mut polled, Some(&LOOK_EVERY)).ok();
        if polled[0].revents().is_empty() {
            if is_late {
                return Ok(false);
            }
            continue;
        }
        match reader.next::<Reply>(socket.as_fd()) {
            Ok(Frame::Pending) => {}
            // Without a word the supervisor is gone, and the job with it.
            _ => return Ok(true),
        }
    }
}

/// Kills who listens at the other end: for a stream socket the kernel keeps who called `listen` (unix(7), `SO_PEERCRED`).
fn kill_listener(socket: &OwnedFd) -> io::Result<()> {
    let process = match pidfd_open(socket_peercred(socket)?.pid, PidfdFlags::empty()) {
        Err(rustix::io::Errno::SRCH) => return Ok(()),
        other => other?,
    };
    // The pid could be another's by now; while nobody hung up, it cannot have been when it was opened.
    let mut polled = [PollFd::new(socket, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
    if !polled[0].revents().is_empty() {
        return Ok(());
    }
    match pidfd_send_signal(&process, Signal::KILL) {
        Err(rustix::io::Errno::SRCH) => Ok(()),
        other => Ok(other?),
    }
}

/// Connects to a supervisor; `None` when there is none.
fn reach(dir: &Path) -> io::Result<Option<OwnedFd>> {
    let opened =
        openat(CWD, dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let dir = match opened {
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        other => other?,
    };
    let address = SocketAddrUnix::new(format!("/proc/self/fd/{}/control.sock", dir.as_raw_fd()))?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    match connect(&socket, &address) {
        Ok(()) => Ok(Some(socket)),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::CONNREFUSED) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Finds out what became of a job.
pub(super) fn recover(home: &Home, job: &JobId) -> Result<Recovered, ProviderError> {
    let dir = home.job(job);
    // Before the outcome: a caller that is alive records it itself.
    if hold::is_kept(&dir).map_err(trouble::on("look for the caller in", &dir))? {
        return Ok(Recovered::Alive);
    }
    if let Some(known) = recorded(&dir)? {
        return Ok(known);
    }
    if reach(&dir).map_err(trouble::on("reach the supervisor in", &dir))?.is_some() {
        return Ok(Recovered::Alive);
    }
    // It may have ended between the two looks: it records first, and cannot be reached afterwards.
    Ok(recorded(&dir)?.unwrap_or(Recovered::Lost))
}

fn recorded(dir: &Path) -> Result<Option<Recovered>, ProviderError> {
    let outcome = read_outcome(dir).map_err(trouble::on("read the outcome in", dir))?;
    Ok(outcome.map(|outcome| match outcome {
        OutcomeFile::Ended { outcome, .. } => Recovered::Ended(outcome),
        OutcomeFile::NeverStarted { .. } => Recovered::NeverStarted,
    }))
}

/// The longest outcome: its texts are ours and bounded.
const OUTCOME_BYTES_MAX: u64 = 1 << 20;

/// Reads what a supervisor has left, if it has. What is damaged, as after a power cut, or is no file, says nothing: the job
/// then reads lost, and can be settled.
pub(super) fn read_outcome(dir: &Path) -> io::Result<Option<OutcomeFile>> {
    // Without blocking: nothing that was put there may hold a verb up.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match openat(CWD, dir.join("outcome"), flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => {
            return Ok(None);
        }
        other => fs::File::from(other?),
    };
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(OUTCOME_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes).ok())
}

/// The same for a job that may still be in flight, and then keeps what it needs.
pub(super) fn sweep_ended(home: &Home, job: &JobId) -> Result<(), ProviderError> {
    let dir = home.job(job);
    if REMAINS.iter().any(|name| dir.join(name).exists()) && recover(home, job)? != Recovered::Alive
    {
        sweep(home, job);
    }
    Ok(())
}

/// What a killed supervisor leaves of itself in its job's directory.
const REMAINS: [&str; 2] = ["control.sock", "outcome.new"];

/// Room for an outcome: its usual kilobyte, and the longest texts but for a path that is escaped throughout.
const OUTCOME_ROOM: usize = 8 << 10;

/// The type of a file system that writes everything anew, but for what fallocate(2) has laid out (statfs(2)).
const BTRFS: FsWord = 0x9123_683e;

/// Makes room for the outcome before the job is let go, so that a disk that fills up meanwhile costs no verdict. Bytes that
/// are written have their room, and cost a tenth of what blocks do that are laid out at once.
pub(super) fn reserve_outcome(dir: &Path) -> io::Result<()> {
    let mut file = fs::File::create(dir.join("outcome.new"))?;
    if fstatfs(&file)?.f_type == BTRFS {
        return Ok(fallocate(&file, FallocateFlags::empty(), 0, OUTCOME_ROOM as u64)?);
    }
    file.write_all(&[0; OUTCOME_ROOM])
}

/// Removes what a killed supervisor left of itself.
pub(super) fn sweep(home: &Home, job: &JobId) {
    for name in REMAINS {
        // Usually it is not there.
        fs::remove_file(home.job(job).join(name)).ok();
    }
}
