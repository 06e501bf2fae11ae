//! The batches of a segment from the last to the first, in memory that does not grow with it.
//!
//! Batches can only be walked forwards. So a stretch is walked once to note where its batches
//! begin, and then each is looked up, from the last to the first. When there are too many to note,
//! every second one is forgotten, again and again, and what lies between two that are left is a
//! stretch of its own. An index that tells the truth makes the stretches short from the start, so
//! that the last message of a long file is at hand; without it the file is walked once more.

use corelog_format::Batch;

use crate::failure::Failure;
use crate::seek::Index;
use crate::source::Source;
use crate::walk::{Event, Flow, Known, Start, walk_from};

/// Batches noted at a time: 65,536 of them, and as many stretches of as many batches, are more
/// than a tebibyte holds.
const NOTES_MAX: usize = 1 << 16;

/// How long a stretch between two index entries is at first, and at most.
const STRETCH_BYTES: u64 = 1 << 20;
const STRETCH_BYTES_MAX: u64 = 64 << 20;

/// What is walked in reverse.
pub(crate) struct Reversed<'a> {
    pub(crate) known: Known,
    /// Nothing before this is wanted.
    pub(crate) first: Start,
    /// Nothing at or behind this offset is wanted; `u64::MAX` for all.
    pub(crate) end_offset: u64,
    /// Damage on the way, each once, in order of position within a stretch.
    pub(crate) on_damage: &'a mut dyn FnMut(Event<'_>) -> Result<(), Failure>,
    /// Each batch with its file position.
    pub(crate) on_batch: &'a mut dyn FnMut(u64, Batch<'_>) -> Result<Flow, Failure>,
}

impl Reversed<'_> {
    /// Walks from the end of `log` to the first wanted batch.
    pub(crate) fn walk(
        &mut self,
        log: &mut Source,
        mut index: Option<Index>,
    ) -> Result<Flow, Failure> {
        let (mut upto, mut bytes) = (u64::MAX, 0);
        loop {
            let mut from = self.first;
            if let Some(entries) = &mut index {
                let below = upto.min(log.len()).saturating_sub(bytes.max(1));
                let offset = self.end_offset.saturating_sub(1);
                match entries.at_most(log, self.known, below, offset)? {
                    Some(start) if start.at > self.first.at => from = start,
                    Some(_) => {}
                    // It has lied once.
                    None => index = None,
                }
            }
            if self.stretch(log, from, upto, true, NOTES_MAX)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
            if from.at == self.first.at {
                return Ok(Flow::Continue);
            }
            upto = from.at;
            bytes = (2 * bytes).clamp(STRETCH_BYTES, STRETCH_BYTES_MAX);
        }
    }

    /// The batches that begin in `from.at..upto`, the last one first.
    fn stretch(
        &mut self,
        log: &mut Source,
        from: Start,
        upto: u64,
        tell: bool,
        notes_max: usize,
    ) -> Result<Flow, Failure> {
        let mut notes: Vec<Start> = Vec::new();
        let (mut every, mut count) = (1u64, 0u64);
        let (end_offset, on_damage) = (self.end_offset, &mut *self.on_damage);
        walk_from(log, self.known, from, &mut |event| {
            let (at, header) = match &event {
                Event::Batch { at, batch, .. } => (*at, *batch.header()),
                Event::Damage { at, .. } if *at < upto && tell => {
                    on_damage(event)?;
                    return Ok(Flow::Continue);
                }
                Event::Damage { .. } => return Ok(Flow::Continue),
            };
            if at >= upto || header.base_offset >= end_offset {
                return Ok(Flow::Stop);
            }
            if count.is_multiple_of(every) {
                if notes.len() == notes_max {
                    every *= 2;
                    let mut kept = false;
                    notes.retain(|_| {
                        kept = !kept;
                        kept
                    });
                }
                if count.is_multiple_of(every) {
                    let (partition_id, next_offset) =
                        (Some(header.partition_id), Some(header.base_offset));
                    notes.push(Start { at, partition_id, next_offset, last_timestamp: None });
                }
            }
            count += 1;
            Ok(Flow::Continue)
        })?;
        let mut upto = upto;
        for note in notes.into_iter().rev() {
            let flow = match every {
                1 => self.one(log, note)?,
                _ => self.stretch(log, note, upto, false, notes_max)?,
            };
            if flow == Flow::Stop {
                return Ok(Flow::Stop);
            }
            upto = note.at;
        }
        Ok(Flow::Continue)
    }

    /// The batch that was noted; it is verified again, as its bytes are read again.
    fn one(&mut self, log: &mut Source, note: Start) -> Result<Flow, Failure> {
        let mut flow = Flow::Continue;
        let (on_batch, on_damage) = (&mut *self.on_batch, &mut *self.on_damage);
        walk_from(log, self.known, note, &mut |event| {
            match event {
                Event::Batch { at, batch, .. } => flow = on_batch(at, batch)?,
                // It has changed since.
                damage @ Event::Damage { .. } => on_damage(damage)?,
            }
            Ok(Flow::Stop)
        })?;
        Ok(flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Access, Links};
    use crate::testing::{Temporary, batch};

    /// Whatever number of notes is allowed, all batches come, from the last to the first.
    #[test]
    fn any_number_of_notes_will_do() {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for number in 0..300u64 {
            expected.push((bytes.len() as u64, number));
            bytes.extend(batch(number, &[&[7; 3][..(number % 4) as usize]]));
        }
        expected.reverse();
        let file = Temporary::with("reversed", &bytes);
        let mut log = Source::open(&file.0, Links::Refuse, Access::default()).expect("opened");
        let known = Known {
            partition_id: Some(0),
            first_offset: Some(0),
            durable_to: 0,
            time_rises_from: 0,
        };
        for notes_max in [2, 3, 5, 16, 299, 300, 301] {
            let mut seen = Vec::new();
            let first = Start::first(known);
            let mut reversed = Reversed {
                known,
                first,
                end_offset: u64::MAX,
                on_damage: &mut |event| panic!("{event:?}"),
                on_batch: &mut |at, batch| {
                    seen.push((at, batch.header().base_offset));
                    Ok(Flow::Continue)
                },
            };
            reversed.stretch(&mut log, first, u64::MAX, true, notes_max).expect("walked");
            assert_eq!(seen, expected, "{notes_max}");
        }
    }
}
