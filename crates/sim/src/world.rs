//! What all parts of one run share: the simulation, the parameters, the oracles, the history, and
//! the first failure.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use corelog_io::sim::{Rng, Sim, SimPlatform};
use corelog_io::{Clock, Platform};
use corelog_storage::Watermarks;

use crate::allowed::Allowed;
use crate::door::{Cause, Door};
use crate::history::History;
use crate::oracle::{Broken, Oracle};
use crate::params::{Params, Wrongs};
use crate::probes::{Probe, Probes};

/// One partition of the run.
pub(crate) struct Part {
    pub(crate) oracle: RefCell<Oracle>,
    /// The way in, while it is open.
    pub(crate) door: RefCell<Option<Door>>,
    /// Somebody opens or closes it.
    pub(crate) changing: Cell<bool>,
    /// It is being opened, and the oracle has not heard yet what came of it.
    pub(crate) opening: Cell<bool>,
    /// How often somebody began to close it: polls that wait end early then.
    pub(crate) endings: Cell<u64>,
    /// The life of its id that the catalog has.
    pub(crate) incarnation: Cell<u64>,
    /// Its shard was told of a retention rule since it was opened, and may act on it.
    pub(crate) ruled: Cell<bool>,
    /// An append was answered `Poisoned` since it was opened.
    pub(crate) poisoned: Cell<bool>,
    /// An append was answered `StorageFull` since it was opened.
    pub(crate) full: Cell<bool>,
    /// Reads were made to fail in the life before. An opening that a crash cut short may have stepped
    /// over what it could not read, and told nobody.
    pub(crate) unread_before: Cell<bool>,
    /// It was opened for reading only, for want of something.
    pub(crate) read_only: Cell<bool>,
}

/// Everything of one run.
pub(crate) struct World {
    pub(crate) sim: Sim,
    pub(crate) params: Params,
    pub(crate) parts: Vec<Part>,
    pub(crate) allowed: RefCell<Allowed>,
    /// Nobody begins anything new.
    pub(crate) winding_down: Cell<bool>,
    history: RefCell<History>,
    probes: RefCell<Probes>,
    failure: RefCell<Option<Broken>>,
    main: RefCell<Option<Waker>>,
    /// The highest that the clock has ever shown.
    latest_us: Cell<u64>,
}

impl World {
    pub(crate) fn new(seed: u64, params: Params, shown: usize) -> Rc<Self> {
        let sim = Sim::new(seed);
        sim.disk().buffers().set_limit(params.pool_bytes);
        sim.disk().set_delay_us(params.delay_us.0..=params.delay_us.1);
        let part = |(number, part): (usize, &crate::params::PartitionParams)| Part {
            oracle: RefCell::new(Oracle::new(number as u32, part.config.enforce_fsync)),
            door: RefCell::default(),
            changing: Cell::new(false),
            opening: Cell::new(false),
            endings: Cell::new(0),
            incarnation: Cell::new(1),
            ruled: Cell::new(false),
            poisoned: Cell::new(false),
            full: Cell::new(false),
            unread_before: Cell::new(false),
            read_only: Cell::new(false),
        };
        Rc::new(World {
            sim,
            parts: params.partitions.iter().enumerate().map(part).collect(),
            params,
            allowed: RefCell::default(),
            winding_down: Cell::new(false),
            history: RefCell::new(History::new(shown)),
            probes: RefCell::default(),
            failure: RefCell::default(),
            main: RefCell::default(),
            latest_us: Cell::new(0),
        })
    }

    pub(crate) fn platform(&self) -> &SimPlatform {
        self.sim.platform()
    }

    pub(crate) fn note(&self, event: &str) {
        let at_us = u64::try_from(self.sim.clock().elapsed().as_micros()).unwrap_or(u64::MAX);
        self.history.borrow_mut().note(at_us, event);
    }

    /// Takes the disk's trace into the history's hash, and forgets it.
    pub(crate) fn hash_disk(&self) {
        self.history.borrow_mut().hash_disk(&self.sim.disk().trace());
        self.sim.disk().clear_trace();
    }

    /// The highest that the clock has ever shown. To be asked before the clock steps.
    pub(crate) fn latest_us(&self) -> u64 {
        self.latest_us.set(self.latest_us.get().max(self.sim.clock().now_us()));
        self.latest_us.get()
    }

    /// Whether this may have poisoned a partition: what an opening meets does that, too, where it
    /// leaves a partition that takes no appends.
    pub(crate) fn may_poison(&self, partition: usize, cause: Cause) -> bool {
        let allowed = self.allowed.borrow();
        allowed.poison(cause) || self.parts[partition].read_only.get() && allowed.error(cause)
    }

    /// True where nothing goes wrong in this run but crashes.
    pub(crate) fn is_honest(&self) -> bool {
        let indexes = self.params.wrongs.indexes;
        self.params.wrongs == Wrongs { indexes, ..Wrongs::default() }
            && !self.allowed.borrow().buffers
    }

    /// Holds where a partition says it stands against what is known. `known` is the end that was
    /// known before it was asked. False where that is broken.
    pub(crate) fn judge_marks(&self, partition: usize, marks: Watermarks, known: u64) -> bool {
        let before = self.parts[partition].oracle.borrow().start();
        let latest_us = self.latest_us();
        let told = self.parts[partition].oracle.borrow_mut().watermarks(marks, known, latest_us);
        if marks.start() > before && self.parts[partition].ruled.get() {
            self.hit(Probe::Retained);
        }
        if let Err(broken) = &told {
            self.fail(format!("partition {partition}: {broken}"));
        }
        told.is_ok()
    }

    pub(crate) fn hit(&self, probe: Probe) {
        self.probes.borrow_mut().hit(probe);
    }

    pub(crate) fn probes(&self) -> Probes {
        self.probes.borrow().clone()
    }

    pub(crate) fn hash(&self) -> u64 {
        self.history.borrow().hash()
    }

    pub(crate) fn events(&self) -> u64 {
        self.history.borrow().count()
    }

    pub(crate) fn tail(&self) -> String {
        self.history.borrow().tail()
    }

    /// Keeps the first failure and ends the life.
    pub(crate) fn fail(&self, broken: Broken) {
        self.note(&format!("BROKEN: {broken}"));
        self.failure.borrow_mut().get_or_insert(broken);
        if let Some(waker) = self.main.borrow_mut().take() {
            waker.wake();
        }
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    pub(crate) fn take_failure(&self) -> Option<Broken> {
        self.failure.borrow_mut().take()
    }

    /// Runs `body`; `None` as soon as anybody failed.
    pub(crate) async fn unless_failed<T>(&self, body: impl Future<Output = T>) -> Option<T> {
        let mut body = pin!(body);
        poll_fn(|cx| {
            if self.has_failed() {
                return Poll::Ready(None);
            }
            *self.main.borrow_mut() = Some(cx.waker().clone());
            match body.as_mut().poll(cx) {
                Poll::Ready(_) if self.has_failed() => Poll::Ready(None),
                Poll::Ready(value) => Poll::Ready(Some(value)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    pub(crate) async fn sleep_us(&self, us: u64) {
        self.sim.clock().sleep(Duration::from_micros(us)).await;
    }

    /// A pause of up to `most_us`, often none at all.
    pub(crate) async fn pause(&self, rng: &mut Rng, most_us: u64) {
        if rng.chance(2, 3) {
            self.sleep_us(rng.below(most_us + 1)).await;
        }
    }

    /// The partition's way in, if it is open.
    pub(crate) fn door(&self, partition: usize) -> Option<Door> {
        self.parts[partition].door.borrow().clone()
    }

    /// What `future` gives, unless virtual time runs out first.
    pub(crate) async fn within<T>(
        &self,
        limit: Duration,
        future: impl Future<Output = T>,
    ) -> Option<T> {
        let mut future = pin!(future);
        let mut timer = pin!(self.platform().clock().sleep(limit));
        poll_fn(|cx| {
            if let Poll::Ready(value) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(value));
            }
            timer.as_mut().poll(cx).map(|()| None)
        })
        .await
    }
}
