//! One seed draws everything: the shape of the engine, its limits, the load, and what goes wrong.
//!
//! Limits are drawn small, as edges lie where something is full. A value that matters is drawn from
//! a short list with both ends in it, not from a range that almost never meets them.

use std::time::Duration;

use corelog_io::sim::Rng;
use corelog_shard::{ClientLimits, ShardLimits};
use corelog_storage::{LogConfig, Retention, SEGMENT_BYTES_MIN, SharedLimits};

use crate::batches::Sizes;

/// How the simulator gets at a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// `Partition` itself, without a shard.
    Direct,
    /// A `Client` of the shards, through the mailbox.
    Client,
    /// `Producer`s of the shards, which keep their order across `Busy`.
    Producer,
    /// A `ShardContext`: code on the owning shard.
    Context,
}

/// One partition of a run.
#[derive(Debug, Clone)]
pub(crate) struct PartitionParams {
    pub(crate) way: Way,
    pub(crate) config: LogConfig,
    pub(crate) producers: usize,
    pub(crate) readers: usize,
    /// Appends of each producer in one life.
    pub(crate) appends: u64,
    pub(crate) sizes: Sizes,
    /// Longest pause between two actions of one actor, microseconds.
    pub(crate) pause_us: u64,
    /// Those who store offsets, consumers and groups by turns.
    pub(crate) consumers: usize,
    /// They go back, and delete what they stored.
    pub(crate) rewinds: bool,
    pub(crate) retention: Retention,
    /// Segments are deleted by count.
    pub(crate) deletes: bool,
    pub(crate) purges: bool,
}

/// What may go wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Wrongs {
    /// Actions in one life.
    pub(crate) actions: u64,
    pub(crate) slow: bool,
    pub(crate) stall: bool,
    pub(crate) errors: bool,
    pub(crate) full: bool,
    pub(crate) descriptors: bool,
    pub(crate) buffers: bool,
    pub(crate) clock: bool,
    /// Bits of logs flip.
    pub(crate) rot: bool,
    /// Writes are lost or misdirected.
    pub(crate) lies: bool,
    /// Index files are bent between lives.
    pub(crate) indexes: bool,
}

/// Every parameter of one run.
#[derive(Debug, Clone)]
pub(crate) struct Params {
    pub(crate) lives: u64,
    pub(crate) partitions: Vec<PartitionParams>,
    pub(crate) shards: usize,
    pub(crate) limits: SharedLimits,
    pub(crate) shard_limits: ShardLimits,
    pub(crate) client_limits: ClientLimits,
    /// Memory of all tail buffers, bytes.
    pub(crate) pool_bytes: usize,
    /// Least and most time of a disk operation, microseconds.
    pub(crate) delay_us: (u64, u64),
    pub(crate) wrongs: Wrongs,
}

fn one_of<T: Copy>(rng: &mut Rng, list: &[T]) -> T {
    list[rng.index(list.len())]
}

impl Params {
    /// The parameters of a seed.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let count = one_of(rng, &[1, 1, 2, 3]);
        let mut partitions: Vec<PartitionParams> =
            (0..count).map(|_| PartitionParams::draw(rng)).collect();
        let wrongs = Wrongs::draw(rng);
        if wrongs.rot || wrongs.lies || wrongs.errors {
            // What could not be read at an opening may be torn, and stays. Without verification
            // damage may be served: that is what the option says.
            partitions.iter_mut().for_each(|partition| partition.config.verify_reads = true);
        }
        let write_bytes = one_of(rng, &[4 << 10, 8 << 10, 64 << 10, 256 << 10, 1 << 20]);
        let cache_bytes = one_of(rng, &[0, 8 << 10, 64 << 10, 1 << 20, 16 << 20]);
        let shards = one_of(rng, &[1, 1, 2]);
        // Twice the largest write is what one partition needs to move at all. What another shard
        // caches cannot make room: each has a pool of its own elsewhere.
        let least = count * (8 << 10) + if count > 1 { (shards + 1) * cache_bytes } else { 0 };
        let lives = rng.between(2, 4);
        let open_files = one_of(rng, &[1, 2, 256]);
        Params {
            lives,
            partitions,
            shards,
            limits: SharedLimits {
                cache_bytes,
                open_files,
                active_files: open_files,
                write_bytes,
                writes_in_flight: one_of(rng, &[1, 2, 3, 8]),
                flying_bytes: one_of(rng, &[1, 64 << 10, 8 << 20]),
                read_bytes: one_of(rng, &[4 << 10, 64 << 10, 1 << 20]),
                read_ahead_bytes: one_of(rng, &[0, 64 << 10, 16 << 20]),
                held_bytes: one_of(rng, &[1, 64 << 10, 32 << 20]),
                consumers: one_of(rng, &[1, 3, 10_000]),
                loaded_indexes: one_of(rng, &[1, 2, 64]),
            },
            shard_limits: ShardLimits {
                mailbox_requests: one_of(rng, &[1, 4, 64]),
                appends_in_flight: one_of(rng, &[1, 3, 64]),
                append_bytes_in_flight: one_of(rng, &[1, 100 << 10, 16 << 20]),
                polls_in_flight: one_of(rng, &[1, 64]),
                poll_bytes: one_of(rng, &[1, 64 << 10, 8 << 20]),
                run_requests: one_of(rng, &[1, 64]),
                run_bytes: one_of(rng, &[1, 10 << 10, 256 << 10]),
                openings: one_of(rng, &[1, 64]),
            },
            client_limits: ClientLimits {
                requests_in_flight: one_of(rng, &[1, 4, 64]),
                bytes_in_flight: one_of(rng, &[1, 200 << 10, 16 << 20]),
            },
            pool_bytes: one_of(rng, &[16 << 10, 96 << 10, 1 << 20, 16 << 20]).max(least),
            delay_us: one_of(rng, &[(1, 10), (10, 400), (10, 400), (200, 5_000)]),
            wrongs,
        }
    }

    /// Which partition is whose: by number.
    pub(crate) fn partition(&self, index: usize) -> &PartitionParams {
        &self.partitions[index]
    }
}

impl PartitionParams {
    fn draw(rng: &mut Rng) -> Self {
        let ways = [Way::Direct, Way::Direct, Way::Client, Way::Producer, Way::Context];
        let sizes = match rng.below(8) {
            0 => Sizes { messages: 1, bytes: 0, giant_in: 1_000 },
            1 | 2 => Sizes { messages: 20, bytes: 1_500, giant_in: 50 },
            3 | 4 => Sizes { messages: 8, bytes: 16_000, giant_in: 40 },
            _ => Sizes { messages: 10, bytes: 80_000, giant_in: 30 },
        };
        PartitionParams {
            way: one_of(rng, &ways),
            config: LogConfig {
                segment_bytes: SEGMENT_BYTES_MIN,
                enforce_fsync: rng.chance(2, 5),
                messages_required_to_save: one_of(rng, &[1, 5, 1_024]),
                size_of_messages_required_to_save: one_of(rng, &[1, 10_000, 1 << 20]),
                preallocate_segments: rng.chance(1, 4),
                flush_after: Duration::from_micros(one_of(rng, &[1, 500, 5_000, 100_000])),
                index_step: one_of(rng, &[4 << 10, 16 << 10, 64 << 10]),
                verify_reads: rng.chance(7, 8),
            },
            producers: rng.between(1, 3) as usize,
            readers: rng.between(0, 2) as usize,
            appends: one_of(rng, &[5, 30, 60]),
            sizes,
            pause_us: one_of(rng, &[1, 300, 3_000, 30_000]),
            consumers: one_of(rng, &[0, 1, 2, 2]),
            rewinds: rng.chance(1, 2),
            retention: Retention {
                expiry: one_of(rng, &[None, None, Some(1), Some(300_000), Some(5_000_000)])
                    .map(Duration::from_micros),
                sealed_bytes: one_of(rng, &[None, None, Some(0), Some(1 << 20), Some(3 << 20)]),
            },
            deletes: rng.chance(1, 2),
            purges: rng.chance(1, 4),
        }
    }
}

impl Wrongs {
    fn draw(rng: &mut Rng) -> Self {
        let indexes = rng.chance(1, 2);
        // A third of the runs have an honest disk: there everything but the crash must succeed.
        if rng.chance(1, 3) {
            return Wrongs { indexes, ..Wrongs::default() };
        }
        let actions = rng.between(1, 8);
        // Damage excuses a loss, so most runs have none.
        let (rot, lies) = (rng.chance(1, 6), rng.chance(1, 6));
        let mut each = || rng.chance(1, 2);
        Wrongs {
            actions,
            slow: each(),
            stall: each(),
            errors: each(),
            full: each(),
            descriptors: each(),
            buffers: each(),
            clock: each(),
            rot,
            lies,
            indexes,
        }
    }
}
