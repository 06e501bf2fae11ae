//! One producer's appends to one partition, in order even across `Busy`.

use bytes::Bytes;
use corelog_storage::Ack;

use crate::client::{AppendCall, Outgoing};
use crate::reply::Call;
use crate::shards::ByMailbox;
use crate::{AppendError, Client, PartitionId};

/// Appends to one partition in the order of the calls.
///
/// A [`Client`] alone keeps that order among the appends that were taken in; but when one is
/// refused for `Busy`, the next may pass, and the refused one comes behind it when it is tried
/// again. A producer keeps the refused batch and answers `OutOfTurn` to all others until
/// [`Producer::retry`] got it on its way or [`Producer::skip`] gave it up:
///
/// | state | `append` | `retry` |
/// | --- | --- | --- |
/// | nothing refused | goes its way, or is refused and kept | `None` |
/// | one is kept | `OutOfTurn`, nothing stored, not kept | the kept one goes its way, or is refused and kept |
///
/// Only `Busy` keeps a batch. An append that was taken in and failed later (no space, a fault) is
/// answered as such, and appends that were made after it may be stored.
pub struct Producer {
    client: Client,
    partition: PartitionId,
    kept: Option<(Outgoing, Ack)>,
}

impl Producer {
    pub(crate) fn new(client: Client, partition: PartitionId) -> Self {
        Producer { client, partition, kept: None }
    }

    /// The partition.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// [`Client::append`], in turn.
    pub fn append(&mut self, bytes: Bytes, ack: Ack) -> AppendCall {
        match self.kept {
            Some(_) => Call::refused(AppendError::OutOfTurn),
            None => self.send(Outgoing::Raw(bytes), ack),
        }
    }

    /// Tries the kept batch again; `None` where none is kept. Where it passed the checks before,
    /// they are not made again.
    pub fn retry(&mut self) -> Option<AppendCall> {
        let (batch, ack) = self.kept.take()?;
        Some(self.send(batch, ack))
    }

    /// True while a refused batch is kept.
    pub fn is_behind(&self) -> bool {
        self.kept.is_some()
    }

    /// Gives the kept batch up. True where there was one.
    pub fn skip(&mut self) -> bool {
        self.kept.take().is_some()
    }

    fn send(&mut self, batch: Outgoing, ack: Ack) -> AppendCall {
        let (call, back) = self.client.append_by(&ByMailbox, self.partition, batch, ack);
        if matches!(call.refusal(), Some(AppendError::Busy)) {
            self.kept = back.map(|batch| (batch, ack));
        }
        call
    }
}
