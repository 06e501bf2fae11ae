//! The segments of one partition in order, by first offset; the last one is the active one.

use std::path::{Path, PathBuf};

use corelog_format::{index_file_name, segment_file_name};

use crate::sealed::Facts;

/// One segment. Its name is its first offset.
pub(crate) struct Segment {
    pub(crate) first_offset: u64,
    /// Of a sealed one, where they are known.
    facts: Option<Facts>,
}

impl Segment {
    pub(crate) fn new(first_offset: u64) -> Self {
        Segment { first_offset, facts: None }
    }
}

/// Path of a segment's log file.
pub(crate) fn log_path(dir: &Path, first_offset: u64) -> PathBuf {
    dir.join(segment_file_name(first_offset))
}

/// Path of a segment's index file.
pub(crate) fn index_path(dir: &Path, first_offset: u64) -> PathBuf {
    dir.join(index_file_name(first_offset))
}

/// Never empty; ascending. Segments are named by first offset, never by place in the list: the
/// list may change while a reader waits for the disk.
pub(crate) struct Segments {
    list: Vec<Segment>,
}

impl Segments {
    pub(crate) fn new(list: Vec<Segment>) -> Self {
        assert!(!list.is_empty(), "a partition has an active segment");
        assert!(list.is_sorted_by(|a, b| a.first_offset < b.first_offset));
        Segments { list }
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// First offset of the active segment.
    pub(crate) fn active(&self) -> u64 {
        self.list[self.list.len() - 1].first_offset
    }

    /// First offset of the oldest segment.
    pub(crate) fn first(&self) -> u64 {
        self.list[0].first_offset
    }

    pub(crate) fn push(&mut self, first_offset: u64) {
        assert!(first_offset > self.active());
        self.list.push(Segment::new(first_offset));
    }

    /// First offset of the oldest segment that stays when all that lie wholly below `up_to` are
    /// dropped. The active one always stays.
    pub(crate) fn first_kept(&self, up_to: u64) -> u64 {
        self.holding(up_to).unwrap_or_else(|| self.first()).min(self.active())
    }

    /// Drops the segments below `first`, and names them.
    pub(crate) fn trim(&mut self, first: u64) -> Vec<u64> {
        let place = self.place(first).expect("the first segment that is kept is there");
        self.list.drain(..place).map(|segment| segment.first_offset).collect()
    }

    fn place(&self, first_offset: u64) -> Option<usize> {
        self.list.binary_search_by_key(&first_offset, |segment| segment.first_offset).ok()
    }

    /// The segment whose range holds `offset`: the last that starts at or below it.
    pub(crate) fn holding(&self, offset: u64) -> Option<u64> {
        let behind = self.list.partition_point(|segment| segment.first_offset <= offset);
        behind.checked_sub(1).map(|place| self.list[place].first_offset)
    }

    /// First offset of the segment behind `first_offset`.
    pub(crate) fn after(&self, first_offset: u64) -> Option<u64> {
        let behind = self.list.partition_point(|segment| segment.first_offset <= first_offset);
        self.list.get(behind).map(|segment| segment.first_offset)
    }

    /// The segment in the middle between two first offsets, for a search by time.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = u64> + '_ {
        self.list.iter().map(|segment| segment.first_offset)
    }

    pub(crate) fn facts(&self, first_offset: u64) -> Option<Facts> {
        self.list[self.place(first_offset)?].facts
    }

    /// Keeps what a sealed segment is.
    pub(crate) fn set_facts(&mut self, first_offset: u64, facts: Facts) {
        if let Some(place) = self.place(first_offset) {
            self.list[place].facts = Some(facts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_are_by_offset_range() {
        let segments = Segments::new([10, 20, 40].map(Segment::new).into());
        assert_eq!(segments.holding(9), None);
        assert_eq!(segments.holding(10), Some(10));
        assert_eq!(segments.holding(39), Some(20));
        assert_eq!(segments.holding(u64::MAX), Some(40));
        assert_eq!((segments.after(10), segments.after(40)), (Some(20), None));
        assert_eq!((segments.first(), segments.active()), (10, 40));
    }

    #[test]
    fn only_what_lies_wholly_below_is_dropped() {
        let mut segments = Segments::new([10, 20, 40].map(Segment::new).into());
        let rows = [(0, 10), (10, 10), (19, 10), (20, 20), (39, 20), (40, 40), (u64::MAX, 40)];
        for (up_to, first) in rows {
            assert_eq!(segments.first_kept(up_to), first, "up to {up_to}");
        }
        assert_eq!(segments.trim(20), [10]);
        assert_eq!((segments.first(), segments.active()), (20, 40));
    }
}
