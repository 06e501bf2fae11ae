//! One way into a partition, whichever it is: `Partition` itself, a client, a producer, or code on
//! the shard. Answers come back in one shape.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use bytes::Bytes;
use corelog_io::sim::SimPlatform;
use corelog_io::{IoError, IoOp};
use corelog_shard::{
    Client, ControlError, CopyOut, FailureReason, PartitionId, Producer, Records, ShardContext,
    Unavailable,
};
use corelog_storage::{
    Ack, AdmittedBatch, Answer, AppendError, Appended, CloseError, OpenError, Partition, PollError,
    PollQuery, Polled, ReopenError, Watermarks,
};

use crate::oracle::{Bounds, Got, Reported};

/// A partition without a shard.
pub(crate) type Log = Partition<SimPlatform, Slot>;

type Done<T> = Pin<Box<dyn Future<Output = T>>>;

/// A failed disk operation, as far as the judge needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) op: IoOp,
    pub(crate) errno: Option<i32>,
    pub(crate) kind: io::ErrorKind,
}

impl From<&IoError> for Cause {
    fn from(error: &IoError) -> Self {
        let (errno, kind) = (error.source.raw_os_error(), error.source.kind());
        Cause { op: error.op, errno, kind }
    }
}

/// How an append or a flush ended.
#[derive(Debug, Clone)]
pub(crate) enum Outcome<T> {
    Ok(T),
    /// Nothing was stored.
    Full(Cause),
    NoSegment(Cause),
    NoFile(Cause),
    /// What consumers have stored is not known.
    NoOffsets(Cause),
    Closed,
    Busy,
    OutOfTurn,
    /// Stored or not.
    Poisoned(Cause),
    Gone,
    /// An opening failed, so the partition is not served.
    Unopened(Cause),
    /// Nothing that the world could have caused.
    Bug(String),
}

/// How a poll ended.
#[derive(Debug, Clone)]
pub(crate) enum Read {
    Ok(Got),
    Corrupt(Reported, #[expect(dead_code, reason = "for the message")] String),
    Io(Cause),
    Closed,
    Busy,
    Unopened(Cause),
    Bug(#[expect(dead_code, reason = "for the message")] String),
}

/// How an opening or a close ended.
#[derive(Debug)]
pub(crate) enum Control {
    Io(Cause),
    Poisoned(Cause),
    Locked,
    /// There are files of another life of the id.
    OtherLife(u64),
    /// Nothing was done: ask again.
    Busy,
    /// Another one is at it, or it is not there.
    Refused,
    Bug(#[expect(dead_code, reason = "for the message")] String),
}

/// Where a partition's answer goes.
#[derive(Clone, Default)]
pub(crate) struct Slot(Rc<RefCell<Waiting>>);

#[derive(Default)]
struct Waiting {
    answer: Option<Result<Appended, AppendError>>,
    answered: bool,
    waker: Option<Waker>,
}

impl Answer for Slot {
    fn answer(self, result: Result<Appended, AppendError>) {
        let mut waiting = self.0.borrow_mut();
        assert!(!waiting.answered, "one append was answered twice");
        waiting.answered = true;
        waiting.answer = Some(result);
        if let Some(waker) = waiting.waker.take() {
            waker.wake();
        }
    }
}

impl Slot {
    async fn wait(self) -> Result<Appended, AppendError> {
        poll_fn(|cx| {
            let mut waiting = self.0.borrow_mut();
            match waiting.answer.take() {
                Some(answer) => Poll::Ready(answer),
                None => {
                    waiting.waker = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// A way in. Clones lead to the same partition.
#[derive(Clone)]
pub(crate) enum Door {
    Direct(Log),
    Client(Client, PartitionId),
    Context(ShardContext<SimPlatform, CopyOut>, PartitionId),
}

impl Door {
    /// Calls `append` now; the answer comes with the future.
    pub(crate) fn append(&self, bytes: Bytes, ack: Ack) -> Done<Outcome<Appended>> {
        match self {
            Door::Direct(log) => {
                let batch = match AdmittedBatch::admit(bytes) {
                    Ok(batch) => batch,
                    Err(error) => {
                        let bug = Outcome::Bug(format!("a sound batch is refused: {error}"));
                        return Box::pin(async move { bug });
                    }
                };
                let slot = Slot::default();
                log.append(batch, ack, slot.clone());
                Box::pin(async move { stored(slot.wait().await) })
            }
            Door::Client(client, id) => {
                let call = client.append(*id, bytes, ack);
                Box::pin(async move { crossed(call.await) })
            }
            Door::Context(context, id) => {
                let call = context.append(*id, bytes, ack);
                Box::pin(async move { crossed(call.await) })
            }
        }
    }

    /// A producer of the shards, where the partition has a client.
    pub(crate) fn producer(&self) -> Option<Producer> {
        match self {
            Door::Client(client, id) => Some(client.producer(*id)),
            _ => None,
        }
    }

    /// Calls `flush` now.
    pub(crate) fn flush(&self, ack: Ack) -> Done<Outcome<()>> {
        match self {
            Door::Direct(log) => {
                let flush = log.flush(ack);
                Box::pin(async move { stored(flush.await) })
            }
            Door::Client(client, id) => {
                let flush = client.flush(*id, ack);
                Box::pin(async move { crossed(flush.await) })
            }
            Door::Context(context, id) => {
                let flush = context.flush(*id, ack);
                Box::pin(async move { crossed(flush.await) })
            }
        }
    }

    pub(crate) async fn poll(&self, query: PollQuery) -> Read {
        let records = match self {
            Door::Direct(log) => return read(log.poll(query).await.map(got_of_polled)),
            Door::Client(client, id) => client.poll(*id, query).await,
            Door::Context(context, id) => context.poll(*id, query).await,
        };
        read_crossed(records)
    }

    /// Where the log stands; `None` where it cannot be asked now.
    pub(crate) async fn watermarks(&self) -> Option<Watermarks> {
        match self {
            Door::Direct(log) => Some(log.watermarks()),
            Door::Client(client, id) => client.watermarks(*id).await.ok(),
            Door::Context(context, id) => context.watermarks(*id).await.ok(),
        }
    }

    /// What polls must and may serve now. With `faults` the partition may be poisoned meanwhile,
    /// and then serves what is written.
    pub(crate) fn bounds(&self, marks: Watermarks, fsync: bool, faults: bool) -> Bounds {
        let (must, may) = match fsync {
            true => (marks.durable(), marks.durable()),
            false => (marks.written(), marks.appended()),
        };
        let must = match self {
            Door::Direct(log) if !faults => log.readable_end(),
            _ => must,
        };
        Bounds { start: marks.start(), must, may }
    }
}

/// How a call to the partition itself ended.
fn stored<T>(result: Result<T, AppendError>) -> Outcome<T> {
    match result {
        Ok(value) => Outcome::Ok(value),
        Err(AppendError::StorageFull(error)) => Outcome::Full(error.as_ref().into()),
        Err(AppendError::NoSegment(error)) => Outcome::NoSegment(error.as_ref().into()),
        Err(AppendError::NoFile(error)) => Outcome::NoFile(error.as_ref().into()),
        Err(AppendError::Offsets(error)) => Outcome::NoOffsets(error.as_ref().into()),
        Err(AppendError::Poisoned(fault)) => Outcome::Poisoned((&fault.error).into()),
        Err(AppendError::Closed) => Outcome::Closed,
        Err(other) => Outcome::Bug(other.to_string()),
    }
}

/// How a call to the shards ended.
pub(crate) fn crossed<T>(result: Result<T, corelog_shard::AppendError>) -> Outcome<T> {
    use corelog_shard::AppendError as E;
    match result {
        Ok(value) => Outcome::Ok(value),
        Err(E::Storage(error)) => stored(Err(error)),
        Err(E::Busy) => Outcome::Busy,
        Err(E::OutOfTurn) => Outcome::OutOfTurn,
        Err(E::UnknownPartition(_)) => Outcome::Closed,
        Err(E::Closed) => Outcome::Gone,
        Err(E::PartitionFailed(failure)) => match unopened(&failure.reason) {
            Some(cause) => Outcome::Unopened(cause),
            None => Outcome::Bug(failure.to_string()),
        },
        Err(other) => Outcome::Bug(other.to_string()),
    }
}

/// The disk's error behind a failed opening; `None` for a panic and all else.
pub(crate) fn unopened(reason: &FailureReason) -> Option<Cause> {
    match reason {
        FailureReason::Open(error) => match error.as_ref() {
            OpenError::Io(error) => Some(error.into()),
            _ => None,
        },
        _ => None,
    }
}

fn got_of_polled<B: corelog_io::SharedBytes>(polled: Polled<B>) -> Got {
    let bytes = polled.pieces.iter().flat_map(|piece| piece.as_ref().iter().copied()).collect();
    let Polled { messages, first_offset, next_offset, .. } = polled;
    Got { bytes, messages, first: first_offset, next: next_offset }
}

fn got_of_records(records: &Records) -> Got {
    Got {
        bytes: records.slices().concat(),
        messages: records.messages(),
        first: records.first_offset(),
        next: records.next_offset(),
    }
}

fn read(result: Result<Got, PollError>) -> Read {
    match result {
        Ok(got) => Read::Ok(got),
        Err(PollError::Corrupt { segment, position, resume_offset, why }) => {
            let reported = Reported { segment, position, resume: resume_offset };
            Read::Corrupt(reported, why.to_string())
        }
        Err(PollError::Io(error) | PollError::Unreadable { error, .. }) => {
            Read::Io((&error).into())
        }
        Err(PollError::Offsets(error)) => Read::Io(error.as_ref().into()),
        Err(PollError::Closed) => Read::Closed,
        Err(other) => Read::Bug(other.to_string()),
    }
}

fn read_crossed(result: Result<Records, corelog_shard::PollError>) -> Read {
    use corelog_shard::PollError as E;
    match result {
        Ok(records) => Read::Ok(got_of_records(&records)),
        Err(E::Storage(error)) => read(Err(error)),
        Err(E::Busy) => Read::Busy,
        Err(E::UnknownPartition(_) | E::Closed) => Read::Closed,
        Err(E::PartitionFailed(failure)) => match unopened(&failure.reason) {
            Some(cause) => Read::Unopened(cause),
            None => Read::Bug(failure.to_string()),
        },
        Err(other) => Read::Bug(other.to_string()),
    }
}

/// How an opening failed.
pub(crate) fn not_opened(error: &OpenError) -> Control {
    match error {
        OpenError::Io(error) => Control::Io(error.into()),
        OpenError::Locked { .. } => Control::Locked,
        OpenError::OtherIncarnation { found, .. } => Control::OtherLife(*found),
        other => Control::Bug(other.to_string()),
    }
}

/// How reopening in place failed.
pub(crate) fn not_reopened(error: &ReopenError) -> Control {
    match error {
        ReopenError::Open(error) => not_opened(error),
        ReopenError::NotPoisoned | ReopenError::Closed => Control::Refused,
        other => Control::Bug(other.to_string()),
    }
}

/// How a close failed.
pub(crate) fn not_closed(error: &CloseError) -> Control {
    match error {
        CloseError::Poisoned(fault) => Control::Poisoned((&fault.error).into()),
        CloseError::Io(error) => Control::Io(error.into()),
        CloseError::Closed => Control::Refused,
        other => Control::Bug(other.to_string()),
    }
}

/// How a request for an opening or a close failed at the shards.
pub(crate) fn refused(error: &ControlError) -> Control {
    match error {
        ControlError::Close(error) => not_closed(error),
        ControlError::Unavailable(Unavailable::PartitionFailed(failure)) => match &failure.reason {
            FailureReason::Open(error) => not_opened(error),
            other => Control::Bug(format!("{other:?}")),
        },
        ControlError::Unavailable(Unavailable::Busy) => Control::Busy,
        ControlError::InUse(_) | ControlError::NotPoisoned(_) | ControlError::Unavailable(_) => {
            Control::Refused
        }
        other => Control::Bug(other.to_string()),
    }
}
