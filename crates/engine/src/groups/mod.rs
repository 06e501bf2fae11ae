//! Consumer groups at work: members, who of them polls which partition, and how that changes.
//!
//! The catalog keeps which groups there are (`crate::catalog`), partitions keep what they have
//! stored. What is here is in memory only and ends with the engine: who is connected to a broker
//! that starts anew has to join anew, and no dead member keeps a partition.
//!
//! | file | what it is |
//! | --- | --- |
//! | `group` | one group as a machine without I/O and clock: members, deals, fences, the generation |
//! | `flight` | what is under way in one of its partitions |
//! | `seats` | the lock around a group, and the limits of all of them |
//! | `calls` | a member's polls and stores on their way |

mod calls;
mod error;
mod flight;
mod group;
mod seats;

use std::fmt;
use std::sync::Arc;

use corelog_shard::{Call, OffsetError, PartitionId, PollCall, PollError, Unavailable};
use corelog_storage::{ConsumerKey, PollQuery};

use crate::control::Control;
use crate::poll::Poll;

use calls::Begun;
pub use calls::{MemberPoll, MemberStore};
pub use error::{GroupError, GroupOffsetError, GroupPollError};
pub(crate) use seats::{GroupLimits, Roster, Seats};

/// A consumer group's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId {
    /// Its stream's id.
    pub stream: u32,
    /// Its topic's id.
    pub topic: u32,
    /// Its own, as [`GroupInfo::id`](crate::streams::GroupInfo::id) has it.
    pub group: u32,
}

/// A client of a broker, as that numbers it; not this crate's [`Client`](crate::Client).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u128);

/// A client in a consumer group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The group.
    pub group: GroupId,
    /// The client.
    pub client: ClientId,
}

/// What a member may poll.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Assignment {
    /// The member's id in its group: the lowest free one when it joined.
    pub member: u32,
    /// Higher than before whenever anything changed in the group.
    pub generation: u64,
    /// The partitions, in the order in which the member got them.
    pub partitions: Vec<u32>,
}

/// A consumer group's members.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupDetails {
    /// As in [`Assignment::generation`].
    pub generation: u64,
    /// How many partitions the topic has.
    pub partitions: u32,
    /// The members, by id.
    pub members: Vec<MemberInfo>,
}

/// A member and its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberInfo {
    /// Its id in the group.
    pub id: u32,
    /// Its client.
    pub client: ClientId,
    /// Its partitions, those included that are to go to another member and that it may not poll any
    /// more.
    pub partitions: Vec<u32>,
}

/// The members of consumer groups. From [`Client::groups`](crate::Client::groups).
///
/// Each partition of the topic belongs to one member, who polls it with
/// [`Client::poll_as`](crate::Client::poll_as) and stores how far it is with
/// [`Client::store_offset_as`](crate::Client::store_offset_as); the group refuses both for
/// partitions of others. The engine never chooses a partition: a member goes round those that
/// [`Groups::sync`] tells.
///
/// - Who joins gets partitions from members with more than their share. One in which messages were
///   polled that are not stored as done stays with its owner, who may not poll it any more, until
///   they are stored or `Limits::group_patience` is over. So no message goes to two members while
///   somebody joins, unless one of them takes too long.
/// - When somebody leaves, or partitions come or go, all are dealt anew. Messages that were polled
///   and not stored as done are served again where the partition has got another owner.
/// - Memberships end with the engine; groups and what they have stored do not.
///
/// Everything here is answered from memory, at once, on any thread, a shard's too. The polls and
/// stores of [`ConsumerKey::group`] that do not name a member pass the group by.
///
/// What a broker answers (codes of the reference protocol):
///
/// | error | join, leave | poll | store, delete of an offset |
/// | --- | --- | --- | --- |
/// | [`GroupError::Unknown`] | 5000 | empty, partition 0xFFFF_FFFF | 20 |
/// | [`GroupError::NotMember`] | 5006 | the same | 20 |
/// | [`GroupError::NotOwner`] | | the same | 20 |
/// | [`GroupError::Leaving`] | | the same | |
///
/// ```
/// # use corelog::{Ack, Client, Poll};
/// # use corelog::consumers::{ClientId, GroupId, Member};
/// # fn example(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
/// let (stream, topic, group) = client.catalog().create_group("shop", "orders", "bills").wait()?;
/// let me = Member { group: GroupId { stream, topic, group }, client: ClientId(7) };
/// let mine = client.groups().join(me)?;
/// for partition in mine.partitions {
///     let records = client.poll_as(me, partition, Poll::next(me.group.consumer())).wait()?;
///     if let Some(last) = records.next_offset().checked_sub(1)
///         && !records.is_empty()
///     {
///         // .. write the bills, then:
///         client.store_offset_as(me, partition, last, Ack::Durable).wait()?;
///     }
/// }
/// client.groups().leave(me)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Groups {
    control: Arc<Control>,
}

impl Groups {
    pub(crate) fn new(control: Arc<Control>) -> Groups {
        Groups { control }
    }

    /// Makes a client a member, and tells what it may poll. One that is a member stays what it is.
    ///
    /// # Errors
    /// `Unknown`, or `TooMany` where `Limits::group_members` or `Limits::group_partitions` is
    /// reached.
    pub fn join(&self, member: Member) -> Result<Assignment, GroupError> {
        self.with(member.group, |roster| roster.join(member.client))
    }

    /// Ends a membership.
    ///
    /// # Errors
    /// `Unknown`, `NotMember`.
    pub fn leave(&self, member: Member) -> Result<(), GroupError> {
        self.with(member.group, |roster| roster.leave(member.client))
    }

    /// What a member may poll now. Members ask when they have nothing to poll, are refused, and now
    /// and then: nobody calls them when they get more.
    ///
    /// # Errors
    /// `Unknown`, `NotMember`.
    pub fn sync(&self, member: Member) -> Result<Assignment, GroupError> {
        self.with(member.group, |roster| roster.sync(member.client))
    }

    /// All members of a group with their partitions.
    ///
    /// # Errors
    /// `Unknown`.
    pub fn details(&self, group: GroupId) -> Result<GroupDetails, GroupError> {
        self.with(group, |roster| Ok(roster.details()))
    }

    /// The groups in which a client is a member.
    pub fn of(&self, client: ClientId) -> Vec<GroupId> {
        self.control.catalog.model().seats().groups_of(client)
    }

    /// Ends all memberships of a client, which is gone. Tells how many those were.
    pub fn disconnect(&self, client: ClientId) -> usize {
        let left = |group: &GroupId| self.leave(Member { group: *group, client }).is_ok();
        self.of(client).iter().filter(|group| left(group)).count()
    }

    /// A member's poll: `offset` and `poll` ask the partition.
    pub(crate) fn poll(
        &self,
        member: Member,
        partition: u32,
        poll: Poll,
        offset: impl FnOnce(PartitionId, ConsumerKey) -> Call<Option<u64>, OffsetError>,
        ask: impl FnOnce(PartitionId, PollQuery) -> PollCall,
    ) -> MemberPoll {
        let id = member.group.partition(partition);
        let begun =
            self.begin(member, partition, |roster| roster.begin_poll(member.client, partition));
        match begun {
            Ok((begun, is_unknown)) => {
                let who = member.group.consumer();
                let query = poll.of(who);
                let stored = is_unknown.then(|| offset(id, who));
                MemberPoll::new(begun, stored, ask(id, query), query.commit.is_some())
            }
            Err(None) => MemberPoll::refused(GroupPollError::Poll(PollError::UnknownPartition(id))),
            Err(Some(error)) => MemberPoll::refused(error.into()),
        }
    }

    /// A member stores `offset`, or deletes what is stored where that is `None`: `ask` does.
    pub(crate) fn store(
        &self,
        member: Member,
        partition: u32,
        offset: Option<u64>,
        ask: impl FnOnce(PartitionId, ConsumerKey) -> Call<(), OffsetError>,
    ) -> MemberStore {
        let id = member.group.partition(partition);
        let begun = self.begin(member, partition, |roster| {
            roster.begin_store(member.client, partition).map(|turn| (turn, ()))
        });
        match begun {
            Ok((begun, ())) => MemberStore::new(begun, offset, ask(id, member.group.consumer())),
            Err(None) => {
                let why = OffsetError::Unavailable(Unavailable::UnknownPartition(id));
                MemberStore::refused(GroupOffsetError::Offset(why))
            }
            Err(Some(error)) => MemberStore::refused(error.into()),
        }
    }

    /// Lets the group say whether a member may; `None` where the topic has no such partition.
    fn begin<T>(
        &self,
        member: Member,
        partition: u32,
        ask: impl FnOnce(&Roster) -> Result<(group::Turn, T), GroupError>,
    ) -> Result<(Begun, T), Option<GroupError>> {
        let model = self.control.catalog.model();
        let found = model.roster(member.group).ok_or(GroupError::Unknown(member.group))?;
        if !model.has(member.group.partition(partition)) {
            return Err(None);
        }
        let (turn, more) = ask(found)?;
        let roster = Arc::clone(found);
        Ok((Begun { roster, client: member.client, partition, turn }, more))
    }

    fn with<T>(
        &self,
        group: GroupId,
        ask: impl FnOnce(&Roster) -> Result<T, GroupError>,
    ) -> Result<T, GroupError> {
        // Held until the answer: nobody joins what is being deleted.
        let model = self.control.catalog.model();
        ask(model.roster(group).ok_or(GroupError::Unknown(group))?)
    }
}

impl GroupId {
    /// The consumer group `group` of a topic.
    pub const fn new(stream: u32, topic: u32, group: u32) -> GroupId {
        GroupId { stream, topic, group }
    }

    /// As which consumer its members store offsets.
    pub const fn consumer(self) -> ConsumerKey {
        ConsumerKey::group(self.group)
    }

    /// A partition of its topic.
    pub const fn partition(self, partition: u32) -> PartitionId {
        PartitionId::new(self.stream, self.topic, partition)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "consumer group {}/{}/{}", self.stream, self.topic, self.group)
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "client {:#x}", self.0)
    }
}
