//! Who appends what to which partition: every byte of a run is decided before the first one moves.

/// Batches that one producer appends to one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) producer: u16,
    pub(crate) partition: u32,
    /// The first of them is sent before the clock starts: it opens files and fills caches.
    pub(crate) batches: u32,
}

/// The lanes of a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) producers: u16,
    pub(crate) partitions: u32,
    lanes: Vec<Lane>,
}

impl Plan {
    /// Shares `batches` among the lanes, at least one each, and adds each lane's warm-up batch.
    ///
    /// With more partitions than producers each producer has several partitions; with fewer,
    /// several producers share one.
    pub(crate) fn new(producers: u16, partitions: u32, batches: u64) -> Plan {
        let count = partitions.max(u32::from(producers));
        let lanes = (0..count)
            .map(|lane| {
                let share = batches / u64::from(count);
                let extra = u64::from(u64::from(lane) < batches % u64::from(count));
                let timed = (share + extra).clamp(1, u64::from(u32::MAX - 1));
                Lane {
                    producer: (lane % u32::from(producers)) as u16,
                    partition: lane % partitions,
                    batches: timed as u32 + 1,
                }
            })
            .collect();
        Plan { producers, partitions, lanes }
    }

    /// The lanes of a producer.
    pub(crate) fn of_producer(&self, producer: u16) -> impl Iterator<Item = Lane> + '_ {
        self.lanes.iter().filter(move |lane| lane.producer == producer).copied()
    }

    /// Batches that each producer appends to `partition`, by producer.
    pub(crate) fn batches_of_partition(&self, partition: u32) -> Vec<u32> {
        let mut batches = vec![0; usize::from(self.producers)];
        for lane in self.lanes.iter().filter(|lane| lane.partition == partition) {
            batches[usize::from(lane.producer)] += lane.batches;
        }
        batches
    }

    /// All batches, warm-up included.
    pub(crate) fn batches(&self) -> u64 {
        self.lanes.iter().map(|lane| u64::from(lane.batches)).sum()
    }

    /// The batches that are timed.
    pub(crate) fn timed_batches(&self) -> u64 {
        self.batches() - self.lanes.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_producer_works_and_every_partition_is_written() {
        for producers in 1..6 {
            for partitions in 1..9 {
                let plan = Plan::new(producers, partitions, 100);
                assert_eq!(plan.timed_batches(), 100);
                assert!((0..producers).all(|producer| plan.of_producer(producer).count() > 0));
                let of_partitions: Vec<Vec<u32>> =
                    (0..partitions).map(|partition| plan.batches_of_partition(partition)).collect();
                assert!(of_partitions.iter().all(|batches| batches.iter().sum::<u32>() > 0));
                let all: u32 = of_partitions.iter().flatten().sum();
                assert_eq!(u64::from(all), plan.batches());
                // A producer has one lane in a partition, so one sequence of batches there.
                for producer in 0..producers {
                    let mut lanes: Vec<u32> =
                        plan.of_producer(producer).map(|lane| lane.partition).collect();
                    let count = lanes.len();
                    lanes.dedup();
                    assert_eq!(
                        lanes.len(),
                        count,
                        "{producers} producers, {partitions} partitions"
                    );
                }
            }
        }
    }

    #[test]
    fn too_little_for_all_lanes_is_one_batch_each() {
        let plan = Plan::new(3, 5, 1);
        assert_eq!(plan.timed_batches(), 5);
        assert!(plan.of_producer(1).all(|lane| lane.batches == 2));
    }
}
