//! The start of a job: from the caller's first frame to a sandbox at its gate.
//!
//! What cannot be set up is said to the caller, and then nothing of it is left. What happens next is in [`crate::job`], how it
//! is told in [`crate::settle`].
use crate::control;
use crate::input::Input;
use crate::job::{Job, JobParts};
use bailiwick_isolation::plan::Plan;
use bailiwick_isolation::sandbox::Sandbox;
use bailiwick_isolation::wire::{Frame, FrameReader, Reply, Request, WIRE_VERSION, send};
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

/// Runs the job that standard input brings.
pub(crate) fn main() -> ExitCode {
    // A panic is a death like any other: the sandbox dies with this process, and the next verb says so.
    match std::panic::catch_unwind(serve) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(_)) => ExitCode::FAILURE,
        Err(_) => std::process::abort(),
    }
}

fn serve() -> io::Result<()> {
    // A pipe that somebody left open in the caller would not end while a job runs on without it.
    bailiwick_isolation::spawn::close_inherited();
    // At once: an interrupt that a terminal sends to the caller is the caller's to hand on.
    rustix::process::setsid()?;
    // What is left in the job's directory is the owner's alone; init sets its own for the job.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let (caller, mut reader) = take_caller()?;
    let Some((plan, stdin)) = first_frame(&caller, &mut reader)? else { return Ok(()) };
    // Shared with the caller; the workspace stays held while either of us lives.
    let mut hold = reader.take_descriptors();
    let source = if stdin { hold.pop() } else { None };
    #[cfg(feature = "faults")]
    bailiwick_isolation::faults::before("supervisor:set_up");
    match set_up(&plan, &caller, &hold, source) {
        Ok(Ready { sandbox, listener, input }) => {
            #[cfg(feature = "faults")]
            bailiwick_isolation::faults::after("supervisor:set_up");
            let mut job =
                Job::new(JobParts { plan: &plan, sandbox, listener, input, caller, reader })?;
            job.run()?;
            job.settle(hold)
        }
        Err(detail) => send(caller.as_fd(), &Reply::SetupFailed { detail }),
    }
}

/// Moves the socket away from standard input, which the sandbox's init would inherit.
fn take_caller() -> io::Result<(OwnedFd, FrameReader)> {
    let caller = io::stdin().as_fd().try_clone_to_owned()?;
    let null = openat(CWD, "/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok((caller, FrameReader::default()))
}

/// Returns the plan, and whether a descriptor came along that the job reads from.
fn first_frame(caller: &OwnedFd, reader: &mut FrameReader) -> io::Result<Option<(Plan, bool)>> {
    match reader.next::<Request>(caller.as_fd()) {
        Ok(Frame::Message(Request::Start { version: WIRE_VERSION, stdin, plan })) => {
            Ok(Some((*plan, stdin)))
        }
        Ok(Frame::Closed) => Ok(None),
        _ => {
            let detail = "could not understand the caller: it is another version".to_owned();
            send(caller.as_fd(), &Reply::SetupFailed { detail })?;
            Ok(None)
        }
    }
}

/// A sandbox at its gate, and what comes and goes beside it.
struct Ready {
    sandbox: Sandbox,
    listener: OwnedFd,
    input: Option<Input>,
}

/// Starts the sandbox and opens the control socket; on failure says what was tried, and nothing is left.
fn set_up(
    plan: &Plan,
    caller: &OwnedFd,
    hold: &[OwnedFd],
    source: Option<OwnedFd>,
) -> Result<Ready, String> {
    rustix::process::chdir(plan.job_dir.as_bytes())
        .map_err(|error| format!("could not enter the job's directory: {error}"))?;
    let private: Vec<_> = hold.iter().chain([caller]).chain(&source).map(AsFd::as_fd).collect();
    let started = Sandbox::start(plan, &private, source.is_some());
    let mut sandbox = started.map_err(|error| describe(&error))?;
    match open_ends(&mut sandbox, source) {
        Ok((listener, input)) => Ok(Ready { sandbox, listener, input }),
        Err(detail) => {
            sandbox.abandon();
            Err(detail)
        }
    }
}

fn open_ends(
    sandbox: &mut Sandbox,
    source: Option<OwnedFd>,
) -> Result<(OwnedFd, Option<Input>), String> {
    let listener = control::open()
        .map_err(|error| format!("could not open the job's control socket: {error}"))?;
    let ends = source.zip(sandbox.take_stdin());
    let input = ends.map(|(source, job)| Input::new(source, job)).transpose();
    Ok((listener, input.map_err(|error| format!("could not use the standard input: {error}"))?))
}

fn describe(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
