//! Memberships of the whole engine: how many there may be, and which ones a client has.
//!
//! A [`Roster`] is one group's members with the lock around them. It lives in the catalog's model,
//! beside the group's record, so that a group's members end with the group, and hear of its topic's
//! partitions in the same moment as everybody else does.
//!
//! Locks are taken in this order: the catalog's model (to read), a group, the memberships. None is
//! held across a wait.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::group::{Fence, Group, Turn};
use super::{Assignment, ClientId, GroupDetails, GroupError, GroupId, Member};

/// What consumer groups may use, in the whole engine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GroupLimits {
    /// Memberships.
    pub(crate) members: usize,
    /// Partitions of the topics of all groups that have members, each group's counted apart.
    pub(crate) partitions: usize,
    /// So long a member may keep a partition that is to go to another one.
    pub(crate) patience: Duration,
}

impl Default for GroupLimits {
    fn default() -> Self {
        GroupLimits { members: 16_384, partitions: 1 << 22, patience: Duration::from_secs(30) }
    }
}

/// The memberships of all groups.
pub(crate) struct Seats {
    limits: GroupLimits,
    born: Instant,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    members: usize,
    partitions: usize,
    by_client: HashMap<ClientId, BTreeSet<GroupId>>,
}

impl Default for Seats {
    fn default() -> Self {
        Seats::new(GroupLimits::default())
    }
}

impl Seats {
    pub(crate) fn new(limits: GroupLimits) -> Seats {
        Seats { limits, born: Instant::now(), taken: Mutex::default() }
    }

    /// The groups in which `client` is a member.
    pub(crate) fn groups_of(&self, client: ClientId) -> Vec<GroupId> {
        let taken = self.lock();
        taken.by_client.get(&client).into_iter().flatten().copied().collect()
    }

    fn take(&self, member: Member) -> Result<(), GroupError> {
        let mut taken = self.lock();
        let max = self.limits.members;
        if taken.members >= max {
            return Err(GroupError::TooMany { what: "members of groups", max });
        }
        taken.members += 1;
        taken.by_client.entry(member.client).or_default().insert(member.group);
        Ok(())
    }

    fn give_back(&self, member: Member) {
        let mut taken = self.lock();
        taken.members -= 1;
        if let Some(groups) = taken.by_client.get_mut(&member.client) {
            groups.remove(&member.group);
            if groups.is_empty() {
                taken.by_client.remove(&member.client);
            }
        }
    }

    /// A group that has counted `before` partitions counts `after` from now on, if there is room.
    fn count(&self, before: u32, after: u32) -> Result<(), GroupError> {
        let mut taken = self.lock();
        let others = taken.partitions - before as usize;
        let (sum, max) = (others + after as usize, self.limits.partitions);
        if after > before && sum > max {
            return Err(GroupError::TooMany { what: "partitions of groups with members", max });
        }
        taken.partitions = sum;
        Ok(())
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Who is a member is no part of the catalog, which is shown without.
impl fmt::Debug for Seats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seats").finish_non_exhaustive()
    }
}

/// A group's members. None of them outlives the engine: who is connected to a broker that starts
/// anew has to join anew, too.
pub(crate) struct Roster {
    id: GroupId,
    seats: Arc<Seats>,
    group: Mutex<Group>,
}

impl Roster {
    pub(crate) fn new(id: GroupId, partitions: u32, seats: &Arc<Seats>) -> Arc<Roster> {
        let patience_us = u64::try_from(seats.limits.patience.as_micros()).unwrap_or(u64::MAX);
        let group = Mutex::new(Group::new(partitions, patience_us));
        Arc::new(Roster { id, seats: Arc::clone(seats), group })
    }

    pub(super) fn join(&self, client: ClientId) -> Result<Assignment, GroupError> {
        let mut group = self.lock();
        if !group.has(client) {
            self.seats.take(self.member(client))?;
            if group.is_empty()
                && let Err(error) = self.seats.count(0, group.partitions())
            {
                self.seats.give_back(self.member(client));
                return Err(error);
            }
            group.join(client, self.seats.now_us());
        }
        Ok(group.sync(client).expect("it is a member now"))
    }

    pub(super) fn leave(&self, client: ClientId) -> Result<(), GroupError> {
        let mut group = self.lock();
        if !group.leave(client) {
            return Err(GroupError::NotMember(self.member(client)));
        }
        self.seats.give_back(self.member(client));
        if group.is_empty() {
            self.uncount(&group);
        }
        Ok(())
    }

    pub(super) fn sync(&self, client: ClientId) -> Result<Assignment, GroupError> {
        self.lock().sync(client).map_err(|_| GroupError::NotMember(self.member(client)))
    }

    pub(super) fn details(&self) -> GroupDetails {
        let group = self.lock();
        GroupDetails {
            generation: group.generation(),
            partitions: group.partitions(),
            members: group.infos(),
        }
    }

    pub(super) fn begin_poll(
        &self,
        client: ClientId,
        partition: u32,
    ) -> Result<(Turn, bool), GroupError> {
        let begun = self.lock().begin_poll(client, partition);
        begun.map_err(|fence| self.refusal(fence, client, partition))
    }

    pub(super) fn learn(&self, partition: u32, turn: Turn, stored: Option<u64>) {
        self.lock().learn(partition, turn, stored);
    }

    /// Refused where the partition went elsewhere meanwhile.
    pub(super) fn end_poll(
        &self,
        client: ClientId,
        partition: u32,
        turn: Turn,
        last: Option<u64>,
        has_stored: bool,
    ) -> Result<(), GroupError> {
        let mut group = self.lock();
        if group.end_poll(partition, turn, last, has_stored) {
            return Ok(());
        }
        let fence = if group.has(client) { Fence::NotOwner } else { Fence::NotMember };
        Err(self.refusal(fence, client, partition))
    }

    pub(super) fn begin_store(&self, client: ClientId, partition: u32) -> Result<Turn, GroupError> {
        let begun = self.lock().begin_store(client, partition);
        begun.map_err(|fence| self.refusal(fence, client, partition))
    }

    pub(super) fn end_store(&self, partition: u32, turn: Turn, stored: Option<Option<u64>>) {
        self.lock().end_store(partition, turn, stored);
    }

    fn refusal(&self, fence: Fence, client: ClientId, partition: u32) -> GroupError {
        let member = self.member(client);
        match fence {
            Fence::NotMember => GroupError::NotMember(member),
            Fence::NotOwner => GroupError::NotOwner { member, partition },
            Fence::Leaving => GroupError::Leaving { member, partition },
        }
    }

    /// The group's topic has so many partitions now. Where there is no room for that, the group's
    /// members have to join again, who are told why it cannot be.
    pub(crate) fn set_partitions(&self, count: u32) {
        let mut group = self.lock();
        if !group.is_empty() && self.seats.count(group.partitions(), count).is_err() {
            self.end_all(&mut group);
        }
        group.set_partitions(count);
    }

    /// A partition of the group's topic was emptied.
    pub(crate) fn purged(&self, partition: u32) {
        self.lock().purged(partition);
    }

    /// The group is deleted. Calls that are on their way find nobody here.
    pub(crate) fn close(&self) {
        let mut group = self.lock();
        if !group.is_empty() {
            self.end_all(&mut group);
        }
    }

    fn end_all(&self, group: &mut Group) {
        for client in group.clients() {
            self.seats.give_back(self.member(client));
        }
        self.uncount(group);
        group.clear();
    }

    fn uncount(&self, group: &Group) {
        self.seats.count(group.partitions(), 0).expect("less always fits");
    }

    fn member(&self, client: ClientId) -> Member {
        Member { group: self.id, client }
    }

    /// The group as it is now: nobody moves what waits for its time but who looks.
    fn lock(&self) -> MutexGuard<'_, Group> {
        let mut group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        group.tick(self.seats.now_us());
        group
    }
}

/// As that of [`Seats`].
impl fmt::Debug for Roster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Roster").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: ClientId = ClientId(1);

    fn rosters(members: usize, partitions: usize) -> (Arc<Seats>, [Arc<Roster>; 2]) {
        let patience = Duration::from_secs(30);
        let seats = Arc::new(Seats::new(GroupLimits { members, partitions, patience }));
        let rosters = [0, 1].map(|group| Roster::new(GroupId::new(0, 0, group), 4, &seats));
        (seats, rosters)
    }

    fn used(seats: &Seats) -> (usize, usize, usize) {
        let taken = seats.lock();
        (taken.members, taken.partitions, taken.by_client.len())
    }

    #[test]
    fn members_are_limited_and_each_way_out_makes_room() {
        let (seats, [first, second]) = rosters(3, 100);
        for client in [1, 2] {
            first.join(ClientId(client)).unwrap();
        }
        second.join(CLIENT).unwrap();
        second.join(CLIENT).expect("it is a member");
        assert_eq!(used(&seats), (3, 8, 2));
        let error = second.join(ClientId(4)).unwrap_err();
        assert!(matches!(error, GroupError::TooMany { max: 3, .. }), "{error}");
        assert_eq!(seats.groups_of(CLIENT), [first.id, second.id]);

        second.leave(CLIENT).unwrap();
        assert_eq!((used(&seats), seats.groups_of(CLIENT)), ((2, 4, 2), vec![first.id]));
        first.close();
        assert_eq!((used(&seats), seats.groups_of(CLIENT)), ((0, 0, 0), vec![]));
    }

    #[test]
    fn partitions_are_limited_and_a_group_that_outgrows_them_loses_its_members() {
        let (seats, [first, second]) = rosters(10, 10);
        first.join(CLIENT).unwrap();
        first.join(ClientId(2)).unwrap();
        second.join(CLIENT).unwrap();
        second.set_partitions(6);
        assert_eq!(used(&seats), (3, 10, 2));
        first.set_partitions(5);
        assert_eq!(used(&seats), (1, 6, 1));
        assert_eq!(first.sync(CLIENT), Err(GroupError::NotMember(first.member(CLIENT))));
        let error = first.join(CLIENT).unwrap_err();
        assert!(matches!(error, GroupError::TooMany { max: 10, .. }), "{error}");
        assert_eq!(used(&seats), (1, 6, 1));
        second.set_partitions(5);
        assert_eq!(first.join(CLIENT).unwrap().partitions, [0, 1, 2, 3, 4]);
    }
}
