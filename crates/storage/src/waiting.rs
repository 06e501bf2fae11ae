//! Who waits for what: appends not yet stamped, and stamped ones whose bytes are on their way.

use std::collections::VecDeque;
use std::sync::Arc;

use corelog_io::IoError;

use crate::signal::Promise;
use crate::{Ack, AdmittedBatch, Answer, AppendError, Appended};

/// Work in the order in which it was called.
pub(crate) enum Pending<A> {
    Append {
        batch: AdmittedBatch,
        ack: Ack,
        answer: A,
    },
    /// Everything before it must reach `ack`.
    Flush {
        ack: Ack,
        promise: Promise<Result<(), AppendError>>,
    },
    /// Everything before it must be durable, and nothing comes after it.
    Close,
}

/// One who is answered when a watermark reaches `end_offset`.
pub(crate) enum Waiter<A> {
    Append(A, Appended),
    Flush(Promise<Result<(), AppendError>>),
}

/// An answer that is due. Given outside of every borrow of the partition's state.
pub(crate) enum Ready<A> {
    Append(A, Result<Appended, AppendError>),
    Flush(Promise<Result<(), AppendError>>, Result<(), AppendError>),
}

impl<A: Answer> Ready<A> {
    /// An append that is answered with an error.
    pub(crate) fn is_refused_append(&self) -> bool {
        matches!(self, Ready::Append(_, Err(_)))
    }

    pub(crate) fn give(self) {
        match self {
            Ready::Append(answer, result) => answer.answer(result),
            Ready::Flush(promise, result) => promise.give(result),
        }
    }
}

impl<A> Waiter<A> {
    pub(crate) fn fine(self) -> Ready<A> {
        match self {
            Waiter::Append(answer, appended) => Ready::Append(answer, Ok(appended)),
            Waiter::Flush(promise) => Ready::Flush(promise, Ok(())),
        }
    }

    pub(crate) fn failed(self, error: AppendError) -> Ready<A> {
        match self {
            Waiter::Append(answer, _) => Ready::Append(answer, Err(error)),
            Waiter::Flush(promise) => Ready::Flush(promise, Err(error)),
        }
    }
}

impl<A> Pending<A> {
    /// The refusal of work that was not begun; a close needs none.
    pub(crate) fn failed(self, error: AppendError) -> Option<Ready<A>> {
        match self {
            Pending::Append { answer, .. } => Some(Ready::Append(answer, Err(error))),
            Pending::Flush { promise, .. } => Some(Ready::Flush(promise, Err(error))),
            Pending::Close => None,
        }
    }
}

/// Stamped appends and flushes, in offset order for each watermark.
pub(crate) struct Waiting<A> {
    written: VecDeque<(u64, Waiter<A>)>,
    durable: VecDeque<(u64, Waiter<A>)>,
}

impl<A> Waiting<A> {
    pub(crate) fn new() -> Self {
        Waiting { written: VecDeque::new(), durable: VecDeque::new() }
    }

    /// Adds a waiter for `written` or `durable`; offsets of calls ascend.
    pub(crate) fn push(&mut self, ack: Ack, end_offset: u64, waiter: Waiter<A>) {
        let queue = match ack {
            Ack::Durable => &mut self.durable,
            Ack::Written | Ack::Appended => &mut self.written,
        };
        assert!(queue.back().is_none_or(|last| last.0 <= end_offset), "waiters come in order");
        queue.push_back((end_offset, waiter));
    }

    /// The highest offset anyone waits to see written (or durable, which needs written first).
    pub(crate) fn wanted(&self) -> u64 {
        let last = |queue: &VecDeque<(u64, Waiter<A>)>| queue.back().map_or(0, |w| w.0);
        last(&self.written).max(last(&self.durable))
    }

    /// The highest offset anyone waits to see durable.
    pub(crate) fn wanted_durable(&self) -> u64 {
        self.durable.back().map_or(0, |waiter| waiter.0)
    }

    /// True where nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.written.is_empty() && self.durable.is_empty()
    }

    /// Those who wait for a sync cannot have one now.
    pub(crate) fn refuse_durable(&mut self, why: &Arc<IoError>, ready: &mut VecDeque<Ready<A>>) {
        for (_, waiter) in self.durable.drain(..) {
            ready.push_back(waiter.failed(AppendError::NoFile(Arc::clone(why))));
        }
    }

    /// Moves those who are satisfied to `ready`.
    pub(crate) fn reached(&mut self, written: u64, durable: u64, ready: &mut VecDeque<Ready<A>>) {
        for (queue, level) in [(&mut self.written, written), (&mut self.durable, durable)] {
            while queue.front().is_some_and(|waiter| waiter.0 <= level)
                && let Some((_, waiter)) = queue.pop_front()
            {
                ready.push_back(waiter.fine());
            }
        }
    }

    /// Fails everyone.
    pub(crate) fn fail(&mut self, fault: &Arc<crate::Fault>, ready: &mut VecDeque<Ready<A>>) {
        for (_, waiter) in self.written.drain(..).chain(self.durable.drain(..)) {
            ready.push_back(waiter.failed(AppendError::Poisoned(Arc::clone(fault))));
        }
    }
}
