//! Who gets which partition. Two ways, as the reference server has them (iggy-behaviour.md, 11).

use super::{Group, Leaving, NOBODY};

impl Group {
    /// After somebody came: partitions that are nobody's are dealt to those that have none; then
    /// those with more than their share give what is too much, from the end of their lists.
    ///
    /// Shares are counted as though everything that leaves had gone already: a partition whose
    /// owner is not done with it gets another target where two come one after the other. So the
    /// members are level, within one, as soon as nothing leaves any more.
    ///
    /// Four partitions: A comes and gets `[0, 1, 2, 3]`. B comes: two is fair, A gives from its
    /// end, A `[0, 1]`, B `[3, 2]`. C comes: one is fair and one is left over, so the first with
    /// too many may keep two, A `[0, 1]`, B `[3]`, C `[2]`.
    pub(super) fn deal_cooperatively(&mut self, now_us: u64) {
        let empty_handed = self.empty_handed();
        let unowned = (0..self.count).filter(|p| self.parts[*p as usize].owner == NOBODY);
        let unowned: Vec<u32> = unowned.collect();
        for (partition, to) in unowned.into_iter().zip(empty_handed.iter().cycle()) {
            self.give(partition, *to);
        }
        let empty_handed = self.empty_handed();
        if empty_handed.is_empty() {
            return;
        }
        let excess = self.excess();
        for (partition, to) in excess.into_iter().zip(empty_handed.iter().cycle()) {
            self.hand_over(partition, *to, now_us);
        }
        self.drop_given_away();
    }

    /// After somebody left, or partitions came or went: partition `i` is the `i mod n`-th member's.
    /// What was under way stays so where the owner stays, and comes again at another one.
    pub(super) fn deal_anew(&mut self) {
        self.generation += 1;
        self.due_us = u64::MAX;
        let seated: Vec<u32> = self.seated().collect();
        if seated.is_empty() {
            self.parts = Vec::new();
            return;
        }
        for slot in &seated {
            let member = self.member_mut(*slot);
            member.owned.clear();
            member.coming.clear();
        }
        for (partition, owner) in (0..self.count).zip(seated.iter().cycle()) {
            self.parts[partition as usize].leaving = None;
            if self.parts[partition as usize].owner != *owner {
                self.begin_turn(partition, *owner);
            }
            self.member_mut(*owner).owned.push(partition);
        }
    }

    fn seated(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.members).filter_map(|(slot, member)| member.as_ref().map(|_| slot))
    }

    /// Members that have nothing and are to get nothing.
    fn empty_handed(&self) -> Vec<u32> {
        let has_none = |slot: &u32| self.member(*slot).owned.is_empty();
        let gets_none = |slot: &u32| self.member(*slot).coming.is_empty();
        self.seated().filter(|slot| has_none(slot) && gets_none(slot)).collect()
    }

    /// What is too much, from the end of each member's list.
    fn excess(&self) -> Vec<u32> {
        let members = u32::try_from(self.slots.len()).expect("members are limited");
        let (fair, mut left_over) = ((self.count / members) as usize, self.count % members);
        let mut excess = Vec::new();
        for slot in self.seated() {
            let member = self.member(slot);
            let stays = |p: &&u32| self.parts[**p as usize].leaving.is_none();
            let staying = member.owned.iter().filter(stays);
            let held: Vec<u32> = staying.chain(&member.coming).copied().collect();
            if held.len() <= fair {
                continue;
            }
            let keeps = fair + usize::from(left_over > 0);
            left_over = left_over.saturating_sub(1);
            excess.extend(held[keeps..].iter().rev());
        }
        excess
    }

    /// Gives a partition that somebody has to `to`: at once where nothing is under way in it. The
    /// lists that it leaves have it still, until [`Group::drop_given_away`].
    fn hand_over(&mut self, partition: u32, to: u32, now_us: u64) {
        let part = &mut self.parts[partition as usize];
        assert_ne!(part.owner, to, "who gets something has nothing");
        if let Some(leaving) = &mut part.leaving {
            leaving.to = to;
            self.member_mut(to).coming.push(partition);
        } else if part.flight.is_busy() {
            part.leaving = Some(Leaving { to, since_us: now_us });
            self.due_us = self.due_us.min(now_us.saturating_add(self.timeout_us));
            self.member_mut(to).coming.push(partition);
        } else {
            self.give(partition, to);
        }
    }
}
