//! What consumers may have stored.
//!
//! | the contract | here |
//! | --- | --- |
//! | what is told is what was stored last; a refused store changes nothing | [`Oracle::offset_told`] |
//! | an offset that was answered as durable survives every crash | [`Oracle::offset_stored`] |
//! | what an opening finds is durable within a second, or when it is closed | `Consumers::opened` |
//! | else it is durable within a second, or lost with everything that was stored after it | [`Oracle::offsets_aged`] |
//! | never above the end of a log that was opened, and for good | `Consumers::opened` |
//! | auto-commit never goes back | [`Oracle::auto_stored`] |

use std::collections::BTreeMap;

use corelog_storage::ConsumerKey;

use super::{Broken, Oracle};

/// Without faults a store that nobody waits for is durable after this; promised is a second, and
/// the store itself takes time.
const AGED_US: u64 = 2_000_000;

/// What may be stored for somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    Nothing,
    At(u64),
    /// Nobody knows: an answer was lost.
    Anything,
}

#[derive(Debug, Clone, Copy)]
struct Set {
    value: Value,
    at_us: u64,
}

/// What one of them has stored: everything since it was known for sure, in order.
#[derive(Debug, Clone)]
struct Stored {
    set: Vec<Set>,
    /// In force is one from here on.
    now: usize,
    /// A crash leaves one from here on.
    durable: usize,
    /// Nothing was stored since the opening: what is told is what the disk has.
    fresh: bool,
    /// The disk did not give everything back at the opening, and nothing was stored over it since: a
    /// later opening may find what this one did not.
    unread: bool,
    /// Somebody else may change it at any moment.
    loose: bool,
}

impl Default for Stored {
    fn default() -> Self {
        let set = vec![Set { value: Value::Nothing, at_us: 0 }];
        Stored { set, now: 0, durable: 0, fresh: false, unread: false, loose: false }
    }
}

impl Stored {
    fn possible(&self) -> impl Iterator<Item = Value> + '_ {
        self.set[self.now..].iter().map(|set| set.value)
    }

    fn is_surely_nothing(&self) -> bool {
        self.possible().all(|value| value == Value::Nothing)
    }

    /// The highest that may be in force; `None` where nothing may be.
    fn highest(&self) -> Option<u64> {
        self.possible().try_fold(0, |highest, value| match value {
            // No log has it, so it is refused.
            Value::At(u64::MAX) => Some(highest),
            Value::At(offset) => Some(offset.max(highest)),
            Value::Nothing | Value::Anything => None,
        })
    }
}

/// A number for each, in a map's order.
type Key = (u8, u32);

fn key(who: ConsumerKey) -> Key {
    (who.kind.code(), who.id)
}

/// All that is stored in one partition.
#[derive(Debug, Default)]
pub(super) struct Consumers {
    stored: BTreeMap<Key, Stored>,
    /// How often somebody else was about to forget, or had forgotten, what is stored.
    loosened: u64,
    /// How often something was to be stored.
    called: u64,
}

impl Consumers {
    /// The log ends at `end` at an opening. With `lost` nobody knows what the disk gave back.
    /// What it finds may be a killed process's, and not durable for a second from `at_us` on. Answers
    /// how many were put down.
    pub(super) fn opened(&mut self, end: u64, lost: bool, at_us: u64) -> u64 {
        let mut put_down = 0;
        for stored in self.stored.values_mut() {
            let mut set: Vec<Set> = stored.set.split_off(stored.durable);
            for one in &mut set {
                one.at_us = at_us;
                if let Value::At(offset) = &mut one.value {
                    put_down += u64::from(*offset >= end);
                    match end.checked_sub(1) {
                        Some(last) => *offset = (*offset).min(last),
                        None => one.value = Value::Nothing,
                    }
                }
            }
            if lost {
                set.push(Set { value: Value::Anything, at_us: u64::MAX });
            }
            set.dedup_by_key(|one| one.value);
            *stored = Stored { set, fresh: true, unread: lost, ..Stored::default() };
        }
        put_down
    }

    /// What was in memory is gone, however much time passes before the next opening.
    pub(super) fn crashed(&mut self) {
        let sets = self.stored.values_mut().flat_map(|stored| &mut stored.set);
        sets.for_each(|set| set.at_us = u64::MAX);
    }

    /// The partition was closed in order: what is in force is durable.
    pub(super) fn closed(&mut self) {
        let stored = self.stored.values_mut().filter(|stored| !stored.unread);
        stored.for_each(|stored| stored.durable = stored.now);
    }

    /// The highest that the lowest stored offset may be; `None` where perhaps nobody stored one.
    pub(super) fn lowest_at_most(&self) -> Option<u64> {
        self.stored.values().filter_map(Stored::highest).min()
    }

    /// The lowest that it may be; `None` where surely nobody stored one.
    pub(super) fn lowest_at_least(&self) -> Option<u64> {
        let least = |value| match value {
            Value::Nothing => None,
            Value::At(offset) => Some(offset),
            Value::Anything => Some(0),
        };
        self.stored.values().flat_map(Stored::possible).filter_map(least).min()
    }

    fn of(&mut self, who: ConsumerKey) -> &mut Stored {
        self.stored.entry(key(who)).or_default()
    }
}

impl Oracle {
    /// `who` is about to store `value`, as the only one who stores for it. The answer names the
    /// attempt.
    pub(crate) fn offset_called(&mut self, who: ConsumerKey, value: Value, at_us: u64) -> usize {
        self.consumers.called += 1;
        let stored = self.consumers.of(who);
        stored.fresh = false;
        stored.set.push(Set { value, at_us });
        let attempt = stored.set.len() - 1;
        self.barrier_may_rise();
        attempt
    }

    /// The attempt has changed nothing.
    pub(crate) fn offset_refused(&mut self, who: ConsumerKey, attempt: usize) {
        let stored = self.consumers.of(who);
        if attempt < stored.set.len() && stored.now < attempt && !stored.loose {
            stored.set.remove(attempt);
        }
    }

    /// The attempt is in force, or what was stored behind it.
    pub(crate) fn offset_stored(&mut self, who: ConsumerKey, attempt: usize, durable: bool) {
        let stored = self.consumers.of(who);
        // The attempts of the life before an opening are not counted any more when it is over.
        if stored.loose || attempt >= stored.set.len() {
            return;
        }
        stored.now = stored.now.max(attempt);
        stored.unread = false;
        if durable {
            stored.durable = stored.durable.max(attempt);
        }
        self.barrier_may_rise();
    }

    /// Somebody else may from now on forget what `who` has stored, or has done so.
    pub(crate) fn offset_loose(&mut self, who: ConsumerKey, loose: bool) {
        self.consumers.loosened += 1;
        let stored = self.consumers.of(who);
        stored.loose = loose;
        stored.fresh = false;
        stored.set.push(Set { value: Value::Anything, at_us: u64::MAX });
        self.barrier_may_rise();
    }

    /// A poll has served `who` up to `last` and was to commit that. `may_fail`: it may have been one
    /// too many, or too late.
    pub(crate) fn auto_stored(
        &mut self,
        who: ConsumerKey,
        attempt: usize,
        last: u64,
        may_fail: bool,
    ) {
        let stored = self.consumers.of(who);
        let Some(Value::Anything) = stored.set.get(attempt).map(|set| set.value) else { return };
        // What somebody else did meanwhile may have come before it or behind it.
        if stored.loose || stored.set.len() > attempt + 1 {
            return;
        }
        let at_us = stored.set[attempt].at_us;
        let before: Vec<Value> =
            stored.set[stored.now..attempt].iter().map(|set| set.value).collect();
        let mut after: Vec<Value> = Vec::new();
        for value in before {
            after.push(match value {
                Value::At(offset) => Value::At(offset.max(last)),
                Value::Nothing => Value::At(last),
                Value::Anything => Value::Anything,
            });
            if may_fail {
                after.push(value);
            }
        }
        let mut seen: Vec<Value> = Vec::new();
        after.retain(|value| {
            let is_new = !seen.contains(value);
            seen.push(*value);
            is_new
        });
        stored.set.truncate(attempt);
        stored.now = stored.set.len();
        stored.set.extend(after.into_iter().map(|value| Set { value, at_us }));
    }

    /// `who` has been told that this is stored, having asked when [`Oracle::loosened`] was
    /// `loosened`. True where a crash has taken something newer.
    pub(crate) fn offset_told(
        &mut self,
        who: ConsumerKey,
        told: Option<u64>,
        loosened: u64,
    ) -> Result<bool, Broken> {
        let end = self.known_end();
        // Others may have changed it while the answer was on its way.
        let still_holds = self.consumers.loosened == loosened;
        let stored = self.consumers.of(who);
        let value = told.map_or(Value::Nothing, Value::At);
        let fits = stored.possible().any(|one| match one {
            Value::Anything => told.is_none_or(|offset| offset < end.max(1)),
            one => one == value,
        });
        if !fits {
            let possible: Vec<_> = stored.possible().collect();
            return Err(format!("{who:?} has stored {told:?}, not one of {possible:?}"));
        }
        let newest = stored.set.last().map(|set| set.value);
        let is_older = stored.fresh && newest != Some(value) && newest != Some(Value::Anything);
        if !stored.loose && still_holds {
            let at_us = stored.set[stored.now..].iter().map(|set| set.at_us).max().unwrap_or(0);
            stored.set.push(Set { value, at_us });
            stored.now = stored.set.len() - 1;
            self.barrier_may_rise();
        }
        Ok(is_older)
    }

    /// A number that changes whenever something is to be stored.
    pub(crate) fn offsets_called(&self) -> u64 {
        self.consumers.called
    }

    /// A number that changes when others change what is stored.
    pub(crate) fn loosened(&self) -> u64 {
        self.consumers.loosened
    }

    /// The one offset that `who` has stored, where that is known.
    pub(crate) fn next_of(&self, who: ConsumerKey) -> Option<Option<u64>> {
        let Some(stored) = self.consumers.stored.get(&key(who)) else { return Some(None) };
        let mut possible = stored.possible();
        let first = possible.next()?;
        let is_sure = !stored.loose && possible.all(|value| value == first);
        match first {
            _ if !is_sure => None,
            Value::Anything => None,
            Value::Nothing => Some(None),
            Value::At(offset) => Some(Some(offset)),
        }
    }

    /// Whether nothing may be stored for `who`.
    pub(crate) fn may_have_nothing(&self, who: ConsumerKey) -> bool {
        let stored = self.consumers.stored.get(&key(who));
        stored.is_none_or(|stored| stored.possible().any(|value| !matches!(value, Value::At(_))))
    }

    /// How many others may have something stored.
    pub(crate) fn others_stored(&self, who: ConsumerKey) -> usize {
        let others = self.consumers.stored.iter().filter(|(of, _)| **of != key(who));
        others.filter(|(_, stored)| !stored.is_surely_nothing()).count()
    }

    /// A life without faults ends: what is older than a second is durable.
    pub(crate) fn offsets_aged(&mut self, now_us: u64) {
        for stored in self.consumers.stored.values_mut() {
            let at_us = stored.set[stored.now].at_us;
            if !stored.unread && at_us.saturating_add(AGED_US) <= now_us {
                stored.durable = stored.durable.max(stored.now);
            }
        }
    }
}
