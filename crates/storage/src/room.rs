//! How much of the shard's log writes is in flight, and who waits for room.
//!
//! A device needs a few writes to be busy and gains nothing by more. What is ready beyond them is
//! worth more in memory: it follows at once when a write comes back, while the appends that the
//! answer brings are still to be verified and copied.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use corelog_io::{Platform, Spawn};

use crate::Shared;

/// The state of it, one a shard.
#[derive(Default)]
pub(crate) struct Room {
    /// Bytes of log writes on their way.
    flying_bytes: Cell<usize>,
    /// The thread's turns when a log write was sent last.
    sent_in: Cell<Option<u64>>,
    /// Who has a write ready and found no room for it, first come first served. Weak: a partition
    /// holds what the shard shares, and with it this list.
    grounded: RefCell<VecDeque<Weak<dyn Writer>>>,
}

/// A partition that has a write ready.
pub(crate) trait Writer {
    /// There is room now: sends what fits, or asks to be called again.
    fn room(self: Rc<Self>);
}

/// A log write on its way, until it is dropped.
pub(crate) struct Flight<P: Platform> {
    shared: Shared<P>,
    bytes: usize,
}

impl<P: Platform> Shared<P> {
    /// True where a log write may go out beside others of its partition.
    pub(crate) fn has_room(&self) -> bool {
        self.room().flying_bytes.get() < self.limits().flying_bytes
    }

    /// Counts a log write of `bytes` until the answer is dropped.
    pub(crate) fn fly(&self, bytes: usize) -> Flight<P> {
        let room = self.room();
        room.flying_bytes.set(room.flying_bytes.get() + bytes);
        room.sent_in.set(Some(self.platform().spawn().turns()));
        Flight { shared: self.clone(), bytes }
    }

    /// True where a log write was sent that the kernel may not have seen yet.
    pub(crate) fn has_just_sent(&self) -> bool {
        self.room().sent_in.get() == Some(self.platform().spawn().turns())
    }

    /// Calls `writer` when there is room.
    pub(crate) fn await_room(&self, writer: Weak<dyn Writer>) {
        self.room().grounded.borrow_mut().push_back(writer);
    }

    /// Those who wait for room are called, as far as it goes.
    fn serve_grounded(&self) {
        while self.has_room() {
            let first = self.room().grounded.borrow_mut().pop_front();
            let Some(writer) = first else { return };
            if let Some(writer) = writer.upgrade() {
                writer.room();
            }
        }
    }
}

impl<P: Platform> Flight<P> {
    /// The write has come back: those who wait for room are called.
    pub(crate) fn land(self) {
        let shared = self.shared.clone();
        drop(self);
        shared.serve_grounded();
    }
}

impl<P: Platform> Drop for Flight<P> {
    /// Without [`Flight::land`] the task has ended before its time: nobody is called from inside of
    /// it. An executor that drops its tasks begins no new ones; after a panic, which is that of the
    /// partition whose write it was, the others are called from a task of their own.
    fn drop(&mut self) {
        let flying = &self.shared.room().flying_bytes;
        flying.set(flying.get() - self.bytes);
        if std::thread::panicking() {
            let shared = self.shared.clone();
            self.shared.platform().spawn().spawn(async move { shared.serve_grounded() });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use super::*;
    use crate::SharedLimits;
    use corelog_io::Clock;
    use corelog_io::sim::Sim;

    struct Called(Cell<u32>);

    impl Writer for Called {
        fn room(self: Rc<Self>) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[test]
    fn a_write_that_ends_in_a_panic_lets_the_next_one_go_in_a_task_of_its_own() {
        let sim = Sim::new(1);
        sim.run(async {
            let limits = SharedLimits { flying_bytes: 1, ..SharedLimits::default() };
            let shared = Shared::new(sim.platform().clone(), limits);
            let flight = shared.fly(10);
            assert!(!shared.has_room());
            let next = Rc::new(Called(Cell::new(0)));
            let writer: Rc<dyn Writer> = Rc::<Called>::clone(&next);
            shared.await_room(Rc::downgrade(&writer));
            let ended = catch_unwind(AssertUnwindSafe(|| {
                let _flight = flight;
                panic!("a bug of ours");
            }));
            assert!(ended.is_err() && shared.has_room());
            assert_eq!(next.0.get(), 0, "not inside of the panic");
            sim.clock().sleep(Duration::from_micros(1)).await;
            assert_eq!(next.0.get(), 1);
        });
    }
}
