//! What the partitions of a shard hold, in one answer for many of them.

use std::rc::Rc;

use corelog_io::Platform;
use corelog_storage::Figures;

use crate::records::Lend;
use crate::reply::Reply;
use crate::shard::{BytesOf, State};
use crate::tasks::caught;
use crate::{ControlError, PartitionId};

/// Partitions between two looks of the shard at what else there is to do.
const RUN: usize = 64;

/// Of which partitions figures are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// All of them.
    All,
    /// Those of a stream.
    Stream(u32),
    /// Those of a topic.
    Topic {
        /// Its stream.
        stream: u32,
        /// Its id in that.
        topic: u32,
    },
    /// This one.
    Partition(PartitionId),
}

impl Scope {
    /// True where `id` is meant.
    pub fn holds(self, id: PartitionId) -> bool {
        match self {
            Scope::All => true,
            Scope::Stream(stream) => id.stream == stream,
            Scope::Topic { stream, topic } => (id.stream, id.topic) == (stream, topic),
            Scope::Partition(partition) => id == partition,
        }
    }
}

impl<P: Platform, L: Lend<BytesOf<P>>> State<P, L> {
    /// Answers `reply` with what the open partitions of `scope` hold, by id.
    pub(crate) fn figures(
        self: &Rc<Self>,
        scope: Scope,
        reply: Reply<Vec<(PartitionId, Figures)>, ControlError>,
    ) {
        let state = Rc::clone(self);
        let partitions = self.partitions.borrow();
        let meant: Vec<_> = match scope {
            Scope::Partition(id) => partitions.get(id).map(|open| (id, open)).into_iter().collect(),
            _ => {
                let open = partitions.open().into_iter().filter(|(id, _)| scope.holds(*id));
                open.map(|(id, open)| (id, open.clone())).collect()
            }
        };
        drop(partitions);
        self.spawn(async move {
            let mut all = Vec::with_capacity(meant.len());
            for (number, (id, partition)) in meant.into_iter().enumerate() {
                match caught(partition.figures()).await {
                    Ok(figures) => all.push((id, figures)),
                    Err(message) => drop(state.fail(id, message)),
                }
                if number % RUN == RUN - 1 {
                    state.yield_now().await;
                }
            }
            reply.send(Ok(all));
        });
    }
}
