//! Workloads with a name: what a preset says where the user says nothing.

use std::ops::Range;

/// A workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Preset {
    /// Large batches appended, polled back cold, and small ones that are durable before the answer
    #[default]
    Standard,
    /// Small batches that are durable before the answer: one producer alone, 64 on one partition,
    /// 64 on a partition each
    Fsync,
    /// Appends while consumers wait at the end of the log and others catch up from the disk
    Mixed,
    /// 1000 partitions
    ManyPartitions,
    /// Batches of 1 to 9 messages of 16 to 255 bytes
    SmallBatches,
    /// How long opening takes: after a clean close, and after the process was killed
    Recovery,
    /// Every producer appends to every partition, in random order
    Shuffle,
    /// As standard, then the files are read back without the engine and every byte is compared
    Verify,
}

/// What a round does, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Producers, and consumers that follow them.
    Append,
    /// Cold consumers.
    Poll,
    /// One producer of durable appends.
    Durable,
    /// Many producers of durable appends, on one partition.
    DurableShared,
    /// Many producers of durable appends, each with a partition.
    DurableSpread,
    /// Opening after a clean close and after a kill.
    Opening,
    /// The files read back without the engine.
    Verify,
}

impl Step {
    /// The name of it, for people who wait.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Step::Append => "append",
            Step::Poll => "poll",
            Step::Durable => "durable",
            Step::DurableShared => "durable_shared",
            Step::DurableSpread => "durable_spread",
            Step::Opening => "opening",
            Step::Verify => "verify",
        }
    }
}

/// What a workload is made of, before the user's flags.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Workload {
    pub(crate) steps: &'static [Step],
    pub(crate) partitions: u32,
    pub(crate) producers: u16,
    pub(crate) total_bytes: u64,
    pub(crate) batch_messages: Range<u32>,
    pub(crate) message_bytes: Range<u64>,
    pub(crate) in_flight: u16,
    pub(crate) tail: u32,
    pub(crate) catch_up: u32,
    pub(crate) shuffle: bool,
}

impl Preset {
    /// The name of it, as on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Preset::Standard => "standard",
            Preset::Fsync => "fsync",
            Preset::Mixed => "mixed",
            Preset::ManyPartitions => "many-partitions",
            Preset::SmallBatches => "small-batches",
            Preset::Recovery => "recovery",
            Preset::Shuffle => "shuffle",
            Preset::Verify => "verify",
        }
    }

    /// What it is made of.
    pub(crate) fn workload(self) -> Workload {
        use Step::{Append, Durable, DurableShared, DurableSpread, Opening, Poll, Verify};
        let standard = Workload {
            steps: &[Append, Poll, Durable],
            partitions: 4,
            producers: 4,
            total_bytes: 4_500_000_000,
            batch_messages: 1000..1001,
            message_bytes: 1000..1001,
            in_flight: 4,
            tail: 0,
            catch_up: 0,
            shuffle: false,
        };
        match self {
            Preset::Standard => standard,
            Preset::Fsync => {
                Workload { steps: &[Durable, DurableShared, DurableSpread], ..standard }
            }
            Preset::Mixed => Workload {
                steps: &[Append, Poll],
                producers: 2,
                tail: 2,
                catch_up: 2,
                batch_messages: 100..101,
                ..standard
            },
            Preset::ManyPartitions => Workload {
                steps: &[Append, Poll],
                partitions: 1000,
                total_bytes: 2_000_000_000,
                batch_messages: 10..11,
                in_flight: 64,
                ..standard
            },
            Preset::SmallBatches => Workload {
                steps: &[Append, Poll],
                total_bytes: 500_000_000,
                batch_messages: 1..10,
                message_bytes: 16..256,
                in_flight: 64,
                ..standard
            },
            Preset::Recovery => Workload { steps: &[Append, Opening], ..standard },
            Preset::Shuffle => Workload {
                steps: &[Append, Poll],
                partitions: 64,
                batch_messages: 100..101,
                in_flight: 16,
                shuffle: true,
                ..standard
            },
            Preset::Verify => Workload { steps: &[Append, Poll, Verify], ..standard },
        }
    }
}
