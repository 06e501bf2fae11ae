//! Who appends what to which partition: every byte of a run is decided before the first one moves.

use crate::content::{BatchId, Content};
use crate::rng::Rng;

/// Batches that one producer appends to one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) producer: u16,
    pub(crate) partition: u32,
    /// The first of them is sent before the clock starts: it opens files and fills caches.
    pub(crate) batches: u32,
}

/// In which order a producer's lanes have their turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// One after the other, so that all of a producer's partitions grow alike.
    InTurns,
    /// Drawn from this seed, each by how many batches it has left: every batch crosses to another
    /// shard than the one before, or not.
    Shuffled(u64),
}

/// The lanes of a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) producers: u16,
    pub(crate) partitions: u32,
    order: Order,
    lanes: Vec<Lane>,
}

impl Plan {
    /// Shares `batches` among the lanes, at least one each, and adds each lane's warm-up batch.
    ///
    /// With more partitions than producers each producer has several partitions; with fewer,
    /// several producers share one.
    pub(crate) fn new(producers: u16, partitions: u32, batches: u64) -> Plan {
        let count = partitions.max(u32::from(producers));
        let pairs = (0..count)
            .map(|lane| ((lane % u32::from(producers)) as u16, lane % partitions))
            .collect();
        Plan::of(producers, partitions, Order::InTurns, pairs, batches, |_| 1.0)
    }

    /// The same where every producer appends to every partition, in an order drawn from `seed`.
    pub(crate) fn shuffled(producers: u16, partitions: u32, batches: u64, seed: u64) -> Plan {
        Plan::skewed(producers, partitions, batches, seed, 0.0)
    }

    /// The same where partitions are not alike: number `n` gets a share in proportion to
    /// `(n + 1)^-skew`, as a few hot keys make it (Zipf; 0 is even).
    pub(crate) fn skewed(
        producers: u16,
        partitions: u32,
        batches: u64,
        seed: u64,
        skew: f64,
    ) -> Plan {
        let all = (0..producers).flat_map(|producer| (0..partitions).map(move |to| (producer, to)));
        let weight = |partition: u32| (f64::from(partition) + 1.0).powf(-skew);
        Plan::of(producers, partitions, Order::Shuffled(seed), all.collect(), batches, weight)
    }

    fn of(
        producers: u16,
        partitions: u32,
        order: Order,
        pairs: Vec<(u16, u32)>,
        batches: u64,
        weight: impl Fn(u32) -> f64,
    ) -> Plan {
        let all: f64 = pairs.iter().map(|(_, partition)| weight(*partition)).sum();
        let (mut weighed, mut shared) = (0.0, 0);
        let lane = |(producer, partition): (u16, u32)| {
            weighed += weight(partition);
            // Up to here: so the shares of all lanes are all batches, whatever is rounded.
            let until = (batches as f64 * (weighed / all)).round() as u64;
            let timed = (until - shared).clamp(1, u64::from(u32::MAX - 1));
            shared = until;
            Lane { producer, partition, batches: timed as u32 + 1 }
        };
        let lanes = pairs.into_iter().map(lane).collect();
        Plan { producers, partitions, order, lanes }
    }

    /// The same lanes without an end: who uses them stops at a time.
    pub(crate) fn endless(mut self) -> Plan {
        self.lanes.iter_mut().for_each(|lane| lane.batches = u32::MAX);
        self
    }

    /// A producer's batches in their order, as pairs of partition and sequence: each lane's first
    /// one for the warm-up, then the others. Sequences go on behind what was `sent` before.
    pub(crate) fn deal(&self, producer: u16, sent: &Sent) -> Deal {
        let lanes = self.lanes.iter().filter(|lane| lane.producer == producer);
        let lane = |lane: &Lane| {
            let first = sent.batches(lane.partition)[usize::from(producer)];
            Turn { partition: lane.partition, next: first, end: first.saturating_add(lane.batches) }
        };
        let rng = match self.order {
            Order::InTurns => None,
            Order::Shuffled(seed) => Some(Rng::new(seed ^ u64::from(producer) << 32)),
        };
        Deal { lanes: lanes.map(lane).collect(), at: 0, rng }
    }

    /// All batches, warm-up included.
    pub(crate) fn batches(&self) -> u64 {
        self.lanes.iter().map(|lane| u64::from(lane.batches)).sum()
    }

    /// The batches that are timed.
    pub(crate) fn timed_batches(&self) -> u64 {
        self.batches() - self.lanes.len() as u64
    }

    /// How many lanes there are, which is how many batches warm up.
    pub(crate) fn lane_count(&self) -> u64 {
        self.lanes.len() as u64
    }
}

/// A producer's lanes while it sends.
#[derive(Debug)]
pub(crate) struct Deal {
    lanes: Vec<Turn>,
    at: usize,
    /// Draws the next lane; in turns without one.
    rng: Option<Rng>,
}

#[derive(Debug)]
struct Turn {
    partition: u32,
    next: u32,
    end: u32,
}

impl Deal {
    /// Each lane's next batch, once: the warm-up.
    pub(crate) fn one_each(&mut self) -> Vec<(u32, u32)> {
        self.lanes.iter_mut().filter_map(Turn::take).collect()
    }

    /// The next batch's partition and sequence; None when all were dealt.
    pub(crate) fn next(&mut self) -> Option<(u32, u32)> {
        while !self.lanes.is_empty() {
            self.at = match &mut self.rng {
                Some(rng) => drawn(&self.lanes, rng),
                None => self.at % self.lanes.len(),
            };
            if let Some(batch) = self.lanes[self.at].take() {
                self.at += 1;
                return Some(batch);
            }
            // In order, so that the turns of the others stay as they are.
            self.lanes.remove(self.at);
        }
        None
    }
}

/// A lane, each by how many batches it has left; any of them where none has.
fn drawn(lanes: &[Turn], rng: &mut Rng) -> usize {
    let left = |lane: &Turn| u64::from(lane.end - lane.next);
    let all: u64 = lanes.iter().map(left).sum();
    if all == 0 {
        return 0;
    }
    let mut number = rng.draw_in(0, all);
    let holds = |lane: &Turn| match number.checked_sub(left(lane)) {
        Some(less) => {
            number = less;
            false
        }
        None => true,
    };
    lanes.iter().position(holds).expect("the number is less than all that is left")
}

impl Turn {
    fn take(&mut self) -> Option<(u32, u32)> {
        let sequence = self.next;
        (sequence < self.end).then(|| {
            self.next += 1;
            (self.partition, sequence)
        })
    }
}

/// How many batches each producer has sent to each partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sent {
    by_partition: Vec<Vec<u32>>,
}

impl Sent {
    /// Nothing yet.
    pub(crate) fn nothing(producers: u16, partitions: u32) -> Sent {
        Sent { by_partition: vec![vec![0; usize::from(producers)]; partitions as usize] }
    }

    /// By partition and producer; None when the rows differ in length or there is none.
    pub(crate) fn of(by_partition: Vec<Vec<u32>>) -> Option<Sent> {
        let producers = by_partition.first()?.len();
        let is_even = by_partition.iter().all(|row| row.len() == producers);
        (is_even && producers > 0 && producers <= usize::from(u16::MAX))
            .then_some(Sent { by_partition })
    }

    /// How many partitions there are.
    pub(crate) fn partitions(&self) -> u32 {
        self.by_partition.len() as u32
    }

    /// How many producers there are.
    pub(crate) fn producers(&self) -> u16 {
        self.by_partition.first().map_or(0, |row| row.len() as u16)
    }

    /// By producer.
    pub(crate) fn batches(&self, partition: u32) -> &[u32] {
        &self.by_partition[partition as usize]
    }

    /// Counts a batch that was sent.
    pub(crate) fn add(&mut self, producer: u16, partition: u32) {
        self.by_partition[partition as usize][usize::from(producer)] += 1;
    }

    /// Counts up to the `batches`-th batch of a producer, where fewer were counted.
    pub(crate) fn raise(&mut self, producer: u16, partition: u32, batches: u32) {
        let mine = &mut self.by_partition[partition as usize][usize::from(producer)];
        *mine = batches.max(*mine);
    }

    /// Batches of all producers to all partitions.
    pub(crate) fn total(&self) -> u64 {
        self.by_partition.iter().flatten().map(|batches| u64::from(*batches)).sum()
    }

    /// Adds what another producer's count has more than `base`, which both began with.
    pub(crate) fn join(&mut self, base: &Sent, other: &Sent) {
        let rows = self.by_partition.iter_mut().zip(&base.by_partition).zip(&other.by_partition);
        for ((mine, base), other) in rows {
            for ((mine, base), other) in mine.iter_mut().zip(base).zip(other) {
                *mine += other - base;
            }
        }
    }

    /// The offset behind everything that was sent to `partition`.
    pub(crate) fn end(&self, partition: u32, content: &Content, round: u32) -> u64 {
        let messages = |(producer, batches): (u16, &u32)| {
            content.messages_of(BatchId { round, producer, partition, sequence: 0 }, *batches)
        };
        (0..).zip(self.batches(partition)).map(messages).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// All batches of a plan, and what was sent then.
    fn all(plan: &Plan, before: &Sent) -> (HashSet<(u16, u32, u32)>, Sent) {
        let (mut seen, mut sent) = (HashSet::new(), before.clone());
        for producer in 0..plan.producers {
            let mut deal = plan.deal(producer, before);
            let mut batches = deal.one_each();
            batches.extend(std::iter::from_fn(|| deal.next()));
            for (partition, sequence) in batches {
                // In the order of their sequences: that is the order of the log.
                assert_eq!(sequence, sent.batches(partition)[usize::from(producer)]);
                sent.add(producer, partition);
                assert!(seen.insert((producer, partition, sequence)));
            }
        }
        (seen, sent)
    }

    #[test]
    fn every_producer_works_and_every_partition_is_written() {
        for producers in 1..6 {
            for partitions in 1..9 {
                for plan in [
                    Plan::new(producers, partitions, 100),
                    Plan::shuffled(producers, partitions, 100, 7),
                ] {
                    assert_eq!(plan.timed_batches(), 100);
                    let (seen, sent) = all(&plan, &Sent::nothing(producers, partitions));
                    assert_eq!(seen.len() as u64, plan.batches());
                    assert!((0..producers).all(|one| seen.iter().any(|batch| batch.0 == one)));
                    let is_written = |one| sent.batches(one).iter().any(|batches| *batches > 0);
                    assert!((0..partitions).all(is_written));
                }
            }
        }
    }

    #[test]
    fn too_little_for_all_lanes_is_one_batch_each() {
        let plan = Plan::new(3, 5, 1);
        assert_eq!((plan.timed_batches(), plan.lane_count()), (5, 5));
    }

    #[test]
    fn a_second_phase_goes_on_behind_the_first() {
        let plan = Plan::new(2, 3, 12);
        let (_, before) = all(&plan, &Sent::nothing(2, 3));
        let (_, after) = all(&plan, &before);
        assert_eq!(after.batches(1), [0, 2 * before.batches(1)[1]]);
        let mut joined = before.clone();
        joined.join(&before, &after);
        assert_eq!(joined, after);
    }

    #[test]
    fn turns_are_even_and_shuffled_ones_are_not_but_repeat() {
        let order = |plan: &Plan| {
            let mut deal = plan.deal(0, &Sent::nothing(1, 4));
            std::iter::from_fn(|| deal.next()).map(|batch| batch.0).collect::<Vec<_>>()
        };
        assert_eq!(order(&Plan::new(1, 4, 4)), [0, 1, 2, 3, 0, 1, 2, 3]);
        let shuffled = Plan::shuffled(1, 4, 400, 3);
        assert_eq!(order(&shuffled), order(&shuffled));
        let first = &order(&shuffled)[..40];
        assert!(first.iter().zip(&first[4..]).any(|(one, next)| one != next), "{first:?}");
    }

    #[test]
    fn a_skewed_plan_has_hot_partitions_from_its_first_batch_to_its_last() {
        let plan = Plan::skewed(2, 8, 8000, 5, 1.0);
        assert_eq!(plan.timed_batches(), 8000);
        let (_, sent) = all(&plan, &Sent::nothing(2, 8));
        let of = |partition| sent.batches(partition).iter().sum::<u32>();
        // 1/1 of 1/1 + 1/2 + .. + 1/8 is 36.8 %, and half of that is the second one's.
        assert!((2930..2960).contains(&of(0)) && (1465..1485).contains(&of(1)), "{sent:?}");
        assert!((1..8).all(|partition| of(partition) < of(partition - 1)), "{sent:?}");
        let mut deal = plan.deal(0, &Sent::nothing(2, 8));
        let dealt: Vec<u32> = std::iter::from_fn(|| deal.next()).map(|batch| batch.0).collect();
        for part in dealt.chunks_exact(1000) {
            let hot = part.iter().filter(|partition| **partition == 0).count();
            assert!((300..450).contains(&hot), "{hot} of {}", part.len());
        }
        // A share of nothing is still a batch: every partition is written.
        let steep = Plan::skewed(1, 100, 100, 5, 4.0);
        let (_, sent) = all(&steep, &Sent::nothing(1, 100));
        assert!((0..100).all(|partition| sent.batches(partition)[0] >= 2));
    }

    #[test]
    fn the_end_of_a_partition_is_the_messages_of_all_its_batches() {
        let content = Content::new(1, 3, 10).unwrap();
        let mut sent = Sent::nothing(2, 2);
        (0..5).for_each(|_| sent.add(0, 1));
        (0..2).for_each(|_| sent.add(1, 1));
        assert_eq!((sent.end(0, &content, 0), sent.end(1, &content, 0)), (0, 21));
    }
}
