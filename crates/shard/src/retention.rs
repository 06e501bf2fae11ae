//! Deletes what has become old or too much, in all partitions that have a rule for it, about once a
//! second; and on demand.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use corelog_io::{Clock, Platform, Spawn};
use corelog_storage::{Retention, TrimError, Trimmed};

use crate::partitions::Open;
use crate::records::Lend;
use crate::reply::Reply;
use crate::shard::{BytesOf, State};
use crate::tasks::caught;
use crate::timing::ShardNotice;
use crate::{ControlError, OffsetError, PartitionFailure, PartitionId, Unavailable};

const PASS_EVERY: Duration = Duration::from_millis(900);

/// The rules of a shard's partitions; those that keep everything have none.
#[derive(Default)]
pub(crate) struct Retentions {
    rules: RefCell<BTreeMap<PartitionId, Retention>>,
    /// A task looks after them.
    runs: Cell<bool>,
}

impl<P: Platform, L: Lend<BytesOf<P>>> State<P, L> {
    /// `rule` counts for partition `id` from now on.
    pub(crate) fn set_retention(self: &Rc<Self>, id: PartitionId, rule: Retention) {
        if rule.keeps_all() {
            self.retentions.rules.borrow_mut().remove(&id);
            return;
        }
        self.retentions.rules.borrow_mut().insert(id, rule);
        if self.retentions.runs.replace(true) {
            return;
        }
        // It must not keep the shard alive, nor be waited for: it ends with the shard.
        let (state, platform) = (Rc::downgrade(self), self.platform().clone());
        self.platform().spawn().spawn(async move {
            loop {
                platform.clock().sleep(PASS_EVERY).await;
                let Some(state) = state.upgrade() else { return };
                if state.is_ending() || !state.retain_all().await {
                    return;
                }
            }
        });
    }

    /// A life of the partition ends or begins, and has no rule until it is told one: it may be
    /// another topic's than the one before.
    pub(crate) fn forget_retention(&self, id: PartitionId) {
        self.retentions.rules.borrow_mut().remove(&id);
    }

    /// One pass. False where no rule is left.
    async fn retain_all(self: &Rc<Self>) -> bool {
        let ids: Vec<_> = self.retentions.rules.borrow().keys().copied().collect();
        for id in ids {
            // As it stands when its turn has come: it may be another life's by now.
            let rule = self.retentions.rules.borrow().get(&id).copied();
            let Some((rule, partition)) = rule.zip(self.partitions.borrow().get(id)) else {
                continue;
            };
            let running = self.tasks.enter();
            // What could not be removed now is tried again the next time.
            match caught(partition.retain(rule)).await {
                Ok(Ok(_) | Err(TrimError::Closed | TrimError::Poisoned(_))) => {}
                Ok(Err(error)) => self.watch.notice(id, &ShardNotice::NotTrimmed(&error)),
                Err(message) => drop(self.fail(id, message)),
            }
            drop(running);
            self.yield_now().await;
            if self.is_ending() {
                break;
            }
        }
        let goes_on = !self.retentions.rules.borrow().is_empty();
        self.retentions.runs.set(goes_on);
        goes_on
    }

    pub(crate) fn delete_segments(
        self: &Rc<Self>,
        id: PartitionId,
        partition: Open<P>,
        count: u32,
        reply: Reply<Trimmed, ControlError>,
    ) {
        let state = Rc::clone(self);
        self.spawn(async move {
            reply.send(match caught(partition.delete_segments(count)).await {
                Ok(result) => result.map_err(ControlError::Trim),
                Err(message) => Err(failed(state.fail(id, message)).into()),
            });
        });
    }

    /// Answers `reply` when `stored` has ended.
    pub(crate) fn stored(
        self: &Rc<Self>,
        id: PartitionId,
        stored: impl Future<Output = Result<(), corelog_storage::OffsetError>> + 'static,
        reply: Reply<(), OffsetError>,
    ) {
        let state = Rc::clone(self);
        self.spawn(async move {
            reply.send(match caught(stored).await {
                Ok(result) => result.map_err(OffsetError::Storage),
                Err(message) => Err(failed(state.fail(id, message)).into()),
            });
        });
    }
}

fn failed(failure: PartitionFailure) -> Unavailable {
    Unavailable::PartitionFailed(failure)
}
