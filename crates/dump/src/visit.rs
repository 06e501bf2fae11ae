//! The batches that a selection may want, over all segments, forwards or backwards: what `show`,
//! `stats` and `extract` have in common.

use corelog_format::Batch;

use crate::discover::{Partition, Segment};
use crate::durable::Durable;
use crate::failure::{Failure, Shown};
use crate::reverse::Reversed;
use crate::seek::Index;
use crate::select::Selection;
use crate::session::Session;
use crate::source::Source;
use crate::verify;
use crate::walk::{Event, Flow, Known, Start, walk_from};

/// In which order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// From the first to the last.
    Forwards,
    /// From the last to the first.
    Backwards,
}

/// Where a batch stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'a> {
    /// Its segment.
    pub(crate) segment: &'a Segment,
    /// File position of its first byte.
    pub(crate) position: u64,
}

/// What is called with each batch.
pub(crate) type OnBatch<'f> =
    dyn FnMut(&mut Session, At<'_>, Batch<'_>) -> Result<Flow, Failure> + 'f;

/// Calls `on` with every batch that verifies and may hold what is selected. Damage on the way is
/// said and remembered in the session, and so is a file that cannot be read. Memory does not grow
/// with the files.
pub(crate) fn each_batch(
    session: &mut Session,
    partitions: &[Partition],
    selection: &Selection,
    order: Order,
    on: &mut OnBatch<'_>,
) -> Result<(), Failure> {
    let mut ordered: Vec<&Partition> = partitions.iter().collect();
    if order == Order::Backwards {
        ordered.reverse();
    }
    for partition in ordered {
        let durable = verify::durable(session, &partition.dir)?;
        let mut segments = wanted(partition, selection);
        if order == Order::Backwards {
            segments.reverse();
        }
        for segment in segments {
            let mut visit = Visit { session, partition, segment, durable: &durable, selection };
            match visit.segment(order, on) {
                Ok(Flow::Stop) => return Ok(()),
                Ok(Flow::Continue) => {}
                // The others may still be read; where the output cannot be written they need not.
                Err(failure) if segment.is_of(&failure) => session.fail_of(segment, failure)?,
                Err(failure) => return Err(failure),
            }
        }
    }
    Ok(())
}

/// The segments that can hold selected offsets, by what their names say.
pub(crate) fn wanted<'a>(partition: &'a Partition, selection: &Selection) -> Vec<&'a Segment> {
    let segments = &partition.segments;
    let next_begins = |at: usize| segments.get(at + 1).and_then(|next| next.named_offset);
    let wanted = segments.iter().enumerate().filter(|(at, segment)| {
        let Some(begins) = segment.named_offset else { return true };
        begins < selection.offsets.end
            && next_begins(*at).is_none_or(|next| next > selection.offsets.start)
    });
    wanted.map(|(_, segment)| segment).collect()
}

/// One segment.
struct Visit<'a> {
    session: &'a mut Session,
    partition: &'a Partition,
    segment: &'a Segment,
    durable: &'a Durable,
    selection: &'a Selection,
}

/// How far a segment was shown: where to go on in one that was cut meanwhile.
struct Way {
    /// Behind the last batch, forwards.
    behind: Option<Start>,
    /// Only what is before this offset is wanted still, backwards.
    before: u64,
    /// The last damage that was said, forwards.
    damage: Option<u64>,
}

impl Visit<'_> {
    fn segment(&mut self, order: Order, on: &mut OnBatch<'_>) -> Result<Flow, Failure> {
        let (segment, access) = (self.segment, self.session.access);
        let mut source = Source::open(&segment.path, segment.links, access)?;
        let mut way = Way { behind: None, before: self.selection.offsets.end, damage: None };
        let flow = source.again_if_cut(|source| {
            let flow = self.look(source, order, &mut way, on)?;
            // Damage was damage, and the end the end, only if the file is still as long.
            if flow == Flow::Continue {
                source.intact()?;
            }
            Ok(flow)
        })?;
        // Under a mapping zeros may have been shown for what was cut.
        source.refresh()?;
        Ok(flow)
    }

    fn look(
        &mut self,
        source: &mut Source,
        order: Order,
        way: &mut Way,
        on: &mut OnBatch<'_>,
    ) -> Result<Flow, Failure> {
        let Visit { partition, segment, durable, selection, .. } = *self;
        let known = verify::known(partition, segment, durable);
        let times_rise = durable.times_rise_in(segment);
        let narrow = selection.offsets.start > 0 || times_rise && selection.times.start > 0;
        let mut index = match narrow || order == Order::Backwards {
            true => Index::open(&segment.path, segment.links, self.session.access),
            false => None,
        };
        let start = match &mut index {
            _ if way.behind.is_some() => way.behind,
            Some(index) if narrow => index.before(source, known, selection, times_rise)?,
            _ => None,
        };
        let start = start.unwrap_or(Start::first(known));
        match order {
            Order::Forwards => self.forwards(source, known, start, way, on),
            Order::Backwards => self.backwards(source, known, start, index, way, on),
        }
    }

    fn forwards(
        &mut self,
        source: &mut Source,
        known: Known,
        start: Start,
        way: &mut Way,
        on: &mut OnBatch<'_>,
    ) -> Result<Flow, Failure> {
        let Visit { session, segment, selection, durable, .. } = self;
        let times_rise = durable.times_rise_in(segment);
        let mut flow = Flow::Continue;
        walk_from(source, known, start, &mut |event| {
            let (position, batch) = match event {
                Event::Batch { at, batch, .. } => (at, batch),
                Event::Damage { at, .. } => {
                    if way.damage != Some(at) {
                        damage(session, segment, &event)?;
                    }
                    way.damage = Some(at);
                    return Ok(Flow::Continue);
                }
            };
            let header = *batch.header();
            if selection.may_be_in(&header) {
                flow = on(session, At { segment, position }, batch)?;
            }
            way.behind = Some(Start::behind(position, &header));
            Ok(if selection.ends_with(&header, times_rise) { Flow::Stop } else { flow })
        })?;
        Ok(flow)
    }

    fn backwards(
        &mut self,
        source: &mut Source,
        known: Known,
        first: Start,
        index: Option<Index>,
        way: &mut Way,
        on: &mut OnBatch<'_>,
    ) -> Result<Flow, Failure> {
        let Visit { session, segment, selection, .. } = self;
        // Both callbacks speak to the session, one at a time.
        let session = std::cell::RefCell::new(&mut **session);
        let mut reversed = Reversed {
            known,
            first,
            end_offset: way.before,
            on_damage: &mut |event| damage(&mut session.borrow_mut(), segment, &event),
            on_batch: &mut |position, batch| {
                let header = *batch.header();
                let flow = match selection.may_be_in(&header) {
                    true => on(&mut session.borrow_mut(), At { segment, position }, batch)?,
                    false => Flow::Continue,
                };
                way.before = header.base_offset;
                Ok(flow)
            },
        };
        reversed.walk(source, index)
    }
}

/// Says where a segment is damaged.
pub(crate) fn damage(
    session: &mut Session,
    segment: &Segment,
    event: &Event<'_>,
) -> Result<(), Failure> {
    let Event::Damage { at, why, .. } = event else { return Ok(()) };
    session.damage();
    let path = Shown(&segment.path);
    session.say(format_args!("{path}: damage at {at}: {why}"))
}
