//! Behind damage: where does the next batch begin that still verifies? Bounded work on any bytes.

use corelog_format::{
    BATCH_BYTES_MAX, BATCH_HEADER_LEN, BatchHeader, Expect, FRAME_HEADER_LEN, FormatErrorKind,
    Frame, Scan, SearchBudget, Step, may_follow, next_header,
};

use crate::failure::Failure;
use crate::source::Source;

const HEADER: u64 = BATCH_HEADER_LEN as u64;
const FRAME: u64 = FRAME_HEADER_LEN as u64;

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

/// The work that the searches in one file may spend.
#[derive(Debug)]
pub(crate) struct Effort {
    /// On what turns out to be no batch.
    misses: SearchBudget,
    /// On what is a batch and may not be the log's. Where it is used up the first one counts.
    doubts: SearchBudget,
}

impl Effort {
    /// That of a file of `len` bytes.
    pub(crate) fn of_file(len: u64) -> Effort {
        Effort { misses: SearchBudget::of_file(len), doubts: SearchBudget::of_file(len) }
    }
}

/// Looks for the first batch at or after `from` that verifies and goes on from `anchor` (any that
/// verifies, where nothing came before).
///
/// A payload may hold batches of its own (a mirror's), with any offsets, and those are not what is
/// looked for. So what is known of the place comes first, from the surest to the least sure:
///
/// 1. `from` itself: what stands there may be whole and merely not what was expected. One that
///    belongs elsewhere (a second time, or another partition's) is stepped over.
/// 2. Where the damaged batch says that it ends, if its header is whole, and what stands there goes
///    on from it, or has the offset that was due.
/// 3. Behind the frames that stand where its own must, each whole by its checksum, or, where the
///    header is whole, as long as it says itself.
/// 4. Byte by byte. What stands in front of those two ends is the damaged batch's own, unless
///    batches lead from it across them: no message carries such, so bytes went missing. What is
///    the payload of a whole frame is stepped over; what stands where the headers of a lost batch
///    were is in none of its payloads. Of the rest what has not the offset that the lost bytes leave
///    to it counts where batches lead from it to the end of the file, and otherwise only if nothing
///    better comes.
pub(crate) fn find(
    source: &mut Source,
    mut from: u64,
    anchor: Option<Anchor>,
    effort: &mut Effort,
) -> Result<Next, Failure> {
    let misses = &mut effort.misses;
    loop {
        let here = whole_batch(source, from, misses)?;
        if here.is_some_and(|header| goes_on(&header, anchor)) {
            return Ok(Next::At(from));
        }
        match here {
            Some(elsewhere) => from += elsewhere.batch_length,
            None => break,
        }
    }
    let there = header_at(source, from, anchor)?;
    if let Some(there) = there {
        let (next, due) = (from + there.batch_length, anchor.map(|anchor| anchor.next_offset));
        let follower = verifies(source, next, anchor, misses)?.map(|header| header.base_offset);
        if follower.is_some() && (follower == there.end_offset() || follower == due) {
            return Ok(Next::At(next));
        }
    }
    // It speaks for what follows it only where it states this place.
    let is_due = |header: &BatchHeader| anchor.is_none_or(|a| a.next_offset == header.base_offset);
    let header = there.filter(is_due);
    let frames_end = behind_frames(source, from, header, misses)?;
    if frames_end > from && verifies(source, frames_end, anchor, misses)?.is_some() {
        return Ok(Next::At(frames_end));
    }
    // A length that leads out of the file says nothing: then the frames have to.
    let stated_end = header.map(|header| from + header.batch_length);
    let next_begins = stated_end.filter(|end| *end <= source.len()).unwrap_or(from);
    let damaged = Damaged { from, own_end: frames_end.max(next_begins), next_begins };
    search(source, damaged, anchor, effort)
}

/// A damaged batch, as far as its bytes are known.
#[derive(Debug, Clone, Copy)]
struct Damaged {
    from: u64,
    /// Up to here everything is a part of it.
    own_end: u64,
    /// Where the next one begins, if its header says so; else its own first byte.
    next_begins: u64,
}

/// The first batch behind the first byte of the damaged one.
fn search(
    source: &mut Source,
    damaged: Damaged,
    anchor: Option<Anchor>,
    effort: &mut Effort,
) -> Result<Next, Failure> {
    let from = damaged.from;
    let mut at = from.saturating_add(1);
    let mut doubtful = None;
    loop {
        at = source.next_data(at);
        let begun = at;
        if source.len().saturating_sub(at) < HEADER {
            return Ok(doubtful.map_or(Next::None, Next::At));
        }
        let window = source.window(at, HEADER)?;
        match next_header(window) {
            None => at += window.len() as u64 - (HEADER - 1),
            Some(candidate) => {
                at += candidate as u64;
                let header = verifies(source, at, anchor, &mut effort.misses)?;
                let found = header.map(|header| Candidate { damaged, at, header });
                at = match found.map(|found| found.is(source, anchor, effort)).transpose()? {
                    None => at + 1,
                    Some(Is::TheLogs) => return Ok(Next::At(at)),
                    Some(Is::Carried { end }) => end,
                    Some(Is::Doubtful { end }) => {
                        doubtful.get_or_insert(at);
                        end
                    }
                };
            }
        }
        if let Some(first) = doubtful {
            effort.doubts.charge(at - begun);
            // No batch is longer: what carries others has ended by then.
            if effort.doubts.is_used_up() || at - from > BATCH_BYTES_MAX {
                return Ok(Next::At(first));
            }
        }
        if effort.misses.is_used_up() {
            return Ok(doubtful.map_or(Next::GaveUp(at), Next::At));
        }
    }
}

/// A batch at `at` that verifies, behind a damaged one.
struct Candidate {
    damaged: Damaged,
    at: u64,
    header: BatchHeader,
}

/// What a batch behind damage is.
enum Is {
    /// One of the log: its offset is one that the lost bytes leave to it, batches lead from it to
    /// the end of the file, or out of what it would be a part of, or no payload can begin there.
    TheLogs,
    /// In a payload, all of it and those that follow it up to here.
    Carried { end: u64 },
    /// It may be either; it and those that follow it end here.
    Doubtful { end: u64 },
}

impl Candidate {
    fn is(
        &self,
        source: &mut Source,
        anchor: Option<Anchor>,
        effort: &mut Effort,
    ) -> Result<Is, Failure> {
        let Candidate { damaged: Damaged { from, own_end, next_begins }, at, header } = self;
        if let Some(end) = self.payload_end(source, &mut effort.misses)? {
            return Ok(Is::Carried { end });
        }
        if at < own_end {
            let end = run_end(source, *at, header, own_end + 1)?;
            return Ok(if end > *own_end { Is::TheLogs } else { Is::Carried { end } });
        }
        if at - next_begins < HEADER + FRAME {
            return Ok(Is::TheLogs);
        }
        let doubting = !effort.doubts.is_used_up();
        let Some(anchor) = anchor.filter(|_| doubting) else { return Ok(Is::TheLogs) };
        if may_follow(anchor.next_offset, at - from, header.base_offset) {
            return Ok(Is::TheLogs);
        }
        let end = run_end(source, *at, header, u64::MAX)?;
        Ok(if source.zeros_to_end(end)? { Is::TheLogs } else { Is::Doubtful { end } })
    }

    /// The end of the frame whose payload it begins, if that frame is whole.
    fn payload_end(
        &self,
        source: &mut Source,
        misses: &mut SearchBudget,
    ) -> Result<Option<u64>, Failure> {
        let Some(begins) = self.at.checked_sub(FRAME).filter(|begins| *begins >= self.damaged.from)
        else {
            return Ok(None);
        };
        let stated = Frame::stated(source.window(begins, FRAME)?).map(|(_, len)| len);
        let holds = |len: &u64| (FRAME + self.header.batch_length..=BATCH_BYTES_MAX).contains(len);
        let Some(len) = stated.filter(holds) else { return Ok(None) };
        if Frame::whole(source.window(begins, len)?).is_some() {
            return Ok(Some(begins + len));
        }
        misses.charge(len);
        Ok(None)
    }
}

/// Where the batches end that follow one another from the one at `at` on, which has this header; of
/// those that reach `enough` the first.
fn run_end(
    source: &mut Source,
    at: u64,
    header: &BatchHeader,
    enough: u64,
) -> Result<u64, Failure> {
    let mut next = Expect {
        partition_id: Some(header.partition_id),
        next_offset: header.end_offset(),
        after_timestamp: None,
        time_may_go_back: true,
    };
    let mut end = at + header.batch_length;
    while end < enough {
        let Some(header) = batch_at(source, end, next)? else { break };
        (end, next.next_offset) = (end + header.batch_length, header.end_offset());
    }
    Ok(end)
}

/// The header of the batch at `at`, if it verifies and is as expected.
fn batch_at(source: &mut Source, at: u64, expect: Expect) -> Result<Option<BatchHeader>, Failure> {
    let len = source.len();
    let Ok(header) = BatchHeader::parse(source.window(at, HEADER)?) else {
        return Ok(None);
    };
    if len - at < header.batch_length {
        return Ok(None);
    }
    let window = source.window(at, header.batch_length)?;
    let is_batch = matches!(Scan::new(at, len, 0, expect).next(window), Step::Batch { .. });
    Ok(is_batch.then_some(header))
}

/// The end of the frames that stand where those of a batch at `from` must. Each is whole; or the
/// batch's `header` is, and the frame's own header fits its place in it.
fn behind_frames(
    source: &mut Source,
    from: u64,
    header: Option<BatchHeader>,
    budget: &mut SearchBudget,
) -> Result<u64, Failure> {
    let mut at = from.saturating_add(HEADER);
    for index in 0.. {
        let Some((delta, len)) = Frame::stated(source.window(at, FRAME)?) else { break };
        let Some(end) = at.checked_add(len).filter(|_| len <= BATCH_BYTES_MAX) else { break };
        let vouched = header.is_some_and(|header| {
            delta == index && index < header.message_count && end <= from + header.batch_length
        });
        if !vouched && Frame::whole(source.window(at, len)?).is_none() {
            budget.charge(len);
            break;
        }
        at = end;
    }
    Ok(if at > from.saturating_add(HEADER) { at } else { from })
}

/// The header at `from`, if one of this partition stands there. What follows it may be damaged, and it
/// need not be the one that is due.
fn header_at(
    source: &mut Source,
    from: u64,
    anchor: Option<Anchor>,
) -> Result<Option<BatchHeader>, Failure> {
    let header = BatchHeader::parse(source.window(from, HEADER)?).ok();
    Ok(header.filter(|header| anchor.is_none_or(|a| a.partition_id == header.partition_id)))
}

/// Whether a batch with this header may come behind the anchor.
fn goes_on(header: &BatchHeader, anchor: Option<Anchor>) -> bool {
    anchor.is_none_or(|anchor| {
        header.partition_id == anchor.partition_id && header.base_offset >= anchor.next_offset
    })
}

/// The header of the batch at `at`, if it verifies and goes on from the anchor.
fn verifies(
    source: &mut Source,
    at: u64,
    anchor: Option<Anchor>,
    budget: &mut SearchBudget,
) -> Result<Option<BatchHeader>, Failure> {
    match BatchHeader::parse(source.window(at, HEADER)?) {
        Ok(header) if goes_on(&header, anchor) => whole_batch(source, at, budget),
        _ => Ok(None),
    }
}

/// The header of the batch at `at`, if it verifies. What does not is charged to the budget.
fn whole_batch(
    source: &mut Source,
    at: u64,
    budget: &mut SearchBudget,
) -> Result<Option<BatchHeader>, Failure> {
    let Ok(header) = BatchHeader::parse(source.window(at, HEADER)?) else {
        return Ok(None);
    };
    if source.len() - at < header.batch_length {
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
