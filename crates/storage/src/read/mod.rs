//! Polls: where to start, what to select, memory before disk, and the reply's pieces.

mod cursor;
mod damage;
mod disk;
mod foreign;
mod hints;
mod memory;
mod plan;
mod select;
mod source;
mod time;
mod walker;
mod window;
mod windows;

use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use corelog_format::BATCH_HEADER_LEN;
use corelog_io::{Clock, Platform, SharedBytes};

pub(crate) use foreign::{Foreign, latest_foreign};
pub(crate) use hints::Hints;
#[cfg(test)]
pub(crate) use plan::Cut;
pub(crate) use walker::{Damage, ReadFault, Walker};
pub(crate) use window::Window;
pub(crate) use windows::Windows;

use crate::partition::{BytesOf, Inner};
use crate::signal::first_of;
use crate::{Answer, ConsumerKey, PollError};
use plan::{Begin, Source};
use select::Selection;

/// Where a poll starts. All of it is clipped to what is retained and readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// The message with this offset; below the first retained one, that one.
    Offset(u64),
    /// The first batch whose `base_timestamp` is at or after this, microseconds since the epoch.
    Timestamp(u64),
    /// The first retained message.
    First,
    /// This many messages before the end.
    Last(u32),
    /// The message behind the one whose offset this consumer has stored; the first retained one
    /// where it has stored nothing.
    Next(ConsumerKey),
}

/// What one poll asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollQuery {
    /// Where to start.
    pub from: From,
    /// Most messages to serve; 0 serves none.
    pub max_messages: u32,
    /// Most bytes to serve, though at least one batch is served, however long it is.
    pub max_bytes: usize,
    /// Stores the offset of the last message that is served for this consumer, unless it has stored
    /// a higher one. Nobody waits for that: it is durable within a second.
    pub commit: Option<ConsumerKey>,
    /// How long to wait where nothing is there to be served.
    pub max_wait: Duration,
}

impl PollQuery {
    /// A poll that commits nothing and does not wait.
    pub fn new(from: From, max_messages: u32, max_bytes: usize) -> Self {
        PollQuery { from, max_messages, max_bytes, commit: None, max_wait: Duration::ZERO }
    }
}

/// What one poll got: whole batches in offset order, in pieces.
#[derive(Debug, Clone)]
pub struct Polled<B> {
    /// In order; put together they are batches back to back. A batch may straddle pieces.
    pub pieces: Vec<Piece<B>>,
    /// Messages in them.
    pub messages: u32,
    /// Offset of the first message, where there is one.
    pub first_offset: Option<u64>,
    /// Where the next poll continues without a gap.
    pub next_offset: u64,
    /// Where polls ended when this one was answered.
    pub end_offset: u64,
    /// What it had to do for it.
    pub served: Served,
}

/// What a poll had to do for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// Nothing but look into the memory of the log's end.
    FromMemory,
    /// Some of it was read from files, by this poll or ahead of it.
    FromFiles,
    /// It waited for messages.
    Waited,
}

impl<B: SharedBytes> Polled<B> {
    /// Bytes of all pieces.
    pub(crate) fn len(&self) -> usize {
        self.pieces.iter().map(Piece::len).sum()
    }
}

/// A piece of a reply.
#[derive(Debug, Clone)]
pub enum Piece<B> {
    /// The recomputed header of a batch that was selected in part; its frames follow.
    Header(Box<[u8; BATCH_HEADER_LEN]>),
    /// Shared memory of the shard: what the device filled, or a dispatched tail buffer.
    View {
        /// The buffer.
        bytes: B,
        /// The part of it that belongs to the reply.
        range: Range<usize>,
    },
    /// Bytes that were copied: those of the tail that are not dispatched yet.
    Copied(Bytes),
}

impl<B> Piece<B> {
    fn len(&self) -> usize {
        match self {
            Piece::Header(header) => header.len(),
            Piece::View { range, .. } => range.len(),
            Piece::Copied(bytes) => bytes.len(),
        }
    }
}

impl<B: SharedBytes> AsRef<[u8]> for Piece<B> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Piece::Header(header) => &header[..],
            Piece::View { bytes, range } => &bytes.as_ref()[range.clone()],
            Piece::Copied(bytes) => bytes,
        }
    }
}

pub(crate) async fn poll<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    query: PollQuery,
) -> Result<Polled<BytesOf<P>>, PollError> {
    let polled = if query.max_wait.is_zero() || query.max_messages == 0 {
        poll_once(inner, query).await?
    } else {
        Box::pin(poll_waiting(inner, query)).await?
    };
    if let (Some(who), true) = (query.commit, polled.messages > 0) {
        inner.commit_offset(who, polled.next_offset - 1);
    }
    Ok(polled)
}

/// The poll, again whenever more may be there, until it gets something or its time is over.
async fn poll_waiting<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    query: PollQuery,
) -> Result<Polled<BytesOf<P>>, PollError> {
    let mut over = pin!(inner.shared.platform().clock().sleep(query.max_wait));
    let (mut is_over, mut has_waited) = (false, false);
    loop {
        let changed = inner.changed.wait();
        let mut polled = poll_once(inner, query).await?;
        if has_waited {
            polled.served = Served::Waited;
        }
        // One that waits must not hold up a close.
        if polled.messages > 0 || is_over || inner.waits_end.get() {
            return Ok(polled);
        }
        first_of(changed, async {
            over.as_mut().await;
            is_over = true;
        })
        .await;
        has_waited = true;
    }
}

async fn poll_once<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    mut query: PollQuery,
) -> Result<Polled<BytesOf<P>>, PollError> {
    if let From::Next(who) = query.from {
        query.from = match inner.consumers.get(who).map_err(PollError::Offsets)? {
            Some(stored) => From::Offset(stored.saturating_add(1)),
            None => From::First,
        };
    }
    loop {
        let (start, end) = range(inner)?;
        match from_start(inner, query, start, end).await {
            // What it was about to read was trimmed away meanwhile: it begins at the new start.
            Err(_) if range(inner)?.0 > start => {}
            done => return done,
        }
    }
}

/// The poll, in the log from `start` to `end`.
async fn from_start<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    query: PollQuery,
    start: u64,
    end: u64,
) -> Result<Polled<BytesOf<P>>, PollError> {
    let from = match plan::begin(query.from, start, end) {
        Begin::At(offset) => offset,
        // What waits for the disk is boxed, here and below: a poll of the tail's memory is a small
        // future, which is moved a few times on its way into a task.
        Begin::Time(time) => Box::pin(first_at(inner, time, start, end)).await?,
    };
    let mut selection = Selection::new(from, end, query.max_messages, query.max_bytes);
    let (mut held, mut served) = (inner.shared.hold(), Served::FromMemory);
    while !selection.is_done() {
        let step = match source(inner, selection.next(), end) {
            Source::Nobody => break,
            Source::Memory => {
                memory::serve(inner, &mut selection);
                break;
            }
            // The next segment is waited for: see `Held::is_too_much`.
            Source::Segment(_) if selection.has_any() && held.is_too_much() => break,
            Source::Segment(segment) => {
                served = Served::FromFiles;
                Box::pin(disk::serve(inner, segment, &mut selection, &mut held)).await
            }
            Source::Hole(first) => Err(damage::hole(selection.next(), first)),
        };
        match step {
            Ok(()) => {}
            // The good prefix is served; the next poll begins at the damage and says so.
            Err(_) if selection.has_any() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(Polled { served, ..selection.finish() })
}

/// Who serves `offset` now.
fn source<P: Platform, A: Answer>(inner: &Inner<P, A>, offset: u64, end: u64) -> Source {
    let memory = inner.memory.borrow().batches().front().map(|batch| batch.base_offset);
    let segments = inner.segments.borrow();
    plan::source(offset, end, memory, segments.holding(offset), segments.first())
}

/// First retained offset and the end of what may be read.
fn range<P: Platform, A: Answer>(inner: &Inner<P, A>) -> Result<(u64, u64), PollError> {
    let appender = inner.appender.borrow();
    if appender.is_closed() {
        return Err(PollError::Closed);
    }
    Ok((appender.watermarks().start(), inner.readable_end()))
}

/// Offset of the first batch at or after `time`; `end` where there is none.
async fn first_at<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    time: u64,
    start: u64,
    end: u64,
) -> Result<u64, PollError> {
    let torn = match time::first_foreign(inner, time, start).await? {
        time::Foreign::Found(offset) => return Ok(offset),
        time::Foreign::None(torn) => torn,
    };
    let ours = start.max(inner.foreign.end());
    let found = first_of_ours(inner, time, ours, end).await?;
    // What cannot be read just before it, or before nothing, may hide the one that is asked for.
    match torn {
        Some((segment, times)) if found <= ours || found >= end => {
            let hidden = time::first_in(inner, segment, &times, time).await?;
            Ok(hidden.unwrap_or(found).max(start))
        }
        _ => Ok(found),
    }
}

/// Offset of the first of our batches at or after `time`; `end` where there is none.
async fn first_of_ours<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    time: u64,
    start: u64,
    end: u64,
) -> Result<u64, PollError> {
    loop {
        if time > inner.appender.borrow().appended().last_timestamp {
            return Ok(end);
        }
        if let Some(offset) = memory::first_at(inner, time, start) {
            return Ok(offset);
        }
        let written = inner.appender.borrow().written().next_offset;
        if let Some(offset) = time::first_of_ours(inner, time, start).await? {
            return Ok(offset);
        }
        // It stands behind what was written then: in memory, unless it was written meanwhile.
        if let Some(offset) = memory::first_behind(inner, time, written) {
            return Ok(offset);
        }
        if inner.appender.borrow().written().next_offset == written {
            return Ok(end);
        }
    }
}
