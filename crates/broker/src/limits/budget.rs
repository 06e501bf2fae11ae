//! Bytes that are handed out to the connections of one shard. Who gets none waits in a queue, so
//! that a large frame has its turn among small ones.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

/// So many bytes, and who waits for some.
pub(crate) struct Budget {
    max: usize,
    used: Cell<usize>,
    /// Of `used`, what nobody has used yet: rooms that are settled later.
    promised: Cell<usize>,
    waiting: RefCell<VecDeque<Rc<Ticket>>>,
    /// The same figures, for whoever looks from another thread.
    told: Arc<Told>,
}

/// What a budget shows of itself.
#[derive(Debug, Default)]
pub(crate) struct Told {
    /// Bytes in use.
    pub(crate) used: AtomicU64,
    /// How often somebody had to wait.
    pub(crate) waits: AtomicU64,
}

/// A place in the queue.
struct Ticket {
    bytes: usize,
    is_served: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// Bytes of a budget, given back when this is dropped.
pub(crate) struct Room {
    budget: Rc<Budget>,
    bytes: usize,
    is_promise: bool,
}

/// A wait for room.
struct Wait {
    budget: Rc<Budget>,
    ticket: Option<Rc<Ticket>>,
}

impl Budget {
    pub(crate) fn new(max: usize, told: Arc<Told>) -> Rc<Budget> {
        let (used, promised) = (Cell::default(), Cell::default());
        Rc::new(Budget { max, used, promised, waiting: RefCell::default(), told })
    }

    /// All that it hands out, bytes.
    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Takes `bytes`, where there are as many or none is in use; waits for them otherwise, behind
    /// those that wait already. Cancel-safe.
    pub(crate) async fn take(self: &Rc<Self>, bytes: usize) -> Room {
        let budget = Rc::clone(self);
        if self.waiting.borrow().is_empty() && self.has(bytes) {
            self.add(bytes);
            return Room { budget, bytes, is_promise: false };
        }
        self.told.waits.fetch_add(1, Ordering::Relaxed);
        let ticket = Ticket { bytes, is_served: Cell::default(), waker: RefCell::default() };
        let ticket = Rc::new(ticket);
        self.waiting.borrow_mut().push_back(Rc::clone(&ticket));
        Wait { budget, ticket: Some(ticket) }.await
    }

    /// Takes bytes that are used later, some of them or all: see [`Room::settle`]. Cancel-safe.
    pub(crate) async fn promise(self: &Rc<Self>, bytes: usize) -> Room {
        let mut room = self.take(bytes).await;
        room.is_promise = true;
        self.promised.set(self.promised.get() + bytes);
        room
    }

    /// True while somebody waits for what others use. Promises are settled soon, by themselves.
    pub(crate) fn is_short(&self) -> bool {
        let waiting = self.waiting.borrow();
        let in_use = self.used.get() - self.promised.get();
        waiting.front().is_some_and(|next| in_use > 0 && in_use + next.bytes > self.max)
    }

    fn has(&self, bytes: usize) -> bool {
        let used = self.used.get();
        used == 0 || (used < self.max && bytes <= self.max - used)
    }

    fn add(&self, bytes: usize) {
        self.used.set(self.used.get() + bytes);
        self.told.used.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Takes bytes back, and serves those in front of the queue.
    fn sub(&self, bytes: usize) {
        self.used.set(self.used.get() - bytes);
        self.told.used.fetch_sub(bytes as u64, Ordering::Relaxed);
        self.serve();
    }

    fn serve(&self) {
        loop {
            let next = self.waiting.borrow().front().map(Rc::clone);
            let Some(next) = next.filter(|next| self.has(next.bytes)) else { return };
            self.waiting.borrow_mut().pop_front();
            self.add(next.bytes);
            next.is_served.set(true);
            next.waker.take().into_iter().for_each(Waker::wake);
        }
    }
}

impl Room {
    /// Of a promise, `bytes` are used from now on. More than was promised is taken without a wait:
    /// it is there already.
    pub(crate) fn settle(&mut self, bytes: usize) {
        self.keep_promise();
        let promised = std::mem::replace(&mut self.bytes, bytes);
        match bytes.checked_sub(promised) {
            Some(more) => self.budget.add(more),
            None => self.budget.sub(promised - bytes),
        }
    }

    fn keep_promise(&mut self) {
        if std::mem::take(&mut self.is_promise) {
            self.budget.promised.set(self.budget.promised.get() - self.bytes);
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.keep_promise();
        self.budget.sub(self.bytes);
    }
}

impl Future for Wait {
    type Output = Room;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Room> {
        let ticket = self.ticket.as_ref().expect("a wait is not polled after its end");
        if !ticket.is_served.get() {
            *ticket.waker.borrow_mut() = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let bytes = ticket.bytes;
        self.ticket = None;
        Poll::Ready(Room { budget: Rc::clone(&self.budget), bytes, is_promise: false })
    }
}

/// Who waits no longer is out of the queue, and what it got goes back.
impl Drop for Wait {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else { return };
        if ticket.is_served.get() {
            return self.budget.sub(ticket.bytes);
        }
        self.budget.waiting.borrow_mut().retain(|other| !Rc::ptr_eq(other, &ticket));
        self.budget.serve();
    }
}

#[cfg(test)]
mod tests {
    use futures_lite::future::{block_on, poll_once};

    use super::*;

    fn budget(max: usize) -> Rc<Budget> {
        Budget::new(max, Arc::default())
    }

    /// What there is at once.
    fn now(budget: &Rc<Budget>, bytes: usize) -> Option<Room> {
        block_on(poll_once(Box::pin(budget.take(bytes))))
    }

    #[test]
    fn there_is_never_more_out_than_there_is() {
        let budget = budget(100);
        let (one, two) = (now(&budget, 60).unwrap(), now(&budget, 40).unwrap());
        assert!(now(&budget, 1).is_none() && now(&budget, 0).is_none());
        drop(one);
        assert!(now(&budget, 61).is_none());
        let three = now(&budget, 60).unwrap();
        drop((two, three));
        assert_eq!(budget.used.get(), 0);
        assert!(now(&budget, 1000).is_some(), "one is always taken");
    }

    #[test]
    fn who_waits_is_served_in_order_and_may_go() {
        let budget = budget(100);
        let all = now(&budget, 100).unwrap();
        let mut large = Box::pin(budget.take(80));
        let mut gone = Box::pin(budget.take(90));
        let mut small = Box::pin(budget.take(10));
        assert!(block_on(poll_once(&mut large)).is_none());
        assert!(block_on(poll_once(&mut gone)).is_none());
        assert!(block_on(poll_once(&mut small)).is_none());
        assert!(budget.is_short());
        drop(all);
        assert!(block_on(poll_once(&mut small)).is_none(), "not before those in front");
        let large = block_on(poll_once(&mut large)).expect("there is room");
        drop(gone);
        let small = block_on(poll_once(&mut small)).expect("nobody is in front any more");
        assert_eq!(budget.used.get(), 90);
        drop((large, small));
        assert_eq!((budget.used.get(), budget.is_short()), (0, false));
        assert_eq!(budget.told.waits.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn what_was_handed_out_to_nobody_comes_back() {
        let budget = budget(10);
        let all = now(&budget, 10).unwrap();
        let mut waiting = Box::pin(budget.take(5));
        assert!(block_on(poll_once(&mut waiting)).is_none());
        drop(all);
        assert_eq!(budget.used.get(), 5, "it has its room and does not know yet");
        drop(waiting);
        assert_eq!(budget.used.get(), 0);
    }

    #[test]
    fn a_promise_takes_all_and_gives_back_what_is_not_used() {
        let budget = budget(100);
        let mut one = block_on(budget.promise(100));
        let mut waiting = Box::pin(budget.promise(100));
        assert!(block_on(poll_once(&mut waiting)).is_none());
        assert!(!budget.is_short(), "a promise is in nobody's way for long");
        one.settle(30);
        assert!(block_on(poll_once(&mut waiting)).is_none());
        assert!(budget.is_short(), "these 30 are");
        drop(one);
        let mut two = block_on(poll_once(&mut waiting)).expect("there is room");
        two.settle(150);
        assert_eq!(budget.used.get(), 150, "what is there is counted");
        assert!(now(&budget, 1).is_none());
        drop(two);
        drop(block_on(budget.promise(100)));
        assert_eq!((budget.used.get(), budget.promised.get()), (0, 0));
        assert_eq!(budget.told.used.load(Ordering::Relaxed), 0);
    }
}
