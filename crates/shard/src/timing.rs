//! How long requests take: which are timed, from when to when, and who is told.
//!
//! A look at the clock costs some 25 ns, and a poll of the memory tail a microsecond. So not every
//! request of a busy thread is timed: a thread whose requests follow each other within
//! [`RARE_NS`] times one in [`ONE_IN`] of them, any other one times all. What is told is a fair
//! sample of what happens; how much happens is counted elsewhere, and exactly.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::rc::Rc;

use corelog_storage::{Ack, OpenReport, PollError, TrimError};

use crate::{PartitionFailure, PartitionId};

/// Of a busy thread's requests one in so many is timed.
const ONE_IN: u32 = 8;
/// A thread with so many nanoseconds between two requests is not busy.
const RARE_NS: u64 = 20_000;

/// Nanoseconds that never go back, from any moment on. Called on all threads.
pub type Ticks = fn() -> u64;

/// What took its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Took {
    /// The way of a request through the mailbox: from its admission until the shard took it out.
    Crossing,
    /// An append, from its admission until it was answered at this level.
    Append(Ack),
    /// A poll that found all it wanted in memory, from the call until its answer.
    PollOfMemory,
    /// A poll that had to look into files, from the call until its answer.
    PollOfFiles,
}

/// What an operator has to know.
#[derive(Debug)]
#[non_exhaustive]
pub enum ShardNotice<'a> {
    /// A partition was opened, or recovered in place where it is `reopened`.
    Opened {
        /// What was found and done.
        report: &'a OpenReport,
        /// It was open before and had a fault.
        reopened: bool,
    },
    /// A partition is out of service: it could not be opened, or its code has panicked.
    Failed(&'a PartitionFailure),
    /// A poll met damage, or bytes that the device does not give back.
    Damaged(&'a PollError),
    /// Retention could not drop what it was to; it tries again.
    NotTrimmed(&'a TrimError),
    /// What the partition itself tells.
    Log(&'a corelog_storage::Notice<'a>),
}

/// Who is told what happens on a shard. On its thread, which waits meanwhile; the partition that it
/// is about may be called. It must not panic, as with [`corelog_storage::Observer`].
pub trait Observer: 'static {
    /// Something took so many nanoseconds.
    fn took(&self, what: Took, ns: u64);

    /// Something has happened to a partition.
    fn notice(&self, partition: PartitionId, notice: &ShardNotice<'_>);
}

/// When a request was made that is timed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked(NonZeroU64);

/// The clock and who is told; neither costs anything where nobody is.
#[derive(Clone)]
pub(crate) struct Watch {
    ticks: Option<Ticks>,
    observer: Option<Rc<dyn Observer>>,
}

/// A request that is timed, on its shard.
pub(crate) struct Timed {
    asked: Asked,
    watch: Watch,
}

impl Watch {
    pub(crate) fn new(ticks: Option<Ticks>, observer: Option<Rc<dyn Observer>>) -> Self {
        Watch { ticks, observer }
    }

    /// A request that was `asked` then; `None` where it is not timed.
    pub(crate) fn timed(&self, asked: Option<Asked>) -> Option<Timed> {
        asked.map(|asked| Timed { asked, watch: self.clone() })
    }

    /// Tells how long it is since `asked`.
    pub(crate) fn took(&self, what: Took, asked: Asked) {
        if let (Some(ticks), Some(observer)) = (self.ticks, &self.observer) {
            observer.took(what, ticks().saturating_sub(asked.0.get()));
        }
    }

    pub(crate) fn notice(&self, partition: PartitionId, notice: &ShardNotice<'_>) {
        if let Some(observer) = &self.observer {
            observer.notice(partition, notice);
        }
    }

    /// Who is told what happens to the log of `partition`.
    pub(crate) fn of_log(&self, partition: PartitionId) -> Option<Rc<OfLog>> {
        let observer = Rc::clone(self.observer.as_ref()?);
        Some(Rc::new(OfLog { partition, observer }))
    }
}

impl Timed {
    pub(crate) fn took(self, what: Took) {
        self.watch.took(what, self.asked);
    }
}

/// Tells an [`Observer`] which partition it is.
pub(crate) struct OfLog {
    partition: PartitionId,
    observer: Rc<dyn Observer>,
}

impl corelog_storage::Observer for OfLog {
    fn notice(&self, notice: &corelog_storage::Notice<'_>) {
        self.observer.notice(self.partition, &ShardNotice::Log(notice));
    }
}

/// Which requests of a thread are timed.
#[derive(Debug, Clone, Copy)]
struct Sampler {
    /// When one was timed last.
    last: u64,
    /// So many were not timed behind that one.
    skipped: u32,
    /// So many are not timed now.
    left: u32,
}

thread_local! {
    static SAMPLER: Cell<Sampler> = const { Cell::new(Sampler { last: 0, skipped: 0, left: 0 }) };
}

/// The present, where the request that this thread makes now is to be timed.
pub(crate) fn asked(ticks: Option<Ticks>) -> Option<Asked> {
    let ticks = ticks?;
    SAMPLER.with(|cell| {
        let mut sampler = cell.get();
        let asked = sampler.next(ticks);
        cell.set(sampler);
        asked.map(Asked)
    })
}

impl Sampler {
    fn next(&mut self, ticks: impl FnOnce() -> u64) -> Option<NonZeroU64> {
        if self.left > 0 {
            self.left -= 1;
            return None;
        }
        let now = ticks();
        let apart = now.saturating_sub(self.last) / u64::from(self.skipped + 1);
        let skipped = if apart < RARE_NS { ONE_IN - 1 } else { 0 };
        *self = Sampler { last: now, skipped, left: skipped };
        NonZeroU64::new(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of `requests` that are `apart` nanoseconds from each other are timed.
    fn timed(sampler: &mut Sampler, now: &mut u64, requests: u64, apart: u64) -> u64 {
        let mut timed = 0;
        for _ in 0..requests {
            *now += apart;
            timed += u64::from(sampler.next(|| *now).is_some());
        }
        timed
    }

    #[test]
    fn rare_requests_are_all_timed_and_of_frequent_ones_one_in_eight() {
        let (mut now, mut sampler) = (1 << 40, Sampler { last: 0, skipped: 0, left: 0 });
        assert_eq!(timed(&mut sampler, &mut now, 1000, RARE_NS), 1000);
        let busy = timed(&mut sampler, &mut now, 8000, RARE_NS - 1);
        assert!((1000..=1001).contains(&busy), "{busy}");
        // It takes a sample to see that the rush is over.
        let calm = timed(&mut sampler, &mut now, 1000, RARE_NS);
        assert!((1000 - 7..=1000).contains(&calm), "{calm}");
        assert_eq!(timed(&mut sampler, &mut now, 1000, RARE_NS), 1000);
    }

    #[test]
    fn without_a_clock_nothing_is_timed() {
        assert!(asked(None).is_none());
        assert!(asked(Some(|| 7)).is_some());
    }
}
