//! What crosses to a shard, each with the reply it is answered by.

use std::sync::Arc;

use corelog_storage::{
    Ack, AdmittedBatch, Answer, Appended, ConsumerKey, Figures, LogConfig, OpenReport, Place,
    PollQuery, Retention, Trimmed, Watermarks,
};

use crate::reply::Reply;
use crate::timing::{Asked, Timed, Took};
use crate::{
    AppendError, CloseReport, ControlError, OffsetError, PartitionId, PollError, Records, Scope,
    ShardStats, Unavailable,
};

/// One request. The batch's bytes move by reference; nothing here is longer than a few cache lines.
pub(crate) enum Request {
    /// What a partition is asked.
    Ask(PartitionId, Ask),
    Open(Box<Opening>),
    Close {
        partition: PartitionId,
        reply: Reply<(), ControlError>,
    },
    /// Recovery in place of a partition that had a fault.
    Reopen {
        partition: PartitionId,
        reply: Reply<OpenReport, ControlError>,
    },
    Stats {
        /// With each partition's.
        partitions: bool,
        reply: Reply<ShardStats, ControlError>,
    },
    Figures {
        scope: Scope,
        reply: Reply<Vec<(PartitionId, Figures)>, ControlError>,
    },
    CloseAll {
        reply: Reply<CloseReport, ControlError>,
    },
    /// Nobody waits any more for the poll with this slot.
    GaveUp(u32),
}

/// What an open partition answers.
pub(crate) enum Ask {
    Append {
        batch: AdmittedBatch,
        ack: Ack,
        asked: Option<Asked>,
        reply: Reply<Appended, AppendError>,
    },
    Flush {
        ack: Ack,
        reply: Reply<(), AppendError>,
    },
    Poll {
        query: PollQuery,
        asked: Option<Asked>,
        reply: Reply<Records, PollError>,
    },
    Watermarks {
        reply: Reply<Watermarks, PollError>,
    },
    /// Stores a consumer's offset; without one, deletes what it has stored.
    StoreOffset {
        who: ConsumerKey,
        offset: Option<u64>,
        ack: Ack,
        reply: Reply<(), OffsetError>,
    },
    Offset {
        who: ConsumerKey,
        reply: Reply<Option<u64>, OffsetError>,
    },
    DeleteSegments {
        count: u32,
        reply: Reply<Trimmed, ControlError>,
    },
    /// Nobody waits for it.
    Follow(Follow),
}

/// What a partition is told of its topic, whenever that changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Follow {
    /// Until when it keeps its messages.
    pub retention: Retention,
    /// The consumer groups that there are.
    pub groups: Arc<[u32]>,
    /// The id that the next one gets: lower ones that are not in `groups` are gone for ever.
    pub next_group: u32,
}

/// A partition to open.
pub(crate) struct Opening {
    pub(crate) partition: PartitionId,
    pub(crate) place: Place,
    pub(crate) config: LogConfig,
    pub(crate) reply: Reply<OpenReport, ControlError>,
}

impl Request {
    /// Bytes of the batch to append; 0 for everything else.
    pub(crate) fn batch_len(&self) -> usize {
        match self {
            Request::Ask(_, Ask::Append { batch, .. }) => batch.len(),
            _ => 0,
        }
    }

    /// When it was made, where it is timed.
    pub(crate) fn asked(&self) -> Option<Asked> {
        match self {
            Request::Ask(_, Ask::Append { asked, .. } | Ask::Poll { asked, .. }) => *asked,
            _ => None,
        }
    }

    /// Answers without doing anything. A batch that was not appended comes back.
    pub(crate) fn refuse(self, why: Unavailable) -> Option<AdmittedBatch> {
        match self {
            Request::Ask(_, ask) => return ask.refuse(why),
            Request::Open(opening) => opening.reply.send(Err(why.into())),
            Request::Close { reply, .. } => reply.send(Err(why.into())),
            Request::Reopen { reply, .. } => reply.send(Err(why.into())),
            Request::Stats { reply, .. } => reply.send(Err(why.into())),
            Request::Figures { reply, .. } => reply.send(Err(why.into())),
            Request::CloseAll { reply } => reply.send(Err(why.into())),
            Request::GaveUp(_) => {}
        }
        None
    }
}

impl Ask {
    /// As [`Request::refuse`].
    pub(crate) fn refuse(self, why: Unavailable) -> Option<AdmittedBatch> {
        match self {
            Ask::Append { batch, reply, .. } => {
                reply.send(Err(why.into()));
                return Some(batch);
            }
            Ask::Flush { reply, .. } => reply.send(Err(why.into())),
            Ask::Poll { reply, .. } => reply.send(Err(why.into())),
            Ask::Watermarks { reply } => reply.send(Err(why.into())),
            Ask::StoreOffset { reply, .. } => reply.send(Err(why.into())),
            Ask::Offset { reply, .. } => reply.send(Err(why.into())),
            Ask::DeleteSegments { reply, .. } => reply.send(Err(why.into())),
            Ask::Follow(_) => {}
        }
        None
    }
}

/// The reply to an append, as the partition gives it.
pub(crate) struct AppendReply {
    pub(crate) reply: Reply<Appended, AppendError>,
    pub(crate) ack: Ack,
    /// Where it is timed.
    pub(crate) timed: Option<Timed>,
}

impl Answer for AppendReply {
    fn answer(self, result: Result<Appended, corelog_storage::AppendError>) {
        if let (Some(timed), true) = (self.timed, result.is_ok()) {
            timed.took(Took::Append(self.ack));
        }
        self.reply.send(result.map_err(AppendError::from));
    }
}
