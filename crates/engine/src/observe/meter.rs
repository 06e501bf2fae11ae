//! One shard's times, and its file operations that are under way: those that take long are told, and
//! those that never end, too.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use corelog_io::IoOp;

use super::{Events, Latencies, Timed, ticks};

/// An operation hangs when it takes so many times what is slow.
const HANGS: u32 = 10;

/// File operations of one shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IoStats {
    /// Operations under way now: reads, writes, syncs, and all others on files and directories.
    pub under_way: usize,
    /// Of these, such that take ten times as long as what is slow.
    pub hanging: usize,
    /// Operations that ended and had been slow, since the shard began.
    pub slow: u64,
    /// Operations that failed. That a file is not there is no failure.
    pub errors: u64,
}

/// Local to its shard's thread.
pub(crate) struct Meter {
    shard: usize,
    events: Events,
    latencies: RefCell<Latencies>,
    under_way: RefCell<UnderWay>,
    slow: Cell<u64>,
    errors: Cell<u64>,
    /// Somebody looks for operations that hang.
    pub(crate) watched: Cell<bool>,
    over: Cell<bool>,
}

/// Operations by number; numbers are given again.
#[derive(Default)]
struct UnderWay {
    all: Vec<Option<Begun>>,
    free: Vec<usize>,
}

struct Begun {
    at_ns: u64,
    op: IoOp,
    path: Rc<Path>,
    position: Option<u64>,
    /// That it hangs was told.
    hangs: bool,
}

/// An operation under way; ends when dropped.
pub(crate) struct Operation {
    meter: Rc<Meter>,
    number: usize,
}

impl Meter {
    pub(crate) fn new(shard: usize, events: Events) -> Meter {
        Meter {
            shard,
            events,
            latencies: RefCell::new(Latencies::new()),
            under_way: RefCell::default(),
            slow: Cell::new(0),
            errors: Cell::new(0),
            watched: Cell::new(false),
            over: Cell::new(false),
        }
    }

    pub(crate) fn shard(&self) -> usize {
        self.shard
    }

    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    pub(crate) fn took(&self, what: Timed, ns: u64) {
        self.latencies.borrow_mut().record(what, ns);
    }

    /// An operation begins.
    pub(crate) fn begin(
        self: &Rc<Self>,
        op: IoOp,
        path: &Rc<Path>,
        position: Option<u64>,
    ) -> Operation {
        let begun = Begun { at_ns: ticks(), op, path: Rc::clone(path), position, hangs: false };
        let under_way = &mut *self.under_way.borrow_mut();
        let number = match under_way.free.pop() {
            Some(number) => {
                under_way.all[number] = Some(begun);
                number
            }
            None => {
                under_way.all.push(Some(begun));
                under_way.all.len() - 1
            }
        };
        Operation { meter: Rc::clone(self), number }
    }

    fn end(&self, number: usize) {
        let begun = {
            let under_way = &mut *self.under_way.borrow_mut();
            under_way.free.push(number);
            under_way.all[number].take().expect("it ends once")
        };
        let ns = ticks().saturating_sub(begun.at_ns);
        self.took(Timed::of_io(begun.op), ns);
        let took = Duration::from_nanos(ns);
        if took >= self.events.slow_io() {
            self.slow.set(self.slow.get() + 1);
            let Begun { op, path, position, hangs, .. } = begun;
            self.events.io_slow(self.shard, op, &path, position, took, hangs);
        }
    }

    /// The shard has ended: nobody looks any more.
    pub(crate) fn leave(&self) {
        self.over.set(true);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.get()
    }

    /// How long to wait between two looks.
    pub(crate) fn look_every(&self) -> Duration {
        self.events.slow_io().max(Duration::from_millis(10))
    }

    /// Tells of the operations that hang, each once. True where any is under way.
    pub(crate) fn look(&self) -> bool {
        let (now, limit) = (ticks(), self.events.slow_io() * HANGS);
        let mut place = 0;
        // Nothing is held while an event is told.
        while let Some(begun) = self.next_hanging(&mut place, now, limit) {
            let (op, path, position, since) = begun;
            self.events.io_hangs(self.shard, op, &path, position, since);
        }
        let under_way = self.under_way.borrow();
        under_way.all.len() > under_way.free.len()
    }

    /// The next one from `place` on that hangs, and for how long it does.
    fn next_hanging(
        &self,
        place: &mut usize,
        now: u64,
        limit: Duration,
    ) -> Option<(IoOp, Rc<Path>, Option<u64>, Duration)> {
        let mut under_way = self.under_way.borrow_mut();
        while let Some(begun) = under_way.all.get_mut(*place) {
            *place += 1;
            let Some(begun) = begun else { continue };
            let since = Duration::from_nanos(now.saturating_sub(begun.at_ns));
            if since >= limit && !begun.hangs {
                begun.hangs = true;
                return Some((begun.op, Rc::clone(&begun.path), begun.position, since));
            }
        }
        None
    }

    /// What there is to say now.
    pub(crate) fn report(&self) -> (Latencies, IoStats) {
        let under_way = self.under_way.borrow();
        let stats = IoStats {
            under_way: under_way.all.len() - under_way.free.len(),
            hanging: under_way.all.iter().flatten().filter(|begun| begun.hangs).count(),
            slow: self.slow.get(),
            errors: self.errors.get(),
        };
        (self.latencies.borrow().clone(), stats)
    }
}

impl Operation {
    /// Ends it; it may have `failed`.
    pub(crate) fn ended(self, failed: bool) {
        if failed {
            self.meter.errors.set(self.meter.errors.get() + 1);
        }
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.meter.end(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    fn meter(slow: Duration) -> (Rc<Meter>, Rc<Path>) {
        (Rc::new(Meter::new(3, Events::new(Path::new("data"), slow))), Path::new("a.log").into())
    }

    #[test]
    fn operations_are_timed_by_their_kind_and_counted_while_they_last() {
        let (meter, path) = meter(Duration::from_secs(1));
        let (read, write) =
            (meter.begin(IoOp::Read, &path, Some(0)), meter.begin(IoOp::Write, &path, None));
        assert_eq!(meter.report().1.under_way, 2);
        assert!(meter.look());
        drop(read);
        write.ended(true);
        meter.begin(IoOp::Rename, &path, None).ended(false);
        let (latencies, stats) = meter.report();
        assert_eq!(stats, IoStats { errors: 1, ..IoStats::default() });
        for (what, count) in [
            (Timed::DeviceRead, 1),
            (Timed::DeviceWrite, 1),
            (Timed::DeviceSync, 0),
            (Timed::FileOperation, 1),
        ] {
            assert_eq!(latencies[what].count(), count, "{what:?}");
        }
        assert!(!meter.look());
    }

    #[test]
    fn what_hangs_is_told_once_and_counted_as_slow_when_it_ends() {
        let (meter, path) = meter(Duration::from_micros(100));
        let hangs = meter.begin(IoOp::Sync, &path, None);
        assert!(meter.look());
        sleep(Duration::from_millis(2));
        assert!(meter.look());
        assert_eq!((meter.report().1.hanging, meter.report().1.slow), (1, 0));
        let mut place = 0;
        assert!(meter.next_hanging(&mut place, u64::MAX, Duration::ZERO).is_none());
        drop(hangs);
        assert_eq!((meter.report().1.hanging, meter.report().1.slow), (0, 1));
    }
}
