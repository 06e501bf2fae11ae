//! What a retention rule needs to know about each sealed segment: where it begins, how long it is,
//! how old its last batch is.

use std::rc::Rc;

use corelog_format::{Expect, IndexEntry, Mark};
use corelog_io::{Disk, File, IoError, Open, Platform};

use crate::Answer;
use crate::index;
use crate::partition::{Inner, Partition};
use crate::read::{ReadFault, Walker};
use crate::segments::index_path;

/// Bytes read at once on the way from the last index entry to the segment's end.
const READ_BYTES: usize = 64 << 10;

/// A sealed segment. Its messages are those from `first_offset` up to, not with, `end_offset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SealedSegment {
    /// Offset of its first message, which is its file name.
    pub first_offset: u64,
    /// First offset of the segment behind it: [`Partition::trim`] up to here drops it.
    pub end_offset: u64,
    /// Length of its log file, bytes; `None` where the disk could not say.
    pub bytes: Option<u64>,
    /// `base_timestamp` of its last batch, microseconds since the epoch: no batch of the segment is
    /// younger than this. Where its end cannot be read, that of the log's last batch. Among batches
    /// that another server has stamped, whose times may go back, the latest behind the last entry
    /// of its index: [`Partition::retain`] looks at those before it, too.
    pub last_timestamp: u64,
}

/// What a sealed segment is beside its name. It never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) bytes: u64,
    last_timestamp: u64,
}

impl Facts {
    /// Of a segment that ends at `mark`.
    pub(crate) fn sealed_at(mark: Mark) -> Self {
        Facts { bytes: mark.position, last_timestamp: mark.last_timestamp }
    }
}

impl<P: Platform, A: Answer> Partition<P, A> {
    /// The sealed segments, oldest first. Costs a look into each that was sealed before this
    /// opening, at its first use (its index and the last step of its log), and no I/O later.
    /// Cancel-safe.
    pub async fn sealed_segments(&self) -> Vec<SealedSegment> {
        let inner = &self.inner;
        let firsts: Vec<u64> = inner.segments.borrow().all().collect();
        let mut sealed = Vec::with_capacity(firsts.len());
        for pair in firsts.windows(2) {
            let (first_offset, end_offset) = (pair[0], pair[1]);
            let known = inner.segments.borrow().facts(first_offset);
            let (bytes, last_timestamp) = match known {
                Some(facts) => (Some(facts.bytes), Some(facts.last_timestamp)),
                None => look(inner, first_offset, end_offset).await.unwrap_or((None, None)),
            };
            // It may have been trimmed away while others were looked at.
            if first_offset < inner.segments.borrow().first() {
                continue;
            }
            if let (Some(bytes), Some(last_timestamp)) = (bytes, last_timestamp) {
                let facts = Facts { bytes, last_timestamp };
                inner.segments.borrow_mut().set_facts(first_offset, facts);
            }
            let youngest = inner.appender.borrow().appended().last_timestamp;
            let last_timestamp = last_timestamp.unwrap_or(youngest);
            sealed.push(SealedSegment { first_offset, end_offset, bytes, last_timestamp });
        }
        sealed
    }
}

/// Length and last time of a segment from its files. No time where its end is damaged.
async fn look<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    first: u64,
    end: u64,
) -> Result<(Option<u64>, Option<u64>), IoError> {
    let disk = inner.shared.platform().disk();
    let file = Rc::new(disk.open(&inner.log_path(first), Open::default()).await?);
    let len = file.len().await?;
    let path = index_path(&inner.place.dir, first);
    let opened = disk.open(&path, index::OPEN).await;
    let index = index::load(opened, inner.config.index_step).await;
    let origin = IndexEntry { base_offset: first, base_timestamp: 0, position: 0 };
    let last = index.and_then(|index| index.entries().last().copied());
    // The index may lie: then the whole segment is walked.
    for from in last.into_iter().chain([origin]) {
        let expect = Expect {
            partition_id: Some(u64::from(inner.place.partition_id)),
            next_offset: Some(from.base_offset),
            after_timestamp: None,
            time_may_go_back: true,
        };
        let mut walker = Walker::new(Rc::clone(&file), from.position, len, len, expect, READ_BYTES);
        let mut youngest = 0;
        loop {
            match walker.next().await {
                Ok(Some(batch)) => {
                    // Files of the reference server may hold time that went back.
                    youngest = youngest.max(batch.header.base_timestamp);
                    if batch.header.end_offset() == Some(end) {
                        return Ok((Some(len), Some(youngest.max(from.base_timestamp))));
                    }
                }
                Err(ReadFault::Io(error)) => return Err(error),
                Ok(None) | Err(ReadFault::Damage(_)) => break,
            }
        }
    }
    Ok((Some(len), None))
}
