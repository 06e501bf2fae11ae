//! `show`: every batch or message that verifies, one line each, as the walk finds them.

use std::io::{self, Write};

use corelog_format::{Batch, BatchHeader, Frame};

use crate::discover::{Partition, Segment};
use crate::durable::Durable;
use crate::failure::{Failure, Shown};
use crate::json::Object;
use crate::render::{self, HumanHeaders};
use crate::session::Session;
use crate::source::Source;
use crate::time::Utc;
use crate::verify;
use crate::walk::{Event, Flow, walk};

/// Which lines, and how many of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows {
    /// A line for each message, not for each batch.
    pub(crate) messages: bool,
    /// JSON objects, not text.
    pub(crate) ndjson: bool,
    /// Lines that may still be printed.
    pub(crate) limit: u64,
}

/// Prints the segments of all partitions. Memory does not grow with what is printed.
pub(crate) fn run(
    session: &mut Session,
    partitions: &[Partition],
    mut rows: Rows,
) -> Result<(), Failure> {
    for partition in partitions {
        let durable = verify::durable(session, &partition.dir)?;
        for segment in &partition.segments {
            if rows.limit == 0 {
                return Ok(());
            }
            match segment_rows(session, partition, segment, &durable, &mut rows) {
                Err(failure) if segment.vanished(&failure) => {
                    let path = Shown(&segment.path);
                    session.say(format_args!("{path}: gone since it was listed"))?;
                }
                Err(failure) => session.fail(failure)?,
                Ok(()) => {}
            }
        }
    }
    Ok(())
}

fn segment_rows(
    session: &mut Session,
    partition: &Partition,
    segment: &Segment,
    durable: &Durable,
    rows: &mut Rows,
) -> Result<(), Failure> {
    let mut source = Source::open(&segment.path, segment.links, session.access)?;
    let known = verify::known(partition, segment, durable);
    walk(&mut source, known, &mut |event| {
        match event {
            Event::Batch { at, batch, .. } if rows.messages => {
                messages(&mut session.out, at, &batch, rows)?;
            }
            Event::Batch { at, batch, .. } => {
                batch_row(&mut session.out, segment, at, batch.header(), rows.ndjson)?;
                rows.limit -= 1;
            }
            Event::Damage { at, why, .. } => {
                session.damage();
                let path = Shown(&segment.path);
                session.say(format_args!("{path}: damage at {at}: {why}"))?;
            }
        }
        Ok(if rows.limit == 0 { Flow::Stop } else { Flow::Continue })
    })?;
    Ok(())
}

fn batch_row(
    out: &mut dyn Write,
    segment: &Segment,
    at: u64,
    header: &BatchHeader,
    ndjson: bool,
) -> io::Result<()> {
    if ndjson {
        let mut object = Object::begin(out)?;
        object.text("path", &segment.path.to_string_lossy())?;
        object.number("position", at)?;
        render::batch_fields(&mut object, header)?;
        object.end()?;
        return out.write_all(b"\n");
    }
    writeln!(
        out,
        "@{at} offsets {}..{} time {} messages {} bytes {} partition {} origin {} sum {:#018x}",
        header.base_offset,
        header.base_offset.saturating_add(u64::from(header.message_count)),
        Utc(header.base_timestamp),
        header.message_count,
        header.batch_length,
        header.partition_id,
        Utc(header.origin_timestamp),
        header.batch_checksum,
    )
}

fn messages(out: &mut dyn Write, at: u64, batch: &Batch<'_>, rows: &mut Rows) -> io::Result<()> {
    for frame in batch.frames() {
        if rows.limit == 0 {
            return Ok(());
        }
        rows.limit -= 1;
        message_row(out, at, batch.header(), &frame, rows.ndjson)?;
    }
    Ok(())
}

/// One message. `at` is the file position of its batch.
fn message_row(
    out: &mut dyn Write,
    at: u64,
    header: &BatchHeader,
    frame: &Frame<'_>,
    ndjson: bool,
) -> io::Result<()> {
    if ndjson {
        let mut object = Object::begin(out)?;
        object.number("partition_id", header.partition_id)?;
        object.number("batch_position", at)?;
        object.number("base_timestamp", header.base_timestamp)?;
        render::message_fields(&mut object, header, frame)?;
        render::stored_headers(object.field("user_headers")?, frame.user_headers())?;
        object.end()?;
        return out.write_all(b"\n");
    }
    write!(
        out,
        "offset {} time {} origin {} id {} payload {}",
        render::offset(header, frame),
        Utc(header.base_timestamp),
        Utc(render::origin(header, frame)),
        frame.id(),
        frame.payload().len(),
    )?;
    match frame.user_headers() {
        headers if headers.is_empty() => writeln!(out),
        headers => writeln!(out, " headers {}", HumanHeaders(headers)),
    }
}
