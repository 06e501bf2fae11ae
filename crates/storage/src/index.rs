//! The sparse index of one segment: a hint for where to start reading, never a truth.
//!
//! One entry at the first batch that starts at or after each `index_step` of log. An entry is used
//! only after the batch it points to was verified; whatever is wrong with the file, the log is
//! read instead and the index rebuilt.

mod load;

use corelog_format::{INDEX_ENTRY_LEN, IndexEntry};
use corelog_io::{Buf, File, IoError, align_down, align_up};

pub(crate) use load::{OPEN, load};

/// No file is as long: a read from there is an error of the caller, which a lying entry must not
/// make of a poll.
const POSITION_MAX: u64 = i64::MAX as u64 / 2;

/// Entries of one segment in memory, ascending in offset, time and position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SparseIndex {
    entries: Vec<IndexEntry>,
    /// Entries from here on are not in the file yet.
    saved: usize,
    /// The file goes on with entries that were forgotten; the next write takes them off.
    longer: bool,
}

impl SparseIndex {
    /// Entries of an index file, up to the first that does not ascend: zeros, a torn entry or
    /// another file's content end it. The file may be padded.
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let mut entries: Vec<IndexEntry> = Vec::new();
        for chunk in bytes.chunks_exact(INDEX_ENTRY_LEN) {
            let Ok(raw) = <&[u8; INDEX_ENTRY_LEN]>::try_from(chunk) else { break };
            let entry = IndexEntry::decode(raw);
            let ascends = match entries.last() {
                Some(last) => {
                    entry.base_offset > last.base_offset && entry.position > last.position
                }
                None => entry.base_timestamp != 0 || entry.base_offset != 0 || entry.position != 0,
            };
            if !ascends || entry.position > POSITION_MAX {
                break;
            }
            entries.push(entry);
        }
        let saved = entries.len();
        SparseIndex { entries, saved, longer: false }
    }

    pub(crate) fn entries(&self) -> &[IndexEntry] {
        &self.entries
    }

    /// Adds an entry for the batch at `entry.position` if a step was crossed since the last one. A
    /// last entry that says something else of this very batch gives way to it.
    pub(crate) fn note(&mut self, entry: IndexEntry, step: u64) {
        if self.entries.last().is_some_and(|last| last.position == entry.position && *last != entry)
        {
            self.forget_last(1);
        }
        let due = match self.entries.last() {
            Some(last) => entry.position / step > last.position / step,
            None => true,
        };
        if due {
            self.entries.push(entry);
        }
    }

    /// Forgets entries at or above `position`.
    pub(crate) fn cut(&mut self, position: u64) {
        self.keep(self.entries.partition_point(|entry| entry.position < position));
    }

    /// Forgets the last `count` entries.
    pub(crate) fn forget_last(&mut self, count: usize) {
        self.keep(self.entries.len().saturating_sub(count));
    }

    fn keep(&mut self, entries: usize) {
        self.entries.truncate(entries);
        self.longer |= entries < self.saved;
        self.saved = self.saved.min(entries);
    }

    /// The last entry at or below `offset`.
    pub(crate) fn at_offset(&self, offset: u64) -> Option<IndexEntry> {
        let behind = self.entries.partition_point(|entry| entry.base_offset <= offset);
        behind.checked_sub(1).map(|i| self.entries[i])
    }

    /// The last entry from offset `from` on whose batch is older than `timestamp`: the first batch
    /// at or after it cannot stand before that entry where time ascends from `from` on.
    pub(crate) fn before_time(&self, from: u64, timestamp: u64) -> Option<IndexEntry> {
        let entries = &self.entries[self.entries.partition_point(|e| e.base_offset < from)..];
        let behind = entries.partition_point(|entry| entry.base_timestamp < timestamp);
        behind.checked_sub(1).map(|i| entries[i])
    }

    /// The last entry at or below file position `position`.
    pub(crate) fn at_position(&self, position: u64) -> Option<IndexEntry> {
        let behind = self.entries.partition_point(|entry| entry.position <= position);
        behind.checked_sub(1).map(|i| self.entries[i])
    }

    /// The first entry above file position `position`.
    pub(crate) fn after_position(&self, position: u64) -> Option<IndexEntry> {
        self.entries.get(self.entries.partition_point(|e| e.position <= position)).copied()
    }

    /// True where [`SparseIndex::save`] has something to do.
    pub(crate) fn is_unsaved(&self) -> bool {
        self.saved < self.entries.len() || (self.longer && !self.entries.is_empty())
    }

    /// Blocks that bring an index file up to date: position and bytes, the last block zero-padded.
    /// `None` where nothing is unsaved, or no buffer is free (then it is done later).
    fn unsaved<B: Buf>(&self, alloc: impl FnOnce(usize) -> Option<B>) -> Option<(u64, B::Bytes)> {
        if !self.is_unsaved() {
            return None;
        }
        // At least the last entry: a file that is too long may lack none.
        let first = self.saved.min(self.entries.len() - 1);
        let start = align_down((first * INDEX_ENTRY_LEN) as u64) as usize;
        let end = self.entries.len() * INDEX_ENTRY_LEN;
        let len = align_up((end - start) as u64) as usize;
        let mut buf = alloc(len)?;
        let first = start / INDEX_ENTRY_LEN;
        let bytes = buf.as_mut();
        bytes.fill(0);
        for (i, entry) in self.entries[first..].iter().enumerate() {
            let raw = entry.encode();
            let at = (first + i) * INDEX_ENTRY_LEN;
            // The first entry may straddle the block boundary: only its rest belongs here.
            let skip = start.saturating_sub(at);
            let to = at + skip - start;
            bytes[to..to + INDEX_ENTRY_LEN - skip].copy_from_slice(&raw[skip..]);
        }
        Some((start as u64, buf.freeze(len)))
    }

    /// The write that brings the file up to date; remember its end with [`SparseIndex::mark_saved`].
    pub(crate) fn save<B: Buf>(
        &self,
        alloc: impl FnOnce(usize) -> Option<B>,
    ) -> Option<IndexWrite<B::Bytes>> {
        let (at, bytes) = self.unsaved(alloc)?;
        Some(IndexWrite { at, bytes, entries: self.entries.len() })
    }

    pub(crate) fn mark_saved(&mut self, entries: usize) {
        self.saved = self.saved.max(entries.min(self.entries.len()));
        self.longer &= entries != self.entries.len();
    }
}

/// One write of an index file.
pub(crate) struct IndexWrite<S> {
    at: u64,
    bytes: S,
    entries: usize,
}

impl<S: corelog_io::SharedBytes> IndexWrite<S> {
    /// Writes, and cuts the padding off so that no zero entry is left for other readers.
    pub(crate) async fn run<F: File<Bytes = S>>(self, file: &F) -> Result<usize, IoError> {
        file.write_at(self.bytes, self.at).await?;
        file.set_len((self.entries * INDEX_ENTRY_LEN) as u64).await?;
        Ok(self.entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: u64) -> IndexEntry {
        IndexEntry { base_offset: n * 10, base_timestamp: 1000 + n, position: n * 65536 }
    }

    fn bytes(entries: &[IndexEntry]) -> Vec<u8> {
        entries.iter().flat_map(|e| e.encode()).collect()
    }

    #[test]
    fn parsing_stops_where_entries_stop_ascending() {
        let good = [entry(0), entry(1), entry(2)];
        assert_eq!(SparseIndex::parse(&bytes(&good)).entries(), good);
        let mut padded = bytes(&good);
        padded.extend([0; 4096]);
        assert_eq!(SparseIndex::parse(&padded).entries(), good);
        assert_eq!(SparseIndex::parse(&bytes(&good)[..71]).entries(), &good[..2], "torn entry");
        assert_eq!(SparseIndex::parse(&bytes(&[entry(2), entry(1)])).entries(), &[entry(2)]);
        let beyond = IndexEntry { position: 1 << 63, ..entry(3) };
        assert_eq!(SparseIndex::parse(&bytes(&[entry(0), beyond])).entries(), &[entry(0)]);
        assert!(SparseIndex::parse(&[0; 240]).entries().is_empty());
        assert!(SparseIndex::parse(&[]).entries().is_empty());
    }

    #[test]
    fn one_entry_a_step() {
        let mut index = SparseIndex::default();
        for position in (0..400_000).step_by(10_000) {
            let n = position / 10_000;
            index.note(IndexEntry { base_offset: n, base_timestamp: n + 1, position }, 65_536);
        }
        let at: Vec<u64> = index.entries().iter().map(|e| e.position).collect();
        assert_eq!(at, [0, 70_000, 140_000, 200_000, 270_000, 330_000]);
    }

    #[test]
    fn lookups_give_the_last_entry_at_or_below() {
        let index = SparseIndex::parse(&bytes(&[entry(0), entry(1), entry(2)]));
        assert_eq!(index.at_offset(9), Some(entry(0)));
        assert_eq!(index.at_offset(10), Some(entry(1)));
        assert_eq!(index.at_offset(u64::MAX), Some(entry(2)));
        assert_eq!(index.before_time(0, 1000), None);
        assert_eq!(index.before_time(0, 1001), Some(entry(0)));
        assert_eq!(index.before_time(1, 1001), None);
        assert_eq!(index.before_time(1, 1002), Some(entry(1)));
        assert_eq!(index.at_position(65535), Some(entry(0)));
        let later = SparseIndex::parse(&bytes(&[entry(3)]));
        assert_eq!(later.at_offset(29), None);
    }

    #[test]
    fn cutting_drops_entries_at_and_above() {
        let mut index = SparseIndex::parse(&bytes(&[entry(0), entry(1), entry(2)]));
        index.cut(65536 * 3);
        assert!(!index.is_unsaved());
        index.cut(65536);
        assert_eq!(index.entries(), &[entry(0)]);
        assert!(index.is_unsaved(), "the file goes on");
        index.mark_saved(1);
        assert!(!index.is_unsaved());
        index.note(entry(1), 65536);
        assert!(index.is_unsaved());
    }

    #[test]
    fn what_a_batch_says_of_itself_stands() {
        let mut index = SparseIndex::parse(&bytes(&[entry(0), entry(1)]));
        index.note(entry(1), 65536);
        assert!(!index.is_unsaved());
        let other = IndexEntry { base_timestamp: 7, ..entry(1) };
        index.note(other, 65536);
        assert_eq!(index.entries(), &[entry(0), other]);
        assert!(index.is_unsaved());
    }
}
