//! Groups under random steps from a seed, held against what must be true after each of them.

use super::*;

const TIMEOUT_US: u64 = 100;

/// xorshift64*.
struct Rng(u64);

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % end
    }
}

/// A group, and polls and stores that have begun there.
struct World {
    rng: Rng,
    group: Group,
    now_us: u64,
    polls: Vec<(u32, Turn)>,
    stores: Vec<(u32, Turn)>,
    generation: u64,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng(seed);
        let group = Group::new(rng.below(12) as u32, TIMEOUT_US);
        World { rng, group, now_us: 0, polls: vec![], stores: vec![], generation: 0 }
    }

    fn step(&mut self) {
        let client = ClientId(u128::from(self.rng.below(6)));
        let partition = self.rng.below(12) as u32;
        match self.rng.below(30) {
            0..=2 => {
                let before = (self.group.has(client), self.group.generation());
                self.group.join(client, self.now_us);
                let counted = self.group.generation() - before.1;
                assert_eq!(counted, u64::from(!before.0), "a second join is none");
            }
            3 => {
                let was = self.group.has(client);
                assert_eq!(self.group.leave(client), was);
            }
            4 if self.rng.below(4) == 0 => {
                let count = self.rng.below(12) as u32;
                self.group.set_partitions(count);
            }
            4..=12 => {
                // Mostly what it may poll.
                let told = self.group.sync(client).map(|told| told.partitions);
                let partition = pick(&mut self.rng, &mut told.unwrap_or_default());
                let partition = partition.unwrap_or(11);
                if let Ok((turn, _)) = self.group.begin_poll(client, partition) {
                    self.polls.push((partition, turn));
                }
            }
            13..=20 => {
                if let Some((partition, turn)) = pick(&mut self.rng, &mut self.polls) {
                    let last = (self.rng.below(3) > 0).then(|| self.rng.below(50));
                    let has_stored = self.rng.below(4) == 0;
                    self.group.end_poll(partition, turn, last, has_stored);
                }
            }
            21..=23 => {
                if let Ok(turn) = self.group.begin_store(client, partition) {
                    self.stores.push((partition, turn));
                }
            }
            24..=26 => {
                if let Some((partition, turn)) = pick(&mut self.rng, &mut self.stores) {
                    let stored = match self.rng.below(8) {
                        0 => None,
                        1 => Some(None),
                        _ => Some(Some(self.rng.below(50))),
                    };
                    self.group.end_store(partition, turn, stored);
                }
            }
            27 if self.rng.below(8) == 0 => self.group.purged(partition),
            _ => self.now_us += self.rng.below(TIMEOUT_US / 4),
        }
        self.group.tick(self.now_us);
    }

    /// Everything that has to be true at any time.
    fn check(&mut self) {
        let Group { members, slots, parts, count, generation, .. } = &self.group;
        assert!(*generation >= self.generation, "the generation never goes back");
        self.generation = *generation;
        assert!(!members.last().is_some_and(Option::is_none), "no slot is kept for nobody");
        let want = if slots.is_empty() { 0 } else { *count as usize };
        assert_eq!(parts.len(), want, "partitions are owned where there are members");
        for (client, slot) in slots {
            assert_eq!(members[*slot as usize].as_ref().map(|member| member.client), Some(*client));
        }
        // Each partition is in one list, its owner's; one that leaves is in its target's as well.
        let lists = |of: fn(&Member) -> &Vec<u32>| {
            let mut all = Vec::new();
            for (slot, member) in (0u32..).zip(members) {
                all.extend(member.iter().flat_map(of).map(|partition| (*partition, slot)));
            }
            all.sort_unstable();
            all
        };
        let numbered = || (0u32..).zip(parts);
        let owners: Vec<_> = numbered().map(|(number, part)| (number, part.owner)).collect();
        assert_eq!(lists(|member| &member.owned), owners);
        let leaving: Vec<_> =
            numbered().filter_map(|(number, part)| part.leaving.map(|l| (number, l.to))).collect();
        assert_eq!(lists(|member| &member.coming), leaving);
        for part in parts {
            let Some(Leaving { to, since_us }) = part.leaving else { continue };
            assert_ne!(to, part.owner);
            assert!(part.flight.is_busy(), "nothing holds it");
            assert!(self.now_us < since_us + TIMEOUT_US, "its time is up");
            assert!(self.group.due_us <= since_us + TIMEOUT_US, "nobody would look");
        }
    }

    /// At most one member may poll a partition, and what members are told is what they may.
    fn check_polls(&mut self) {
        let clients: Vec<_> = self.group.clients().collect();
        let mut pollable = vec![0; 12];
        for client in clients {
            let told = self.group.sync(client).expect("it is a member").partitions;
            for partition in 0..12 {
                let begun = self.group.begin_poll(client, partition);
                assert_eq!(begun.is_ok(), told.contains(&partition), "{client:?}, {partition}");
                if let Ok((turn, _)) = begun {
                    pollable[partition as usize] += 1;
                    self.group.end_poll(partition, turn, None, false);
                }
            }
        }
        assert!(pollable.iter().all(|members| *members <= 1), "{pollable:?}");
    }

    /// Once nothing leaves any more, members are level within one.
    fn check_rest(&mut self) {
        self.now_us += TIMEOUT_US;
        self.group.tick(self.now_us);
        assert_eq!(self.group.due_us, u64::MAX, "nothing leaves");
        let owned = self.group.infos().into_iter().map(|info| info.partitions.len());
        let (min, max) = (owned.clone().min(), owned.max());
        assert!(max.unwrap_or(0) - min.unwrap_or(0) <= 1, "{:?}", self.group.infos());
    }
}

fn pick<T>(rng: &mut Rng, from: &mut Vec<T>) -> Option<T> {
    let place = (!from.is_empty()).then(|| rng.below(from.len() as u64) as usize)?;
    Some(from.swap_remove(place))
}

#[test]
fn what_must_be_true_is_true_after_every_step_of_many_groups() {
    let mut left = 0;
    for seed in 1..=500 {
        let mut world = World::new(seed);
        for _ in 0..200 {
            world.step();
            world.check();
            world.check_polls();
            left += u64::from(world.group.due_us != u64::MAX);
            if world.rng.below(60) == 0 {
                world.check_rest();
            }
        }
    }
    assert!(left > 5_000, "partitions that leave are what this is about: {left}");
}
