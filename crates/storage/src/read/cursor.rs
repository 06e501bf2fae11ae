//! Walks verified batches of one segment, window by window.
//!
//! A batch is checked once for each window that is read: the window remembers, and whoever follows
//! checks its place in the log only.

use std::ops::Range;
use std::rc::Rc;

use corelog_format::{
    BATCH_HEADER_LEN, BatchHeader, Expect, FormatError, FormatErrorKind, Scan, Step, first_nonzero,
};
use corelog_io::{Platform, Spawn};

use super::plan::Want;
use super::source::{Source, Start};
use super::walker::{Damage, ReadFault};
use super::window::Window;
use crate::Answer;
use crate::partition::BytesOf;

/// Work between two turns of other tasks, in bytes to check: some 100 us. A message costs as much
/// as this many bytes of payload, and a 1 MiB batch of 1,000 messages is a slice of its own.
const SLICE: u64 = 1 << 20;
const MESSAGE_WORK: u64 = 512;
/// A batch that need not be checked again is little work, but not none: a poll may pass ten
/// thousands of them, so it yields after each 512.
const KNOWN_WORK: u64 = SLICE / 512;

/// A batch that verified and stands in its place.
pub(super) struct Stored<S> {
    pub(super) header: BatchHeader,
    pub(super) bytes: S,
    pub(super) range: Range<usize>,
}

/// A place in a segment, between two batches.
pub(super) struct Cursor<P: Platform, A: Answer> {
    source: Source<P, A>,
    position: u64,
    offset: u64,
    /// A batch is known to begin at `position`: what others have verified there need not be again.
    known: bool,
    window: Option<Rc<Window<BytesOf<P>>>>,
    work: u64,
}

impl<P: Platform, A: Answer> Cursor<P, A> {
    pub(super) fn new(source: Source<P, A>, start: Start) -> Self {
        let Start { position, offset, hint } = start;
        Cursor { source, position, offset, known: !hint, window: None, work: 0 }
    }

    /// The same segment from another place.
    pub(super) fn restart(self, start: Start) -> Self {
        Cursor::new(self.source, start)
    }

    pub(super) fn source(&self) -> &Source<P, A> {
        &self.source
    }

    /// Position of the next batch, or where the walk stopped.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Offset of the next batch.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Memory that the window of the last batch costs.
    pub(super) fn window_cost(&self) -> usize {
        self.window.as_ref().map_or(0, |window| window.cost())
    }

    /// Length of the next batch, where it can be had without waiting; it is not verified.
    pub(super) fn peek_len(&self) -> Option<u64> {
        let header = BATCH_HEADER_LEN as u64;
        let window = match &self.window {
            Some(window) if window.covers(self.position, header) => Rc::clone(window),
            _ => self.source.ready(self.position, header)?,
        };
        let bytes = window.bytes()?;
        let header = BatchHeader::parse(&bytes.as_ref()[window.range(&bytes, self.position)]);
        let len = header.ok()?.batch_length;
        let is_there = window.covers(self.position, len);
        (is_there || self.source.ready(self.position, len).is_some()).then_some(len)
    }

    /// Begins to read what a reader that ends here will ask for next.
    pub(super) fn read_ahead(&self, want: &Want) {
        if let Some(window) = &self.window {
            self.source.read_ahead(window, self.position, want);
        }
    }

    /// The next batch; `None` at the end of what is written. Cancel-safe.
    pub(super) async fn next(
        &mut self,
        want: &Want,
    ) -> Result<Option<Stored<BytesOf<P>>>, ReadFault> {
        if self.work >= SLICE {
            self.work = 0;
            self.source.inner.shared.platform().spawn().yield_now().await;
        }
        let left = self.source.end.saturating_sub(self.position);
        if left == 0 {
            return Ok(None);
        }
        let mut need = left.min(BATCH_HEADER_LEN as u64);
        loop {
            let window = self.window(need, want).await?;
            let bytes = window.bytes().expect("it was waited for");
            let range = window.range(&bytes, self.position);
            let found = self.look(&window, &bytes.as_ref()[range.clone()], left);
            match found {
                // A read that brought less than it was asked for met the end of the file.
                Ok(Look::Need(len)) if range.len() as u64 >= need => need = len,
                Ok(Look::Need(_)) => return Err(self.short(need, range.len() as u64)),
                Ok(Look::Batch(header)) => {
                    let range = range.start..range.start + header.batch_length as usize;
                    return Ok(Some(Stored { header, bytes, range }));
                }
                Err(why) => {
                    // It may be the read that was wrong, and not the file.
                    self.source.inner.life.forget(self.source.segment, &window);
                    self.window = None;
                    let damage = Damage { at: self.position, why, below_mark: true };
                    return Err(ReadFault::Damage(damage));
                }
            }
        }
    }

    /// A window with `need` bytes from here on, or all that the file has.
    async fn window(
        &mut self,
        need: u64,
        want: &Want,
    ) -> Result<Rc<Window<BytesOf<P>>>, ReadFault> {
        if let Some(window) = &self.window
            && window.covers(self.position, need)
        {
            return Ok(Rc::clone(window));
        }
        // Held while another is waited for, it would be one that nobody counts: see `Held`.
        self.window = None;
        let window = self.source.window(self.position, need, want).await.map_err(ReadFault::Io)?;
        self.window = Some(Rc::clone(&window));
        Ok(window)
    }

    /// Looks at `rest`, the window's bytes from here on, of `left` that the segment has.
    fn look(
        &mut self,
        window: &Window<BytesOf<P>>,
        rest: &[u8],
        left: u64,
    ) -> Result<Look, FormatError> {
        let at = self.position;
        let Some(header) = rest.get(..BATCH_HEADER_LEN) else {
            return Ok(Look::Need(BATCH_HEADER_LEN as u64));
        };
        if first_nonzero(header).is_none() {
            let kind = FormatErrorKind::Truncated { needed: BATCH_HEADER_LEN as u64, have: 0 };
            return Err(FormatError::new(at, "batch_header", kind));
        }
        let header = BatchHeader::parse(rest).map_err(|why| why.inside(at))?;
        let len = header.batch_length;
        if (rest.len() as u64) < len && len <= left {
            return Ok(Look::Need(len));
        }
        let place = at..at.saturating_add(len);
        let is_known = self.known && window.is_sound(&place);
        if !is_known || header.base_offset != self.offset {
            self.check(rest)?;
            window.verified(place.clone());
            self.work += len + u64::from(header.message_count) * MESSAGE_WORK;
        } else {
            self.work += KNOWN_WORK;
        }
        self.known = true;
        self.position = place.end;
        self.offset = header.base_offset + u64::from(header.message_count);
        Ok(Look::Batch(header))
    }

    /// The one scan that all of the engine shares says whether this is a batch of this place.
    fn check(&self, rest: &[u8]) -> Result<(), FormatError> {
        let inner = &self.source.inner;
        let expect = Expect {
            partition_id: Some(u64::from(inner.place.partition_id)),
            next_offset: Some(self.offset),
            after_timestamp: None,
            // Adopted files of the reference server may hold time that went back.
            time_may_go_back: true,
        };
        let scan = Scan::new(self.position, self.source.end, u64::MAX, expect);
        let mut scan = if inner.config.verify_reads { scan } else { scan.layout_only() };
        match scan.next(rest) {
            Step::Batch { .. } => Ok(()),
            Step::Torn { why, .. } | Step::Corrupt { why, .. } => Err(why),
            step @ (Step::NeedBytes { .. } | Step::End { .. }) => {
                unreachable!("a whole batch was given, not {step:?}")
            }
        }
    }

    /// The file is shorter than the log says it is.
    fn short(&self, needed: u64, have: u64) -> ReadFault {
        let kind = FormatErrorKind::Truncated { needed, have };
        let why = FormatError::new(self.position, "batch_header", kind);
        ReadFault::Damage(Damage { at: self.position, why, below_mark: true })
    }
}

/// What stands at a place.
enum Look {
    Batch(BatchHeader),
    /// So many bytes are needed to say.
    Need(u64),
}
