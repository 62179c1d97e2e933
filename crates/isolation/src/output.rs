//! How captured output lies in its file, for the supervisor that writes it and the provider that reads it.
//!
//! Produced byte `o` lies at `o` while it is in the first half of the budget, and otherwise in a ring that fills the second
//! half; so a file is never larger than its budget, and within the budget it is plainly the output. From the moment the ring
//! goes round, `output.ring` says how far it is written, until the outcome does: see [`RingState`].

/// The stream that a byte came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out = 0,
    /// Standard error.
    Err = 1,
}

/// The layout of an output file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Bytes that the file may have.
    pub budget: u64,
    head: u64,
}

/// Where a produced byte lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its offset in the file.
    pub offset: u64,
    /// How many bytes, it included, follow it without a break.
    pub room: u64,
}

impl Layout {
    /// The layout of a file with this budget, which is at least 1.
    #[must_use]
    pub const fn of_budget(budget: u64) -> Self {
        let budget = if budget == 0 { 1 } else { budget };
        Self { budget, head: budget / 2 }
    }

    /// Returns how many bytes the first half has, which stay.
    #[must_use]
    pub const fn head(&self) -> u64 {
        self.head
    }

    /// Returns how many bytes the ring holds: the last ones.
    #[must_use]
    pub const fn ring(&self) -> u64 {
        self.budget - self.head
    }

    /// Returns where produced byte `offset` lies, if it was kept.
    #[must_use]
    pub const fn place(&self, offset: u64) -> Place {
        if offset < self.head {
            return Place { offset, room: self.head - offset };
        }
        let at = (offset - self.head) % self.ring();
        Place { offset: self.head + at, room: self.ring() - at }
    }

    /// Returns the ranges of produced bytes that were kept, as (start, end) pairs in order.
    ///
    /// `kept` is what the capture says that it kept: less than the budget allows where the disk was full, and then only the
    /// first `kept` bytes are there.
    #[must_use]
    pub fn kept(&self, produced: u64, kept: u64) -> Vec<(u64, u64)> {
        if produced <= self.budget || kept < self.budget {
            return vec![(0, kept.min(produced))];
        }
        vec![(0, self.head), (produced - self.ring(), produced)]
    }
}

/// How far a ring is written. The writer says where a write will end at most before it begins, and what is done afterwards; a
/// reader that finds the same after it has read knows which bytes were overwritten under its eyes.
///
/// `output.ring` has two places, written in turn, so that one is whole wherever the writer was killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingState {
    /// The budget, which says how the file is laid out.
    pub budget: u64,
    /// Where the write that began last will end at most, in produced bytes.
    pub begun: u64,
    /// What is written, in produced bytes.
    pub done: u64,
    /// How often the state was told before.
    pub turn: u64,
}

impl RingState {
    /// Bytes of one place.
    pub const BYTES: usize = 40;

    /// The length of `output.ring`.
    pub const FILE_BYTES: usize = 2 * Self::BYTES;

    /// Returns where in `output.ring` this state is told.
    #[must_use]
    pub const fn place(&self) -> usize {
        if self.turn.is_multiple_of(2) { 0 } else { Self::BYTES }
    }

    const fn check(&self) -> u64 {
        let mixed = self.budget ^ self.begun.rotate_left(21) ^ self.done.rotate_left(42);
        !(mixed ^ self.turn.rotate_left(11))
    }

    /// Returns what is told there.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let words = [self.budget, self.begun, self.done, self.turn, self.check()];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads one place; `None` for one that was read while it was written, or that nothing was told at.
    fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |index: usize| u64::from_le_bytes(words[index]);
        let state = Self { budget: word(0), begun: word(1), done: word(2), turn: word(3) };
        (state.check() == word(4)).then_some(state)
    }

    /// Reads the content of `output.ring`: what was told last. `None` where neither place is whole.
    #[must_use]
    pub fn latest(bytes: &[u8]) -> Option<Self> {
        let (places, _) = bytes.as_chunks();
        places.iter().filter_map(Self::from_bytes).max_by_key(|state| state.turn)
    }

    /// Returns the range of produced bytes that may be overwritten by now.
    #[must_use]
    pub const fn gone(&self) -> (u64, u64) {
        let layout = Layout::of_budget(self.budget);
        (layout.head(), self.begun.saturating_sub(layout.ring()))
    }

    /// Returns the ranges of produced bytes that are there.
    #[must_use]
    pub fn kept(&self) -> Vec<(u64, u64)> {
        let (head, tail) = self.gone();
        vec![(0, head.min(self.done)), (tail.max(head).min(self.done), self.done)]
    }
}

/// The longest run that one word of `output.idx` describes.
const RUN_BYTES_MAX: u64 = (1 << 31) - 1;

/// Returns the words of `output.idx` for a run: length shifted by one, the low bit the stream; each is little-endian there.
pub fn index_words(stream: Stream, length: u64) -> impl Iterator<Item = u32> {
    let whole = length / RUN_BYTES_MAX;
    let rest = length % RUN_BYTES_MAX;
    let lengths = (0..whole).map(|_| RUN_BYTES_MAX).chain((rest > 0).then_some(rest));
    lengths.map(move |length| u32::try_from(length << 1).unwrap_or(u32::MAX - 1) | stream as u32)
}

/// Reads a word of `output.idx`.
#[must_use]
pub const fn index_run(word: u32) -> (Stream, u64) {
    let stream = if word & 1 == 0 { Stream::Out } else { Stream::Err };
    (stream, (word >> 1) as u64)
}

/// Decides whether bytes that come in pieces are UTF-8, taken whole.
#[derive(Debug, Default)]
pub struct TextCheck {
    /// The beginning of a character whose end has not come yet; at most three bytes.
    open: Vec<u8>,
    broken: bool,
}

impl TextCheck {
    /// Takes the next piece.
    pub fn take(&mut self, bytes: &[u8]) {
        // The usual case, and by far the fastest.
        if self.broken || (self.open.is_empty() && bytes.is_ascii()) {
            return;
        }
        if self.open.is_empty() {
            self.check(bytes);
            return;
        }
        let joined = [self.open.as_slice(), bytes].concat();
        self.open.clear();
        self.check(&joined);
    }

    fn check(&mut self, bytes: &[u8]) {
        if let Err(error) = core::str::from_utf8(bytes) {
            match error.error_len() {
                Some(_) => self.broken = true,
                None => self.open = bytes[error.valid_up_to()..].to_vec(),
            }
        }
    }

    /// Returns whether it is not UTF-8, whatever may follow.
    #[must_use]
    pub const fn is_broken(&self) -> bool {
        self.broken
    }

    /// Returns whether all that came so far is UTF-8.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        !self.broken && self.open.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_the_budget_a_file_is_the_output() {
        let layout = Layout::of_budget(10);
        for offset in 0..10 {
            assert_eq!(layout.place(offset).offset, offset);
        }
        assert_eq!(layout.kept(10, 10), [(0, 10)]);
    }

    #[test]
    fn beyond_the_budget_the_second_half_is_a_ring() {
        let layout = Layout::of_budget(7);
        assert_eq!(layout.kept(100, 7), [(0, 3), (96, 100)]);
        let offsets: Vec<u64> = (96..100).map(|offset| layout.place(offset).offset).collect();
        let mut sorted = offsets.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [3, 4, 5, 6], "{offsets:?}");
    }

    #[test]
    fn a_full_disk_keeps_only_the_start() {
        assert_eq!(Layout::of_budget(10).kept(100, 4), [(0, 4)]);
    }

    #[test]
    fn a_state_that_was_read_while_it_was_written_is_told_apart() {
        let old = RingState { budget: 10, begun: 20, done: 20, turn: 6 };
        let new = RingState { begun: 33, turn: 8, ..old };
        assert_eq!(RingState::latest(&old.to_bytes()), Some(old));
        for cut in 9..32 {
            let mixed = [&new.to_bytes()[..cut], &old.to_bytes()[cut..]].concat();
            assert_eq!(RingState::latest(&mixed), None, "{cut}");
        }
        assert_eq!(old.kept(), [(0, 5), (15, 20)]);
        assert_eq!(new.kept(), [(0, 5), (20, 20)], "all of the ring may be overwritten by now");
    }

    #[test]
    fn the_state_that_was_told_last_counts_and_one_is_whole_wherever_the_writer_was_killed() {
        let old = RingState { budget: 10, begun: 20, done: 20, turn: 7 };
        let new = RingState { begun: 33, turn: 8, ..old };
        assert_ne!(old.place(), new.place());
        let both = [new.to_bytes(), old.to_bytes()].concat();
        assert_eq!(RingState::latest(&both), Some(new));
        for cut in 0..RingState::BYTES {
            let torn = [&new.to_bytes()[..cut], &[0; RingState::BYTES][cut..], &old.to_bytes()];
            assert_eq!(RingState::latest(&torn.concat()), Some(old), "{cut}");
        }
        assert_eq!(RingState::latest(&[0; RingState::FILE_BYTES]), None);
        assert_eq!(RingState::latest(b""), None);
    }

    #[test]
    fn runs_survive_the_index_however_long() {
        for (stream, length) in [(Stream::Out, 1), (Stream::Err, 7_000_000_000)] {
            let runs: Vec<_> = index_words(stream, length).map(index_run).collect();
            assert!(runs.iter().all(|run| run.0 == stream));
            assert_eq!(runs.iter().map(|run| run.1).sum::<u64>(), length);
        }
        assert_eq!(index_words(Stream::Out, 0).count(), 0);
    }

    #[test]
    fn a_character_split_between_two_pieces_is_still_text() {
        let is_text = |pieces: &[&[u8]]| {
            let mut check = TextCheck::default();
            pieces.iter().for_each(|piece| check.take(piece));
            check.is_whole()
        };
        let euro = "\u{20ac}".as_bytes();
        assert!(is_text(&[b"x", &euro[..1], &euro[1..2], &euro[2..], b"y"]));
        assert!(!is_text(&[&euro[..2]]));
        assert!(!is_text(&[&euro[..2], b"y"]));
        assert!(!is_text(&[b"\xff", b"y"]));
    }

    #[test]
    fn a_budget_of_one_byte_keeps_the_last_one() {
        let layout = Layout::of_budget(1);
        assert_eq!(layout.kept(5, 1), [(0, 0), (4, 5)]);
        assert_eq!(layout.place(4), Place { offset: 0, room: 1 });
    }
}
