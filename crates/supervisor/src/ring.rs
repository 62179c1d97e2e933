//! The ring of an output file in memory: what a job prints is read straight into it, and nothing is copied a second time.
//!
//! It begins where the ring has gone round once, so that every block is on the disk already. What a killed supervisor read is in
//! the file all the same, and `output.ring` says how far. One window of the ring is mapped at a time: see [`WINDOW_BYTES`].
use bailiwick_isolation::mapped::Mapped;
use bailiwick_isolation::output::{Layout, RingState};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};

/// What is mapped at once: all of the default budget's ring, and little enough that the supervisor stays below 8 MiB.
const WINDOW_BYTES: u64 = 5 << 20;

/// How far ahead writes are announced at most. A reader meanwhile, and who finds a killed supervisor, does without as much.
const AHEAD_BYTES: u64 = 256 << 10;

/// One read: it, and what is done with the bytes, fit into a processor's second cache.
const READ_BYTES: u64 = 128 << 10;

/// The mapped ring.
#[derive(Debug)]
pub(crate) struct Ring {
    layout: Layout,
    file: OwnedFd,
    window: Window,
    /// What `output.ring` says, and it.
    told: RingState,
    state: Mapped,
    /// Where in the window the last read is.
    last: usize,
}

/// A part of the ring, by produced bytes: those of one round.
#[derive(Debug)]
struct Window {
    start: u64,
    end: u64,
    map: Mapped,
}

impl Window {
    /// Maps the window in which produced byte `at` lies.
    fn of(file: &OwnedFd, layout: &Layout, at: u64) -> io::Result<Self> {
        let place = layout.place(at);
        let in_ring = place.offset - layout.head();
        let first = in_ring - in_ring % WINDOW_BYTES;
        let length = WINDOW_BYTES.min(layout.ring() - first);
        let size = usize::try_from(length).map_err(io::Error::other)?;
        let map = Mapped::of(file.as_fd(), layout.head() + first, size)?;
        let start = at - (in_ring - first);
        Ok(Self { start, end: start + length, map })
    }
}

impl Ring {
    /// Maps the ring of `file`, which was told last as `told` in `state`.
    pub(crate) fn of(file: &OwnedFd, state: &OwnedFd, told: RingState) -> io::Result<Self> {
        let layout = Layout::of_budget(told.budget);
        Ok(Self {
            layout,
            file: file.try_clone()?,
            window: Window::of(file, &layout, told.done)?,
            told,
            state: Mapped::of(state.as_fd(), 0, RingState::FILE_BYTES)?,
            last: 0,
        })
    }

    /// Reads from `pipe` what comes next, and returns how many bytes it is. EFAULT says that the disk has no room for them.
    pub(crate) fn read(&mut self, pipe: BorrowedFd<'_>) -> Result<usize, Errno> {
        let at = self.told.done;
        let range = self.next_range(at).map_err(|_| Errno::FAULT)?;
        let length = range.len() as u64;
        if at + length > self.told.begun {
            let ahead = AHEAD_BYTES.min(self.layout.ring() / 8);
            self.tell(at + length.max(ahead), at);
        }
        let start = range.start;
        let read = rustix::io::read(pipe, &mut self.window.map.bytes()[range]);
        match read {
            Ok(got) => self.took(at, start, got),
            // There may be nothing to read for long: what was announced is taken back.
            Err(_) => self.tell(at, at),
        }
        read
    }

    fn took(&mut self, at: u64, start: usize, got: usize) {
        self.last = start;
        self.tell(self.told.begun, at + got as u64);
    }

    /// Returns the `got` bytes of the last read.
    pub(crate) fn last(&mut self, got: usize) -> &[u8] {
        &self.window.map.bytes()[self.last..self.last + got]
    }

    /// Returns where in the window the bytes from `at` on go, the next window if this one is full.
    fn next_range(&mut self, at: u64) -> io::Result<std::ops::Range<usize>> {
        if at >= self.window.end {
            self.next_window(at)?;
        }
        let start = at - self.window.start;
        let end = start + READ_BYTES.min(self.window.end - at);
        let small = |at| usize::try_from(at).map_err(io::Error::other);
        Ok(small(start)?..small(end)?)
    }

    fn next_window(&mut self, at: u64) -> io::Result<()> {
        let length = self.window.end - self.window.start;
        if length == self.layout.ring() {
            // It is all of the ring: the next round is written over the same bytes.
            self.window.start = at;
            self.window.end = at + length;
            return Ok(());
        }
        self.window = Window::of(&self.file, &self.layout, at)?;
        Ok(())
    }

    fn tell(&mut self, begun: u64, done: u64) {
        self.told = RingState { begun, done, turn: self.told.turn + 1, ..self.told };
        let place = self.told.place();
        // Readers find the bytes of the ring before the state that speaks of them.
        fence(Ordering::Release);
        self.state.bytes()[place..place + RingState::BYTES].copy_from_slice(&self.told.to_bytes());
        fence(Ordering::Release);
    }
}
