//! The end of a segment: sealed when it is full, cut when the partition closes.
//!
//! Order of a roll, and why: all writes have landed; the file is cut to its exact length and
//! synced, so that nothing in the next segment can become durable before everything in this one;
//! the next file is created and its directory synced, so that the first durable answer in it is not
//! lost with its name; appends go on; the index is stored (a hint, its failure is no fault); the
//! mark moves. A crash between any two leaves what recovery expects: a complete segment, and perhaps an
//! empty one behind it.

use std::io;
use std::rc::Rc;

use corelog_format::Mark;
use corelog_io::{Clock, Disk, File, IoError, IoOp, Open, Platform};

use crate::actives::Active;
use crate::index::SparseIndex;
use crate::partition::{FileOf, Inner};
use crate::sealed::Facts;
use crate::segments::log_path;
use crate::{Answer, CloseError, LogConfig, Notice};

/// Seals the active segment and begins the next. Appends go on as soon as it has begun; a close
/// waits until index and mark are stored, too.
pub(crate) async fn seal<P: Platform, A: Answer>(inner: &Rc<Inner<P, A>>) {
    let end = inner.appender.borrow().appended();
    if let Some(index) = seal_and_begin(inner, end).await {
        inner.pump();
        crate::marks::rolled(inner, end.segment, &index).await;
    }
    inner.appender.borrow_mut().seal_ended();
    inner.pump();
}

/// The index of the segment that was sealed, where the next one has begun.
async fn seal_and_begin<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    end: Mark,
) -> Option<Rc<SparseIndex>> {
    if let Err(error) = finish_file(inner, end).await {
        inner.poison(error);
        return None;
    }
    inner.appender.borrow_mut().sealed(end);
    inner.pump();
    let disk = inner.shared.platform().disk();
    let next = || create(disk, &inner.place.dir, end.next_offset, &inner.config);
    let created = match next().await {
        Err(Create::NotNow(error)) if inner.shared.gave_back(&error).await => next().await,
        created => created,
    };
    match created {
        Ok(file) => return Some(begin(inner, end, file)),
        Err(Create::NotNow(error)) => {
            match error.is_full() {
                true => inner.refused_for_space(&error),
                false => inner.shared.tell(&Notice::NoFile(&error)),
            }
            inner.appender.borrow_mut().roll_failed(error);
        }
        Err(Create::Fault(error)) => inner.poison(error),
    }
    None
}

/// Cuts the active file to its logical end and makes all of it durable.
async fn finish_file<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    end: Mark,
) -> Result<(), IoError> {
    let file = match inner.active_file() {
        Some(file) => file,
        None => {
            // Parked, and it closes. So many close at a time as are allowed to: that is a limit, too.
            let file = Rc::new(inner.open_active().await?);
            inner.hold(Rc::clone(&file), inner.shared.actives().enter());
            file
        }
    };
    file.set_len(end.position).await?;
    inner.tally.add(|c| &c.syncs, 1);
    file.sync().await
}

/// The next segment takes over; its file is empty and its name durable.
fn begin<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    sealed: Mark,
    file: FileOf<P>,
) -> Rc<SparseIndex> {
    let mark = Mark { segment: sealed.next_offset, position: 0, ..sealed };
    let index = Rc::new(inner.index.take());
    {
        let mut segments = inner.segments.borrow_mut();
        segments.set_facts(sealed.segment, Facts::sealed_at(sealed));
        segments.push(mark.segment);
    }
    inner.life.keep_index(sealed.segment, &index);
    inner.memory.borrow_mut().start_segment();
    if let Some(active) = &mut *inner.file.borrow_mut() {
        active.file = Rc::new(file);
    }
    inner.appender.borrow_mut().rolled(mark, 0);
    inner.tally.add(|c| &c.sealed_segments, 1);
    inner.has_space();
    let (segment, bytes, next) = (sealed.segment, sealed.position, mark.segment);
    inner.shared.tell(&Notice::Sealed { segment, bytes, next });
    index
}

/// Why the next segment's file is not there.
pub(crate) enum Create {
    /// Nothing has changed; the next attempt may succeed.
    NotNow(IoError),
    /// It is unknown what a crash would leave.
    Fault(IoError),
}

/// Creates an empty segment file, locked, with its name durable. A file of that name can only be
/// left by an attempt that failed, and is used if it is empty.
pub(crate) async fn create<D: Disk>(
    disk: &D,
    dir: &std::path::Path,
    first_offset: u64,
    config: &LogConfig,
) -> Result<D::File, Create> {
    let path = log_path(dir, first_offset);
    let dsync = config.enforce_fsync;
    let how = Open { write: true, create_new: true, dsync, lock: true, ..Open::default() };
    let (file, left) = match disk.open(&path, how).await {
        Err(error) if error.source.kind() == io::ErrorKind::AlreadyExists => {
            let how = Open { create_new: false, ..how };
            (disk.open(&path, how).await.map_err(Create::NotNow)?, Some(error))
        }
        opened => (opened.map_err(Create::NotNow)?, None),
    };
    match name(disk, dir, &file, left).await {
        Ok(()) => Ok(file),
        Err(why) => {
            // Its lock goes with it, and not some time later: the next attempt takes it.
            let _ = file.close().await;
            Err(why)
        }
    }
}

/// Makes the name of `file` durable; of one that was `left` by another attempt, if it is empty.
async fn name<D: Disk>(
    disk: &D,
    dir: &std::path::Path,
    file: &D::File,
    left: Option<IoError>,
) -> Result<(), Create> {
    if let Some(exists) = left
        && file.len().await.map_err(Create::NotNow)? > 0
    {
        return Err(Create::NotNow(exists));
    }
    file.sync().await.map_err(Create::Fault)?;
    disk.sync_dir(dir).await.map_err(|error| match error.op {
        IoOp::Open => Create::NotNow(error),
        _ => Create::Fault(error),
    })
}

/// Everything was dispatched and has landed, or the partition is poisoned: leave it in order.
pub(crate) async fn close<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
) -> Result<(), CloseError> {
    let offsets = inner.close_offsets().await;
    let fault = inner.appender.borrow().fault().cloned();
    let mut result = match fault {
        Some(fault) => {
            // Whoever stores the mark does so before the next life does. Where it cannot be stored
            // it lags, which is always allowed.
            let _ = crate::marks::close(inner, None).await;
            Err(CloseError::Poisoned(fault))
        }
        None => close_in_order(inner).await.and(offsets.map_err(CloseError::from)),
    };
    let active = inner.file.borrow_mut().take();
    // Polls read through handles of their own: this one is the last, and its lock goes with it.
    if let Some(Active { file, permit: _permit }) = active
        && let Some(file) = Rc::into_inner(file)
    {
        let closed = file.close().await;
        result = result.and(closed.map_err(CloseError::from));
    }
    // A log that cannot be read at its next opening does not say up to where it was stamped. What is
    // above the ceiling is none of ours.
    let stamped = inner.appender.borrow().appended().last_timestamp;
    if stamped <= inner.shared.platform().clock().ceiling_us() {
        inner.shared.lost_time(stamped);
    }
    inner.life.end();
    result
}

async fn close_in_order<P: Platform, A: Answer>(inner: &Rc<Inner<P, A>>) -> Result<(), CloseError> {
    let end = inner.appender.borrow().appended();
    if inner.is_in_order(end) {
        return Ok(crate::marks::close(inner, Some(end)).await?);
    }
    if let Err(error) = finish_file(inner, end).await {
        let _ = crate::marks::close(inner, None).await;
        return Err(error.into());
    }
    inner.appender.borrow_mut().sealed(end);
    crate::marks::close(inner, Some(end)).await?;
    inner.shared.platform().disk().sync_dir(&inner.place.dir).await?;
    Ok(())
}
