//! Reads a job's output into its file: all of it while it fits, then the first half and the last bytes.
//!
//! Every byte is on file before the next ones are read, so that a supervisor that is killed loses nothing but what is in the pipes.
//! Until the ring has gone round, bytes are read into a buffer and written; from then on [`crate::ring`] spares the second copy.
//! `bailiwick_isolation::output` says how the file is laid out, and how a reader finds out what is overwritten while it reads.
use crate::ring::Ring;
use bailiwick_isolation::output::{Layout, RingState};
use rustix::fs::{Mode, OFlags, ftruncate, openat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// One read of a pipe, or of the file: it, and what is done with the bytes, fit into a processor's second cache.
const READ_BYTES: usize = 128 << 10;

/// The file.
#[derive(Debug)]
pub(crate) struct Keeper {
    dir: OwnedFd,
    layout: Layout,
    file: Option<OwnedFd>,
    /// Says how far the ring is written, from when it goes round.
    state: Option<OwnedFd>,
    /// How often it has said so; the mapped ring goes on from there.
    turn: u64,
    /// The ring in memory.
    ring: Option<Ring>,
    /// Whether that was tried.
    is_mapped: bool,
    buffer: Vec<u8>,
    produced: u64,
    /// Produced bytes up to which the file is written.
    written: u64,
    digest: KeptDigest,
    trouble: Option<io::Error>,
}

impl Keeper {
    /// Keeps at most `budget` bytes in `dir`.
    pub(crate) fn new(dir: OwnedFd, budget: u64) -> Self {
        Self {
            dir,
            layout: Layout::of_budget(budget),
            file: None,
            state: None,
            turn: 0,
            ring: None,
            is_mapped: false,
            buffer: vec![0; READ_BYTES],
            produced: 0,
            written: 0,
            digest: KeptDigest::default(),
            trouble: None,
        }
    }

    /// Returns how many bytes were produced.
    pub(crate) const fn produced(&self) -> u64 {
        self.produced
    }

    /// Reads from `pipe` what comes next, keeps it, and returns how many bytes it is: see [`Keeper::last`].
    pub(crate) fn read(&mut self, pipe: BorrowedFd<'_>) -> Result<usize, Errno> {
        self.map();
        let Some(ring) = &mut self.ring else {
            let got = rustix::io::read(pipe, &mut self.buffer)?;
            self.take_buffered(got);
            return Ok(got);
        };
        let read = ring.read(pipe);
        match read {
            Ok(got) => {
                self.produced += got as u64;
                self.written = self.produced;
            }
            // No room for bytes of a file that is there already: its file system writes them anew. The next read has a buffer.
            Err(Errno::FAULT) => {
                self.ring = None;
                self.trouble = Some(io::ErrorKind::StorageFull.into());
                return Err(Errno::INTR);
            }
            Err(_) => {}
        }
        read
    }

    /// Returns the `got` bytes of the last read.
    pub(crate) fn last(&mut self, got: usize) -> &[u8] {
        match &mut self.ring {
            Some(ring) => ring.last(got),
            None => &self.buffer[..got],
        }
    }

    /// From when the ring has gone round; a file system that maps no file is written to as before.
    fn map(&mut self) {
        if self.is_mapped || self.trouble.is_some() || self.produced <= self.layout.budget {
            return;
        }
        self.is_mapped = true;
        if let (Some(file), Some(state)) = (&self.file, &self.state) {
            let (budget, at) = (self.layout.budget, self.produced);
            let told = RingState { budget, begun: at, done: at, turn: self.turn };
            self.ring = Ring::of(file, state, told).ok();
        }
    }

    fn take_buffered(&mut self, got: usize) {
        let buffer = std::mem::take(&mut self.buffer);
        self.take(&buffer[..got]);
        self.buffer = buffer;
    }

    /// Takes the next bytes. A full disk stops the keeping, never the job: its output is still drained and counted.
    fn take(&mut self, bytes: &[u8]) {
        self.digest.take(&self.layout, self.produced, bytes);
        self.produced += bytes.len() as u64;
        if self.trouble.is_none() {
            self.trouble = self.write(bytes).err();
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let start = self.written;
        let goes_round = self.produced > self.layout.budget;
        if goes_round {
            self.tell(self.produced, start)?;
        }
        // What these very bytes overwrite need not be written.
        let last = self.produced.saturating_sub(self.layout.ring());
        let mut at = start;
        while at < self.produced {
            at = if at >= self.layout.head() { at.max(last) } else { at };
            let from = usize::try_from(at - start).map_err(io::Error::other)?;
            at += self.write_piece(at, &bytes[from..])?;
        }
        self.written = self.produced;
        if goes_round { self.tell(self.produced, self.produced) } else { Ok(()) }
    }

    /// Writes `bytes`, from produced byte `at` on, as far as they lie in one piece; returns how many.
    fn write_piece(&mut self, at: u64, bytes: &[u8]) -> io::Result<u64> {
        if self.file.is_none() {
            self.file = Some(create(&self.dir, "output")?);
        }
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let place = self.layout.place(at);
        let length = usize::try_from(place.room).unwrap_or(usize::MAX).min(bytes.len());
        match rustix::io::pwrite(file, &bytes[..length], place.offset)? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            written => Ok(written as u64),
        }
    }

    fn tell(&mut self, begun: u64, done: u64) -> io::Result<()> {
        if self.state.is_none() {
            let state = create(&self.dir, "output.ring")?;
            ftruncate(&state, RingState::FILE_BYTES as u64)?;
            self.state = Some(state);
        }
        let state = self.state.as_ref().ok_or(io::ErrorKind::NotFound)?;
        self.turn += 1;
        let told = RingState { budget: self.layout.budget, begun, done, turn: self.turn };
        match rustix::io::pwrite(state, &told.to_bytes(), told.place() as u64)? {
            RingState::BYTES => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    /// Returns how many bytes are kept, their digest, and why these are not all that should be.
    pub(crate) fn finish(&mut self) -> (u64, [u8; 32], Option<io::Error>) {
        let kept = self.kept();
        match self.digest(kept) {
            Ok(digest) => (kept, digest, self.trouble.take()),
            Err(error) => (0, Sha256::digest(b"").into(), Some(error)),
        }
    }

    /// Once the ring was broken by a full disk, only the first half is sure. A whole budget would say that both ends are there.
    fn kept(&self) -> u64 {
        match (&self.trouble, &self.state) {
            (None, _) => self.produced.min(self.layout.budget),
            (Some(_), Some(_)) => self.written.min(self.layout.head()),
            (Some(_), None) => self.written.min(self.layout.budget - 1),
        }
    }

    fn digest(&mut self, kept: u64) -> io::Result<[u8; 32]> {
        let ranges = self.layout.kept(self.produced, kept);
        let (mut hash, rest) = std::mem::take(&mut self.digest).of_kept(&ranges);
        for (start, end) in rest {
            self.hash(&mut hash, start, end)?;
        }
        Ok(hash.finalize().into())
    }

    /// From the file, which is in the page cache unless memory is short.
    fn hash(&self, hash: &mut Sha256, mut at: u64, end: u64) -> io::Result<()> {
        let mut buffer = vec![0; READ_BYTES];
        while at < end {
            let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
            let place = self.layout.place(at);
            let length = place.room.min(end - at).min(READ_BYTES as u64);
            let length = usize::try_from(length).map_err(io::Error::other)?;
            let got = rustix::io::pread(file, &mut buffer[..length], place.offset)?;
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            hash.update(&buffer[..got]);
            at += got as u64;
        }
        Ok(())
    }

    /// Returns the directory in which everything lies.
    pub(crate) const fn dir(&self) -> &OwnedFd {
        &self.dir
    }
}

/// Makes a file of the job's directory, for its owner only.
pub(crate) fn create(dir: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(openat(dir, name, flags, Mode::RUSR | Mode::WUSR)?)
}

/// The digest of what is kept, as far as it can be had while it comes: of all bytes while they fit, and of the first half.
#[derive(Debug, Default)]
struct KeptDigest {
    /// Of `hashed` bytes from the first.
    all: Sha256,
    hashed: u64,
    /// Of the first half, once that is full.
    head: Option<Sha256>,
}

impl KeptDigest {
    /// Takes the bytes that come at produced byte `at`; of no interest once there are more than fit.
    fn take(&mut self, layout: &Layout, at: u64, bytes: &[u8]) {
        let is_over = at + bytes.len() as u64 > layout.budget;
        let left = layout.head().saturating_sub(at).min(bytes.len() as u64);
        let (first, rest) = bytes.split_at(usize::try_from(left).unwrap_or(bytes.len()));
        self.update(first);
        if self.hashed == layout.head() && self.head.is_none() {
            self.head = Some(self.all.clone());
        }
        if !is_over {
            self.update(rest);
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        self.all.update(bytes);
        self.hashed += bytes.len() as u64;
    }

    /// Returns the longest beginning of `ranges` that is hashed, and what is left of them.
    fn of_kept(self, ranges: &[(u64, u64)]) -> (Sha256, Vec<(u64, u64)>) {
        match (ranges, self.head) {
            ([(_, end)], _) if *end == self.hashed => (self.all, Vec::new()),
            ([_, tail], Some(head)) => (head, vec![*tail]),
            _ => (Sha256::new(), ranges.to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::{Seek, Write};
    use std::os::fd::AsFd;
    use std::path::Path;

    /// Keeps `produced`, in pieces of `piece` bytes.
    fn keep(dir: &Path, budget: u64, produced: &[u8], piece: usize) -> Keeper {
        let mut keeper = Keeper::new(fs::File::open(dir).expect("open").into(), budget);
        produced.chunks(piece).for_each(|piece| keeper.take(piece));
        keeper
    }

    /// Reads all of `produced`, as a job's pipe would give it.
    fn read(dir: &Path, budget: u64, produced: &[u8]) -> Keeper {
        let mut keeper = Keeper::new(fs::File::open(dir).expect("open").into(), budget);
        let mut source = tempfile::tempfile().expect("a file");
        source.write_all(produced).expect("written");
        source.rewind().expect("from the start");
        let mut at = 0;
        loop {
            let got = keeper.read(source.as_fd()).expect("read");
            assert!(keeper.last(got) == &produced[at..at + got], "at {at} of {budget}");
            at += got;
            if got == 0 {
                assert_eq!(at, produced.len());
                return keeper;
            }
        }
    }

    fn bytes(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 31 % 251).to_le_bytes()[0]).collect()
    }

    fn both_ends(produced: &[u8], budget: usize) -> Vec<u8> {
        if produced.len() <= budget {
            return produced.to_vec();
        }
        [&produced[..budget / 2], &produced[produced.len() - (budget - budget / 2)..]].concat()
    }

    /// Compares what lies in `ranges` of the file with what was produced.
    #[track_caller]
    fn assert_kept(dir: &Path, layout: &Layout, ranges: &[(u64, u64)], produced: &[u8]) {
        let file = fs::read(dir.join("output")).expect("a file");
        let small = |at: u64| usize::try_from(at).expect("small");
        let wrong = ranges
            .iter()
            .flat_map(|(start, end)| *start..*end)
            .find(|at| file[small(layout.place(*at).offset)] != produced[small(*at)]);
        assert_eq!(wrong, None, "{layout:?}");
    }

    #[test]
    fn both_ends_and_their_digest_are_exact_whatever_the_pieces() {
        for budget in [1, 2, 1_000, 300_000, 300_001] {
            for (length, piece) in [
                (budget, 7_777),
                (budget + 1, 9_999),
                (budget * 3 + 5, 250_001),
                (budget * 9, 1_000_000),
            ] {
                let produced = bytes(length);
                let dir = tempfile::tempdir().expect("a directory");
                let mut keeper = keep(dir.path(), budget as u64, &produced, piece);
                let (kept, digest, trouble) = keeper.finish();
                assert!(trouble.is_none() && kept == budget as u64, "{budget} {length}: {kept}");
                let layout = Layout::of_budget(budget as u64);
                let ranges = layout.kept(length as u64, kept);
                assert_kept(dir.path(), &layout, &ranges, &produced);
                let ends = Sha256::digest(both_ends(&produced, budget));
                assert_eq!(digest, <[u8; 32]>::from(ends), "{budget} {length} {piece}");
            }
        }
    }

    #[test]
    fn both_ends_and_their_digest_are_exact_when_the_ring_is_mapped() {
        // The last ring is larger than what is mapped at once.
        for budget in [1, 3, 10_000, 300_001, 12_000_001] {
            let produced = bytes(budget * 3 + 400_000);
            let dir = tempfile::tempdir().expect("a directory");
            let mut keeper = read(dir.path(), budget as u64, &produced);
            assert!(keeper.ring.is_some(), "{budget}");
            let (kept, digest, trouble) = keeper.finish();
            assert!(trouble.is_none() && kept == budget as u64, "{budget}: {kept}");
            let layout = Layout::of_budget(budget as u64);
            assert_kept(dir.path(), &layout, &layout.kept(produced.len() as u64, kept), &produced);
            let ends = Sha256::digest(both_ends(&produced, budget));
            assert_eq!(digest, <[u8; 32]>::from(ends), "{budget}");
        }
    }

    #[test]
    fn a_supervisor_that_is_killed_with_a_mapped_ring_leaves_what_it_took() {
        for budget in [100_000, 12_000_001] {
            let produced = bytes(budget * 3 + 400_000);
            let dir = tempfile::tempdir().expect("a directory");
            // A mapping's bytes are in the file whether it is given back or not.
            std::mem::forget(read(dir.path(), budget as u64, &produced));
            let state = fs::read(dir.path().join("output.ring")).expect("it went round");
            let state = RingState::latest(&state).expect("whole");
            assert_eq!(state.done, produced.len() as u64);
            let layout = Layout::of_budget(state.budget);
            assert_kept(dir.path(), &layout, &state.kept(), &produced);
            let missed = state.begun - state.done;
            assert!(missed <= (budget as u64 / 16).max(128 << 10), "{missed} of {budget}");
        }
    }

    #[test]
    fn what_a_killed_supervisor_leaves_is_both_ends_of_what_it_took() {
        let budget = 100_000;
        for length in [budget + 1, 3 * budget, 3 * budget + 12_345] {
            let produced = bytes(length);
            let dir = tempfile::tempdir().expect("a directory");
            drop(keep(dir.path(), budget as u64, &produced, 30_000));
            let state = fs::read(dir.path().join("output.ring")).expect("it went round");
            let state = RingState::latest(&state).expect("whole");
            assert_eq!((state.begun, state.done), (length as u64, length as u64));
            let layout = Layout::of_budget(state.budget);
            assert_eq!(state.kept(), layout.kept(length as u64, budget as u64));
            assert_kept(dir.path(), &layout, &state.kept(), &produced);
        }
    }

    #[test]
    fn a_disk_that_is_full_while_the_first_half_is_written_keeps_what_came_before() {
        let dir = tempfile::tempdir().expect("a directory");
        let produced = bytes(1_000);
        let mut keeper = keep(dir.path(), 600, &produced[..100], 100);
        // The rest comes at once: the state of the ring can be made, the first half is not written to its end.
        keeper.file = Some(fs::File::open(dir.path().join("output")).expect("not to write").into());
        keeper.take(&produced[100..]);
        assert!(keeper.state.is_some());
        let (kept, digest, trouble) = keeper.finish();
        assert!(trouble.is_some());
        assert_eq!(kept, 100);
        assert_eq!(digest, <[u8; 32]>::from(Sha256::digest(&produced[..100])));
    }

    #[test]
    fn a_file_that_cannot_be_written_keeps_what_was_and_says_so() {
        let dir = tempfile::tempdir().expect("a directory");
        let produced = bytes(1_000);
        let mut keeper = keep(dir.path(), 600, &produced[..600], 100);
        // Somebody has put something where the state of the ring would go.
        fs::write(dir.path().join("output.ring"), "").expect("written");
        keeper.take(&produced[600..]);
        let (kept, digest, trouble) = keeper.finish();
        assert!(trouble.is_some());
        assert_eq!(kept, 599, "less than the budget, so that it reads as the start alone");
        assert_eq!(digest, <[u8; 32]>::from(Sha256::digest(&produced[..599])));
    }
}
