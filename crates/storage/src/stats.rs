//! What a partition counts, for operators and benchmarks; and the same for all partitions of a shard,
//! those that are gone included.

use std::cell::Cell;
use std::rc::Rc;

use crate::Watermarks;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What was counted. Each only ever grows.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// [`Counts`] while they are counted.
        #[derive(Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Cell<u64>,)*
        }

        impl Counters {
            pub(crate) fn read(&self) -> Counts {
                Counts { $($name: self.$name.get(),)* }
            }
        }

        /// Counts since the partition was opened, and queue lengths now.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct PartitionStats {
            /// Where the log stands.
            pub watermarks: Watermarks,
            /// Segments, the active one included.
            pub segments: usize,
            $($(#[$doc])* pub $name: u64,)*
            /// Writes in flight now.
            pub writes_in_flight: usize,
            /// Appends that are not stamped yet: no space, no buffer, or a segment is being sealed.
            pub waiting_appends: usize,
            /// The partition takes no more appends.
            pub poisoned: bool,
        }

        impl PartitionStats {
            pub(crate) fn new(now: Now, counts: Counts) -> Self {
                let Now { watermarks, segments, writes_in_flight, waiting_appends, poisoned } = now;
                PartitionStats {
                    watermarks,
                    segments,
                    $($name: counts.$name,)*
                    writes_in_flight,
                    waiting_appends,
                    poisoned,
                }
            }

            /// What was counted, by itself.
            pub fn counts(&self) -> Counts {
                Counts { $($name: self.$name,)* }
            }
        }
    };
}

/// What is not counted but looked at.
pub(crate) struct Now {
    pub(crate) watermarks: Watermarks,
    pub(crate) segments: usize,
    pub(crate) writes_in_flight: usize,
    pub(crate) waiting_appends: usize,
    pub(crate) poisoned: bool,
}

counts! {
    /// Batches appended.
    batches,
    /// Their messages.
    messages,
    /// Their bytes.
    bytes,
    /// Appends that were answered with an error, the lost ones of a fault included.
    append_errors,
    /// Times an append had to wait for a buffer, or for the time to stamp it with, and was looked at
    /// again a millisecond later. An appender that waits is counted each time.
    stalls,
    /// Times a write was ready and waited, as the shard had enough of them in flight.
    room_waits,
    /// Writes of the log given to the device.
    writes,
    /// Their bytes, padding and rewritten tail blocks included. Over `bytes` this is the write
    /// amplification, with `bytes_zeroed`.
    bytes_written,
    /// Zeros written ahead of the tail (`enforce_fsync` only).
    bytes_zeroed,
    /// Bytes copied a second time because their block was dispatched before it was full.
    bytes_carried,
    /// Syncs of log files begun; with `enforce_fsync` the writes themselves are synced instead.
    syncs,
    /// Segments sealed, the next one being begun.
    sealed_segments,
    /// Segments dropped: by age, by size, on demand.
    dropped_segments,
    /// Polls begun.
    polls,
    /// Messages that they were answered with.
    polled_messages,
    /// Bytes of them, batch headers included.
    polled_bytes,
    /// Polls that were answered with an error.
    poll_errors,
    /// Polls that met damage.
    corrupt_reads,
    /// Reads from the disk for polls.
    disk_reads,
    /// Their bytes.
    disk_read_bytes,
    /// Faults after which a partition took no more appends.
    faults,
}

/// The counters of one partition, and those of its shard beside them, which outlive it.
#[derive(Clone, Default)]
pub(crate) struct Tally {
    mine: Rc<Counters>,
    shard: Rc<Counters>,
}

impl Tally {
    /// Those of a new partition beside `shard`'s.
    pub(crate) fn beside(shard: &Rc<Counters>) -> Self {
        Tally { mine: Rc::default(), shard: Rc::clone(shard) }
    }

    /// Adds `count` to both.
    pub(crate) fn add(&self, which: impl Fn(&Counters) -> &Cell<u64>, count: u64) {
        for counter in [which(&self.mine), which(&self.shard)] {
            counter.set(counter.get() + count);
        }
    }

    /// What this partition has counted.
    pub(crate) fn read(&self) -> Counts {
        self.mine.read()
    }
}
