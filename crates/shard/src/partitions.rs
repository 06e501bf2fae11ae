//! The partitions that a shard owns: open ones, and those on their way in or out or failed.

use std::collections::HashMap;

use corelog_io::Platform;
use corelog_storage::Partition;

use crate::request::{AppendReply, Ask};
use crate::{ControlError, FailureReason, PartitionFailure, PartitionId, Unavailable};

pub(crate) type Open<P> = Partition<P, AppendReply>;

/// What a shard knows of one partition. An id that is not in the map is unknown.
enum Entry<P: Platform> {
    /// What it was asked meanwhile waits here, in order, and is bounded by the limits of what is in
    /// flight. Answering `Busy` instead would let a later request overtake the refused one.
    Opening(Vec<Ask>),
    Open(Open<P>),
    /// It had a fault, and its I/O has to end before it is recovered. It serves polls until then.
    Ending(Open<P>),
    Closing,
    Failed(FailureReason),
}

/// Where a partition's request goes. Refusals are answered by the caller, outside of every borrow.
pub(crate) enum Routed<P: Platform> {
    To(Open<P>, Ask),
    Refused(Ask, Unavailable),
    /// It waits for the end of the opening.
    Later,
}

pub(crate) struct Partitions<P: Platform> {
    entries: HashMap<PartitionId, Entry<P>>,
}

impl<P: Platform> Partitions<P> {
    pub(crate) fn new() -> Self {
        Partitions { entries: HashMap::new() }
    }

    /// Where `ask` goes.
    pub(crate) fn route(&mut self, id: PartitionId, ask: Ask) -> Routed<P> {
        match self.entries.get_mut(&id) {
            Some(Entry::Open(partition) | Entry::Ending(partition)) => {
                Routed::To(partition.clone(), ask)
            }
            Some(Entry::Opening(waiting)) => {
                waiting.push(ask);
                Routed::Later
            }
            Some(Entry::Failed(reason)) => {
                Routed::Refused(ask, Unavailable::PartitionFailed(failure(id, reason)))
            }
            Some(Entry::Closing) | None => Routed::Refused(ask, Unavailable::UnknownPartition(id)),
        }
    }

    /// Reserves the id for an opening. Unknown ids and failed partitions may be opened.
    pub(crate) fn begin_opening(&mut self, id: PartitionId) -> Result<(), ControlError> {
        match self.entries.get(&id) {
            None | Some(Entry::Failed(_)) => {
                self.entries.insert(id, Entry::Opening(Vec::new()));
                Ok(())
            }
            Some(Entry::Opening(_) | Entry::Open(_) | Entry::Ending(_) | Entry::Closing) => {
                Err(ControlError::InUse(id))
            }
        }
    }

    /// The opening is done, well or not. What waited for it comes back, to be routed again.
    pub(crate) fn opened(
        &mut self,
        id: PartitionId,
        opened: Result<Open<P>, FailureReason>,
    ) -> Vec<Ask> {
        let entry = opened.map_or_else(Entry::Failed, Entry::Open);
        match self.entries.insert(id, entry) {
            Some(Entry::Opening(waiting)) => waiting,
            _ => panic!("{id} was opened without being reserved"),
        }
    }

    /// The partition, where it is open.
    pub(crate) fn get(&self, id: PartitionId) -> Option<Open<P>> {
        match self.entries.get(&id) {
            Some(Entry::Open(partition)) => Some(partition.clone()),
            _ => None,
        }
    }

    /// The partition, where it is open or about to be recovered.
    pub(crate) fn any(&self, id: PartitionId) -> Option<&Open<P>> {
        match self.entries.get(&id) {
            Some(Entry::Open(partition) | Entry::Ending(partition)) => Some(partition),
            _ => None,
        }
    }

    /// Open partitions, in order.
    pub(crate) fn open_ids(&self) -> Vec<PartitionId> {
        let is_open = |entry: &Entry<P>| matches!(entry, Entry::Open(_) | Entry::Ending(_));
        let mut ids: Vec<_> =
            self.entries.iter().filter(|(_, entry)| is_open(entry)).map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    }

    /// Takes an open partition out of service.
    pub(crate) fn fail(&mut self, id: PartitionId, reason: FailureReason) -> PartitionFailure {
        let failure = failure(id, &reason);
        if let Some(entry @ (Entry::Open(_) | Entry::Ending(_) | Entry::Closing)) =
            self.entries.get_mut(&id)
        {
            *entry = Entry::Failed(reason);
        }
        failure
    }

    /// Hands the partition over for closing. Failed ones are forgotten: there is nothing to close.
    pub(crate) fn begin_closing(
        &mut self,
        id: PartitionId,
    ) -> Result<Option<Open<P>>, ControlError> {
        match self.entries.get_mut(&id) {
            Some(entry @ Entry::Open(_)) => match std::mem::replace(entry, Entry::Closing) {
                Entry::Open(partition) => Ok(Some(partition)),
                _ => unreachable!("matched above"),
            },
            Some(Entry::Failed(_)) => {
                self.entries.remove(&id);
                Ok(None)
            }
            Some(Entry::Opening(_) | Entry::Ending(_) | Entry::Closing) => {
                Err(ControlError::InUse(id))
            }
            None => Err(Unavailable::UnknownPartition(id).into()),
        }
    }

    /// Hands over a partition that had a fault, for its end and recovery.
    pub(crate) fn begin_ending(&mut self, id: PartitionId) -> Result<Open<P>, ControlError> {
        match self.entries.get_mut(&id) {
            Some(Entry::Open(partition)) if partition.fault().is_none() => {
                Err(ControlError::NotPoisoned(id))
            }
            Some(entry @ Entry::Open(_)) => match std::mem::replace(entry, Entry::Closing) {
                Entry::Open(partition) => {
                    *entry = Entry::Ending(partition.clone());
                    Ok(partition)
                }
                _ => unreachable!("matched above"),
            },
            Some(Entry::Failed(reason)) => {
                Err(Unavailable::PartitionFailed(failure(id, reason)).into())
            }
            Some(Entry::Opening(_) | Entry::Ending(_) | Entry::Closing) => {
                Err(ControlError::InUse(id))
            }
            None => Err(Unavailable::UnknownPartition(id).into()),
        }
    }

    /// The old life has ended: what is asked from now on waits for the recovery. None comes where a
    /// poll's panic has taken the partition out of service meanwhile.
    pub(crate) fn begin_recovery(&mut self, id: PartitionId) -> Result<(), ControlError> {
        match self.entries.get_mut(&id) {
            Some(entry @ Entry::Ending(_)) => {
                *entry = Entry::Opening(Vec::new());
                Ok(())
            }
            Some(Entry::Failed(reason)) => {
                Err(Unavailable::PartitionFailed(failure(id, reason)).into())
            }
            _ => Err(ControlError::InUse(id)),
        }
    }

    /// The close is done, well or not: the id is unknown. A failure during it stays known.
    pub(crate) fn closed(&mut self, id: PartitionId) {
        if matches!(self.entries.get(&id), Some(Entry::Closing)) {
            self.entries.remove(&id);
        }
    }

    /// Open partitions, by id.
    pub(crate) fn open(&self) -> Vec<(PartitionId, &Open<P>)> {
        let mut open: Vec<_> = self
            .entries
            .iter()
            .filter_map(|(id, entry)| match entry {
                Entry::Open(partition) | Entry::Ending(partition) => Some((*id, partition)),
                _ => None,
            })
            .collect();
        open.sort_unstable_by_key(|(id, _)| *id);
        open
    }

    /// Partitions that failed, in order.
    pub(crate) fn failures(&self) -> Vec<PartitionFailure> {
        let mut failures: Vec<_> = self
            .entries
            .iter()
            .filter_map(|(id, entry)| match entry {
                Entry::Failed(reason) => Some(failure(*id, reason)),
                _ => None,
            })
            .collect();
        failures.sort_unstable_by_key(|failure| failure.partition);
        failures
    }
}

fn failure(partition: PartitionId, reason: &FailureReason) -> PartitionFailure {
    PartitionFailure { partition, reason: reason.clone() }
}
