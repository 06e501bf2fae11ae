//! Every metric: its name, kind, unit and text, and where its value comes from.

use ::metrics::{KeyName, Recorder, Unit};
use corelog_shard::ShardStats;
use corelog_storage::{Counts, PartitionStats};

use crate::stats::{EngineStats, IoStats, MemoryUse, Timed};

/// What a value does over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It only grows.
    Counter,
    /// It is what it is now.
    Gauge,
}

/// A metric of each `S`.
pub(super) struct Metric<S> {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) unit: Unit,
    pub(super) text: &'static str,
    pub(super) value: fn(&S) -> u64,
}

/// A histogram of seconds.
pub(super) struct Times {
    pub(super) name: &'static str,
    pub(super) label: Option<(&'static str, &'static str)>,
    pub(super) of: Timed,
}

const fn counter<S>(
    name: &'static str,
    unit: Unit,
    value: fn(&S) -> u64,
    text: &'static str,
) -> Metric<S> {
    Metric { name, kind: Kind::Counter, unit, text, value }
}

const fn gauge<S>(
    name: &'static str,
    unit: Unit,
    value: fn(&S) -> u64,
    text: &'static str,
) -> Metric<S> {
    Metric { name, kind: Kind::Gauge, unit, text, value }
}

use Unit::{Bytes, Count, Seconds};

#[rustfmt::skip]
pub(super) const ENGINE: &[Metric<EngineStats>] = &[
    counter("corelog_panics_total", Count, |e| e.panics,
        "Panics of tasks on shards."),
    counter("corelog_clock_failures_total", Count, |e| e.clock_failures,
        "Attempts to store the clock record that failed."),
    gauge("corelog_direct_io", Count, |e| e.direct_io.into(),
        "1 where files are opened with O_DIRECT, 0 where the file system refused it."),
];

#[rustfmt::skip]
pub(super) const COUNTS: &[Metric<Counts>] = &[
    counter("corelog_append_batches_total", Count, |c| c.batches,
        "Batches appended."),
    counter("corelog_append_messages_total", Count, |c| c.messages,
        "Messages appended."),
    counter("corelog_append_bytes_total", Bytes, |c| c.bytes,
        "Bytes of batches appended."),
    counter("corelog_append_errors_total", Count, |c| c.append_errors,
        "Appends answered with an error by a partition."),
    counter("corelog_append_stalls_total", Count, |c| c.stalls,
        "Times an append waited a millisecond for a buffer or for the clock record."),
    counter("corelog_write_waits_total", Count, |c| c.room_waits,
        "Times a write was ready and the shard had enough in flight."),
    counter("corelog_log_writes_total", Count, |c| c.writes,
        "Writes of logs."),
    counter("corelog_log_written_bytes_total", Bytes, |c| c.bytes_written,
        "Bytes of them, padding and rewritten blocks included."),
    counter("corelog_log_zeroed_bytes_total", Bytes, |c| c.bytes_zeroed,
        "Zeros written ahead of logs with enforce_fsync."),
    counter("corelog_log_carried_bytes_total", Bytes, |c| c.bytes_carried,
        "Bytes copied a second time because their block was written before it was full."),
    counter("corelog_log_syncs_total", Count, |c| c.syncs,
        "Syncs of logs; with enforce_fsync the writes are synced instead."),
    counter("corelog_segments_sealed_total", Count, |c| c.sealed_segments,
        "Segments sealed."),
    counter("corelog_segments_dropped_total", Count, |c| c.dropped_segments,
        "Segments deleted by retention or on demand."),
    counter("corelog_polls_total", Count, |c| c.polls,
        "Polls begun."),
    counter("corelog_poll_messages_total", Count, |c| c.polled_messages,
        "Messages that polls were answered with."),
    counter("corelog_poll_bytes_total", Bytes, |c| c.polled_bytes,
        "Bytes of them."),
    counter("corelog_poll_errors_total", Count, |c| c.poll_errors,
        "Polls answered with an error by a partition."),
    counter("corelog_corrupt_reads_total", Count, |c| c.corrupt_reads,
        "Polls that met damage."),
    counter("corelog_disk_reads_total", Count, |c| c.disk_reads,
        "Reads from files for polls."),
    counter("corelog_disk_read_bytes_total", Bytes, |c| c.disk_read_bytes,
        "Bytes of them."),
    counter("corelog_faults_total", Count, |c| c.faults,
        "Faults after which a partition took no more appends."),
];

#[rustfmt::skip]
pub(super) const SHARD: &[Metric<ShardStats>] = &[
    counter("corelog_requests_total", Count, |s| s.requests,
        "Requests served by the shard, all kinds."),
    counter("corelog_mailbox_runs_total", Count, |s| s.runs,
        "Runs in which the mailbox was drained."),
    counter("corelog_mailbox_full_total", Count, |s| s.mailbox_full,
        "Requests refused since the mailbox was full."),
    counter("corelog_refused_total", Count, |s| s.refused,
        "Appends and polls refused since too many, or too many bytes, were in flight."),
    gauge("corelog_partitions", Count, |s| s.open as u64,
        "Partitions that are open."),
    gauge("corelog_partitions_poisoned", Count, |s| s.poisoned as u64,
        "Of these, such that take no appends since a fault."),
    gauge("corelog_partitions_failed", Count, |s| s.failed.len() as u64,
        "Partitions out of service: not opened, or panicked."),
    gauge("corelog_mailbox_requests", Count, |s| s.mailbox as u64,
        "Requests in the mailbox."),
    gauge("corelog_appends_in_flight", Count, |s| s.appends_in_flight as u64,
        "Appends not answered yet."),
    gauge("corelog_appends_in_flight_bytes", Bytes, |s| s.append_bytes_in_flight as u64,
        "Bytes of them."),
    gauge("corelog_polls_in_flight", Count, |s| s.polls_in_flight as u64,
        "Polls not answered yet, those that wait for messages included."),
    gauge("corelog_tasks", Count, |s| s.tasks as u64,
        "Tasks of partitions that run on the shard."),
    gauge("corelog_log_writes_in_flight_bytes", Bytes, |s| s.write_bytes_in_flight as u64,
        "Bytes of log writes in flight."),
    gauge("corelog_cached_bytes", Bytes, |s| s.cached_bytes as u64,
        "Bytes of buffers kept for readers."),
    gauge("corelog_open_handles", Count, |s| s.open_handles as u64,
        "Segments open for reading."),
    gauge("corelog_active_handles", Count, |s| s.active_handles as u64,
        "Active segments open for writing."),
];

#[rustfmt::skip]
pub(super) const MEMORY: &[Metric<MemoryUse>] = &[
    counter("corelog_read_waits_total", Count, |m| m.read_waits,
        "Reads that waited for a buffer."),
    counter("corelog_lease_copies_total", Count, |m| m.copied,
        "Times bytes were copied out for want of leases."),
    gauge("corelog_write_pool_bytes", Bytes, |m| m.write_bytes as u64,
        "Buffers of writes in use."),
    gauge("corelog_write_pool_limit_bytes", Bytes, |m| m.write_bytes_max as u64,
        "What they may be."),
    gauge("corelog_read_pool_bytes", Bytes, |m| m.read_bytes as u64,
        "Buffers of reads in use."),
    gauge("corelog_read_pool_limit_bytes", Bytes, |m| m.read_bytes_max as u64,
        "What they may be."),
    gauge("corelog_leases", Count, |m| m.leases as u64,
        "Views of the shard's memory that are out."),
    gauge("corelog_lease_bytes", Bytes, |m| m.lease_bytes as u64,
        "Bytes of buffers that they pin."),
];

#[rustfmt::skip]
pub(super) const FILES: &[Metric<IoStats>] = &[
    counter("corelog_slow_io_total", Count, |i| i.slow,
        "File operations that were slow."),
    counter("corelog_io_errors_total", Count, |i| i.errors,
        "File operations that failed."),
    gauge("corelog_io_under_way", Count, |i| i.under_way as u64,
        "File operations under way."),
    gauge("corelog_hanging_io", Count, |i| i.hanging as u64,
        "Of these, such that do not end."),
];

#[rustfmt::skip]
pub(super) const OF_PARTITION: &[Metric<PartitionStats>] = &[
    counter("corelog_partition_append_batches_total", Count, |p| p.batches,
        "Batches appended to the partition."),
    counter("corelog_partition_append_messages_total", Count, |p| p.messages,
        "Messages appended to it."),
    counter("corelog_partition_append_bytes_total", Bytes, |p| p.bytes,
        "Bytes appended to it."),
    counter("corelog_partition_append_errors_total", Count, |p| p.append_errors,
        "Appends that it answered with an error."),
    counter("corelog_partition_polls_total", Count, |p| p.polls,
        "Polls of it."),
    counter("corelog_partition_poll_messages_total", Count, |p| p.polled_messages,
        "Messages that they were answered with."),
    counter("corelog_partition_poll_bytes_total", Bytes, |p| p.polled_bytes,
        "Bytes of them."),
    counter("corelog_partition_poll_errors_total", Count, |p| p.poll_errors,
        "Polls that it answered with an error."),
    gauge("corelog_partition_start_offset", Count, |p| p.watermarks.start(),
        "First retained offset."),
    gauge("corelog_partition_durable_offset", Count, |p| p.watermarks.durable(),
        "Everything below survives power loss."),
    gauge("corelog_partition_written_offset", Count, |p| p.watermarks.written(),
        "Everything below survives the end of the process."),
    gauge("corelog_partition_appended_offset", Count, |p| p.watermarks.appended(),
        "The offset that the next message gets."),
    gauge("corelog_partition_segments", Count, |p| p.segments as u64,
        "Segments, the active one included."),
    gauge("corelog_partition_waiting_appends", Count, |p| p.waiting_appends as u64,
        "Appends without an offset yet."),
    gauge("corelog_partition_poisoned", Count, |p| p.poisoned.into(),
        "1 where it takes no appends since a fault."),
];

const APPEND: (&str, &str) =
    ("corelog_append_seconds", "Appends, from admission to the answer, by what was asked for.");
const POLL: (&str, &str) = ("corelog_poll_seconds", "Polls, by where they found the messages.");
const CROSSING: (&str, &str) =
    ("corelog_crossing_seconds", "Appends and polls on their way through the mailbox.");
const IO: (&str, &str) = ("corelog_io_seconds", "File operations, by their kind.");

const fn times(
    name: &'static str,
    label: Option<(&'static str, &'static str)>,
    of: Timed,
) -> Times {
    Times { name, label, of }
}

pub(super) const LATENCIES: &[Times] = &[
    times(APPEND.0, Some(("ack", "appended")), Timed::AppendAppended),
    times(APPEND.0, Some(("ack", "written")), Timed::AppendWritten),
    times(APPEND.0, Some(("ack", "durable")), Timed::AppendDurable),
    times(POLL.0, Some(("source", "memory")), Timed::PollMemory),
    times(POLL.0, Some(("source", "files")), Timed::PollFiles),
    times(CROSSING.0, None, Timed::Crossing),
    times(IO.0, Some(("op", "read")), Timed::DeviceRead),
    times(IO.0, Some(("op", "write")), Timed::DeviceWrite),
    times(IO.0, Some(("op", "sync")), Timed::DeviceSync),
    times(IO.0, Some(("op", "other")), Timed::FileOperation),
];

/// Tells `recorder` the unit and the text of each.
pub(super) fn describe(recorder: &dyn Recorder) {
    describe_all(recorder, ENGINE);
    describe_all(recorder, COUNTS);
    describe_all(recorder, SHARD);
    describe_all(recorder, MEMORY);
    describe_all(recorder, FILES);
    describe_all(recorder, OF_PARTITION);
    for (name, text) in [APPEND, POLL, CROSSING, IO] {
        recorder.describe_histogram(KeyName::from(name), Some(Seconds), text.into());
    }
}

fn describe_all<S>(recorder: &dyn Recorder, metrics: &[Metric<S>]) {
    for Metric { name, kind, unit, text, .. } in metrics {
        let (key, unit, text) = (KeyName::from(*name), Some(*unit), (*text).into());
        match kind {
            Kind::Counter => recorder.describe_counter(key, unit, text),
            Kind::Gauge => recorder.describe_gauge(key, unit, text),
        }
    }
}
