//! Everything that is limited, with its default, fixed when the engine opens.

use std::fmt;
use std::time::Duration;

use corelog_format::BATCH_BYTES_MAX;
use corelog_io::BLOCK;
use corelog_shard::{ClientLimits, ShardLimits};
use corelog_storage::SharedLimits;

use crate::groups::GroupLimits;
use crate::runtime::{FILE_THREADS_MAX, MemoryLimits};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
/// No limit is higher.
const MAX: usize = 1 << 40;

/// What the engine may use, fixed when it opens. Where a limit is reached callers are answered
/// `Busy`, or wait, or get copies instead of views, as each field says; nothing grows beyond.
///
/// Numbers are for EACH shard, unless they say otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Buffers that the kernel has registered, bytes: locked memory, allocated at open. A power of
    /// two from 64 KiB. Buffers beyond it come from the allocator, a little slower. Default 64 MiB.
    pub registered_bytes: usize,
    /// Buffers with data on its way to the disk or kept for readers, bytes. Appends wait where it
    /// is used up. From 4 MiB, and `cache_bytes + lease_bytes` must leave 2 MiB of it. Default 64
    /// MiB.
    pub write_bytes: usize,
    /// Buffers that polls read into, bytes. Polls wait where it is used up. From 128 MiB, which a
    /// poll of the largest batch needs (or `cache_bytes`, where that is more), and twice
    /// `lease_bytes`: a consumer that keeps all the records it may can poll that batch, too. It is a
    /// bound, not an allocation. Default 256 MiB.
    pub read_bytes: usize,
    /// Buffers kept for readers, bytes: part of `write_bytes` keeps what was written at the end of
    /// the logs, part of `read_bytes` what was read from files and read ahead of sequential readers,
    /// each its half at least where both want more. Default 32 MiB.
    pub cache_bytes: usize,
    /// Buffers that records hold which left the shard, bytes; what goes beyond is copied. A buffer
    /// counts with at least half of what it occupies. Default 24 MiB.
    pub lease_bytes: usize,
    /// Views that left the shard, however small; what goes beyond is copied. Default 4,096.
    pub leases: usize,
    /// Largest single write to the disk, bytes: a power of two from 4 KiB, at most 16 MiB. Default
    /// 1 MiB.
    pub single_write_bytes: usize,
    /// Writes in flight for one partition. Default 8.
    pub writes_in_flight: usize,
    /// Open files for reading segments. Default 256.
    pub open_files: usize,
    /// Open files for appending, one a partition. Where more partitions are appended to at a time,
    /// those at rest close theirs, and open it again for their next append. Default 1,024. The
    /// process must be allowed as many, and `open_files`, on each shard, and 200 more.
    pub active_files: usize,
    /// Requests that wait in a mailbox; `Busy` beyond. Default 4,096.
    pub mailbox_requests: usize,
    /// Appends that are not answered yet, of all clients; `Busy` beyond. Default 8,192.
    pub appends_in_flight: usize,
    /// Bytes of them; `Busy` beyond. One append is always taken. Default 256 MiB.
    pub append_bytes_in_flight: usize,
    /// Polls that are not answered yet, of all clients; `Busy` beyond. Default 8,192.
    pub polls_in_flight: usize,
    /// Most bytes one poll gets, whatever it asks for (one batch may be longer). Default 8 MiB.
    pub poll_bytes: usize,
    /// Requests of one client (and its clones) that are not answered yet, on ALL shards together;
    /// `Busy` beyond. Default 4,096.
    pub client_requests_in_flight: usize,
    /// Bytes of one client's appends that are not answered yet, on ALL shards together; `Busy`
    /// beyond. One append is always taken. Default 128 MiB.
    pub client_bytes_in_flight: usize,
    /// Partitions that are opened or closed side by side. Default 64.
    pub openings: usize,
    /// Threads for file operations that may block (open, allocate, cut, rename), for ALL shards
    /// together; 1 to 63. Where operations hang and others wait for them more are started, up to
    /// 64 in all; beyond, polls and rolls that want a file opened are answered with an error.
    /// Default 2.
    pub file_threads: usize,
    /// Memberships in consumer groups, of the WHOLE engine; `TooMany` beyond. Each takes some 300
    /// bytes. Default 16,384.
    pub group_members: usize,
    /// Partitions of the topics of all groups that have members, of the WHOLE engine, each group's
    /// counted apart; `TooMany` beyond. Each takes some 90 bytes. Default 4,194,304.
    pub group_partitions: usize,
    /// How long a member may keep a partition that is to go to another one, since it has polled
    /// messages there that it has not stored as done. Default 30 s.
    pub group_patience: Duration,
    /// How long closing waits for records that are still held somewhere. Their memory is never
    /// freed then, and they stay readable. Default 2 s.
    pub lease_patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let (shard, client) = (ShardLimits::default(), ClientLimits::default());
        let (shared, groups) = (SharedLimits::default(), GroupLimits::default());
        Limits {
            registered_bytes: 64 * MIB,
            write_bytes: 64 * MIB,
            read_bytes: 256 * MIB,
            cache_bytes: shared.cache_bytes,
            single_write_bytes: shared.write_bytes,
            writes_in_flight: shared.writes_in_flight,
            lease_bytes: 24 * MIB,
            leases: 4096,
            open_files: shared.open_files,
            active_files: shared.active_files,
            mailbox_requests: shard.mailbox_requests,
            appends_in_flight: shard.appends_in_flight,
            append_bytes_in_flight: shard.append_bytes_in_flight,
            polls_in_flight: shard.polls_in_flight,
            poll_bytes: shard.poll_bytes,
            client_requests_in_flight: client.requests_in_flight,
            client_bytes_in_flight: client.bytes_in_flight,
            openings: shard.openings,
            file_threads: 2,
            group_members: groups.members,
            group_partitions: groups.partitions,
            group_patience: groups.patience,
            lease_patience: Duration::from_secs(2),
        }
    }
}

/// Buffer of a read of the largest batch: it begins and ends inside of blocks, and the pool knows
/// powers of two only.
fn largest_read() -> usize {
    (BATCH_BYTES_MAX as usize + 2 * BLOCK).next_power_of_two()
}

/// A limit that cannot be worked with. Nothing was touched.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidLimit {
    /// The option: a field of `Limits`, or "shards".
    pub option: &'static str,
    /// What was asked for.
    pub value: usize,
    /// What is allowed.
    pub allowed: String,
}

impl fmt::Display for InvalidLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let InvalidLimit { option, value, allowed } = self;
        write!(f, "{option} = {value} is not allowed: choose {allowed}")
    }
}

impl std::error::Error for InvalidLimit {}

impl Limits {
    /// Refuses a plan that could not make progress, or could not be allocated.
    pub(crate) fn validate(&self) -> Result<(), InvalidLimit> {
        let refused =
            |option, value: usize, allowed: String| Err(InvalidLimit { option, value, allowed });
        let registered = self.registered_bytes;
        if !registered.is_power_of_two() || !(64 * KIB..=1 << 36).contains(&registered) {
            let allowed = "a power of two from 65536 (64 KiB) to 2^36".to_owned();
            return refused("registered_bytes", registered, allowed);
        }
        let promised = self.cache_bytes.saturating_add(self.lease_bytes);
        let single = self.single_write_bytes;
        if !single.is_power_of_two() || !(4 * KIB..=16 * MIB).contains(&single) {
            let allowed = "a power of two from 4096 (4 KiB) to 16777216 (16 MiB)".to_owned();
            return refused("single_write_bytes", single, allowed);
        }
        let two_writes = 2 * single;
        let ranges = [
            ("write_bytes", self.write_bytes, (4 * MIB).max(promised.saturating_add(two_writes))),
            ("leases", self.leases, 0),
            ("writes_in_flight", self.writes_in_flight, 1),
            ("open_files", self.open_files, 1),
            ("active_files", self.active_files, 1),
            ("mailbox_requests", self.mailbox_requests, 1),
            ("appends_in_flight", self.appends_in_flight, 1),
            ("polls_in_flight", self.polls_in_flight, 1),
            ("poll_bytes", self.poll_bytes, 1),
            ("client_requests_in_flight", self.client_requests_in_flight, 1),
            ("openings", self.openings, 1),
            ("file_threads", self.file_threads, 1),
        ];
        // Tables of these are allocated at open.
        let counted = [
            "leases",
            "writes_in_flight",
            "mailbox_requests",
            "appends_in_flight",
            "polls_in_flight",
        ];
        for (option, value, min) in ranges {
            let max = if counted.contains(&option) { 1 << 20 } else { MAX };
            if !(min..=max).contains(&value) {
                return refused(option, value, format!("a value from {min} to {max}"));
            }
        }
        let reads = self.read_bytes_min();
        if !(reads..=MAX).contains(&self.read_bytes) {
            let largest = largest_read().max(self.cache_bytes);
            let allowed = format!(
                "a value from {reads} to {MAX}: {largest} for a poll of the largest batch and for \
                 cache_bytes, and twice lease_bytes, which consumers may keep; or lower those"
            );
            return refused("read_bytes", self.read_bytes, allowed);
        }
        if self.file_threads >= FILE_THREADS_MAX {
            let allowed = format!("a value from 1 to {}", FILE_THREADS_MAX - 1);
            return refused("file_threads", self.file_threads, allowed);
        }
        Ok(())
    }

    /// With less, a poll could wait for ever: leases, which their holder may never give back, keep
    /// at most twice `lease_bytes`, and what the cache keeps goes only as far as its own limit.
    fn read_bytes_min(&self) -> usize {
        let wanted = largest_read().max(self.cache_bytes);
        wanted.saturating_add(self.lease_bytes.saturating_mul(2))
    }

    pub(crate) fn memory(&self) -> MemoryLimits {
        MemoryLimits {
            write_bytes: self.write_bytes,
            read_bytes: self.read_bytes,
            lease_slots: self.leases,
            lease_bytes: self.lease_bytes,
        }
    }

    pub(crate) fn shared(&self) -> SharedLimits {
        let shared = SharedLimits::default();
        // Polls that wait for more may not hold what a read of the largest batch needs, which
        // would wait for them in turn.
        let others = largest_read() + 2 * self.lease_bytes + self.cache_bytes;
        SharedLimits {
            held_bytes: self.read_bytes.saturating_sub(others).min(shared.held_bytes),
            cache_bytes: self.cache_bytes,
            open_files: self.open_files,
            active_files: self.active_files,
            write_bytes: self.single_write_bytes,
            writes_in_flight: self.writes_in_flight,
            ..SharedLimits::default()
        }
    }

    pub(crate) fn shard(&self) -> ShardLimits {
        ShardLimits {
            mailbox_requests: self.mailbox_requests,
            appends_in_flight: self.appends_in_flight,
            append_bytes_in_flight: self.append_bytes_in_flight,
            polls_in_flight: self.polls_in_flight,
            poll_bytes: self.poll_bytes,
            openings: self.openings,
            ..ShardLimits::default()
        }
    }

    pub(crate) fn groups(&self) -> GroupLimits {
        GroupLimits {
            // A member's id in its group is a u32.
            members: self.group_members.min(u32::MAX as usize),
            partitions: self.group_partitions,
            patience: self.group_patience,
        }
    }

    pub(crate) fn client(&self) -> ClientLimits {
        ClientLimits {
            requests_in_flight: self.client_requests_in_flight,
            bytes_in_flight: self.client_bytes_in_flight,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_allowed_and_each_wrong_value_is_named() {
        Limits::default().validate().unwrap();
        type Set = fn(&mut Limits);
        let wrong: [(&str, Set); 19] = [
            ("registered_bytes", |l| l.registered_bytes = 3 * MIB),
            ("registered_bytes", |l| l.registered_bytes = 32 * KIB),
            ("write_bytes", |l| l.write_bytes = 2 * MIB),
            ("write_bytes", |l| l.lease_bytes = 60 * MIB),
            ("write_bytes", |l| l.cache_bytes = usize::MAX),
            ("write_bytes", |l| l.single_write_bytes = 16 * MIB),
            ("single_write_bytes", |l| l.single_write_bytes = 3 * MIB),
            ("writes_in_flight", |l| l.writes_in_flight = 0),
            ("active_files", |l| l.active_files = 0),
            ("read_bytes", |l| l.read_bytes = 127 * MIB),
            ("read_bytes", |l| l.read_bytes = 128 * MIB + 2 * l.lease_bytes - 1),
            ("read_bytes", |l| (l.write_bytes, l.cache_bytes) = (512 * MIB, 209 * MIB)),
            ("read_bytes", |l| l.read_bytes = (1 << 40) + 1),
            ("leases", |l| l.leases = usize::MAX),
            ("mailbox_requests", |l| l.mailbox_requests = 0),
            ("appends_in_flight", |l| l.appends_in_flight = 1 << 21),
            ("polls_in_flight", |l| l.polls_in_flight = 0),
            ("poll_bytes", |l| l.poll_bytes = 0),
            ("file_threads", |l| l.file_threads = 64),
        ];
        for (option, set) in wrong {
            let mut limits = Limits::default();
            set(&mut limits);
            let error = limits.validate().unwrap_err();
            assert_eq!(error.option, option, "{error}");
            assert!(error.to_string().contains(option), "{error}");
        }
        let limits = Limits { read_bytes: 176 * MIB - 1, ..Limits::default() };
        let text = limits.validate().unwrap_err().to_string();
        // What to set, or what else to lower.
        for part in ["read_bytes = 184549375", "from 184549376", "twice lease_bytes"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        Limits { read_bytes: 176 * MIB, ..limits }.validate().unwrap();
    }
}
