//! Who may speak to a supervisor: the caller that started it, and whoever asks it to stop.
//!
//! Others come over `control.sock` in the job's directory, which only the home's owner can enter. They may only ask for a
//! stop, and are answered once the outcome is on disk.
use bailiwick_isolation::wire::{Frame, FrameReader, Reply, Request, send};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The name of the socket in the job's directory, which is the working directory.
pub(crate) const CONTROL: &str = "control.sock";

/// Peers at most; more wait in the listener's queue.
const PEERS_MAX: usize = 16;

/// Opens `control.sock`; the process's umask keeps it its owner's.
///
/// # Errors
/// It is there already, or the disk is full.
pub(crate) fn open() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    bind(&socket, &SocketAddrUnix::new(CONTROL)?)?;
    listen(&socket, 16)?;
    Ok(socket)
}

/// One that may speak.
#[derive(Debug)]
pub(crate) struct Peer {
    socket: OwnedFd,
    reader: FrameReader,
    /// Whether it waits for the outcome.
    waits: bool,
}

/// What a peer said.
#[derive(Debug)]
pub(crate) enum Said {
    /// A request.
    Request(Request),
    /// Nothing more for now.
    Nothing,
    /// It is gone, or says what is no request.
    Gone,
}

impl Peer {
    /// The caller; it always waits for the outcome.
    pub(crate) fn caller(socket: OwnedFd, reader: FrameReader) -> Self {
        Self { socket, reader, waits: true }
    }

    /// Takes what it says next.
    pub(crate) fn hear(&mut self) -> Said {
        match self.reader.next::<Request>(self.socket.as_fd()) {
            Ok(Frame::Message(request)) => Said::Request(request),
            Ok(Frame::Pending) => Said::Nothing,
            Ok(Frame::Closed) | Err(_) => Said::Gone,
        }
    }

    /// Tells it something; one that is gone is not missed.
    pub(crate) fn tell(&self, reply: &Reply) {
        if self.waits {
            rustix::io::ioctl_fionbio(&self.socket, false).ok();
            send(self.socket.as_fd(), reply).ok();
        }
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Those who came over `control.sock`.
#[derive(Debug, Default)]
pub(crate) struct Peers(Vec<Peer>);

impl Peers {
    /// Returns whether one more may come in; a listener that nobody may come through is not asked.
    pub(crate) const fn have_room(&self) -> bool {
        self.0.len() < PEERS_MAX
    }

    /// Lets the next one in.
    pub(crate) fn accept(&mut self, listener: BorrowedFd<'_>) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        if self.have_room()
            && let Ok(socket) = accept_with(listener, flags)
        {
            self.0.push(Peer { socket, reader: FrameReader::default(), waits: false });
        }
    }

    /// Returns the shortest grace that somebody asks for now, if anybody does.
    pub(crate) fn hear_stop(&mut self) -> Option<u64> {
        let mut grace = None;
        self.0.retain_mut(|peer| {
            loop {
                match peer.hear() {
                    Said::Request(Request::Stop { grace_ms }) => {
                        peer.waits = true;
                        grace = Some(grace.map_or(grace_ms, |least: u64| least.min(grace_ms)));
                    }
                    Said::Request(_) | Said::Gone => return false,
                    Said::Nothing => return true,
                }
            }
        });
        grace
    }

    /// Tells all who wait.
    pub(crate) fn tell(&self, reply: &Reply) {
        self.0.iter().for_each(|peer| peer.tell(reply));
    }

    /// Returns their sockets.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.0.iter().map(Peer::socket)
    }
}
