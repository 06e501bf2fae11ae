//! Behind damage: where does the next batch begin that still verifies? Bounded work on any bytes.

use corelog_format::{
    BATCH_HEADER_LEN, BatchHeader, Expect, FormatErrorKind, Scan, SearchBudget, Step, next_header,
};

use crate::failure::Failure;
use crate::source::Source;

const HEADER: u64 = BATCH_HEADER_LEN as u64;

/// What the batches before the damage said; what comes behind it must go on from there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Anchor {
    /// The partition that they carry.
    pub(crate) partition_id: u64,
    /// The offset that the next one would have had.
    pub(crate) next_offset: u64,
}

/// The answer of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// A batch that verifies and goes on from the anchor begins here.
    At(u64),
    /// There is none up to the end of the file.
    None,
    /// The work allowed for this file is used up. Nothing at or behind this position was looked at.
    GaveUp(u64),
}

/// Looks for the first batch at or after `from` that verifies and goes on from `anchor` (any that
/// verifies, where nothing came before).
///
/// First at `from` itself: what stands there may be whole and merely not what was expected. Then
/// where the damaged batch says that it ends, if its header is whole: a payload may hold batches
/// of its own (a mirror's), and those are not what we look for. Then byte by byte.
pub(crate) fn find(
    source: &mut Source,
    from: u64,
    anchor: Option<Anchor>,
    budget: &mut SearchBudget,
) -> Result<Next, Failure> {
    if verifies(source, from, anchor, budget)?.is_some() {
        return Ok(Next::At(from));
    }
    if let Some(next) = behind_damaged(source, from, anchor, budget)? {
        return Ok(Next::At(next));
    }
    let mut at = from.saturating_add(1);
    loop {
        at = source.next_data(at);
        if source.len().saturating_sub(at) < HEADER {
            return Ok(Next::None);
        }
        let window = source.window(at, HEADER)?;
        let Some(candidate) = next_header(window) else {
            at += window.len() as u64 - (HEADER - 1);
            continue;
        };
        at += candidate as u64;
        if verifies(source, at, anchor, budget)?.is_some() {
            return Ok(Next::At(at));
        }
        at += 1;
        if budget.is_used_up() {
            return Ok(Next::GaveUp(at));
        }
    }
}

/// The batch behind the one at `from`, if the header there parses and both agree on the offset
/// between them.
fn behind_damaged(
    source: &mut Source,
    from: u64,
    anchor: Option<Anchor>,
    budget: &mut SearchBudget,
) -> Result<Option<u64>, Failure> {
    let Ok(damaged) = BatchHeader::parse(source.window(from, HEADER)?) else {
        return Ok(None);
    };
    if anchor.is_some_and(|a| a.next_offset != damaged.base_offset) {
        return Ok(None);
    }
    let Some(next) = from.checked_add(damaged.batch_length) else { return Ok(None) };
    let follows = verifies(source, next, anchor, budget)?
        .is_some_and(|header| Some(header.base_offset) == damaged.end_offset());
    Ok(follows.then_some(next))
}

/// The header of the batch at `at`, if it verifies and goes on from the anchor. What does not is
/// charged to the budget.
fn verifies(
    source: &mut Source,
    at: u64,
    anchor: Option<Anchor>,
    budget: &mut SearchBudget,
) -> Result<Option<BatchHeader>, Failure> {
    let Ok(header) = BatchHeader::parse(source.window(at, HEADER)?) else {
        return Ok(None);
    };
    let goes_on = anchor.is_none_or(|anchor| {
        header.partition_id == anchor.partition_id && header.base_offset >= anchor.next_offset
    });
    if !goes_on || source.len() - at < header.batch_length {
        return Ok(None);
    }
    let (len, read_before) = (source.len(), source.bytes_read());
    // The scan decides, as it will when the walk goes on from here.
    let place = Expect {
        partition_id: Some(header.partition_id),
        next_offset: Some(header.base_offset),
        after_timestamp: None,
        time_may_go_back: true,
    };
    let window = source.window(at, header.batch_length)?;
    let looked_at = match Scan::new(at, len, 0, place).next(window) {
        Step::Batch { .. } => return Ok(Some(header)),
        // A checksum is found wrong only after all that it covers; what the frame before it took
        // is not known here, so the whole batch is charged.
        Step::Torn { why, .. } if !matches!(why.kind, FormatErrorKind::Checksum { .. }) => {
            why.at.saturating_sub(at)
        }
        _ => header.batch_length,
    };
    budget.charge(looked_at.max(source.bytes_read() - read_before));
    Ok(None)
}
