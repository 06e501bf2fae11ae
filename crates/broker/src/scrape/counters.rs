//! What the connections of a shard have counted. One thread writes, others may look: a load and a
//! store, no locked instruction.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::{Ended, Told};
use crate::operation::{Operation, Question};
use crate::status::Status;

/// A number that one thread counts up.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        self.0.store(self.get().wrapping_add(more), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How a login went.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Login {
    Done,
    Refused,
    /// Nobody looked at it: too many wait, or have failed from there.
    Busy,
}

/// Why a connection ended, with the word of its metric.
pub(super) const ENDS: [(&str, Option<Ended>); 7] = [
    ("client", None),
    ("error", None),
    ("no_login", Some(Ended::NoLogin)),
    ("idle", Some(Ended::Idle)),
    ("slow_frame", Some(Ended::SlowFrame)),
    ("slow_reply", Some(Ended::SlowReply)),
    ("stopping", Some(Ended::Stopping)),
];

/// Of one shard. On lines of its own, so that shards do not take them from each other.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) accepted: Count,
    pub(crate) refused: Count,
    /// In the order of [`ENDS`].
    pub(super) ended: [Count; ENDS.len()],
    pub(crate) received_bytes: Count,
    pub(crate) sent_bytes: Count,
    /// Frames without an answer.
    pub(crate) passed_over: Count,
    pub(super) operations: PerOperation,
    /// In the order of [`Question::ALL`]; the last one is for all that are none.
    pub(super) questions: [Count; Question::ALL.len() + 1],
    /// In the order of [`Status::ALL`].
    pub(super) errors: [Count; Status::ALL.len()],
    pub(crate) evictions: Count,
    /// In the order of [`Login`].
    pub(super) logins: [Count; 3],
    pub(crate) frames: Arc<Told>,
    pub(crate) replies: Arc<Told>,
}

/// By the number of the operation.
pub(super) struct PerOperation(pub(super) [Count; 256]);

impl Default for PerOperation {
    fn default() -> Self {
        PerOperation(std::array::from_fn(|_| Count::default()))
    }
}

impl Counters {
    /// A request that has an answer.
    pub(crate) fn request(&self, operation: Operation, code: u32) {
        if operation != Operation::NonReplicated {
            return self.operations.0[usize::from(operation as u8)].add(1);
        }
        let place = Question::ALL.iter().position(|(question, _)| *question as u32 == code);
        self.questions[place.unwrap_or(Question::ALL.len())].add(1);
    }

    /// An answer that is an error.
    pub(crate) fn error(&self, code: u32) {
        if let Some(place) = Status::ALL.iter().position(|status| status.0 == code) {
            self.errors[place].add(1);
        }
    }

    pub(crate) fn login(&self, how: Login) {
        self.logins[how as usize].add(1);
    }

    /// A connection is over: by its client (`Ok`), by this broker, or by an error.
    pub(crate) fn ended(&self, how: Result<(), Option<Ended>>) {
        let place = match how {
            Ok(()) => 0,
            Err(None) => 1,
            Err(why) => ENDS.iter().position(|(_, end)| *end == why).expect("all are there"),
        };
        self.ended[place].add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_counted_in_its_place() {
        let counters = Counters::default();
        counters.request(Operation::SendMessages, 0);
        counters.request(Operation::NonReplicated, 100);
        counters.request(Operation::NonReplicated, 4711);
        assert_eq!(counters.operations.0[160].get(), 1);
        let poll = Question::ALL.iter().position(|(question, _)| *question as u32 == 100);
        assert_eq!(counters.questions[poll.unwrap()].get(), 1);
        assert_eq!(counters.questions[Question::ALL.len()].get(), 1);
        counters.error(1009);
        counters.error(77);
        assert_eq!(counters.errors.iter().map(Count::get).sum::<u64>(), 1);
        for (place, (_, end)) in ENDS.iter().enumerate().skip(2) {
            counters.ended(Err(*end));
            assert_eq!(counters.ended[place].get(), 1);
        }
    }
}
