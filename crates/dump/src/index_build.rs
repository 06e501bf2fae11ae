//! An index made anew from the batches of its log, by the engine's rule: one entry for the first
//! batch that begins at or behind each step of the log.

use std::path::Path;

use corelog_format::{BatchHeader, IndexEntry};

use crate::failure::Failure;
use crate::source::{Access, Links, Source};
use crate::walk::{Event, Flow, Known, walk};

/// Bytes of log between two entries, as the engine has it by default.
pub(crate) const STEP_BYTES: u64 = 64 << 10;

/// The entries of a log, as its batches come.
#[derive(Debug, Default)]
pub(crate) struct IndexBuilder {
    entries: Vec<IndexEntry>,
}

impl IndexBuilder {
    /// The batch at file position `at`.
    pub(crate) fn batch(&mut self, at: u64, header: &BatchHeader) {
        let last = self.entries.last();
        if last.is_none_or(|last| at / STEP_BYTES > last.position / STEP_BYTES) {
            self.entries.push(IndexEntry {
                base_offset: header.base_offset,
                base_timestamp: header.base_timestamp,
                position: at,
            });
        }
    }

    /// The index file's bytes.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.entries.iter().flat_map(IndexEntry::encode).collect()
    }
}

/// The index of the log at `path`: of every batch in it that verifies, also behind damage.
pub(crate) fn of_log(path: &Path, known: Known) -> Result<IndexBuilder, Failure> {
    let mut source = Source::open_whole(path, Links::Refuse, Access::default())?;
    let mut index = IndexBuilder::default();
    walk(&mut source, known, &mut |event| {
        if let Event::Batch { at, batch, .. } = event {
            index.batch(at, batch.header());
        }
        Ok(Flow::Continue)
    })?;
    Ok(index)
}
