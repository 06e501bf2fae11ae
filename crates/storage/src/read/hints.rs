//! Where recent polls ended, so that a sequential reader continues without a look into the index.

use std::collections::VecDeque;

/// Most places remembered for one partition: as many readers keep their place.
const HINTS_MAX: usize = 32;

/// An offset and where its batch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hint {
    offset: u64,
    segment: u64,
    position: u64,
}

/// The most recently used ends of polls. A hint is right or absent: a log never moves a batch.
#[derive(Default)]
pub(crate) struct Hints {
    recent: VecDeque<Hint>,
}

impl Hints {
    /// Position of the batch that begins at `offset` in `segment`. Takes the hint: the reader that
    /// uses it leaves a new one.
    pub(crate) fn take(&mut self, offset: u64, segment: u64) -> Option<u64> {
        let found = self.recent.iter().position(|h| h.offset == offset && h.segment == segment)?;
        self.recent.remove(found).map(|hint| hint.position)
    }

    /// Forgets the places in segments below `first`: they are trimmed away.
    pub(crate) fn trim(&mut self, first: u64) {
        self.recent.retain(|hint| hint.segment >= first);
    }

    pub(crate) fn put(&mut self, offset: u64, segment: u64, position: u64) {
        let hint = Hint { offset, segment, position };
        if self.recent.contains(&hint) {
            return;
        }
        if self.recent.len() == HINTS_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(hint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_hint_goes() {
        let mut hints = Hints::default();
        for offset in 0..=HINTS_MAX as u64 {
            hints.put(offset, 0, offset * 100);
        }
        assert_eq!(hints.take(0, 0), None);
        assert_eq!(hints.take(1, 0), Some(100));
        assert_eq!(hints.take(1, 0), None);
        assert_eq!(hints.take(2, 7), None, "another segment");
    }
}
