//! The front of the log goes: sealed segments that lie wholly below an offset are dropped. (Others
//! say "delete records", "prefix truncation" or "delete segments".)
//!
//! | step | a crash behind it leaves |
//! | --- | --- |
//! | the first retained offset is durable in the manifest | files below it, which opening removes and never serves |
//! | `start` moves; polls, hints and handles let go of what is below | the same |
//! | index and log files are removed, the oldest first | some of them |
//! | the directory is synced | none, or any of them, as the power cut likes |
//!
//! So the log never begins earlier than it was said to, and never has a hole. All of it runs beside
//! the appends. A poll that has a file open reads on in it; one that was about to open a file that
//! has gone begins again at the new start. Whoever trims has the marker meanwhile: no index file is
//! written beside it, two trims follow each other, and a close waits until the last file is removed,
//! since names may be used again in the next life.

use std::future::Future;
use std::rc::Rc;

use corelog_io::{Disk, IoError, IoOp, Platform};

use crate::canary::{self, Canary};
use crate::marker::Marker;
use crate::partition::{Inner, Partition};
use crate::segments::{index_path, log_path};
use crate::signal::Promise;
use crate::{Answer, Notice, TrimError};

/// What a trim has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trimmed {
    /// First retained offset now: `up_to`, or the start of the segment that holds it.
    pub start: u64,
    /// Segments that were dropped; 0 where nothing lay wholly below.
    pub segments: usize,
}

impl<P: Platform, A: Answer> Partition<P, A> {
    /// Drops the oldest sealed segments of which every message lies below `up_to`; the active one
    /// always stays. When this has ended the new start is durable and the files are removed.
    ///
    /// Offsets do not change: the next append gets the one it would have got. Polls that ask for
    /// less than the new start begin there. Takes its place behind a trim that is under way.
    /// Dropping the future does not stop it.
    ///
    /// # Errors
    /// After [`TrimError::Manifest`] nothing was removed, and the partition goes on. After
    /// [`TrimError::Remove`] the start has moved, and the next opening removes what is left.
    pub fn trim(&self, up_to: u64) -> impl Future<Output = Result<Trimmed, TrimError>> + use<P, A> {
        self.begin_trim(up_to, Spare::Nothing)
    }

    /// [`Partition::trim`], but what somebody who stores offsets has not read stays.
    pub(crate) fn trim_read(
        &self,
        up_to: u64,
    ) -> impl Future<Output = Result<Trimmed, TrimError>> + use<P, A> {
        self.begin_trim(up_to, Spare::Unread)
    }

    fn begin_trim(
        &self,
        up_to: u64,
        spare: Spare,
    ) -> impl Future<Output = Result<Trimmed, TrimError>> + use<P, A> {
        let (promise, done) = Promise::new();
        let inner = Rc::clone(&self.inner);
        self.inner.spawn(async move { promise.give(trim(&inner, up_to, spare).await) });
        async move { done.await.unwrap_or(Err(TrimError::Closed)) }
    }
}

/// What stays although it lies below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spare {
    Nothing,
    /// Messages above the lowest offset that a consumer or group has stored.
    Unread,
}

async fn trim<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    up_to: u64,
    spare: Spare,
) -> Result<Trimmed, TrimError> {
    let spares = spare == Spare::Unread && !canary::is(Canary::IgnoredBarrier);
    let read_to = |lowest: Option<u64>| lowest.map_or(u64::MAX, |lowest| lowest.saturating_add(1));
    if spares {
        let up_to = up_to.min(read_to(inner.consumers.lowest()));
        let may_go = inner.segments.borrow().first_kept(up_to) != inner.segments.borrow().first();
        if may_go {
            // A crash must not take back what lets them go.
            inner.offsets_stored().await;
        }
    }
    match inner.marks.take().await {
        Some(mut taken) => {
            // As late as can be: who stored a lower offset while this waited for its turn counts.
            let lowest = if spares { inner.consumers.lowest_for_good() } else { None };
            trim_with(inner, taken.marker(), up_to.min(read_to(lowest))).await
        }
        None => Err(TrimError::Closed),
    }
}

async fn trim_with<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    marker: &mut Marker,
    up_to: u64,
) -> Result<Trimmed, TrimError> {
    let (fault, durable, start) = {
        let appender = inner.appender.borrow();
        (appender.fault().cloned(), appender.durable(), appender.watermarks().start())
    };
    if let Some(fault) = fault {
        return Err(TrimError::Poisoned(fault));
    }
    // A segment that is not durable to its end is not sealed, whatever stands behind it.
    let first = inner.segments.borrow().first_kept(up_to.min(durable.segment));
    if first == inner.segments.borrow().first() {
        return Ok(Trimmed { start, segments: 0 });
    }
    if canary::is(Canary::EarlyUnlink) {
        let early: Vec<u64> = inner.segments.borrow().all().take_while(|s| *s < first).collect();
        let _ = remove(inner, &early).await;
    }
    let stored = marker.store_trimmed(&inner.shared, first, durable).await;
    stored.map_err(TrimError::Manifest)?;
    inner.appender.borrow_mut().trimmed(first);
    let dropped = inner.segments.borrow_mut().trim(first);
    inner.hints.borrow_mut().trim(first);
    inner.foreign.trim(first);
    inner.life.trim(first);
    inner.tally.add(|c| &c.dropped_segments, dropped.len() as u64);
    inner.shared.tell(&Notice::Dropped { start: first, segments: dropped.len() });
    let removed = remove(inner, &dropped).await;
    if let Err(error) = inner.shared.platform().disk().sync_dir(&inner.place.dir).await {
        if error.op != IoOp::Open {
            // Other names in the directory may be lost with these: a new segment's, too.
            inner.poison(error.duplicate());
            inner.pump();
        }
        return Err(TrimError::Remove { start: first, error });
    }
    match removed {
        Ok(()) => Ok(Trimmed { start: first, segments: dropped.len() }),
        Err(error) => Err(TrimError::Remove { start: first, error }),
    }
}

/// Removes the files of `dropped`. One that cannot be removed does not hold up the others; the
/// first error is told.
async fn remove<P: Platform, A: Answer>(
    inner: &Inner<P, A>,
    dropped: &[u64],
) -> Result<(), IoError> {
    let (disk, dir) = (inner.shared.platform().disk(), &inner.place.dir);
    let mut result = Ok(());
    for segment in dropped {
        for path in [index_path(dir, *segment), log_path(dir, *segment)] {
            match disk.remove(&path).await {
                Err(error) if !error.is_not_found() => result = result.and(Err(error)),
                _ => {}
            }
        }
    }
    result
}
