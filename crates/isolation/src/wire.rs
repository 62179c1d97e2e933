//! What the processes of a sandbox say to each other, and how it is framed.
//!
//! Between a caller and a supervisor frames are a little-endian `u32` length and that many bytes of postcard, on a stream
//! socket; between a supervisor and init they are packets. The format is private to one version: both ends check it.
use crate::plan::Plan;
use bailiwick_contract::job::JobOutcome;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The version of everything in this file; a supervisor refuses a caller of another one.
pub const WIRE_VERSION: u32 = 4;

/// The longest frame: what `execve` takes for arguments and environment (2 MiB by default, execve(2)), a plan around
/// it, and room.
pub const FRAME_BYTES_MAX: usize = 16 << 20;

/// What a caller says to a supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// Set the sandbox up, up to the gate. The workspace's hold travels with it, and after it what the job reads.
    Start {
        /// The caller's [`WIRE_VERSION`].
        version: u32,
        /// Whether the last descriptor is what the job reads from standard input.
        stdin: bool,
        /// What to do.
        plan: Box<Plan>,
    },
    /// Open the gate: the intent is durable.
    Go {
        /// Nobody waits for the end: the supervisor answers [`Reply::LetGo`] and forgets its caller.
        alone: bool,
    },
    /// End the job: SIGTERM to its whole tree, then, after the grace, SIGKILL.
    Stop {
        /// The grace.
        grace_ms: u64,
    },
}

/// What a supervisor says to its caller, and to whoever asks it to stop.
#[derive(Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The gate was opened, and the job goes on without its caller.
    LetGo,
    /// The job has ended, its outcome is on disk.
    Ended(Box<JobOutcome>),
    /// Nothing of the job ran, and nothing is left of the sandbox.
    SetupFailed {
        /// Which step failed, on what, and why.
        detail: String,
    },
}

/// What a supervisor says to init.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ToInit {
    /// The id maps are written.
    Mapped,
    /// Enter the groups whose descriptors come along, and start the payload.
    Enter,
    /// Ask every process of the sandbox to end.
    Terminate,
    /// Kill every process of the sandbox, reap them, and say what they used.
    Kill,
}

/// What init says to its supervisor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromInit {
    /// The sandbox is built. Where memory is watched, what the watch looks into comes along.
    Started,
    /// A step failed.
    Failed {
        /// Which, on what.
        step: String,
        /// Why.
        error: String,
    },
    /// The job is over: every process of the sandbox but init is gone.
    Ended(JobEnd),
}

/// How a job ended, and what it used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnd {
    /// How the payload ended.
    pub payload: PayloadEnd,
    /// How many other processes it left behind; they were killed.
    pub left_behind: u64,
    /// User and system time of all its processes, in microseconds.
    pub cpu_us: u64,
    /// Resident memory of the largest of them, in bytes.
    pub resident_bytes_max: u64,
}

/// How a payload ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PayloadEnd {
    /// The command could not be executed.
    Refused {
        /// Whether there is such a file.
        found: bool,
    },
    /// It exited.
    Exited(u8),
    /// A signal ended it.
    Killed(i32),
    /// Init's own timer ended the job.
    TimedOut,
}

/// Writes one frame.
///
/// # Errors
/// Whatever the socket says; a part of the frame may have been sent.
pub fn send<T: Serialize>(socket: BorrowedFd<'_>, message: &T) -> io::Result<()> {
    send_with(socket, message, &[])
}

/// Writes one frame, with descriptors.
///
/// # Errors
/// Whatever the socket says; a part of the frame may have been sent.
pub fn send_with<T: Serialize>(
    socket: BorrowedFd<'_>,
    message: &T,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut frame = vec![0; 4];
    frame = postcard::to_extend(message, frame).map_err(io::Error::other)?;
    let length = frame.len() - 4;
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::from(rustix::io::Errno::TOOBIG));
    }
    let prefix = u32::try_from(length).expect("below FRAME_BYTES_MAX");
    frame[..4].copy_from_slice(&prefix.to_le_bytes());
    let mut sent = send_once(socket, &frame, descriptors)?;
    while sent < frame.len() {
        sent += send_once(socket, &frame[sent..], &[])?;
    }
    Ok(())
}

fn send_once(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    }
    loop {
        match sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

/// Descriptors of one message: a hold and a job's input, the three groups of a job, or what a watch looks into.
const DESCRIPTORS_MAX: usize = 4;

/// One packet or piece that was received.
#[derive(Debug, Default)]
struct Received {
    length: usize,
    descriptors: Vec<OwnedFd>,
}

fn receive_once(socket: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let message = loop {
        let mut pieces = [IoSliceMut::new(buffer)];
        match recvmsg(socket, &mut pieces, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?,
        }
    };
    let mut descriptors = Vec::new();
    for part in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = part {
            descriptors.extend(rights);
        }
    }
    Ok(Received { length: message.bytes, descriptors })
}

/// Takes frames off a stream socket, which may be blocking or not.
#[derive(Debug, Default)]
pub struct FrameReader {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
    ended: bool,
}

/// What a [`FrameReader`] found.
#[derive(Debug)]
pub enum Frame<T> {
    /// A message.
    Message(T),
    /// Nothing whole yet; the socket would block.
    Pending,
    /// The other end is gone.
    Closed,
}

impl FrameReader {
    /// Reads until a frame is whole, the socket would block, or the other end is gone.
    ///
    /// # Errors
    /// What the socket says, or that the bytes are no frame of this version.
    pub fn next<T: DeserializeOwned>(&mut self, socket: BorrowedFd<'_>) -> io::Result<Frame<T>> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Frame::Message(message));
            }
            if self.ended {
                return Ok(Frame::Closed);
            }
            let mut buffer = [0; 16 << 10];
            match receive_once(socket, &mut buffer) {
                Ok(received) => self.keep(&buffer[..received.length], received.descriptors),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Frame::Pending);
                }
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => self.ended = true,
                Err(error) => return Err(error),
            }
        }
    }

    fn keep(&mut self, bytes: &[u8], descriptors: Vec<OwnedFd>) {
        self.ended = bytes.is_empty();
        self.bytes.extend_from_slice(bytes);
        self.descriptors.extend(descriptors);
    }

    fn take<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some((prefix, rest)) = self.bytes.split_first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*prefix)).map_err(io::Error::other)?;
        if length > FRAME_BYTES_MAX {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        let Some(frame) = rest.get(..length) else { return Ok(None) };
        let message =
            postcard::from_bytes(frame).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        self.bytes.drain(..length + 4);
        Ok(Some(message))
    }

    /// Takes the descriptors that came along so far.
    pub fn take_descriptors(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.descriptors)
    }
}

/// One end of the packet socket between a supervisor and init.
#[derive(Debug)]
pub struct PacketSocket(OwnedFd);

/// The longest packet: a step that names a path of 4095 bytes, each shown as four, its error and room.
const PACKET_BYTES_MAX: usize = 20 << 10;

impl PacketSocket {
    /// Makes both ends; they are closed on exec.
    ///
    /// # Errors
    /// EMFILE, ENFILE.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
        let kind = SocketType::SEQPACKET;
        let (one, other) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        Ok((Self(one), Self(other)))
    }

    /// Sends one packet.
    ///
    /// # Errors
    /// EPIPE when the other end is gone.
    pub(crate) fn send<T: Serialize>(
        &self,
        message: &T,
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let bytes = postcard::to_allocvec(message).map_err(io::Error::other)?;
        send_once(self.0.as_fd(), &bytes, descriptors).map(drop)
    }

    /// Takes one packet; `None` when the other end is gone.
    ///
    /// # Errors
    /// What the socket says, or that the bytes are no message.
    pub(crate) fn receive<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        let mut buffer = [0; PACKET_BYTES_MAX];
        let received = match receive_once(self.0.as_fd(), &mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
            other => other?,
        };
        if received.length == 0 {
            return Ok(None);
        }
        let message = postcard::from_bytes(&buffer[..received.length])
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        Ok(Some((message, received.descriptors)))
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_arrives_whole_with_its_descriptors() {
        let (one, other) = PacketSocket::pair().expect("sockets");
        let (reader, writer) = std::io::pipe().expect("a pipe");
        one.send(&ToInit::Enter, &[reader.as_fd(), writer.as_fd()]).expect("sent");
        one.send(&ToInit::Terminate, &[]).expect("sent");
        let (message, descriptors) = other.receive::<ToInit>().expect("read").expect("a packet");
        assert!(matches!(message, ToInit::Enter) && descriptors.len() == 2);
        let (message, descriptors) = other.receive::<ToInit>().expect("read").expect("a packet");
        assert!(matches!(message, ToInit::Terminate) && descriptors.is_empty());
        drop(one);
        assert!(other.receive::<ToInit>().expect("read").is_none());
        other.send(&FromInit::Started, &[]).expect_err("nobody is there");
    }

    #[test]
    fn a_step_that_names_the_longest_path_is_told_whole() {
        let (one, other) = PacketSocket::pair().expect("sockets");
        let step = format!("clone the mount {} (ro,nosuid,nodev)", "\\xff".repeat(4_095));
        let error = std::io::Error::from_raw_os_error(libc::ENAMETOOLONG).to_string();
        let message = FromInit::Failed { step, error };
        one.send(&message, &[]).expect("sent");
        let received = other.receive::<FromInit>().expect("read").expect("a packet");
        assert_eq!(received.0, message);
    }

    #[test]
    fn a_packet_that_is_no_message_is_an_error() {
        let (one, other) = PacketSocket::pair().expect("sockets");
        for bytes in [&b"\xff"[..], b"\x02", b"\x01\x05no"] {
            send_once(one.as_fd(), bytes, &[]).expect("sent");
            let refused = other.receive::<FromInit>();
            assert_eq!(refused.expect_err("refused").kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn every_end_of_a_job_survives_its_packet() {
        let ends = [
            PayloadEnd::Refused { found: true },
            PayloadEnd::Exited(255),
            PayloadEnd::Killed(64),
            PayloadEnd::TimedOut,
        ];
        for payload in ends {
            let end = JobEnd {
                payload,
                left_behind: u64::MAX,
                cpu_us: u64::MAX,
                resident_bytes_max: u64::MAX,
            };
            let message = FromInit::Ended(end);
            let bytes = postcard::to_allocvec(&message).expect("serializes");
            assert_eq!(postcard::from_bytes::<FromInit>(&bytes), Ok(message));
        }
    }
}
