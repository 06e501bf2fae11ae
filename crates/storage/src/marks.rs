//! When the durable mark is stored: at most 64 MiB or one second behind what is synced.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use corelog_format::Mark;
use corelog_io::{Clock, File, IoError, Open, Platform};

use crate::index::{self, IndexWrite, SparseIndex};
use crate::marker::Marker;
use crate::partition::{BytesOf, Inner};
use crate::segments::index_path;
use crate::signal::Signal;
use crate::{Answer, Notice};

const LAG_BYTES_MAX: u64 = 64 << 20;
const LAG_TIME_MAX: Duration = Duration::from_secs(1);

/// The marker, and whether someone is storing it or about to. Whoever has the marker may also write
/// index files: so no two tasks write one.
pub(crate) struct Marks {
    marker: RefCell<Held>,
    back: Rc<Signal>,
    stored: Cell<Mark>,
    /// A task waits for its time to store the mark.
    timer: Cell<bool>,
    /// A task stores the mark as soon as it gets the marker.
    hurry: Cell<bool>,
    /// The last attempt failed: the next one waits for its time.
    failed: Cell<bool>,
}

enum Held {
    Here(Marker),
    /// A task stores it.
    Out,
    /// The partition is closed: nothing more is stored.
    Ended,
}

impl Marks {
    pub(crate) fn new(marker: Marker) -> Self {
        Marks {
            stored: Cell::new(marker.mark()),
            marker: RefCell::new(Held::Here(marker)),
            back: Rc::default(),
            timer: Cell::default(),
            hurry: Cell::default(),
            failed: Cell::default(),
        }
    }

    /// Takes the marker, waiting for whoever has it; `None` after the end.
    pub(crate) async fn take(&self) -> Option<Taken<'_>> {
        loop {
            let back = self.back.wait();
            let held = self.marker.replace(Held::Out);
            match held {
                Held::Here(marker) => return Some(Taken { marks: self, marker: Some(marker) }),
                Held::Out => back.await,
                Held::Ended => {
                    self.marker.replace(Held::Ended);
                    return None;
                }
            }
        }
    }

    /// The mark as it is stored.
    pub(crate) fn stored(&self) -> Mark {
        self.stored.get()
    }

    /// Whether a task is about to store the mark, at once or in its time: one of each is enough.
    fn awaited(&self, now: bool) -> &Cell<bool> {
        if now { &self.hurry } else { &self.timer }
    }

    fn end(&self) {
        self.marker.replace(Held::Ended);
        self.back.raise();
    }
}

/// The marker while someone has it. It goes back when this is dropped, by a panic as well: a close
/// waits for it.
pub(crate) struct Taken<'a> {
    marks: &'a Marks,
    marker: Option<Marker>,
}

impl Taken<'_> {
    pub(crate) fn marker(&mut self) -> &mut Marker {
        self.marker.as_mut().expect("only the drop takes it")
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if let Some(marker) = self.marker.take() {
            self.marks.stored.set(marker.mark());
            self.marks.marker.replace(Held::Here(marker));
            self.marks.back.raise();
        }
    }
}

/// `durable` has moved: see that the mark follows.
pub(crate) fn durable_moved<P: Platform, A: Answer>(inner: &Rc<Inner<P, A>>) {
    let durable = inner.appender.borrow().durable();
    let marks = &inner.marks;
    let stored = marks.stored.get();
    let far = durable.segment != stored.segment
        || durable.position.saturating_sub(stored.position) >= LAG_BYTES_MAX;
    let now = far && !marks.failed.get();
    if marks.awaited(now).replace(true) {
        return;
    }
    let wait = if now { Duration::ZERO } else { LAG_TIME_MAX };
    let sleep = inner.shared.platform().clock().sleep(wait);
    let this = Rc::clone(inner);
    inner.spawn(async move {
        sleep.await;
        let taken = this.marks.take().await;
        this.marks.awaited(now).set(false);
        let durable = this.appender.borrow().durable();
        if let Some(taken) = taken {
            // The mark lags until the next sync tries again: that is always allowed.
            let _ = store(&this, taken, durable, false).await;
        }
    });
}

/// The segment before the active one is sealed: stores its index, and the mark.
pub(crate) async fn rolled<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    sealed: u64,
    index: &SparseIndex,
) {
    let Some(taken) = inner.marks.take().await else { return };
    save_sealed(inner, sealed, index, true).await;
    let mark = inner.appender.borrow().durable();
    // The mark lags until the next sync tries again: that is always allowed.
    let _ = store(inner, taken, mark, false).await;
}

/// The index of a sealed segment was made again: stores it.
pub(crate) async fn reindexed<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    sealed: u64,
    index: &SparseIndex,
) {
    let Some(taken) = inner.marks.take().await else { return };
    save_sealed(inner, sealed, index, false).await;
    drop(taken);
}

/// Stores the index of a sealed segment. A hint: where it cannot be stored it is rebuilt.
async fn save_sealed<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    sealed: u64,
    index: &SparseIndex,
    durable: bool,
) {
    // It may have been trimmed away meanwhile: an index without its log would stay for good.
    let is_kept = inner.segments.borrow().first() <= sealed;
    if is_kept && let Some(write) = index.save(|len| inner.shared.alloc(len)) {
        let _ = write_index(inner, sealed, write, durable).await;
    }
}

/// The partition closes: stores index and mark at `end`, and nothing after. Without one, after a
/// fault, at what was durable, as far as the disk lets it: what stands below is not cut then,
/// whatever the fault has done to it.
pub(crate) async fn close<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    end: Option<Mark>,
) -> Result<(), IoError> {
    let Some(taken) = inner.marks.take().await else { return Ok(()) };
    let result = match end {
        Some(end) => store(inner, taken, end, true).await,
        None => {
            let durable = inner.appender.borrow().durable();
            let _ = store(inner, taken, durable, false).await;
            Ok(())
        }
    };
    inner.marks.end();
    result
}

/// Stores the mark, and the active index beside it. Marks never go back: an older one is skipped.
async fn store<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    mut taken: Taken<'_>,
    mark: Mark,
    durable: bool,
) -> Result<(), IoError> {
    // The index is a hint: if it cannot be stored now, it is stored or rebuilt later.
    let _ = save_index(inner, durable).await;
    let marker = taken.marker();
    let before = marker.mark();
    let ahead = (mark.next_offset, mark.segment, mark.position)
        > (before.next_offset, before.segment, before.position);
    let result = if ahead { marker.store(&inner.shared, mark).await } else { Ok(()) };
    inner.marks.failed.set(result.is_err());
    if let Err(error) = &result {
        inner.shared.tell(&Notice::MarkLags(error));
    }
    result
}

/// Brings the index file of the active segment up to date.
async fn save_index<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    durable: bool,
) -> Result<(), IoError> {
    let active = inner.segments.borrow().active();
    let write = inner.index.borrow().save(|len| inner.shared.alloc(len));
    let Some(write) = write else { return Ok(()) };
    let entries = write_index(inner, active, write, durable).await?;
    // A roll may have put the next segment's index in its place.
    if inner.segments.borrow().active() == active {
        inner.index.borrow_mut().mark_saved(entries);
    }
    Ok(())
}

/// Writes what is new to the index file of `segment`; says how many entries it has then.
async fn write_index<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    segment: u64,
    write: IndexWrite<BytesOf<P>>,
    durable: bool,
) -> Result<usize, IoError> {
    let shared = &inner.shared;
    let path = index_path(&inner.place.dir, segment);
    let how = Open { write: true, ..index::OPEN };
    let file = match shared.open(&path, how).await {
        Err(error) if error.is_not_found() => {
            shared.open(&path, Open { create_new: true, ..how }).await?
        }
        opened => opened?,
    };
    let entries = write.run(&file).await?;
    if durable {
        file.sync().await?;
    }
    file.close().await?;
    Ok(entries)
}
