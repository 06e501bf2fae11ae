//! A segment's index held against the batches that the walk finds. An index is a hint: whatever
//! its state, it never decides a verdict.

use std::path::{Path, PathBuf};

use corelog_format::{BatchHeader, INDEX_ENTRY_LEN, IndexEntry, first_nonzero};

use crate::failure::Failure;
use crate::source::{Access, Links, Source};

const ENTRY: u64 = INDEX_ENTRY_LEN as u64;

/// What an index is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexState {
    /// Every entry names the start of a batch, with its offset and time.
    Ok,
    /// There is no index file.
    Missing,
    /// True as far as it goes, but out of step with the log: empty beside batches, cut inside an
    /// entry, padded with zeros, or ahead of the last batch.
    Stale,
    /// An entry contradicts the log, or the file cannot be read.
    Bad,
}

impl IndexState {
    /// The word in every output.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            IndexState::Ok => "ok",
            IndexState::Missing => "missing",
            IndexState::Stale => "stale",
            IndexState::Bad => "bad",
        }
    }
}

/// Compares entries and batches side by side: both ascend, so each is looked at once and memory
/// does not grow with either.
#[derive(Debug)]
pub(crate) struct IndexCheck {
    source: Option<Source>,
    /// File position of the first entry not yet compared.
    next: u64,
    batches: u64,
    next_offset: u64,
    /// Entries at or behind this log position, before the next batch, point into damage: nothing
    /// can be said about them.
    damaged_from: Option<u64>,
    state: IndexState,
    unreadable: Option<Failure>,
}

impl IndexCheck {
    /// Opens the index beside `log`. That it is missing is a state, and so is that it cannot be
    /// read. Open it before the log: then it is not ahead of it merely because both grow.
    pub(crate) fn open(log: &Path, links: Links, access: Access) -> IndexCheck {
        let (source, state, unreadable) = match Source::open(&beside(log), links, access) {
            Ok(source) => (Some(source), IndexState::Ok, None),
            Err(failure) if failure.is_not_found() => (None, IndexState::Missing, None),
            Err(failure) => (None, IndexState::Bad, Some(failure)),
        };
        let (next, batches, next_offset, damaged_from) = (0, 0, 0, None);
        IndexCheck { source, next, batches, next_offset, damaged_from, state, unreadable }
    }

    /// The next batch of the log.
    pub(crate) fn batch(&mut self, at: u64, header: &BatchHeader) {
        self.batches += 1;
        self.next_offset = header.end_offset().unwrap_or(u64::MAX);
        let damaged_from = self.damaged_from.take();
        let mut named = false;
        while let Some(entry) = self.entry() {
            if entry.position > at {
                return;
            }
            let is_this = entry.position == at
                && entry.base_offset == header.base_offset
                && entry.base_timestamp == header.base_timestamp;
            let in_damage =
                entry.position < at && damaged_from.is_some_and(|from| from <= entry.position);
            // Each batch once: an entry that stands twice was written by mistake.
            if !(is_this && !named || in_damage) {
                self.state = self.contradicted(&entry);
                return;
            }
            named |= is_this;
            self.next += ENTRY;
        }
    }

    /// The state of an index whose next entry is not true: zeros up to the end are padding that
    /// nobody filled in, anything else is a lie.
    fn contradicted(&mut self, entry: &IndexEntry) -> IndexState {
        let Some(source) = &mut self.source else { return self.state };
        if first_nonzero(&entry.encode()).is_some() {
            return IndexState::Bad;
        }
        match source.zeros_to_end(self.next) {
            Ok(true) => IndexState::Stale,
            Ok(false) => IndexState::Bad,
            Err(failure) => {
                self.unreadable = Some(failure);
                IndexState::Bad
            }
        }
    }

    /// Damage at log position `at`.
    pub(crate) fn damage(&mut self, at: u64) {
        self.damaged_from = Some(at);
    }

    /// The state, now that the log's readable part is known to end at `end`; with it, why the
    /// index could not be read, if that is so.
    pub(crate) fn finish(mut self, end: u64) -> (IndexState, Option<Failure>) {
        if let (Some(len), IndexState::Ok) = (self.source.as_ref().map(Source::len), self.state) {
            self.state = match self.entry() {
                // Ahead of the log, as a crash leaves it, if both its fields say so.
                Some(e) if e.position >= end && e.base_offset >= self.next_offset => {
                    IndexState::Stale
                }
                Some(entry) => self.contradicted(&entry),
                // Empty beside batches it helps nobody; beside an empty log it is as it should be.
                None if len < ENTRY && (len > 0 || self.batches > 0) => IndexState::Stale,
                None if !len.is_multiple_of(ENTRY) => IndexState::Stale,
                // Reading the entry may just have failed.
                None => self.state,
            };
        }
        (self.state, self.unreadable)
    }

    /// The next entry, while there is one and comparing makes sense.
    fn entry(&mut self) -> Option<IndexEntry> {
        let (Some(source), IndexState::Ok) = (&mut self.source, self.state) else {
            return None;
        };
        match source.window(self.next, ENTRY) {
            Ok(window) => window.first_chunk().map(IndexEntry::decode),
            Err(failure) => {
                self.state = IndexState::Bad;
                self.unreadable = Some(failure);
                None
            }
        }
    }
}

/// The path of the index that belongs to a log.
pub(crate) fn beside(log: &Path) -> PathBuf {
    log.with_extension("index")
}
