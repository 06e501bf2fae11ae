//! A partition that had a fault is recovered in place, on its shard, beside all others.

use std::rc::Rc;
use std::sync::Arc;

use corelog_io::Platform;
use corelog_storage::{OpenReport, ReopenError};

use crate::partitions::Open;
use crate::records::Lend;
use crate::reply::Reply;
use crate::shard::{BytesOf, State};
use crate::tasks::caught;
use crate::{ControlError, FailureReason, PartitionId, Unavailable};

impl<P: Platform, L: Lend<BytesOf<P>>> State<P, L> {
    /// Begins the end of the old life, if there was a fault.
    pub(crate) fn reopen(self: &Rc<Self>, id: PartitionId, reply: Reply<OpenReport, ControlError>) {
        let begun = self.partitions.borrow_mut().begin_ending(id);
        let old = match begun {
            Ok(old) => old,
            Err(error) => return reply.send(Err(error)),
        };
        let state = Rc::clone(self);
        self.spawn(async move { reply.send(state.reopen_one(id, old).await) });
    }

    async fn reopen_one(
        self: &Rc<Self>,
        id: PartitionId,
        old: Open<P>,
    ) -> Result<OpenReport, ControlError> {
        // That it is closed after a fault is no news; what matters is that its I/O has ended.
        if let Err(message) = caught(old.close()).await {
            return Err(Unavailable::PartitionFailed(self.fail(id, message)).into());
        }
        self.partitions.borrow_mut().begin_recovery(id)?;
        let opened = match caught(old.reopen()).await {
            Ok(Ok(opened)) => Ok(opened),
            Ok(Err(ReopenError::Open(error))) => Err(FailureReason::Open(Arc::new(error))),
            // It had a fault and is at rest: neither can be said of it.
            Ok(Err(bug)) => Err(FailureReason::Panicked(bug.to_string().into())),
            Err(message) => Err(FailureReason::Panicked(message)),
        };
        self.opened(id, opened, true)
    }
}
