//! Answers on their way back: a table of slots that stands outside of every executor.
//!
//! A request carries a [`Reply`], its caller holds a [`Call`]; both point to one slot. The slot, not
//! the request, keeps the caller's waker and its share of the limits, so that
//! [`Replies::fail_all`] answers everyone even where the shard's executor died with the requests
//! inside, or was leaked with them (design section 4).
//!
//! | slot | the shard answers | the caller drops its call | `fail_all` |
//! | --- | --- | --- | --- |
//! | waiting | answered, caller woken | abandoned; told, if watched | answered `Closed`, caller woken |
//! | abandoned | free | | share given back |
//! | answered | nothing (only after `fail_all`) | free | |
//!
//! A slot is free again only when both sides are done with it. After `fail_all` none is handed out
//! any more, so a shard that comes back to life cannot answer someone else.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use crate::Unavailable;
use crate::here::Waiter;
use crate::limits::{Budget, Permit};
use crate::slab::Slab;
use crate::thread::{ShardThread, block_on};

/// The slots of one kind of request to one shard.
pub(crate) struct Replies<V, E> {
    slab: Slab<Mutex<State<V, E>>>,
    budget: Arc<Budget>,
    closed: AtomicBool,
    /// Called with the slot when a caller drops a call whose reply is watched.
    tell: Option<Tell>,
}

/// See `Replies::tell`.
pub(crate) type Tell = Box<dyn Fn(u32) + Send + Sync>;

/// The two ends of a slot: who asks and who answers.
pub(crate) type Ends<V, E> = (Call<V, E>, Reply<V, E>);

/// Locked for a move only: no foreign code (a waker's, a value's drop) runs under the lock, so a
/// shard never waits here for longer than a few instructions.
#[derive(Default)]
enum State<V, E> {
    #[default]
    Free,
    Waiting {
        waiter: Option<Waiter>,
        permit: Permit,
        /// The shard wants to hear of it where the caller gives up.
        watched: bool,
    },
    Abandoned {
        permit: Permit,
    },
    Answered(Result<V, E>),
}

impl<V, E: From<Unavailable>> Replies<V, E> {
    /// Slots for `requests` requests in flight that hold `bytes` bytes together.
    pub(crate) fn new(requests: usize, bytes: usize) -> Arc<Self> {
        Self::telling(requests, bytes, None)
    }

    /// As [`Replies::new`], of replies that can be watched.
    pub(crate) fn telling(requests: usize, bytes: usize, tell: Option<Tell>) -> Arc<Self> {
        Arc::new(Replies {
            slab: Slab::new(requests),
            budget: Arc::new(Budget::new(requests, bytes)),
            closed: AtomicBool::new(false),
            tell,
        })
    }

    /// Requests and bytes in flight, and how many requests found no room.
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Room for a request of `bytes` bytes, or the reason why not.
    pub(crate) fn permit(
        &self,
        client: Option<&Arc<Budget>>,
        bytes: usize,
    ) -> Result<Permit, Unavailable> {
        if self.closed.load(Ordering::Relaxed) {
            return Err(Unavailable::Closed);
        }
        Permit::take(&self.budget, client, bytes).ok_or(Unavailable::Busy)
    }

    /// A slot, as its two ends.
    pub(crate) fn begin(self: &Arc<Self>, permit: Permit) -> Result<Ends<V, E>, Unavailable> {
        let slot = self.slab.take().ok_or(Unavailable::Busy)?;
        {
            let mut state = self.lock(slot);
            // Under the lock: either `fail_all` comes later to this slot, or this sees it.
            if self.closed.load(Ordering::Relaxed) {
                // The slot is not given back: nobody will ask for one again.
                return Err(Unavailable::Closed);
            }
            *state = State::Waiting { waiter: None, permit, watched: false };
        }
        let claim = Claim { replies: Arc::clone(self), slot };
        let reply = Reply { replies: Arc::clone(self), slot, sent: false };
        Ok((Call { state: Stage::Waiting(claim) }, reply))
    }

    /// Hands out no slot any more. What is on its way is still answered.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Answers everyone `Closed`, now and for ever. Callable from any thread, any number of times.
    pub(crate) fn fail_all(&self) {
        self.close();
        for slot in self.slab.iter() {
            let mut state = slot.lock().unwrap_or_else(PoisonError::into_inner);
            match mem::take(&mut *state) {
                State::Waiting { waiter, permit, .. } => {
                    *state = State::Answered(Err(Unavailable::Closed.into()));
                    drop(state);
                    drop(permit);
                    wake(waiter);
                }
                State::Abandoned { permit } => {
                    drop(state);
                    drop(permit);
                }
                other => *state = other,
            }
        }
    }
}

impl<V, E> Replies<V, E> {
    fn lock(&self, slot: u32) -> MutexGuard<'_, State<V, E>> {
        self.slab.get(slot).lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, slot: u32, result: Result<V, E>) {
        let mut state = self.lock(slot);
        match mem::take(&mut *state) {
            State::Waiting { waiter, permit, .. } => {
                *state = State::Answered(result);
                drop(state);
                drop(permit);
                wake(waiter);
            }
            State::Abandoned { permit } => {
                drop(state);
                drop(permit);
                self.slab.give(slot);
            }
            // `fail_all` was here first; the table is closed and the slot stays out of use.
            other => *state = other,
        }
    }
}

fn wake(waiter: Option<Waiter>) {
    waiter.into_iter().for_each(Waiter::wake);
}

/// The answering side of a slot. Dropped unanswered, it answers `Closed`.
pub(crate) struct Reply<V, E: From<Unavailable>> {
    replies: Arc<Replies<V, E>>,
    slot: u32,
    sent: bool,
}

impl<V, E: From<Unavailable>> Reply<V, E> {
    /// Answers; the caller is woken.
    pub(crate) fn send(mut self, result: Result<V, E>) {
        self.sent = true;
        self.replies.answer(self.slot, result);
    }

    /// The slot's number: of one kind of request to one shard there is one with it at a time.
    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }

    /// True where nobody waits for the answer any more. Otherwise the table tells when that comes
    /// to be (`Replies::telling`).
    pub(crate) fn is_given_up(&self) -> bool {
        match &mut *self.replies.lock(self.slot) {
            State::Waiting { watched, .. } => {
                *watched = true;
                false
            }
            _ => true,
        }
    }
}

impl<V, E: From<Unavailable>> Drop for Reply<V, E> {
    fn drop(&mut self) {
        if !self.sent {
            self.replies.answer(self.slot, Err(Unavailable::Closed.into()));
        }
    }
}

/// A request that is on its way, or was refused at the call: its answer, for any runtime to await
/// or for a thread to [wait](Call::wait) for.
///
/// The request took its place in the order when the call was made, not when this is first polled.
/// Dropping it gives up the answer and nothing else: a dropped append may still be stored.
#[must_use = "the request is on its way; its answer is here"]
pub struct Call<V, E> {
    state: Stage<V, E>,
}

enum Stage<V, E> {
    /// Answered at the call.
    Refused(E),
    Waiting(Claim<V, E>),
    Done,
}

impl<V, E> Call<V, E> {
    pub(crate) fn refused(error: E) -> Self {
        Call { state: Stage::Refused(error) }
    }

    /// The reason where the call itself was refused: nothing is on its way, and awaiting this
    /// answers the same at once.
    pub fn refusal(&self) -> Option<&E> {
        match &self.state {
            Stage::Refused(error) => Some(error),
            _ => None,
        }
    }
}

impl<V, E: From<Unavailable>> Call<V, E> {
    /// Waits for the answer on this thread. For threads that may block; on a shard's own thread
    /// the answer is `OnShard` at once, and the request goes its way unobserved.
    pub fn wait(self) -> Result<V, E> {
        if self.refusal().is_none() && ShardThread::is_current() {
            return Err(Unavailable::OnShard.into());
        }
        block_on(self)
    }
}

// Nothing in a call is self-referential.
impl<V, E> Unpin for Call<V, E> {}

impl<V, E> Future for Call<V, E> {
    type Output = Result<V, E>;

    /// # Panics
    /// When polled after it has answered.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<V, E>> {
        match mem::replace(&mut self.state, Stage::Done) {
            Stage::Refused(error) => Poll::Ready(Err(error)),
            Stage::Waiting(claim) => match claim.poll(cx) {
                Ok(result) => Poll::Ready(result),
                Err(claim) => {
                    self.state = Stage::Waiting(claim);
                    Poll::Pending
                }
            },
            Stage::Done => panic!("a call was polled after it had answered"),
        }
    }
}

impl<V, E: fmt::Debug> fmt::Debug for Call<V, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            Stage::Refused(error) => f.debug_tuple("Call::Refused").field(error).finish(),
            Stage::Waiting(claim) => f.debug_tuple("Call::Waiting").field(&claim.slot).finish(),
            Stage::Done => f.write_str("Call::Done"),
        }
    }
}

/// The asking side of a slot. Dropped, it gives the slot up.
struct Claim<V, E> {
    replies: Arc<Replies<V, E>>,
    slot: u32,
}

impl<V, E> Claim<V, E> {
    /// The answer, or the claim back with `cx`'s waker registered.
    fn poll(self, cx: &Context<'_>) -> Result<Result<V, E>, Self> {
        let mine = Waiter::new(cx.waker().clone());
        let mut state = self.replies.lock(self.slot);
        match mem::take(&mut *state) {
            State::Waiting { waiter: old, permit, watched } => {
                *state = State::Waiting { waiter: Some(mine), permit, watched };
                drop(state);
                drop(old);
                Err(self)
            }
            State::Answered(result) => {
                drop(state);
                // The slot is marked free; dropping the claim puts it back.
                Ok(result)
            }
            State::Free | State::Abandoned { .. } => unreachable!("the claim holds the slot"),
        }
    }
}

impl<V, E> Drop for Claim<V, E> {
    fn drop(&mut self) {
        let mut state = self.replies.lock(self.slot);
        match mem::take(&mut *state) {
            State::Waiting { waiter, permit, watched } => {
                *state = State::Abandoned { permit };
                drop(state);
                drop(waiter);
                if let (true, Some(tell)) = (watched, &self.replies.tell) {
                    tell(self.slot);
                }
            }
            State::Answered(unread) => {
                drop(state);
                self.replies.slab.give(self.slot);
                drop(unread);
            }
            // Read by `poll`.
            State::Free => {
                drop(state);
                self.replies.slab.give(self.slot);
            }
            State::Abandoned { .. } => unreachable!("only a claim abandons its slot"),
        }
    }
}

#[cfg(test)]
mod tests;
