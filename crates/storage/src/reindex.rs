//! An index of a sealed segment that is of no use is made again, beside the polls.
//!
//! Whoever looks a batch up knows how good the index was: the entry before a batch is less than a
//! step away, unless entries are missing, and an entry whose batch does not verify lies. Then the
//! segment is walked once, in the background, and the new index kept and written. On a shard one is
//! made at a time, 256 KiB read at once, and a segment's at most once in the life of its partition;
//! whatever goes wrong leaves the polls as they were: slower, not wrong.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use corelog_format::{Expect, IndexEntry};
use corelog_io::Platform;

use crate::Answer;
use crate::index::SparseIndex;
use crate::partition::Inner;
use crate::read::Walker;

/// Read at once.
const READ_BYTES: usize = 256 << 10;

/// Segments whose index was made again, or could not be.
#[derive(Default)]
pub(crate) struct Reindexed {
    segments: RefCell<BTreeSet<u64>>,
}

/// A batch in `segment` was found `way` bytes behind the place that its index named; `lied` where
/// the index named others before that hold no batch.
pub(crate) fn looked_up<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    segment: u64,
    way: u64,
    lied: bool,
) {
    let is_useful = !lied && way < 2 * inner.config.index_step;
    if is_useful || inner.reindexed.segments.borrow().contains(&segment) {
        return;
    }
    let Some(after) = inner.segments.borrow().after(segment) else { return };
    let Some(turn) = inner.shared.begin_reindex() else { return };
    inner.reindexed.segments.borrow_mut().insert(segment);
    let task = Rc::clone(inner);
    inner.spawn(async move {
        if let Some(index) = walk(&task, segment, after).await {
            let index = Rc::new(index);
            task.life.keep_index(segment, &index);
            crate::marks::reindexed(&task, segment, &index).await;
        }
        drop(turn);
    });
}

/// The index of a segment that ends where the next begins. `None` where it does not, for damage or
/// for an error: the old index may know places behind that a walk does not reach.
async fn walk<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    segment: u64,
    after: u64,
) -> Option<SparseIndex> {
    let file = inner.life.reader(segment, &inner.log_path(segment)).await.ok()?;
    let expect = Expect {
        partition_id: Some(u64::from(inner.place.partition_id)),
        next_offset: Some(segment),
        after_timestamp: None,
        time_may_go_back: true,
    };
    // The batch of an entry is verified when the entry is used.
    let walker = Walker::new(file, 0, u64::MAX, u64::MAX, expect, READ_BYTES);
    let mut walker = walker.layout_only();
    let mut index = SparseIndex::default();
    while let Some(found) = walker.next().await.ok()? {
        let entry = IndexEntry {
            base_offset: found.header.base_offset,
            base_timestamp: found.header.base_timestamp,
            position: found.at,
        };
        index.note(entry, inner.config.index_step);
        if found.header.end_offset() == Some(after) {
            return Some(index);
        }
        if inner.appender.borrow().is_closed() {
            break;
        }
    }
    None
}
