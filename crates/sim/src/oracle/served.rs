//! What polls may answer.

use corelog_format::{BatchHeader, UnverifiedBatch};
use corelog_storage::{Ack, From};

use super::{Broken, Fate, Oracle};
use crate::batches::origin_of;

/// Where a poll was allowed to read at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// First retained offset.
    pub(crate) start: u64,
    /// Everything below must be served.
    pub(crate) must: u64,
    /// Nothing at or above may be served.
    pub(crate) may: u64,
}

impl Bounds {
    /// The same, without what was trimmed away until the log's bounds were `later`.
    pub(crate) fn without_trimmed(self, later: Bounds) -> Bounds {
        Bounds { start: self.start.max(later.start), ..self }
    }
}

/// One poll.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) from: From,
    pub(crate) max_messages: u32,
    pub(crate) max_bytes: usize,
    /// For a poll of what is next: the offset that is stored, where that is known.
    pub(crate) next: Option<Option<u64>>,
    /// As it stood before the call.
    pub(crate) before: Bounds,
}

/// What it was answered.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) bytes: Vec<u8>,
    pub(crate) messages: u32,
    pub(crate) first: Option<u64>,
    pub(crate) next: u64,
}

/// What an answer held.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) batches: u64,
    pub(crate) sliced: bool,
    /// A batch was sent in an earlier life and never answered.
    pub(crate) unanswered: bool,
    /// A time was asked for of which the answer is known.
    pub(crate) by_time: bool,
}

impl Oracle {
    /// Holds an answer against everything known. `after` is as it stood when the answer was there.
    pub(crate) fn served(
        &mut self,
        asked: &Asked,
        got: &Got,
        after: Bounds,
    ) -> Result<Seen, Broken> {
        let mut seen = self.learn(got)?;
        if got.messages > asked.max_messages {
            return Err(format!("{} messages for {asked:?}", got.messages));
        }
        if got.bytes.len() > asked.max_bytes && seen.batches > 1 {
            let len = got.bytes.len();
            return Err(format!("{len} bytes in {} batches for {asked:?}", seen.batches));
        }
        if got.messages > 0 && got.next > after.may {
            return Err(format!(
                "served up to {}, but polls end at {} ({asked:?})",
                got.next, after.may
            ));
        }
        if self.enforce_fsync && got.messages > 0 {
            // Nobody reads what a power cut takes back.
            self.promise(got.next, Ack::Durable);
        }
        self.check_beginning(asked, got, after, &mut seen)?;
        Ok(seen)
    }

    /// The answer begins where it was asked to.
    fn check_beginning(
        &self,
        asked: &Asked,
        got: &Got,
        after: Bounds,
        seen: &mut Seen,
    ) -> Result<(), Broken> {
        let before = asked.before;
        if let Some(first) = got.first
            && first < before.start
        {
            return Err(format!("served {first}, below the start {} ({asked:?})", before.start));
        }
        let back = |end: u64, count: u32, start: u64| end.saturating_sub(count.into()).max(start);
        // The lowest and the highest place where it may begin.
        let (low, high) = match asked.from {
            From::Offset(offset) => (offset.max(before.start), offset.max(after.start)),
            From::First => (before.start, after.start),
            From::Last(count) => {
                (back(before.must, count, before.start), back(after.may, count, after.start))
            }
            From::Timestamp(time) => return self.check_time(asked, got, after, time, seen),
            From::Next(_) => match asked.next {
                Some(Some(stored)) => {
                    let next = stored.saturating_add(1);
                    (next.max(before.start), next.max(after.start))
                }
                Some(None) => (before.start, after.start),
                None => (before.start, u64::MAX),
            },
        };
        match got.first {
            Some(first) if !(low..=high).contains(&first) => {
                Err(format!("begins at {first} instead of {low}..={high} ({asked:?})"))
            }
            Some(_) => Ok(()),
            None if asked.max_messages > 0 && high < before.must => {
                Err(format!("nothing at {low}..={high}, below {} ({asked:?})", before.must))
            }
            None => Ok(()),
        }
    }

    /// The first batch at or after `time`, as far as that is known.
    fn check_time(
        &self,
        asked: &Asked,
        got: &Got,
        after: Bounds,
        time: u64,
        seen: &mut Seen,
    ) -> Result<(), Broken> {
        let mut known = self.log.range(asked.before.start..);
        let expected = known.find(|(_, entry)| entry.time >= time);
        match (got.first, expected) {
            (Some(first), Some((base, _))) if first > (*base).max(after.start) => {
                Err(format!("begins at {first}, but offset {base} has time {time} ({asked:?})"))
            }
            (Some(first), _) => {
                // `learn` has placed it.
                let stamped = self.log.get(&first).map(|entry| entry.time);
                if stamped.is_none_or(|stamped| stamped < time) {
                    return Err(format!(
                        "begins at {first} of time {stamped:?}, before {time} ({asked:?})"
                    ));
                }
                seen.by_time = true;
                Ok(())
            }
            (None, _) => {
                // One that was trimmed away meanwhile need not be found.
                let mut kept = self.log.range(asked.before.start..);
                let kept = kept.find(|(_, entry)| entry.time >= time && entry.end > after.start);
                match kept {
                    Some((base, entry))
                        if asked.max_messages > 0 && entry.end <= asked.before.must =>
                    {
                        let what = format!("nothing at time {time}, but offset {base} is there");
                        Err(format!("{what} ({asked:?})"))
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    /// Takes the served bytes apart: each batch is sound, is one that was sent, and continues the
    /// one before.
    fn learn(&mut self, got: &Got) -> Result<Seen, Broken> {
        let mut rest = &got.bytes[..];
        let mut seen = Seen::default();
        let (mut next, mut messages) = (got.first, 0);
        while !rest.is_empty() {
            let (batch, behind) = UnverifiedBatch::split_first(rest)
                .map_err(|error| format!("served bytes that are no batch: {error}"))?;
            let bytes = &rest[..rest.len() - behind.len()];
            let batch =
                batch.verify().map_err(|error| format!("served an unsound batch: {error}"))?;
            let first = batch.first_offset();
            if Some(first) != next {
                return Err(format!("offset {first} is served where {next:?} is due"));
            }
            let id = batch.frames().next().map_or(0, |frame| frame.id());
            seen.unanswered |= self.is_unanswered(origin_of(id).0);
            seen.sliced |= self.same_bytes(batch.header(), bytes, id, first)?;
            let count = batch.header().message_count;
            next = Some(first + u64::from(count));
            messages += count;
            seen.batches += 1;
            rest = behind;
        }
        if messages != got.messages || (messages > 0 && next != Some(got.next)) {
            return Err(format!(
                "{messages} messages up to {next:?}; the answer says {} up to {}",
                got.messages, got.next
            ));
        }
        Ok(seen)
    }

    fn is_unanswered(&self, number: u64) -> bool {
        let sent = usize::try_from(number).ok().and_then(|number| self.sent.get(number));
        sent.is_some_and(|sent| sent.fate == Fate::Unknown && sent.order < self.first_call)
    }

    /// The frames are those that were sent, the header is the sent one with what the owner stamps.
    /// True where it is a part of a batch.
    fn same_bytes(
        &mut self,
        header: &BatchHeader,
        bytes: &[u8],
        message_id: u128,
        first: u64,
    ) -> Result<bool, Broken> {
        let (number, place) = origin_of(message_id);
        let call = number as usize;
        let base = header.base_offset;
        self.place(call, base, header.base_timestamp)?;
        let sent = &self.sent[call].batch;
        let count = header.message_count as usize;
        if first != base + place as u64 || place + count > sent.messages() {
            return Err(format!(
                "batch {call} of {} messages at {base}: served {count} from message {place} at \
                 offset {first}",
                sent.messages()
            ));
        }
        let frames = sent.frames(place, place + count);
        if bytes[256..] != *frames {
            return Err(format!("the frames of batch {call} at {first} are not as they were sent"));
        }
        let original = BatchHeader::parse(sent.header())
            .map_err(|error| format!("the sent batch {call} has no header: {error}"))?;
        let expected = BatchHeader {
            partition_id: self.partition_id.into(),
            base_offset: base,
            base_timestamp: header.base_timestamp,
            batch_length: 256 + frames.len() as u64,
            // Verified before.
            batch_checksum: header.batch_checksum,
            message_count: header.message_count,
            ..original
        };
        if bytes[..256] != expected.encode() {
            return Err(format!("the header of batch {call} at {first} is {header:?}"));
        }
        Ok(count != sent.messages())
    }
}
