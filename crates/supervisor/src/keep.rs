//! Writes captured output to its file: all of it while it fits, then the first half and the last bytes.
//!
//! Within the budget every byte is on file at once. Beyond it most of what comes is overwritten soon, so it goes round in memory
//! and is written at every tick: a supervisor that is killed then loses what a job printed since, no more than 20 ms of it.
//! `bailiwick_isolation::output` says how the file is laid out, and how a reader finds out what is overwritten while it reads.
use bailiwick_isolation::output::{Layout, RingState};
use rustix::fs::{Mode, OFlags, openat};
use sha2::{Digest, Sha256};
use std::io;
use std::os::fd::OwnedFd;

/// One read: it and what is done with the bytes fit into a processor's second cache.
const READ_BYTES: usize = 256 << 10;

/// A ring of this size is held in memory: what a smaller one saves is not worth it.
const HELD_BYTES_MIN: u64 = 1 << 20;

/// A larger ring, of a budget above the default, is written as it comes: a supervisor is to stay small.
const HELD_BYTES_MAX: u64 = 5 << 20;

/// The file, and what is on its way there.
#[derive(Debug)]
pub(crate) struct Keeper {
    dir: OwnedFd,
    layout: Layout,
    file: Option<OwnedFd>,
    /// Says how far the ring is written, from when it goes round.
    state: Option<OwnedFd>,
    /// Where the next bytes are read into, while they are written as they come.
    scratch: Vec<u8>,
    /// The ring, once it goes round and if it is held; else empty.
    held: Vec<u8>,
    produced: u64,
    /// Produced bytes up to which the file is written.
    written: u64,
    digest: KeptDigest,
    trouble: Option<io::Error>,
}

impl Keeper {
    /// Keeps at most `budget` bytes in `dir`.
    pub(crate) fn new(dir: OwnedFd, budget: u64) -> Self {
        let layout = Layout::of_budget(budget);
        Self {
            dir,
            layout,
            file: None,
            state: None,
            scratch: vec![0; READ_BYTES],
            held: Vec::new(),
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

    /// Returns where the next bytes are to be read into; what is read has to be [taken](Self::take) before anything else.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.held.is_empty() && self.produced >= self.layout.budget && self.is_holdable() {
            self.held = vec![0; self.ring_bytes()];
        }
        if self.held.is_empty() {
            return &mut self.scratch;
        }
        let at = self.place_held();
        let end = self.held.len().min(at + READ_BYTES);
        &mut self.held[at..end]
    }

    /// Returns the first `length` bytes of what [`Keeper::space`] returned.
    pub(crate) fn read(&self, length: usize) -> &[u8] {
        if self.held.is_empty() {
            return &self.scratch[..length];
        }
        let at = self.place_held();
        &self.held[at..at + length]
    }

    /// Takes the first `length` bytes of what [`Keeper::space`] returned.
    pub(crate) fn take(&mut self, length: usize) {
        let at = self.produced;
        self.produced += length as u64;
        if self.held.is_empty() {
            self.digest.take(&self.layout, at, &self.scratch[..length]);
            self.flush();
        }
    }

    fn is_holdable(&self) -> bool {
        (HELD_BYTES_MIN..=HELD_BYTES_MAX).contains(&self.layout.ring()) && self.trouble.is_none()
    }

    /// Only asked of a ring that is held.
    fn ring_bytes(&self) -> usize {
        usize::try_from(self.layout.ring()).expect("at most HELD_BYTES_MAX")
    }

    fn place_held(&self) -> usize {
        let place = self.layout.place(self.produced).offset - self.layout.head();
        usize::try_from(place).expect("below HELD_BYTES_MAX")
    }

    /// Writes what is not written yet. A full disk stops the keeping, never the job: its output is still drained and counted.
    pub(crate) fn flush(&mut self) {
        if self.written == self.produced || self.trouble.is_some() {
            return;
        }
        if let Err(error) = self.write() {
            self.trouble = Some(error);
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let goes_round = self.produced > self.layout.budget;
        if goes_round {
            self.tell(self.produced, self.written)?;
        }
        let mut at = self.written;
        while at < self.produced {
            // What is overwritten before this ends need not be written.
            let last = self.produced.saturating_sub(self.layout.ring());
            at = if at >= self.layout.head() { at.max(last) } else { at };
            at += self.write_piece(at)?;
        }
        self.written = self.produced;
        if goes_round { self.tell(self.produced, self.produced) } else { Ok(()) }
    }

    /// Writes from produced byte `at` on as far as it lies in one piece; returns how many bytes.
    fn write_piece(&mut self, at: u64) -> io::Result<u64> {
        if self.file.is_none() {
            self.file = Some(create(&self.dir, "output")?);
        }
        let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let place = self.layout.place(at);
        let length = place.room.min(self.produced - at);
        let (bytes, start) = if self.held.is_empty() {
            (&self.scratch, at - self.written)
        } else {
            (&self.held, place.offset - self.layout.head())
        };
        let start = usize::try_from(start).map_err(io::Error::other)?;
        let length = usize::try_from(length).map_err(io::Error::other)?;
        match rustix::io::pwrite(file, &bytes[start..start + length], place.offset)? {
            0 => Err(io::ErrorKind::WriteZero.into()),
            written => Ok(written as u64),
        }
    }

    fn tell(&mut self, begun: u64, done: u64) -> io::Result<()> {
        if self.state.is_none() {
            self.state = Some(create(&self.dir, "output.ring")?);
        }
        let state = self.state.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let bytes = RingState { budget: self.layout.budget, begun, done }.to_bytes();
        match rustix::io::pwrite(state, &bytes, 0)? {
            RingState::BYTES => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    /// Writes what is left; returns how many bytes are kept, their digest, and why these are not all that should be.
    pub(crate) fn finish(&mut self) -> (u64, [u8; 32], Option<io::Error>) {
        self.flush();
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
            (Some(_), Some(_)) => self.layout.head(),
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
    fn hash(&mut self, hash: &mut Sha256, mut at: u64, end: u64) -> io::Result<()> {
        while at < end {
            let file = self.file.as_ref().ok_or(io::ErrorKind::NotFound)?;
            let place = self.layout.place(at);
            let length = place.room.min(end - at).min(READ_BYTES as u64);
            let length = usize::try_from(length).map_err(io::Error::other)?;
            let got = rustix::io::pread(file, &mut self.scratch[..length], place.offset)?;
            if got == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            hash.update(&self.scratch[..got]);
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
    use std::path::Path;

    /// Keeps `produced`, in pieces of `piece` bytes, and flushes after every `flush`th.
    fn keep(dir: &Path, budget: u64, produced: &[u8], piece: usize, flush: usize) -> Keeper {
        let mut keeper = Keeper::new(fs::File::open(dir).expect("open").into(), budget);
        let (mut rest, mut count) = (produced, 0);
        while !rest.is_empty() {
            let length = keeper.space().len().min(piece).min(rest.len());
            keeper.space()[..length].copy_from_slice(&rest[..length]);
            assert_eq!(keeper.read(length), &rest[..length]);
            keeper.take(length);
            rest = &rest[length..];
            count += 1;
            if count % flush == 0 {
                keeper.flush();
            }
        }
        keeper
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

    #[test]
    fn both_ends_and_their_digest_are_exact_whatever_the_pieces() {
        // From a ring of one byte to one that is held in memory, and beyond.
        for budget in [1, 2, 1_000, 600_000, 2 << 20, (2 << 20) + 1, 11 << 20] {
            for (length, piece) in [(budget, 7_777), (budget + 1, 9_999), (budget * 3 + 5, 250_001)]
            {
                let produced = bytes(length);
                let dir = tempfile::tempdir().expect("a directory");
                let mut keeper = keep(dir.path(), budget as u64, &produced, piece.min(length), 5);
                let (kept, digest, trouble) = keeper.finish();
                assert!(trouble.is_none() && kept == budget as u64, "{budget} {length}: {kept}");
                let file = fs::read(dir.path().join("output")).expect("a file");
                let layout = Layout::of_budget(budget as u64);
                let ranges = layout.kept(length as u64, kept);
                let ends: Vec<u8> = ranges
                    .iter()
                    .flat_map(|(start, end)| *start..*end)
                    .map(|at| file[usize::try_from(layout.place(at).offset).expect("small")])
                    .collect();
                assert!(ends == both_ends(&produced, budget), "{budget} {length} {piece}");
                assert_eq!(digest, <[u8; 32]>::from(Sha256::digest(&ends)), "{budget} {length}");
            }
        }
    }

    #[test]
    fn what_a_killed_supervisor_leaves_is_exact_up_to_the_last_flush() {
        let budget = 4 << 20;
        for length in [budget + 1, 3 * budget, 3 * budget + 12_345] {
            let produced = bytes(length);
            let dir = tempfile::tempdir().expect("a directory");
            drop(keep(dir.path(), budget as u64, &produced, 100_000, 3));
            let state = fs::read(dir.path().join("output.ring")).expect("it went round");
            let state = RingState::from_bytes(&state.try_into().expect("32")).expect("whole");
            assert_eq!(state.begun, state.done);
            assert!(produced.len() as u64 - state.done < 400_000);
            let file = fs::read(dir.path().join("output")).expect("a file");
            let layout = Layout::of_budget(state.budget);
            for (start, end) in state.kept() {
                assert!((start..end).all(|at| {
                    let place = usize::try_from(layout.place(at).offset).expect("small");
                    file[place] == produced[usize::try_from(at).expect("small")]
                }));
            }
        }
    }

    #[test]
    fn a_file_that_cannot_be_written_keeps_what_was_and_says_so() {
        let dir = tempfile::tempdir().expect("a directory");
        let produced = bytes(1_000);
        let mut keeper = keep(dir.path(), 600, &produced[..600], 100, 1);
        // Somebody has put something where the state of the ring would go.
        fs::write(dir.path().join("output.ring"), "").expect("written");
        keeper.space()[..400].copy_from_slice(&produced[600..]);
        keeper.take(400);
        let (kept, digest, trouble) = keeper.finish();
        assert!(trouble.is_some());
        assert_eq!(kept, 599, "less than the budget, so that it reads as the start alone");
        assert_eq!(digest, <[u8; 32]>::from(Sha256::digest(&produced[..599])));
    }
}
