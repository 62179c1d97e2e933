//! Carries bytes from what the caller gave to a job's standard input.
//!
//! A job is given a pipe, never the descriptor itself: with that it could open a file again to write to it, or drive a terminal.
//! Nothing here waits, and the caller's description is not made non-blocking, since others read from it too. Sources: pipe(7),
//! preadv2(2) `RWF_NOWAIT`, poll(2).
use rustix::event::PollFlags;
use rustix::fs::{FileType, Mode, OFlags, fstat, major, minor, openat};
use rustix::io::{Errno, ReadWriteFlags, preadv2, read, write};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// What is read and not yet written, at most: what a pipe holds by default (pipe(7)).
const HELD_BYTES: usize = 64 << 10;

/// The device of pseudo-terminal masters (pts(4)): opening it again makes another terminal.
const PTMX: (u32, u32) = (5, 2);

/// A job's standard input; dropping it ends what the job reads.
#[derive(Debug)]
pub(crate) struct Input {
    source: Source,
    job: OwnedFd,
    held: Vec<u8>,
    written: usize,
}

impl Input {
    /// Carries from `source` to `job`, the end of a pipe to which only this process writes.
    ///
    /// # Errors
    /// What fstat(2) or ioctl(2) says.
    pub(crate) fn new(source: OwnedFd, job: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&job, true)?;
        Ok(Self { source: Source::of(source)?, job, held: Vec::new(), written: 0 })
    }

    /// Returns the descriptor to read from, while more is wanted.
    pub(crate) fn wants_more(&self) -> Option<BorrowedFd<'_>> {
        self.is_written().then(|| self.source.file.as_fd())
    }

    /// Returns the job's end and what is waited for there; that nobody reads any more is told without being asked for.
    pub(crate) fn job(&self) -> (BorrowedFd<'_>, PollFlags) {
        let flags = if self.is_written() { PollFlags::empty() } else { PollFlags::OUT };
        (self.job.as_fd(), flags)
    }

    /// Moves what can be moved without waiting, where `readable` says that the source has something, and `told` that poll said
    /// something of the job's end. Returns `false` when nothing more will come, or nobody reads it.
    pub(crate) fn carry(&mut self, readable: bool, told: bool) -> bool {
        // Nothing was asked for there: it is that the last reader is gone.
        let unread = self.is_written() && told;
        if unread || (self.is_written() && readable && !self.fill()) {
            return false;
        }
        self.is_written() || self.pass_on()
    }

    fn is_written(&self) -> bool {
        self.written == self.held.len()
    }

    /// Returns `false` at the end; a source that cannot be read has ended.
    fn fill(&mut self) -> bool {
        self.written = 0;
        self.held.resize(HELD_BYTES, 0);
        let got = self.source.read(&mut self.held);
        self.held.truncate(*got.as_ref().unwrap_or(&0));
        match got {
            Ok(length) => length > 0,
            Err(error) => matches!(error, Errno::AGAIN | Errno::INTR),
        }
    }

    /// Returns `false` once nobody reads.
    fn pass_on(&mut self) -> bool {
        match write(&self.job, &self.held[self.written..]) {
            Ok(length) => {
                self.written += length;
                true
            }
            Err(error) => matches!(error, Errno::AGAIN | Errno::INTR),
        }
    }
}

/// Where the bytes come from.
#[derive(Debug)]
struct Source {
    file: OwnedFd,
    /// Whether a read may find nothing after all, because somebody else took it. What lies on a disk is always ready.
    shared: bool,
}

impl Source {
    fn of(file: OwnedFd) -> io::Result<Self> {
        let meta = fstat(&file)?;
        let kind = FileType::from_raw_mode(meta.st_mode);
        let is_master = (major(meta.st_rdev), minor(meta.st_rdev)) == PTMX;
        // A terminal knows no RWF_NOWAIT, but can be opened a second time.
        let again = (kind == FileType::CharacterDevice && !is_master)
            .then(|| open_again(&file).ok())
            .flatten();
        let on_disk = matches!(kind, FileType::RegularFile | FileType::BlockDevice);
        Ok(Self { file: again.unwrap_or(file), shared: !on_disk })
    }

    fn read(&self, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        if self.shared {
            let flags = ReadWriteFlags::NOWAIT;
            match preadv2(&self.file, &mut [IoSliceMut::new(buffer)], u64::MAX, flags) {
                // What cannot be asked so is read after all: poll has said that something is there.
                Err(Errno::OPNOTSUPP) => {}
                other => return other,
            }
        }
        read(&self.file, buffer)
    }
}

fn open_again(file: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    openat(rustix::fs::CWD, format!("/proc/self/fd/{}", file.as_raw_fd()), flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{fcntl_getfl, memfd_create};
    use std::io::{Read, Write};

    fn pipe() -> (std::fs::File, OwnedFd) {
        let (read, write) = io::pipe().expect("a pipe");
        (OwnedFd::from(read).into(), write.into())
    }

    #[test]
    fn bytes_arrive_and_the_end_after_them() {
        let file = memfd_create("source", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        std::fs::File::from(file.try_clone().expect("a copy")).write_all(&bytes).expect("written");
        rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).expect("rewound");
        let (mut job, end) = pipe();
        let mut input = Input::new(file, end).expect("an input");
        let reader = std::thread::spawn(move || {
            let mut read = Vec::new();
            job.read_to_end(&mut read).expect("read");
            read
        });
        while input.carry(true, false) {}
        drop(input);
        assert_eq!(reader.join().expect("no panic"), bytes);
    }

    #[test]
    fn a_source_that_others_emptied_is_not_waited_for_and_stays_as_it_was() {
        let (job, end) = pipe();
        let (mut source, mut writer) = io::pipe().expect("a pipe");
        let ours = OwnedFd::from(source.try_clone().expect("a copy"));
        let mut input = Input::new(ours, end).expect("an input");
        writer.write_all(b"x").expect("written");
        source.read_exact(&mut [0]).expect("somebody else is quicker");
        assert!(input.carry(true, false), "nothing is there, and this returns all the same");
        assert!(!fcntl_getfl(&source).expect("asked").contains(OFlags::NONBLOCK));
        drop(job);
        writer.write_all(b"y").expect("written");
        assert!(!input.carry(true, false), "nobody reads");
    }

    #[test]
    fn a_job_that_closes_its_input_is_noticed_while_there_is_nothing_to_give() {
        let (job, end) = pipe();
        let (source, _writer) = io::pipe().expect("a pipe");
        let mut input = Input::new(source.into(), end).expect("an input");
        let told = |input: &Input| {
            let (end, flags) = input.job();
            let mut polled = [rustix::event::PollFd::from_borrowed_fd(end, flags)];
            let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            rustix::event::poll(&mut polled, Some(&now)).expect("polled") > 0
        };
        assert!(!told(&input) && input.carry(false, false));
        drop(job);
        assert!(told(&input) && !input.carry(false, true));
    }

    #[test]
    fn a_full_pipe_is_asked_for_room_and_the_source_left_alone() {
        let (_job, end) = pipe();
        let (source, writer) = io::pipe().expect("a pipe");
        let mut input = Input::new(source.into(), end).expect("an input");
        rustix::io::ioctl_fionbio(&writer, true).expect("not blocking");
        for _ in 0..100 {
            rustix::io::write(&writer, &[0; 4_096]).ok();
            assert!(input.carry(input.wants_more().is_some(), false));
        }
        assert!(input.wants_more().is_none());
        assert_eq!(input.job().1, PollFlags::OUT);
        assert!(input.held.len() <= HELD_BYTES);
    }
}
