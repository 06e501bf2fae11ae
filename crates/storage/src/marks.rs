//! When the durable mark is stored: at most 64 MiB or one second behind what is synced.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use corelog_format::Mark;
use corelog_io::{Clock, Disk, File, IoError, Open, Platform, Spawn};

use crate::Answer;
use crate::index::SparseIndex;
use crate::marker::Marker;
use crate::partition::Inner;
use crate::segments::index_path;
use crate::signal::Signal;

const LAG_BYTES_MAX: u64 = 64 << 20;
const LAG_TIME_MAX: Duration = Duration::from_secs(1);

/// The marker, and whether someone is storing it or about to.
pub(crate) struct Marks {
    /// `None` while a task stores it.
    marker: RefCell<Option<Marker>>,
    back: Rc<Signal>,
    stored: Cell<Mark>,
    timer: Cell<bool>,
}

impl Marks {
    pub(crate) fn new(marker: Marker) -> Self {
        let stored = Cell::new(marker.mark());
        let (marker, back, timer) = (RefCell::new(Some(marker)), Rc::default(), Cell::new(false));
        Marks { marker, back, stored, timer }
    }

    /// Takes the marker, waiting for whoever has it.
    async fn take(&self) -> Marker {
        loop {
            let back = self.back.wait();
            if let Some(marker) = self.marker.borrow_mut().take() {
                return marker;
            }
            back.await;
        }
    }

    fn put(&self, marker: Marker) {
        self.stored.set(marker.mark());
        *self.marker.borrow_mut() = Some(marker);
        self.back.raise();
    }
}

/// `durable` has moved: see that the mark follows.
pub(crate) fn durable_moved<P: Platform, A: Answer>(inner: &Rc<Inner<P, A>>) {
    let durable = inner.appender.borrow().durable();
    let stored = inner.marks.stored.get();
    let far = durable.segment != stored.segment
        || durable.position.saturating_sub(stored.position) >= LAG_BYTES_MAX;
    if inner.marks.timer.replace(true) && !far {
        return;
    }
    let wait = if far { Duration::ZERO } else { LAG_TIME_MAX };
    let sleep = inner.shared.platform().clock().sleep(wait);
    let inner = Rc::clone(inner);
    let spawn = inner.shared.platform().spawn().clone();
    spawn.spawn(async move {
        sleep.await;
        inner.marks.timer.set(false);
        let durable = inner.appender.borrow().durable();
        if !inner.appender.borrow().is_closed() {
            // The mark lags until the next sync tries again: that is always allowed.
            let _ = store(&inner, durable).await;
        }
    });
}

/// Stores the mark, and the active index beside it. Marks never go back: an older one is skipped.
pub(crate) async fn store<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    mark: Mark,
) -> Result<(), IoError> {
    let mut marker = inner.marks.take().await;
    let disk = inner.shared.platform().disk();
    let active = inner.segments.borrow().active();
    // The index is a hint: if it cannot be stored now, it is stored or rebuilt later.
    let _ = save_index(disk, &inner.place.dir, active, &inner.index, false).await;
    let before = marker.mark();
    let ahead = (mark.next_offset, mark.segment, mark.position)
        > (before.next_offset, before.segment, before.position);
    let result = if ahead { marker.store(disk, mark).await } else { Ok(()) };
    inner.marks.put(marker);
    result
}

/// Brings the index file of `segment` up to date.
pub(crate) async fn save_index<D: Disk>(
    disk: &D,
    dir: &std::path::Path,
    segment: u64,
    index: &RefCell<SparseIndex>,
    durable: bool,
) -> Result<(), IoError> {
    let Some(write) = index.borrow().save(disk) else { return Ok(()) };
    let path = index_path(dir, segment);
    let how = Open { write: true, ..Open::default() };
    let file = match disk.open(&path, how).await {
        Err(error) if error.is_not_found() => {
            disk.open(&path, Open { create_new: true, ..how }).await?
        }
        opened => opened?,
    };
    let entries = write.run(&file).await?;
    if durable {
        file.sync().await?;
    }
    file.close().await?;
    index.borrow_mut().mark_saved(entries);
    Ok(())
}
