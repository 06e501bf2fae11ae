//! A member's polls and stores on their way: the group is asked when the call is made, and told when
//! it is answered.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use corelog_shard::{Call, OffsetError, PollCall, PollError, Records};

use super::ClientId;
use super::error::{GroupOffsetError, GroupPollError};
use super::group::Turn;
use super::seats::Roster;
use crate::error::storage;

/// What a member has begun with a partition.
pub(super) struct Begun {
    pub(super) roster: Arc<Roster>,
    pub(super) client: ClientId,
    pub(super) partition: u32,
    pub(super) turn: Turn,
}

/// A member's poll on its way: await it under any runtime, or [`MemberPoll::wait`]. As long as it
/// is there, its partition does not go to another member, within the time that
/// `Limits::group_patience` gives. Dropping it is the end of it: nothing was served.
#[must_use = "the answer has the messages"]
pub struct MemberPoll {
    state: Polling,
}

enum Polling {
    Refused(GroupPollError),
    Going(Going),
    Done,
}

struct Going {
    poll: PollCall,
    /// What the group has stored: asked before the poll, where it is not known.
    stored: Option<Call<Option<u64>, OffsetError>>,
    running: Running,
}

/// Tells the group that the poll is over, whatever becomes of it.
struct Running {
    begun: Begun,
    /// The partition stores for the group what the poll serves.
    stores: bool,
    is_over: bool,
}

impl MemberPoll {
    pub(super) fn refused(error: GroupPollError) -> MemberPoll {
        MemberPoll { state: Polling::Refused(error) }
    }

    pub(super) fn new(
        begun: Begun,
        stored: Option<Call<Option<u64>, OffsetError>>,
        poll: PollCall,
        stores: bool,
    ) -> MemberPoll {
        let running = Running { begun, stores, is_over: false };
        MemberPoll { state: Polling::Going(Going { poll, stored, running }) }
    }

    /// Waits on this thread.
    ///
    /// # Errors
    /// Those of the poll. On a shard's own thread `OnShard`.
    pub fn wait(mut self) -> Result<Records, GroupPollError> {
        match std::mem::replace(&mut self.state, Polling::Done) {
            Polling::Refused(error) => Err(error),
            Polling::Going(Going { poll, stored, running }) => {
                if let Some(stored) = stored {
                    running.learn(stored.wait());
                }
                running.end(poll.wait())
            }
            Polling::Done => unreachable!("only an await ends it, and that has borrowed it"),
        }
    }
}

impl Future for MemberPoll {
    type Output = Result<Records, GroupPollError>;

    /// # Panics
    /// When polled after it has answered.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Polling::Going(Going { poll, stored, running }) = &mut self.state {
            if let Some(call) = stored {
                running.learn(ready!(Pin::new(call).poll(cx)));
                *stored = None;
            }
            let answer = ready!(Pin::new(poll).poll(cx));
            let Polling::Going(going) = std::mem::replace(&mut self.state, Polling::Done) else {
                unreachable!("it was going a moment ago")
            };
            return Poll::Ready(going.running.end(answer));
        }
        match std::mem::replace(&mut self.state, Polling::Done) {
            Polling::Refused(error) => Poll::Ready(Err(error)),
            _ => panic!("a poll was polled after it had answered"),
        }
    }
}

impl Running {
    fn learn(&self, stored: Result<Option<u64>, OffsetError>) {
        let Begun { roster, partition, turn, .. } = &self.begun;
        if let Ok(stored) = stored {
            roster.learn(*partition, *turn, stored);
        }
    }

    fn end(mut self, answer: Result<Records, PollError>) -> Result<Records, GroupPollError> {
        let records = answer.map_err(GroupPollError::Poll)?;
        let last = (!records.is_empty()).then(|| records.next_offset() - 1);
        self.is_over = true;
        let Begun { roster, client, partition, turn } = &self.begun;
        match roster.end_poll(*client, *partition, *turn, last, self.stores) {
            // What is stored as done nobody else gets any more.
            Err(_) if self.stores && last.is_some() => Ok(records),
            ended => ended.map(|()| records).map_err(GroupPollError::Group),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let Begun { roster, client, partition, turn } = &self.begun;
        let _ = roster.end_poll(*client, *partition, *turn, None, false);
        if self.stores {
            // It may have served and stored something all the same.
            roster.end_store(*partition, *turn, None);
        }
    }
}

/// A member's store on its way: await it under any runtime, or [`MemberStore::wait`]. Dropping it
/// gives up the answer, not the store; the group does not know then what is stored, and a partition
/// that is to go to another member goes when its time is up.
#[must_use = "the answer says whether it is stored"]
pub struct MemberStore {
    state: Storing,
}

enum Storing {
    Refused(GroupOffsetError),
    Going(Call<(), OffsetError>, Telling),
    Done,
}

/// Tells the group what is stored, or that nobody knows.
pub(super) struct Telling {
    begun: Begun,
    offset: Option<u64>,
    is_told: bool,
}

impl MemberStore {
    pub(super) fn refused(error: GroupOffsetError) -> MemberStore {
        MemberStore { state: Storing::Refused(error) }
    }

    pub(super) fn new(
        begun: Begun,
        offset: Option<u64>,
        call: Call<(), OffsetError>,
    ) -> MemberStore {
        // What was not even sent changes nothing.
        let is_told = call.refusal().is_some();
        MemberStore { state: Storing::Going(call, Telling { begun, offset, is_told }) }
    }

    /// Waits on this thread.
    ///
    /// # Errors
    /// Those of the store. On a shard's own thread `OnShard`.
    pub fn wait(mut self) -> Result<(), GroupOffsetError> {
        match std::mem::replace(&mut self.state, Storing::Done) {
            Storing::Refused(error) => Err(error),
            Storing::Going(call, telling) => telling.tell(call.wait()),
            Storing::Done => unreachable!("only an await ends it, and that has borrowed it"),
        }
    }
}

impl Future for MemberStore {
    type Output = Result<(), GroupOffsetError>;

    /// # Panics
    /// When polled after it has answered.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = match &mut self.state {
            Storing::Going(call, _) => Some(ready!(Pin::new(call).poll(cx))),
            _ => None,
        };
        match (std::mem::replace(&mut self.state, Storing::Done), answer) {
            (Storing::Refused(error), _) => Poll::Ready(Err(error)),
            (Storing::Going(_, telling), Some(answer)) => Poll::Ready(telling.tell(answer)),
            _ => panic!("a store was polled after it had answered"),
        }
    }
}

impl Telling {
    fn tell(mut self, answer: Result<(), OffsetError>) -> Result<(), GroupOffsetError> {
        let Begun { roster, partition, turn, .. } = &self.begun;
        match &answer {
            // In force, whether it is durable or not.
            Ok(()) | Err(OffsetError::Storage(storage::OffsetError::Io(_))) => {
                roster.end_store(*partition, *turn, Some(self.offset));
                self.is_told = true;
            }
            // The partition has changed nothing.
            Err(OffsetError::Storage(_)) => self.is_told = true,
            // Nobody knows.
            Err(_) => {}
        }
        answer.map_err(GroupOffsetError::Offset)
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        if !self.is_told {
            let Begun { roster, partition, turn, .. } = &self.begun;
            roster.end_store(*partition, *turn, None);
        }
    }
}
