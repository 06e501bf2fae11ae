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
    /// The thread's turns when a read for polls was begun last.
    read_in: Cell<Option<u64>>,
    /// Who has a write ready and found no room for it, first come first served. Weak, as each of
    /// them holds the shard's state; a write of its own in flight keeps it alive.
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

    /// Bytes of log writes in flight.
    pub fn bytes_in_flight(&self) -> usize {
        self.room().flying_bytes.get()
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

    /// A read for polls has begun.
    pub(crate) fn read_begun(&self) {
        self.room().read_in.set(Some(self.platform().spawn().turns()));
    }

    /// Waits until the kernel has seen the reads that were begun last. Whoever is about to verify a
    /// window calls it first: else the device has nothing to do meanwhile.
    pub(crate) async fn reads_sent(&self) {
        if self.room().read_in.get() == Some(self.platform().spawn().turns()) {
            self.platform().spawn().turn_to_io().await;
        }
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
    /// The write has come back: whoever waits for room is called.
    pub(crate) fn landed(self) {
        let shared = self.shared.clone();
        drop(self);
        shared.serve_grounded();
    }
}

impl<P: Platform> Drop for Flight<P> {
    /// Gives the room back and calls nobody: without [`Flight::landed`] it is a panic, or the thread
    /// is being taken down. Nobody is stuck for it: who waits has a write of its own to come back.
    fn drop(&mut self) {
        let flying = &self.shared.room().flying_bytes;
        flying.set(flying.get() - self.bytes);
    }
}
