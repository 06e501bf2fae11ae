//! One group's members and who of them has which partition: a machine without I/O and without a
//! clock. Every partition has one owner as soon as there are members, and at most one member may
//! poll it.
//!
//! | what happens | what it does |
//! | --- | --- |
//! | a client joins | deals cooperatively (`deal`): only those without partitions get some, from those with too many |
//! | a member leaves, partitions come or go | deals everything anew (`deal`), wherever messages are under way |
//! | the owner of a leaving partition has stored what it polled, or never polled, or its time is up | the partition goes to whom it is meant for |
//! | the topic is purged | nothing is under way in it any more; members and owners stay |
//!
//! The generation counts all of it, so that a client sees that what it knows is old.

mod deal;

use std::collections::HashMap;

use super::flight::{Flight, Stored};
use super::{Assignment, ClientId, MemberInfo};

/// No slot: the owner of a partition in a group without members.
const NOBODY: u32 = u32::MAX;

/// A consumer group at work.
#[derive(Debug)]
pub(crate) struct Group {
    /// By slot, which is the member's id.
    members: Vec<Option<Member>>,
    slots: HashMap<ClientId, u32>,
    /// How many partitions the topic has.
    count: u32,
    /// Those, as long as there are members.
    parts: Vec<Part>,
    generation: u64,
    /// Number of the last turn that began.
    turns: u64,
    /// When the first of the leaving partitions has to go; `u64::MAX` where none leaves.
    due_us: u64,
    timeout_us: u64,
}

#[derive(Debug)]
struct Member {
    client: ClientId,
    /// In the order in which they came, those that leave included.
    owned: Vec<u32>,
    /// What will come, once it has left its owner.
    coming: Vec<u32>,
}

#[derive(Debug)]
struct Part {
    owner: u32,
    leaving: Option<Leaving>,
    flight: Flight,
    /// Which owner's time this is: what began in an earlier turn has no say in this one.
    turn: u64,
}

/// A partition that its owner may not poll any more, and keeps until it is done with it.
#[derive(Debug, Clone, Copy)]
struct Leaving {
    to: u32,
    since_us: u64,
}

/// Why a member may not do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fence {
    NotMember,
    NotOwner,
    /// Its own, but about to go to another member.
    Leaving,
}

/// An owner's time with a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn(u64);

impl Group {
    /// A group without members of a topic with `partitions` partitions. A leaving partition stays
    /// at most `timeout_us`.
    pub(crate) fn new(partitions: u32, timeout_us: u64) -> Group {
        Group {
            members: Vec::new(),
            slots: HashMap::new(),
            count: partitions,
            parts: Vec::new(),
            generation: 0,
            turns: 0,
            due_us: u64::MAX,
            timeout_us,
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn partitions(&self) -> u32 {
        self.count
    }

    pub(crate) fn has(&self, client: ClientId) -> bool {
        self.slots.contains_key(&client)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub(crate) fn clients(&self) -> impl Iterator<Item = ClientId> + '_ {
        self.slots.keys().copied()
    }

    /// Makes `client` a member, in the lowest free slot. Nothing happens where it is one.
    pub(crate) fn join(&mut self, client: ClientId, now_us: u64) {
        if self.has(client) {
            return;
        }
        if self.is_empty() {
            self.parts.extend((0..self.count).map(|_| Part::default()));
        }
        let free = self.members.iter().position(Option::is_none).unwrap_or(self.members.len());
        if free == self.members.len() {
            self.members.push(None);
        }
        let slot = u32::try_from(free).expect("members are limited");
        self.members[free] = Some(Member { client, owned: Vec::new(), coming: Vec::new() });
        self.slots.insert(client, slot);
        self.generation += 1;
        self.deal_cooperatively(now_us);
    }

    /// Ends a membership; false where there is none.
    pub(crate) fn leave(&mut self, client: ClientId) -> bool {
        let Some(slot) = self.slots.remove(&client) else { return false };
        self.members[slot as usize] = None;
        while self.members.last().is_some_and(Option::is_none) {
            self.members.pop();
        }
        self.deal_anew();
        true
    }

    /// Ends all memberships.
    pub(crate) fn clear(&mut self) {
        self.members.clear();
        self.slots.clear();
        self.deal_anew();
    }

    /// The topic has so many partitions now; those that came or went are the last ones.
    pub(crate) fn set_partitions(&mut self, count: u32) {
        self.count = count;
        if !self.is_empty() {
            self.parts.resize_with(count as usize, Part::default);
        }
        self.deal_anew();
    }

    /// A partition was emptied, and what was stored for it is gone.
    pub(crate) fn purged(&mut self, partition: u32) {
        self.turns += 1;
        if let Some(part) = self.parts.get_mut(partition as usize) {
            part.flight.empty();
            part.turn = self.turns;
            self.settle(partition);
        }
    }

    /// Time has passed: what had to leave until now is gone when this returns.
    pub(crate) fn tick(&mut self, now_us: u64) {
        if now_us < self.due_us {
            return;
        }
        let is_due = |part: &Part| {
            part.leaving.is_some_and(|l| l.since_us.saturating_add(self.timeout_us) <= now_us)
        };
        let due: Vec<u32> = (0..self.count).filter(|p| is_due(&self.parts[*p as usize])).collect();
        for partition in due {
            self.complete(partition);
        }
        self.drop_given_away();
        let since = self.parts.iter().filter_map(|part| part.leaving).map(|l| l.since_us).min();
        self.due_us = since.map_or(u64::MAX, |since| since.saturating_add(self.timeout_us));
    }

    /// What `client` may poll, as of which generation.
    pub(crate) fn sync(&self, client: ClientId) -> Result<Assignment, Fence> {
        let member = *self.slots.get(&client).ok_or(Fence::NotMember)?;
        let owned = self.member(member).owned.iter().copied();
        let stays = |partition: &u32| self.parts[*partition as usize].leaving.is_none();
        let partitions = owned.filter(stays).collect();
        Ok(Assignment { member, generation: self.generation, partitions })
    }

    /// All members, by id.
    pub(crate) fn infos(&self) -> Vec<MemberInfo> {
        let seated = self.members.iter().flatten();
        let info = |member: &Member| MemberInfo {
            id: self.slots[&member.client],
            client: member.client,
            partitions: member.owned.clone(),
        };
        seated.map(info).collect()
    }

    /// `client` polls `partition`, or may not. What is stored there is told by [`Group::learn`]
    /// where the answer says that nobody here knows it.
    pub(crate) fn begin_poll(
        &mut self,
        client: ClientId,
        partition: u32,
    ) -> Result<(Turn, bool), Fence> {
        let part = self.owned(client, partition)?;
        if part.leaving.is_some() {
            return Err(Fence::Leaving);
        }
        part.flight.begin_poll();
        Ok((Turn(part.turn), part.flight.stored() == Stored::Unknown))
    }

    /// What was stored for the group when a poll of this turn began.
    pub(crate) fn learn(&mut self, partition: u32, turn: Turn, stored: Option<u64>) {
        if let Some(part) = self.in_turn(partition, turn) {
            part.flight.learn(stored);
        }
    }

    /// A poll is over. It has served messages up to `last`, and where it `has_stored` them they are
    /// done with. False where its turn was over before: the partition is another member's, who gets
    /// the same messages unless they are stored as done.
    pub(crate) fn end_poll(
        &mut self,
        partition: u32,
        turn: Turn,
        last: Option<u64>,
        has_stored: bool,
    ) -> bool {
        let Some(part) = self.in_turn(partition, turn) else {
            return false;
        };
        part.flight.end_poll(last);
        if has_stored && let Some(last) = last {
            part.flight.raise_stored(last);
        }
        self.settle(partition);
        true
    }

    /// `client` stores or deletes an offset of `partition`, or may not.
    pub(crate) fn begin_store(&mut self, client: ClientId, partition: u32) -> Result<Turn, Fence> {
        self.owned(client, partition).map(|part| Turn(part.turn))
    }

    /// What such a store has come to; `None` where nobody knows.
    pub(crate) fn end_store(&mut self, partition: u32, turn: Turn, stored: Option<Option<u64>>) {
        let stored = match self.in_turn(partition, turn) {
            Some(_) => stored.map_or(Stored::Unknown, Stored::from),
            // It may have crossed the next owner's.
            None => Stored::Unknown,
        };
        if let Some(part) = self.parts.get_mut(partition as usize) {
            part.flight.set_stored(stored);
            self.settle(partition);
        }
    }

    fn member(&self, slot: u32) -> &Member {
        self.members[slot as usize].as_ref().expect("the slot is taken")
    }

    fn member_mut(&mut self, slot: u32) -> &mut Member {
        self.members[slot as usize].as_mut().expect("the slot is taken")
    }

    /// The partition, where `client` owns it.
    fn owned(&mut self, client: ClientId, partition: u32) -> Result<&mut Part, Fence> {
        let slot = *self.slots.get(&client).ok_or(Fence::NotMember)?;
        let part = self.parts.get_mut(partition as usize);
        part.filter(|part| part.owner == slot).ok_or(Fence::NotOwner)
    }

    fn in_turn(&mut self, partition: u32, turn: Turn) -> Option<&mut Part> {
        self.parts.get_mut(partition as usize).filter(|part| part.turn == turn.0)
    }

    /// Lets a leaving partition go where nothing is under way in it any more.
    fn settle(&mut self, partition: u32) {
        let part = &self.parts[partition as usize];
        if part.leaving.is_none() || part.flight.is_busy() {
            return;
        }
        let owner = part.owner;
        let to = self.complete(partition);
        remove(&mut self.member_mut(owner).owned, partition);
        remove(&mut self.member_mut(to).coming, partition);
    }

    /// A leaving partition goes to whom this answers. The lists that it leaves have it still.
    fn complete(&mut self, partition: u32) -> u32 {
        let leaving = self.parts[partition as usize].leaving.take();
        let Leaving { to, .. } = leaving.expect("only a leaving partition goes");
        self.generation += 1;
        self.give(partition, to);
        to
    }

    /// `to` owns it from now on, in a turn of its own.
    fn give(&mut self, partition: u32, to: u32) {
        self.begin_turn(partition, to);
        self.member_mut(to).owned.push(partition);
    }

    fn begin_turn(&mut self, partition: u32, owner: u32) {
        self.turns += 1;
        let part = &mut self.parts[partition as usize];
        part.owner = owner;
        part.turn = self.turns;
        part.flight.hand_over();
    }

    /// Takes out of all lists what is another member's by now, or is to become another's.
    fn drop_given_away(&mut self) {
        let parts = &self.parts;
        for (slot, member) in (0..).zip(&mut self.members) {
            let Some(member) = member else { continue };
            member.owned.retain(|p| parts[*p as usize].owner == slot);
            member.coming.retain(|p| parts[*p as usize].leaving.is_some_and(|l| l.to == slot));
        }
    }
}

/// What goes next stands near the end.
fn remove(list: &mut Vec<u32>, partition: u32) {
    let place = list.iter().rposition(|other| *other == partition);
    list.remove(place.expect("what goes is in the lists of both"));
}

impl Default for Part {
    fn default() -> Self {
        Part { owner: NOBODY, leaving: None, flight: Flight::default(), turn: 0 }
    }
}

#[cfg(test)]
mod random;
#[cfg(test)]
mod tests;
