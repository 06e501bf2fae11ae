//! The door's calls for stored offsets and for the front of the log, and how they end.

use corelog_shard::{ControlError, Follow, Unavailable};
use corelog_storage::{Ack, ConsumerKey, OffsetError, Retention, TrimError, Trimmed};

use crate::door::{Cause, Control, Door, refused, unopened};

/// How a question about a stored offset ended.
#[derive(Debug, Clone)]
pub(crate) enum Told<T> {
    Ok(T),
    /// Nothing was changed.
    OutOfRange,
    NothingStored,
    TooMany,
    Busy,
    Away,
    /// Nobody knows what is stored; nothing was changed.
    Unreadable(Cause),
    /// It is in force, and not durable.
    NotDurable(Cause),
    /// Done or not.
    Closed,
    /// An opening failed, so the partition is not served. Done or not.
    Unopened(Cause),
    /// Nothing that the world could have caused.
    Bug(#[expect(dead_code, reason = "for the message")] String),
}

impl Door {
    /// Stores an offset, or deletes what is stored.
    pub(crate) async fn store(&self, who: ConsumerKey, offset: Option<u64>, ack: Ack) -> Told<()> {
        match (self, offset) {
            (Door::Direct(log), Some(offset)) => told(log.store_offset(who, offset, ack).await),
            (Door::Direct(log), None) => told(log.delete_offset(who, ack).await),
            (Door::Client(client, id), Some(offset)) => {
                crossed(client.store_offset(*id, who, offset, ack).await)
            }
            (Door::Client(client, id), None) => crossed(client.delete_offset(*id, who, ack).await),
            (Door::Context(context, id), Some(offset)) => {
                crossed(context.store_offset(*id, who, offset, ack).await)
            }
            (Door::Context(context, id), None) => {
                crossed(context.delete_offset(*id, who, ack).await)
            }
        }
    }

    /// What `who` has stored.
    pub(crate) async fn stored(&self, who: ConsumerKey) -> Told<Option<u64>> {
        match self {
            Door::Direct(log) => told(log.consumer_offset(who)),
            Door::Client(client, id) => crossed(client.offset(*id, who).await),
            Door::Context(context, id) => crossed(context.offset(*id, who).await),
        }
    }

    /// Trims the front of the log, where there is a call for that.
    pub(crate) async fn trim(&self, up_to: u64) -> Option<Result<Trimmed, Control>> {
        let Door::Direct(log) = self else { return None };
        Some(log.trim(up_to).await.map_err(|error| not_trimmed(&error)))
    }

    /// Deletes the oldest sealed segments, as far as they were read.
    pub(crate) async fn delete_segments(&self, count: u32) -> Result<Trimmed, Control> {
        let result = match self {
            Door::Direct(log) => {
                return log.delete_segments(count).await.map_err(|error| not_trimmed(&error));
            }
            Door::Client(client, id) => client.delete_segments(*id, count).await,
            Door::Context(context, id) => context.client().delete_segments(*id, count).await,
        };
        result.map_err(|error| match &error {
            ControlError::Trim(error) => not_trimmed(error),
            other => refused(other),
        })
    }

    /// One pass of retention, where the caller does that.
    pub(crate) async fn retain(&self, rule: Retention) -> Option<Result<Trimmed, Control>> {
        let Door::Direct(log) = self else { return None };
        Some(log.retain(rule).await.map_err(|error| not_trimmed(&error)))
    }

    /// Tells the partition of its topic. False where it has to be told again.
    pub(crate) fn follow(&self, follow: &Follow) -> bool {
        match self {
            Door::Direct(log) => {
                log.keep_groups(&follow.groups, follow.next_group);
                true
            }
            Door::Client(client, id) => client.shards().follow(*id, follow.clone()).is_ok(),
            Door::Context(context, id) => {
                context.client().shards().follow(*id, follow.clone()).is_ok()
            }
        }
    }

    /// Ends when the partition has heard what was told before, or is away; false where nobody could
    /// be asked.
    pub(crate) async fn has_heard(&self) -> bool {
        let answer = match self {
            Door::Direct(_) => return true,
            Door::Client(client, id) => client.watermarks(*id).await,
            Door::Context(context, id) => context.client().watermarks(*id).await,
        };
        !matches!(answer, Err(corelog_shard::PollError::Busy))
    }
}

fn not_trimmed(error: &TrimError) -> Control {
    match error {
        TrimError::Manifest(error) | TrimError::Remove { error, .. } => Control::Io(error.into()),
        TrimError::Poisoned(fault) => Control::Poisoned((&fault.error).into()),
        TrimError::Closed => Control::Refused,
        other => Control::Bug(other.to_string()),
    }
}

fn told<T>(result: Result<T, OffsetError>) -> Told<T> {
    match result {
        Ok(value) => Told::Ok(value),
        Err(OffsetError::OutOfRange { .. }) => Told::OutOfRange,
        Err(OffsetError::NothingStored) => Told::NothingStored,
        Err(OffsetError::TooMany { .. }) => Told::TooMany,
        Err(OffsetError::Unreadable(error)) => Told::Unreadable(error.as_ref().into()),
        Err(OffsetError::Io(error)) => Told::NotDurable((&error).into()),
        Err(OffsetError::Closed) => Told::Closed,
        Err(other) => Told::Bug(other.to_string()),
    }
}

fn crossed<T>(result: Result<T, corelog_shard::OffsetError>) -> Told<T> {
    use corelog_shard::OffsetError as E;
    match result {
        Ok(value) => Told::Ok(value),
        Err(E::Storage(error)) => told(Err(error)),
        Err(E::Unavailable(Unavailable::Busy)) => Told::Busy,
        Err(E::Unavailable(Unavailable::UnknownPartition(_))) => Told::Away,
        Err(E::Unavailable(Unavailable::Closed)) => Told::Closed,
        Err(E::Unavailable(Unavailable::PartitionFailed(failure))) => {
            match unopened(&failure.reason) {
                Some(cause) => Told::Unopened(cause),
                None => Told::Bug(failure.to_string()),
            }
        }
        Err(other) => Told::Bug(other.to_string()),
    }
}
