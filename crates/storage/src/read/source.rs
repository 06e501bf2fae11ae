//! A segment file as polls read it: its index, and windows out of the shard's cache or the disk.

use std::rc::Rc;

use corelog_format::IndexEntry;
use corelog_io::{File, IoError, Open, Platform, align_down, align_up};

use super::plan::{self, Cut, Reach, Want};
use super::window::Window;
use crate::index::{self, SparseIndex};
use crate::partition::{BytesOf, FileOf, Inner};
use crate::segments::index_path;
use crate::{Answer, PollError};

/// A place to start reading a segment: a batch begins at `position`, with `offset`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    pub(super) position: u64,
    pub(super) offset: u64,
    /// From the index: believed only after its batch has verified.
    pub(super) hint: bool,
}

impl Start {
    pub(super) fn of(entry: IndexEntry) -> Self {
        Start { position: entry.position, offset: entry.base_offset, hint: true }
    }
}

/// One segment, open for reading.
pub(super) struct Source<P: Platform, A: Answer> {
    pub(super) inner: Rc<Inner<P, A>>,
    /// Its first offset.
    pub(super) segment: u64,
    /// Where its readable bytes end: in the active one, where the device has them; a sealed one
    /// ends with its file.
    pub(super) end: u64,
    /// Never the handle that writes and holds the lock: a poll may outlive the close.
    file: Rc<FileOf<P>>,
    /// Of a sealed segment.
    index: Rc<SparseIndex>,
}

impl<P: Platform, A: Answer> Source<P, A> {
    pub(super) async fn open(inner: &Rc<Inner<P, A>>, segment: u64) -> Result<Self, PollError> {
        let is_active = || segment == inner.segments.borrow().active();
        let end = match is_active() {
            true => inner.appender.borrow().written().position,
            false => u64::MAX,
        };
        let file = inner.life.reader(segment, &inner.log_path(segment)).await?;
        let index = match inner.life.index(segment) {
            Some(index) => index,
            None if is_active() => Rc::default(),
            None => Self::load_index(inner, segment).await,
        };
        Ok(Source { inner: Rc::clone(inner), segment, end, file, index })
    }

    /// What cannot be loaded is empty, which is always correct.
    async fn load_index(inner: &Rc<Inner<P, A>>, segment: u64) -> Rc<SparseIndex> {
        let path = index_path(&inner.place.dir, segment);
        let opened = inner.shared.open(&path, Open::default()).await;
        let loaded = index::load(opened, inner.config.index_step).await;
        let Some(index) = loaded else { return Rc::default() };
        let index = Rc::new(index);
        inner.life.keep_index(segment, &index);
        index
    }

    /// Looks into the index. The active one's is looked into where it is: it grows, and may hold
    /// ten thousands of entries. (When the segment was sealed meanwhile, the one that was kept.)
    pub(super) fn look<T>(&self, look: impl FnOnce(&SparseIndex) -> T) -> T {
        if self.segment == self.inner.segments.borrow().active() {
            return look(&self.inner.index.borrow());
        }
        if self.index.entries().is_empty()
            && let Some(index) = self.inner.life.index(self.segment)
        {
            return look(&index);
        }
        look(&self.index)
    }

    /// The start of the segment.
    pub(super) fn origin(&self) -> Start {
        Start { position: 0, offset: self.segment, hint: false }
    }

    /// A start before one that did not hold what the index said, `lies` times in a row: twice as
    /// far back each time, so that an index of which nothing is true costs few reads.
    pub(super) fn before(&self, start: Start, lies: u32) -> Start {
        let entry = self.look(|index| {
            let entries = index.entries();
            let below = entries.partition_point(|entry| entry.position < start.position);
            let back = 1usize.checked_shl(lies.saturating_sub(1))?;
            below.checked_sub(back).map(|place| entries[place])
        });
        entry.filter(|entry| entry.position > 0).map_or(self.origin(), Start::of)
    }

    /// The window with a batch at `position`, of which `at_least` bytes are needed, ready; and
    /// begins to read what is wanted behind it.
    ///
    /// # Errors
    /// The error of a read that was made for this call: one that was read ahead and failed is read
    /// again. Cancel-safe; the reads go on.
    pub(super) async fn window(
        &self,
        position: u64,
        at_least: u64,
        want: &Want,
    ) -> Result<Rc<Window<BytesOf<P>>>, IoError> {
        let mut least = false;
        loop {
            let found = self.inner.life.window(self.segment, position, true);
            let found = found.filter(|w| w.covers(position, at_least) && !w.is_failed());
            let is_ours = found.is_none();
            let window = match found {
                Some(window) => window,
                None => self.read_now(position, at_least, least, want),
            };
            self.read_ahead(&window, position, want);
            if window.bytes().is_some() {
                self.inner.shared.reads_sent().await;
            } else {
                window.ended().await;
            }
            if window.bytes().is_some() {
                return Ok(window);
            }
            self.inner.life.forget(self.segment, &window);
            // Whoever shares the read leaves the error to the one who asked for it.
            let error = is_ours.then(|| window.take_error()).flatten();
            // A sector ahead may be the one that cannot be read: only the batch itself counts.
            let is_ahead = error.as_ref().is_some_and(IoError::is_unreadable) && !least;
            least |= is_ours;
            if is_ours && !is_ahead {
                let broken = || {
                    let path = self.inner.log_path(self.segment);
                    let text = std::io::Error::other("the read was given up");
                    IoError::new(corelog_io::IoOp::Read, path, text)
                };
                return Err(error.unwrap_or_else(broken));
            }
        }
    }

    /// The window with a batch at `position`, where it is ready and holds `at_least` bytes of it.
    pub(super) fn ready(&self, position: u64, at_least: u64) -> Option<Rc<Window<BytesOf<P>>>> {
        let window = self.inner.life.window(self.segment, position, false)?;
        (window.covers(position, at_least) && window.bytes().is_some()).then_some(window)
    }

    /// Up to `len` bytes of the file from `position` on, for nobody else.
    pub(super) async fn bytes(&self, position: u64, len: u64) -> Result<Vec<u8>, IoError> {
        let start = align_down(position);
        let bytes = self.file.read_at(start, (align_up(position + len) - start) as usize).await?;
        let bytes = bytes.as_ref().get((position - start) as usize..).unwrap_or_default();
        Ok(bytes[..bytes.len().min(len as usize)].to_vec())
    }

    fn reach(&self, want: &Want) -> Reach {
        want.reach(self.inner.shared.limits(), self.inner.config.index_step)
    }

    /// Begins to read a window with a batch at `position`; one with nothing but `at_least` bytes of
    /// it where `least` is set.
    fn read_now(
        &self,
        position: u64,
        at_least: u64,
        least: bool,
        want: &Want,
    ) -> Rc<Window<BytesOf<P>>> {
        let reach = self.reach(want);
        let cut = match least {
            true => Cut { from: position, to: position + at_least, whole: false },
            false => self.look(|index| plan::window(index, self.end, position, at_least, reach)),
        };
        let window = Rc::new(Window::new(cut, self.end));
        self.inner.life.read(self.segment, &window, &self.file, false);
        window
    }

    /// Begins to read what a reader at `position`, which is in `window`, will want behind it.
    pub(super) fn read_ahead(&self, window: &Window<BytesOf<P>>, position: u64, want: &Want) {
        let reach = self.reach(want);
        if !window.is_whole() {
            return;
        }
        // What is read now may not be kept, so it is not looked for.
        let there = |at| match at < window.to() {
            true => Some((window.to(), true)),
            false => {
                let window = self.inner.life.window(self.segment, at, false)?;
                Some((window.to(), window.is_whole()))
            }
        };
        let next = || self.look(|index| plan::missing(index, self.end, position, reach, there));
        while let Some(cut) = next() {
            let window = Rc::new(Window::new(cut, self.end));
            if !self.inner.life.read(self.segment, &window, &self.file, true) {
                return;
            }
        }
    }
}
