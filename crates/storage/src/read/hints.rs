//! Where recent polls ended, so that a sequential reader continues without a look into the index,
//! and is known for one.

use std::collections::VecDeque;

/// Most places remembered for one partition: as many readers keep their place.
const HINTS_MAX: usize = 32;

/// Where a poll ended: a batch that verified, or the end of one, stands at `position`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hint {
    /// The offset from which the reader will go on.
    pub(crate) next: u64,
    /// First offset of the segment.
    pub(crate) segment: u64,
    /// Where the batch that holds `next` begins.
    pub(crate) position: u64,
    /// Offset of the first message of that batch.
    pub(crate) base_offset: u64,
    /// Bytes that the reader has read in sequence.
    pub(crate) run: u64,
}

/// The most recently used ends of polls. A hint is right or absent: a log never moves a batch.
#[derive(Default)]
pub(crate) struct Hints {
    recent: VecDeque<Hint>,
}

impl Hints {
    /// Where the batch that holds `next` begins in `segment`. Takes the hint: the reader that uses
    /// it leaves a new one. Of several readers at the same place each takes its own.
    pub(crate) fn take(&mut self, next: u64, segment: u64) -> Option<Hint> {
        let found = self.recent.iter().rposition(|h| h.next == next && h.segment == segment)?;
        self.recent.remove(found)
    }

    pub(crate) fn put(&mut self, hint: Hint) {
        if self.recent.len() == HINTS_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(hint);
    }

    /// Forgets the places in segments below `first`: they are trimmed away.
    pub(crate) fn trim(&mut self, first: u64) {
        self.recent.retain(|hint| hint.segment >= first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(next: u64, segment: u64) -> Hint {
        Hint { next, segment, position: next * 100, base_offset: next, run: 5 }
    }

    #[test]
    fn the_oldest_hint_goes() {
        let mut hints = Hints::default();
        for offset in 0..=HINTS_MAX as u64 {
            hints.put(hint(offset, 0));
        }
        assert_eq!(hints.take(0, 0), None);
        assert_eq!(hints.take(1, 0), Some(hint(1, 0)));
        assert_eq!(hints.take(1, 0), None, "taken");
        assert_eq!(hints.take(2, 9), None, "another segment");
    }

    #[test]
    fn readers_at_one_place_have_a_hint_each_and_trimmed_ones_are_gone() {
        let mut hints = Hints::default();
        for _ in 0..3 {
            hints.put(hint(7, 5));
        }
        assert!((0..3).all(|_| hints.take(7, 5).is_some()));
        assert_eq!(hints.take(7, 5), None);
        hints.put(hint(7, 5));
        hints.put(hint(9, 8));
        hints.trim(8);
        assert_eq!((hints.take(7, 5), hints.take(9, 8)), (None, Some(hint(9, 8))));
    }
}
