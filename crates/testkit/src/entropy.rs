//! Randomness that counts, so that ids in a test are known.
use bailiwick_contract::context::Entropy;
use std::sync::atomic::{AtomicU64, Ordering};

/// Gives 1, 2, 3, …: each call fills its buffer with the next number, most significant byte first.
#[derive(Debug, Default)]
pub struct SeqEntropy {
    given: AtomicU64,
}

impl SeqEntropy {
    /// Makes one that begins with 1.
    #[must_use]
    pub const fn new() -> Self {
        Self { given: AtomicU64::new(0) }
    }
}

impl Entropy for SeqEntropy {
    fn fill(&self, buffer: &mut [u8]) {
        let number = self.given.fetch_add(1, Ordering::SeqCst) + 1;
        buffer.fill(0);
        for (slot, byte) in buffer.iter_mut().rev().zip(number.to_le_bytes()) {
            *slot = byte;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bailiwick_contract::id::JobId;

    #[test]
    fn ids_are_counted() {
        let entropy = SeqEntropy::new();
        assert_eq!(JobId::mint(&entropy).as_str(), "job-000000000001");
        assert_eq!(JobId::mint(&entropy).as_str(), "job-000000000002");
    }
}
