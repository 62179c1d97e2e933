//! How captured output lies in its file, for the supervisor that writes it and the provider that reads it.
//!
//! Produced byte `o` lies at `o` while it is in the first half of the budget, and otherwise in a ring that fills the second
//! half; so a file is never larger than its budget, and within the budget it is plainly the output.

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

    /// Returns where produced byte `offset` lies, if it was kept.
    #[must_use]
    pub const fn place(&self, offset: u64) -> Place {
        if offset < self.head {
            return Place { offset, room: self.head - offset };
        }
        let ring = self.budget - self.head;
        let at = (offset - self.head) % ring;
        Place { offset: self.head + at, room: ring - at }
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
        let tail = produced - (self.budget - self.head);
        vec![(0, self.head), (tail, produced)]
    }
}

/// Returns the entries of `output.idx` for a run: `u32` little-endian, length shifted by one, the low bit the stream.
pub fn index_entry(stream: Stream, length: u64) -> impl Iterator<Item = u8> {
    const LENGTH_MAX: u64 = (1 << 31) - 1;
    let whole = length / LENGTH_MAX;
    let rest = length % LENGTH_MAX;
    let lengths = (0..whole).map(|_| LENGTH_MAX).chain((rest > 0).then_some(rest));
    lengths.flat_map(move |length| {
        let word = u32::try_from(length << 1).unwrap_or(u32::MAX - 1) | stream as u32;
        word.to_le_bytes()
    })
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
    fn a_budget_of_one_byte_keeps_the_last_one() {
        let layout = Layout::of_budget(1);
        assert_eq!(layout.kept(5, 1), [(0, 0), (4, 5)]);
        assert_eq!(layout.place(4), Place { offset: 0, room: 1 });
    }
}
