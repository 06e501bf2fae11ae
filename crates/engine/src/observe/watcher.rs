//! What a shard tells: times go to its meter, news to the events.

use std::rc::Rc;
use std::sync::Arc;

use corelog_shard::{FailureReason, Observer, PartitionId, ShardNotice, Took};
use corelog_storage::{Ack, Notice};

use super::{Meter, Timed};
use crate::control::Panics;

/// Of one shard, on its thread.
pub(crate) struct Watcher {
    meter: Rc<Meter>,
    panics: Arc<Panics>,
}

impl Watcher {
    pub(crate) fn new(meter: Rc<Meter>, panics: Arc<Panics>) -> Watcher {
        Watcher { meter, panics }
    }

    fn log(&self, id: PartitionId, notice: &Notice<'_>) {
        let (shard, events) = (self.meter.shard(), self.meter.events());
        match notice {
            Notice::Poisoned(fault) => events.partition_poisoned(shard, id, fault),
            Notice::StorageFull(error) => events.storage_full(shard, id, error),
            Notice::SpaceIsBack => events.storage_back(shard, id),
            Notice::OffsetsUnread(error) => events.offsets_unread(shard, id, error),
            Notice::OffsetsRead { damaged } => events.offsets_read(shard, id, *damaged),
            Notice::NoFile(error) => events.no_file(shard, id, error),
            Notice::MarkLags(error) => events.mark_lags(shard, id, error),
            Notice::Sealed { segment, bytes, next } => {
                events.segment_sealed(shard, id, *segment, *bytes, *next);
            }
            Notice::Dropped { start, segments } => {
                events.segments_dropped(shard, id, *start, *segments);
            }
            _ => {}
        }
    }
}

impl Observer for Watcher {
    fn took(&self, what: Took, ns: u64) {
        let what = match what {
            Took::Crossing => Timed::Crossing,
            Took::Append(Ack::Appended) => Timed::AppendAppended,
            Took::Append(Ack::Written) => Timed::AppendWritten,
            Took::Append(Ack::Durable) => Timed::AppendDurable,
            Took::PollOfMemory => Timed::PollMemory,
            Took::PollOfFiles => Timed::PollFiles,
            _ => return,
        };
        self.meter.took(what, ns);
    }

    fn notice(&self, id: PartitionId, notice: &ShardNotice<'_>) {
        let (shard, events) = (self.meter.shard(), self.meter.events());
        match notice {
            ShardNotice::Opened { report, reopened } => {
                events.partition_opened(shard, id, report, *reopened);
            }
            ShardNotice::Failed(failure) => match &failure.reason {
                FailureReason::Panicked(message) => {
                    self.panics.note(shard, message);
                    events.partition_panicked(shard, id, message);
                }
                reason => events.partition_not_opened(shard, id, reason),
            },
            ShardNotice::Damaged(error) => events.damage_read(shard, id, error),
            ShardNotice::NotTrimmed(error) => events.segments_stay(shard, id, error),
            ShardNotice::Log(notice) => self.log(id, notice),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::sync::Mutex;

    use corelog_shard::PartitionFailure;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use super::super::Events;
    use super::*;

    /// Remembers the names of events with target and level, and what they say; panics at those that
    /// it does not like.
    #[derive(Clone, Default)]
    struct Names(Arc<Mutex<Vec<String>>>, Arc<Mutex<Said>>);

    /// Fields and their values.
    #[derive(Debug, Default)]
    struct Said(Vec<(&'static str, String)>);

    impl Visit for Said {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            self.0.push((field.name(), format!("{value:?}")));
        }
    }

    impl Subscriber for Names {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target().starts_with("corelog::")
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let metadata = event.metadata();
            let (name, target, level) = (metadata.name(), metadata.target(), metadata.level());
            self.0.lock().unwrap().push(format!("{name} {target} {level}"));
            event.record(&mut *self.1.lock().unwrap());
            assert_ne!(name, "storage_back", "a subscriber that panics");
        }
    }

    /// No input makes a partition's code panic; if one ever does, it is told and counted. And an
    /// embedder's subscriber that panics takes nothing with it.
    #[test]
    fn a_partition_that_panicked_is_told_and_a_subscriber_that_panics_is_contained() {
        let (names, panics) = (Names::default(), Arc::new(Panics::default()));
        let watcher = Watcher::new(Rc::new(Meter::new(2, Events::of_test())), Arc::clone(&panics));
        let partition = PartitionId::new(0, 1, 2);
        tracing::subscriber::with_default(names.clone(), || {
            watcher.notice(partition, &ShardNotice::Log(&Notice::SpaceIsBack));
            let reason = FailureReason::Panicked("a bug".into());
            let failure = PartitionFailure { partition, reason };
            watcher.notice(partition, &ShardNotice::Failed(&failure));
        });
        assert_eq!(
            *names.0.lock().unwrap_or_else(|e| e.into_inner()),
            ["storage_back corelog::space INFO", "partition_panicked corelog::panic ERROR"]
        );
        let said = names.1.lock().unwrap_or_else(|e| e.into_inner());
        for (field, value) in [
            ("shard", "2"),
            ("stream", "0"),
            ("topic", "1"),
            ("partition", "2"),
            ("panic", "\"a bug\""),
        ] {
            assert!(said.0.contains(&(field, value.to_owned())), "{field}: {said:?}");
        }
        assert_eq!(panics.told(), (1, Some("shard 2: a bug".to_owned())));
    }
}
