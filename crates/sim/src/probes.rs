//! Rare states that the runs must reach: a simulator that stops meeting edges looks just as green
//! as one that meets them, so what was met is counted and asked for.

use std::collections::BTreeMap;
use std::fmt;

macro_rules! probes {
    ($($name:ident: $what:literal,)*) => {
        /// A state worth reaching.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Probe {
            $(#[doc = $what] $name,)*
        }

        impl Probe {
            /// All of them.
            pub const ALL: &[Probe] = &[$(Probe::$name,)*];

            fn what(self) -> &'static str {
                match self {
                    $(Probe::$name => $what,)*
                }
            }
        }
    };
}

probes! {
    Rolled: "a partition had more than one segment",
    StorageFull: "an append was answered StorageFull",
    FullRecovered: "appends went on after StorageFull, without reopening",
    Trimmed: "a trim dropped segments",
    Retained: "a shard's retention moved the start of a log",
    Deleted: "segments were deleted by count",
    HeldBack: "what somebody had not read kept segments from being deleted",
    Purged: "a partition was emptied",
    PurgeCut: "a life ended between the catalog and the directory of a purge",
    OffsetStored: "an offset was answered as durable",
    OffsetRefused: "an offset was refused",
    OffsetsMany: "one more consumer than may was refused",
    OffsetFailed: "an offset could not be made durable",
    OffsetLost: "a crash took an offset that was not durable",
    PutDown: "an opening may have put an offset down to the log's end",
    AutoStored: "a poll stored what it served",
    NextServed: "a poll went on behind a stored offset",
    Woken: "a poll that waited was answered with what came",
    WaitedInVain: "a poll waited until its time was over",
    NoSegment: "the next segment's file could not be created",
    NoFile: "a parked partition's file could not be opened again",
    NoOffsets: "an append was refused, as the stored offsets could not be read",
    Poisoned: "an append was answered Poisoned",
    ReopenedInPlace: "a poisoned partition was closed and opened again in one life",
    ReopenedOnShard: "a poisoned partition was recovered by its shard",
    TornTailCut: "opening cut a torn tail",
    Quarantined: "opening put whole batches aside",
    Rotted: "a bit of a log flipped",
    WriteLied: "a write was lost or misdirected",
    IndexLied: "an index file was bent",
    CorruptRead: "a poll was answered Corrupt",
    SteppedOver: "reading went on behind damage",
    Unreadable: "opening met bytes that could not be read",
    DamageAtOpening: "opening found damage below the mark",
    UnansweredKept: "a batch whose append was never answered was there after a crash",
    AnsweredLost: "a crash took a batch that was answered at a level that allows it",
    PowerCut: "a life ended with a power cut",
    Kill: "a life ended with a kill",
    CrashInOpening: "a life ended while a partition was being opened",
    CrashInWrite: "a life ended with writes of a log in flight",
    CrashInTwoWrites: "a life ended with two writes of one log in flight",
    CrashInSync: "a life ended with a sync in flight",
    CrashInManifest: "a life ended with a write of the manifest in flight",
    CrashInCut: "a life ended while a file was being cut to its length",
    CrashInDirSync: "a life ended with a directory sync in flight",
    CrashInAllocation: "a life ended with an allocation in flight",
    CrashInRemoval: "a life ended while a segment was being removed",
    CrashInOffsets: "a life ended with a write of stored offsets in flight",
    Sliced: "a poll served a part of a batch",
    FromDisk: "a poll read from the disk",
    TimePoll: "a poll by time was held against the known times",
    Busy: "a client was answered Busy",
    OutOfTurn: "a producer was answered OutOfTurn",
    PoolEmpty: "the pool of buffers was used up",
    CeilingHeld: "an append waited for the clock's ceiling",
    ClockBack: "the clock went back",
    Stalled: "an operation stalled",
    ReadError: "a poll was answered with an I/O error",
    OpenError: "an opening failed with an I/O error",
    CloseError: "a close failed",
    ClosedMidway: "an append met a partition that was closing",
}

/// How often each was reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Probes {
    counts: BTreeMap<Probe, u64>,
}

impl Probes {
    pub(crate) fn hit(&mut self, probe: Probe) {
        *self.counts.entry(probe).or_default() += 1;
    }

    /// Takes over what another run reached.
    pub fn add(&mut self, other: &Probes) {
        for (probe, count) in &other.counts {
            *self.counts.entry(*probe).or_default() += count;
        }
    }

    /// How often `probe` was reached.
    pub fn count(&self, probe: Probe) -> u64 {
        self.counts.get(&probe).copied().unwrap_or(0)
    }

    /// Those that were never reached.
    pub fn missed(&self) -> Vec<Probe> {
        Probe::ALL.iter().copied().filter(|probe| self.count(*probe) == 0).collect()
    }
}

impl fmt::Display for Probes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for probe in Probe::ALL {
            writeln!(f, "{:>9}  {}", self.count(*probe), probe.what())?;
        }
        Ok(())
    }
}
