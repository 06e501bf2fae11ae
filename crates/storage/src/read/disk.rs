//! Serving a poll from segment files: verified batches of one segment after the other.

use std::rc::Rc;

use corelog_io::Platform;

use super::cursor::{Cursor, Stored};
use super::damage::{ended_early, failed, past};
use super::hints::Hint;
use super::plan::Want;
use super::select::{Selection, Take};
use super::source::{Source, Start};
use crate::partition::{BytesOf, Inner};
use crate::shared::Held;
use crate::{Answer, PollError};

/// Serves batches from `segment`, which holds the selection's next offset: at least one, or the
/// reason why not.
pub(super) async fn serve<P: Platform, A: Answer>(
    inner: &Rc<Inner<P, A>>,
    segment: u64,
    selection: &mut Selection<BytesOf<P>>,
    held: &mut Held<P>,
) -> Result<(), PollError> {
    let wanted = selection.next();
    let hint = inner.hints.borrow_mut().take(wanted, segment);
    let mut run = hint.map_or(0, |hint| hint.run);
    let source = Source::open(inner, segment).await?;
    let start = find(&source, hint, wanted);
    let way = if start.hint { inner.config.index_step } else { 0 };
    let mut want = want(selection, way, run);
    let (mut cursor, mut found, from) = first(source, start, &want, wanted).await?;
    let mut looked_up = hint.is_none();
    let after = inner.segments.borrow().after(segment);
    let mut goes_on = None;
    while let Some(batch) = found {
        let (begin, end) = (cursor.position() - batch.header.batch_length, cursor.position());
        let taken = take(selection, &batch, cursor.window_cost(), held);
        if taken && std::mem::take(&mut looked_up) {
            crate::reindex::looked_up(inner, segment, begin - from.position, from.lied);
        }
        let next = selection.next();
        run += if taken { batch.header.batch_length } else { 0 };
        goes_on = match batch.header.end_offset() == Some(next) {
            true => Some((next, end)),
            false if next > batch.header.base_offset => Some((batch.header.base_offset, begin)),
            false => goes_on,
        };
        // A sealed file has no length of its own to stop at: its last batch ends it.
        let is_last = after.is_some() && batch.header.end_offset() == after;
        if is_last || selection.is_done() || ends_here(selection, &cursor, held) {
            break;
        }
        // What was taken of it is counted; the rest may go.
        drop(batch);
        want = self::want(selection, 0, run);
        (cursor, found) = self::next(cursor, &want, wanted).await?;
    }
    let next = selection.next();
    if let Some((base_offset, position)) = goes_on {
        inner.hints.borrow_mut().put(Hint { next, segment, position, base_offset, run });
        if hint.is_some() {
            cursor.read_ahead(&Want { bytes: 0, run, ..want });
        }
    }
    if next > wanted || selection.is_done() {
        return Ok(());
    }
    Err(ended_early(segment, cursor.position(), after))
}

/// Where a walk began.
struct Began {
    position: u64,
    /// The index named places before that hold no batch.
    lied: bool,
}

/// The batch that holds what is wanted, or one before it. Where the index lied it goes back to an
/// entry before, in the end to the segment's start.
async fn first<P: Platform, A: Answer>(
    source: Source<P, A>,
    mut start: Start,
    want: &Want,
    wanted: u64,
) -> Result<(Cursor<P, A>, Option<Stored<BytesOf<P>>>, Began), PollError> {
    let mut cursor = Cursor::new(source, start);
    let mut lies = 0;
    while start.hint {
        match cursor.next(want).await {
            Ok(found) => {
                return Ok((cursor, found, Began { position: start.position, lied: lies > 0 }));
            }
            Err(fault) if fault.is_of_place() => {
                lies += 1;
                start = cursor.source().before(start, lies);
                cursor = cursor.restart(start);
            }
            Err(fault) => return Err(failed(&cursor, fault).await),
        }
    }
    let (cursor, found) = next(cursor, want, wanted).await?;
    Ok((cursor, found, Began { position: start.position, lied: lies > 0 }))
}

/// The next batch; where damage stands before what is `wanted`, the first one behind it.
async fn next<P: Platform, A: Answer>(
    mut cursor: Cursor<P, A>,
    want: &Want,
    wanted: u64,
) -> Result<(Cursor<P, A>, Option<Stored<BytesOf<P>>>), PollError> {
    loop {
        match cursor.next(want).await {
            Ok(found) => return Ok((cursor, found)),
            // Each time further behind in the file.
            Err(fault) => cursor = past(cursor, fault, wanted).await?,
        }
    }
}

/// The nearest known batch start at or below `offset`.
fn find<P: Platform, A: Answer>(source: &Source<P, A>, hint: Option<Hint>, offset: u64) -> Start {
    if let Some(Hint { position, base_offset, .. }) = hint {
        return Start { position, offset: base_offset, hint: false };
    }
    let entry = source.look(|index| index.at_offset(offset));
    entry.filter(|entry| entry.position > 0).map_or(source.origin(), Start::of)
}

fn want<S: corelog_io::SharedBytes>(selection: &Selection<S>, way: u64, run: u64) -> Want {
    Want { bytes: selection.bytes_left() as u64, until: selection.until(), way, run }
}

/// True where the poll took something of the batch.
fn take<P: Platform>(
    selection: &mut Selection<BytesOf<P>>,
    batch: &Stored<BytesOf<P>>,
    cost: usize,
    held: &mut Held<P>,
) -> bool {
    let header = &batch.header;
    let had = selection.pieces();
    match selection.take(header.base_offset, header.message_count, header.batch_length) {
        Take::Whole => selection.view(&batch.bytes, batch.range.clone()),
        Take::Part(messages) => {
            selection.part(&batch.bytes, batch.range.clone(), messages.clone());
        }
        Take::Skip | Take::Stop => return false,
    }
    if selection.pieces() > had {
        held.add(cost);
    }
    true
}

/// True where the poll has enough, or ought not to wait for more.
fn ends_here<P: Platform, A: Answer>(
    selection: &mut Selection<BytesOf<P>>,
    cursor: &Cursor<P, A>,
    held: &Held<P>,
) -> bool {
    let len = cursor.peek_len();
    if len.is_none() && held.is_too_much() {
        selection.stop();
    }
    selection.stop_before(len)
}
