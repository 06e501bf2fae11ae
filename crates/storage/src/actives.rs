//! The handles that active segments are written through: on a shard at most so many.
//!
//! A partition that has nothing on its way can do without its handle. Where others want one, it is
//! parked: its file is closed, with its lock, and its next append opens it again BEFORE it is
//! stamped, so that nothing stamped is ever left without a file. What was written stays written: a
//! close takes nothing back, and whoever is parked has no write on its way that could land later.
//!
//! Those who want a handle wait in a queue; a permit that comes back goes to the first of them.
//! Whose turn it is to be parked: the handles stand in a circle, one that was used since it was
//! looked at last is passed over once, one that is busy always.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use crate::signal::Promise;

/// The permits of a shard. One that is opened gets its own at once, even above the limit: others are
/// parked for it.
pub(crate) struct Actives {
    limit: usize,
    /// Permits that are out.
    out: Cell<usize>,
    /// Of them, those of partitions that are being parked.
    parking: Cell<usize>,
    circle: RefCell<VecDeque<Weak<dyn Holder>>>,
    waiting: RefCell<VecDeque<Promise<Permit>>>,
    /// Who waits for the end of a parking, whatever becomes of the permit.
    ends: RefCell<VecDeque<Promise<()>>>,
    /// A task is about to look for someone to park.
    looks: Cell<bool>,
}

/// A partition with a handle.
pub(crate) trait Holder {
    /// Begins to park it, if it can be parked now.
    fn park(self: Rc<Self>) -> Park;
}

/// What the attempt to park came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Park {
    /// It has begun; its permit comes back at the end of it.
    Begun,
    /// Used since the last attempt, or busy: it is asked again.
    NotNow,
    /// It has no handle any more.
    Gone,
}

/// The right to have a handle. Dropped, it goes to whoever waits for one.
pub(crate) struct Permit {
    actives: Rc<Actives>,
    parking: bool,
}

/// The handle of an active segment.
pub(crate) struct Active<F> {
    pub(crate) file: Rc<F>,
    pub(crate) permit: Permit,
}

impl Actives {
    pub(crate) fn new(limit: usize) -> Rc<Self> {
        Rc::new(Actives {
            limit: limit.max(1),
            out: Cell::new(0),
            parking: Cell::new(0),
            circle: RefCell::default(),
            waiting: RefCell::default(),
            ends: RefCell::default(),
            looks: Cell::new(false),
        })
    }

    /// Handles that are open, those that are being closed included.
    pub(crate) fn len(&self) -> usize {
        self.out.get()
    }

    /// A permit at once, for a file that is open already. [`Actives::park_surplus`] follows.
    pub(crate) fn enter(self: &Rc<Self>) -> Permit {
        self.out.set(self.out.get() + 1);
        Permit { actives: Rc::clone(self), parking: false }
    }

    /// A permit, waited for where all are out. Cancel-safe.
    pub(crate) async fn permit(self: &Rc<Self>) -> Permit {
        loop {
            if self.out.get() < self.limit && self.waiting.borrow().is_empty() {
                return self.enter();
            }
            let (promise, given) = Promise::new();
            self.waiting.borrow_mut().push_back(promise);
            self.park_surplus();
            if let Some(permit) = given.await {
                return permit;
            }
        }
    }

    /// `holder` has got a handle.
    pub(crate) fn hold(&self, holder: Weak<dyn Holder>) {
        self.circle.borrow_mut().push_back(holder);
    }

    /// True where somebody is to be parked who is not yet. Looked at after every step of every
    /// partition, so that one that comes to rest is found.
    pub(crate) fn wants(&self) -> bool {
        let over = self.out.get().saturating_sub(self.limit);
        self.waiting.borrow().len() + over > self.parking.get()
    }

    /// Parks as many as are wanted, as far as there are idle ones.
    pub(crate) fn park_surplus(&self) {
        while self.wants() && self.park_next() {}
    }

    /// Parks one that is idle, whatever the limit, and waits for its end. False where none is.
    pub(crate) async fn park_one(self: &Rc<Self>) -> bool {
        let (promise, given) = Promise::new();
        self.ends.borrow_mut().push_back(promise);
        if !self.park_next() {
            let mine = self.ends.borrow_mut().pop_back();
            drop(mine);
            return false;
        }
        // Not for its permit: above the limit nobody gets that.
        given.await;
        true
    }

    /// Makes the caller the one who looks for somebody to park, unless another one is about to.
    pub(crate) fn begin_look(&self) -> bool {
        !self.looks.replace(true)
    }

    /// The look that was begun.
    pub(crate) fn look(&self) {
        self.looks.set(false);
        self.park_surplus();
    }

    /// Goes round the circle, twice at most: what was used is passed over the first time.
    fn park_next(&self) -> bool {
        let mut left = 2 * self.circle.borrow().len();
        while left > 0 {
            left -= 1;
            // Nothing is borrowed while a partition is asked: parking may run code that comes here.
            let next = self.circle.borrow_mut().pop_front();
            let Some(next) = next else { return false };
            let Some(holder) = next.upgrade() else { continue };
            match holder.park() {
                Park::Begun => return true,
                Park::NotNow => self.circle.borrow_mut().push_back(next),
                Park::Gone => {}
            }
        }
        false
    }
}

impl Permit {
    /// Its partition is being parked.
    pub(crate) fn parking(mut self) -> Permit {
        self.parking = true;
        self.actives.parking.set(self.actives.parking.get() + 1);
        self
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let actives = &self.actives;
        if self.parking {
            actives.parking.set(actives.parking.get() - 1);
            let ended = actives.ends.borrow_mut().pop_front();
            if let Some(ended) = ended {
                ended.give(());
            }
        }
        actives.out.set(actives.out.get() - 1);
        if actives.out.get() >= actives.limit {
            return;
        }
        let first = actives.waiting.borrow_mut().pop_front();
        if let Some(first) = first {
            // One that nobody waits for any more drops it, and the next one gets it.
            first.give(actives.enter());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// A partition that does nothing but hold.
    struct Fake {
        permit: RefCell<Option<Permit>>,
        busy: Cell<bool>,
    }

    impl Holder for Fake {
        fn park(self: Rc<Self>) -> Park {
            if self.busy.get() {
                return Park::NotNow;
            }
            match self.permit.take() {
                Some(permit) => {
                    drop(permit.parking());
                    Park::Begun
                }
                None => Park::Gone,
            }
        }
    }

    fn hold(actives: &Rc<Actives>, permit: Permit) -> Rc<Fake> {
        let fake = Rc::new(Fake { permit: RefCell::new(Some(permit)), busy: Cell::new(false) });
        let weak: Weak<Fake> = Rc::downgrade(&fake);
        actives.hold(weak);
        fake
    }

    fn poll<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn the_oldest_idle_one_is_parked_for_whoever_wants_a_handle() {
        let actives = Actives::new(2);
        let first = hold(&actives, actives.enter());
        let second = hold(&actives, actives.enter());
        first.busy.set(true);
        let got = poll(pin!(actives.permit())).expect("the idle one made room");
        assert!(first.permit.borrow().is_some() && second.permit.borrow().is_none());
        let third = hold(&actives, got);
        third.busy.set(true);
        let mut wanted = pin!(actives.permit());
        assert!(poll(wanted.as_mut()).is_none(), "both are busy");
        assert!(actives.wants());
        first.busy.set(false);
        assert!(actives.begin_look() && !actives.begin_look(), "one looks at a time");
        actives.look();
        let got = poll(wanted).expect("the first has come to rest");
        assert_eq!((actives.len(), actives.wants()), (2, false));
        drop((got, third.permit.take()));
        assert_eq!(actives.len(), 0);
    }

    #[test]
    fn who_gives_up_waiting_passes_the_permit_on() {
        let actives = Actives::new(1);
        let only = actives.enter();
        let (mut gone, mut stays) = (Box::pin(actives.permit()), pin!(actives.permit()));
        assert!(poll(gone.as_mut()).is_none() && poll(stays.as_mut()).is_none());
        drop(gone);
        drop(only);
        assert!(poll(stays).is_some());
        assert_eq!(actives.len(), 0);
    }

    #[test]
    fn one_above_the_limit_is_parked_before_anybody_gets_a_permit() {
        let actives = Actives::new(1);
        let opened = hold(&actives, actives.enter());
        let above = actives.enter();
        let mut wanted = pin!(actives.permit());
        opened.busy.set(true);
        assert!(poll(wanted.as_mut()).is_none());
        drop(above);
        assert!(poll(wanted.as_mut()).is_none(), "one is out, and that is the limit");
        opened.busy.set(false);
        actives.park_surplus();
        assert!(poll(wanted).is_some());
    }

    #[test]
    fn above_the_limit_too_the_end_of_a_parking_is_told() {
        let actives = Actives::new(1);
        let (holder, _above) = (hold(&actives, actives.enter()), actives.enter());
        assert_eq!(poll(pin!(actives.park_one())), Some(true));
        assert_eq!((actives.len(), holder.permit.borrow().is_none()), (1, true));
    }

    #[test]
    fn parking_one_for_want_of_descriptors_waits_for_its_end() {
        let actives = Actives::new(9);
        assert_eq!(poll(pin!(actives.park_one())), Some(false), "there is none");
        let holder = hold(&actives, actives.enter());
        assert_eq!(poll(pin!(actives.park_one())), Some(true));
        assert_eq!((actives.len(), holder.permit.borrow().is_none()), (0, true));
    }
}
