//! What a poll says about damage, and where reading may go on.

use corelog_format::{FormatError, FormatErrorKind};
use corelog_io::Platform;

use super::cursor::Cursor;
use super::plan::Want;
use super::source::{Source, Start};
use super::walker::{Damage, ReadFault};
use crate::partition::Counters;
use crate::{Answer, PollError};

/// One batch is looked at, and nothing behind it.
pub(super) const ONE_BATCH: Want = Want { bytes: 0, until: 0, way: 0, run: 0 };

/// Index entries behind damage that are tried in search of the next readable batch.
const TRIED_MAX: usize = 64;

/// The poll's error for `fault`, with the place where reading may go on.
pub(super) async fn failed<P: Platform, A: Answer>(
    source: &Source<P, A>,
    fault: ReadFault,
) -> PollError {
    let Damage { at, why, .. } = match fault {
        ReadFault::Io(error) => return PollError::Io(error),
        ReadFault::Damage(damage) => damage,
    };
    let (inner, segment) = (&source.inner, source.segment);
    Counters::add(&inner.counters.corrupt_reads, 1);
    let resume_offset = match resume(source, at).await {
        Some(offset) => Some(offset),
        None => inner.segments.borrow().after(segment),
    };
    PollError::Corrupt { segment, position: at, resume_offset, why }
}

/// The first offset behind damage at `position` in the segment from which reading works: an index
/// entry whose batch verifies.
async fn resume<P: Platform, A: Answer>(source: &Source<P, A>, mut position: u64) -> Option<u64> {
    let again = Source::open(&source.inner, source.segment).await.ok()?;
    let mut cursor = Cursor::new(again, source.origin());
    for _ in 0..TRIED_MAX {
        let entry = cursor.source().look(|index| index.after_position(position))?;
        cursor = cursor.restart(Start::of(entry));
        if matches!(cursor.next(&ONE_BATCH).await, Ok(Some(_))) {
            return Some(entry.base_offset);
        }
        position = entry.position;
    }
    None
}

/// No segment holds `offset`: files are missing in front of `first`.
pub(super) fn hole(offset: u64, first: u64) -> PollError {
    let kind = FormatErrorKind::Mismatch { expected: offset, found: first };
    let why = FormatError::new(0, "first_offset", kind);
    PollError::Corrupt { segment: first, position: 0, resume_offset: Some(first), why }
}

/// A segment whose batches end before the next segment begins.
pub(super) fn ended_early(segment: u64, position: u64, after: Option<u64>) -> PollError {
    let kind = FormatErrorKind::Truncated { needed: 1, have: 0 };
    let why = FormatError::new(position, "batch_header", kind);
    PollError::Corrupt { segment, position, resume_offset: after, why }
}
