//! Events of partitions.

use corelog_io::IoError;
use corelog_shard::{FailureReason, PartitionId};
use corelog_storage::{Fault, OpenDamage, OpenReport, PollError, TrimError};

use super::{Events, tell};

/// As [`tell!`], with the fields that say which partition.
macro_rules! tell_of {
    ($events:expr, $shard:expr, $id:expr, $name:literal, $target:literal, $level:ident,
     { $($fields:tt)* }, $text:literal) => {
        let PartitionId { stream, topic, partition } = $id;
        tell!($events, $name, $target, $level,
            { shard = $shard, stream, topic, partition, $($fields)* }, $text);
    };
}

impl Events {
    /// A partition was opened; what is not as a clean close leaves it is told by itself.
    pub(crate) fn partition_opened(
        &self,
        shard: usize,
        id: PartitionId,
        report: &OpenReport,
        reopened: bool,
    ) {
        let (row, bytes_read) = (report.row, report.bytes_read);
        if crate::builder::is_clean(report) && !reopened {
            tell_of!(self, shard, id, "partition_opened", "corelog::open", DEBUG,
                { row, bytes_read, }, "a partition was opened as it was closed");
            return;
        }
        if report.created {
            tell_of!(
                self,
                shard,
                id,
                "partition_created",
                "corelog::open",
                INFO,
                {},
                "a partition was created"
            );
            return;
        }
        let (recovered_batches, cut_bytes) = (report.recovered_batches, report.cut_bytes);
        let (rewritten_bytes, read_only) = (report.rewritten_bytes, report.read_only);
        tell_of!(self, shard, id, "partition_recovered", "corelog::open", INFO,
            { reopened, row, recovered_batches, rewritten_bytes, cut_bytes, read_only,
              bytes_read, },
            "a partition was recovered");
        for path in &report.quarantined {
            let path = path.display();
            tell_of!(self, shard, id, "quarantined", "corelog::open", WARN,
                { path = %path, }, "whole batches were cut off or moved away, a copy is kept");
        }
        for damage in &report.damage {
            self.damage_found(shard, id, damage);
        }
    }

    fn damage_found(&self, shard: usize, id: PartitionId, damage: &OpenDamage) {
        let (what, segment, position) = match damage {
            OpenDamage::Corrupt { segment, position, .. } => {
                ("corrupt", Some(*segment), Some(*position))
            }
            OpenDamage::Unreadable { segment, position } => {
                ("unreadable", Some(*segment), Some(*position))
            }
            OpenDamage::MissingSegment { offset } => ("missing segment", Some(*offset), None),
            OpenDamage::Manifest => ("manifest", None, None),
            OpenDamage::ConsumerOffsets => ("consumer offsets", None, None),
            _ => ("other", None, None),
        };
        tell_of!(self, shard, id, "damage_found", "corelog::damage", ERROR,
            { what, segment, position, }, "damage was found while a partition was opened");
    }

    pub(crate) fn partition_not_opened(
        &self,
        shard: usize,
        id: PartitionId,
        reason: &FailureReason,
    ) {
        let FailureReason::Open(error) = reason else { return };
        tell_of!(self, shard, id, "partition_not_opened", "corelog::open", ERROR,
            { error = %error, }, "a partition could not be opened, it is not served");
    }

    pub(crate) fn partition_panicked(&self, shard: usize, id: PartitionId, message: &str) {
        tell_of!(self, shard, id, "partition_panicked", "corelog::panic", ERROR,
            { panic = message, }, "the code of a partition panicked, it is out of service");
    }

    pub(crate) fn damage_read(&self, shard: usize, id: PartitionId, error: &PollError) {
        let (what, segment, position, resume_offset) = match error {
            PollError::Corrupt { segment, position, resume_offset, .. } => {
                ("corrupt", *segment, *position, *resume_offset)
            }
            PollError::Unreadable { segment, position, resume_offset, .. } => {
                ("unreadable", *segment, *position, *resume_offset)
            }
            _ => return,
        };
        tell_of!(self, shard, id, "damage_read", "corelog::damage", ERROR,
            { what, segment, position, resume_offset, error = %error, }, "a poll met damage");
    }

    pub(crate) fn partition_poisoned(&self, shard: usize, id: PartitionId, fault: &Fault) {
        let Fault { since_us, error, .. } = fault;
        tell_of!(self, shard, id, "partition_poisoned", "corelog::fault", ERROR,
            { since_us = *since_us, op = error.op.name(), path = %error.path.display(),
              error = %error, },
            "a write or a sync failed, the partition takes no more appends until it is reopened");
    }

    pub(crate) fn mark_lags(&self, shard: usize, id: PartitionId, error: &IoError) {
        tell_of!(self, shard, id, "mark_lags", "corelog::fault", WARN,
            { error = %error, }, "the durable mark could not be stored, an opening reads more");
    }

    pub(crate) fn offsets_unread(&self, shard: usize, id: PartitionId, error: &IoError) {
        tell_of!(self, shard, id, "offsets_unread", "corelog::fault", ERROR,
            { path = %error.path.display(), error = %error, },
            "the stored consumer offsets cannot be read, appends are refused until they are");
    }

    pub(crate) fn offsets_read(&self, shard: usize, id: PartitionId, damaged: bool) {
        tell_of!(self, shard, id, "offsets_read", "corelog::fault", INFO,
            { damaged, }, "the stored consumer offsets were read at last");
    }

    pub(crate) fn storage_full(&self, shard: usize, id: PartitionId, error: &IoError) {
        tell_of!(self, shard, id, "storage_full", "corelog::space", WARN,
            { path = %error.path.display(), error = %error, },
            "appends are refused for want of space");
    }

    pub(crate) fn storage_back(&self, shard: usize, id: PartitionId) {
        tell_of!(
            self,
            shard,
            id,
            "storage_back",
            "corelog::space",
            INFO,
            {},
            "there is space again"
        );
    }

    pub(crate) fn no_file(&self, shard: usize, id: PartitionId, error: &IoError) {
        tell_of!(self, shard, id, "no_file", "corelog::fault", WARN,
            { path = %error.path.display(), error = %error, },
            "an append is refused, its file could not be opened or made");
    }

    pub(crate) fn segment_sealed(
        &self,
        shard: usize,
        id: PartitionId,
        segment: u64,
        bytes: u64,
        next: u64,
    ) {
        tell_of!(self, shard, id, "segment_sealed", "corelog::segment", DEBUG,
            { segment, bytes, next, }, "a segment was sealed and the next one begun");
    }

    pub(crate) fn segments_dropped(
        &self,
        shard: usize,
        id: PartitionId,
        start: u64,
        segments: usize,
    ) {
        tell_of!(self, shard, id, "segments_dropped", "corelog::segment", INFO,
            { start, segments, }, "segments were deleted at the front of a log");
    }

    pub(crate) fn segments_stay(&self, shard: usize, id: PartitionId, error: &TrimError) {
        tell_of!(self, shard, id, "segments_stay", "corelog::segment", WARN,
            { error = %error, }, "retention could not delete segments, it tries again");
    }
}
