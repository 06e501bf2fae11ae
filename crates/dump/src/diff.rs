//! `diff`: two logs compared byte by byte, and the first difference by its name.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use corelog_format::{BATCH_HEADER_LEN, Batch, BatchHeader, first_nonzero};

use crate::annotate::{self, Part, Piece};
use crate::discover::{Partition, Segment};
use crate::failure::{Failure, Shown};
use crate::json::{Object, Out};
use crate::seek::Index;
use crate::session::Session;
use crate::source::Source;
use crate::style::Colour;
use crate::verify;
use crate::walk::{Event, Flow, Known, Start, walk_from};

/// The version of the document.
const SCHEMA: u64 = 1;

/// Bytes compared at a time.
const WINDOW: u64 = 1 << 20;

/// Bytes shown of each side from the first difference on.
const SHOWN_BYTES: usize = 16;

/// Compares; a difference makes the exit code 1.
pub(crate) fn run(
    session: &mut Session,
    a: &Partition,
    b: &Partition,
    json: bool,
) -> Result<(), Failure> {
    let (mut left, mut right) = (Log::new(a), Log::new(b));
    let same = loop {
        let (one, other) = match (left.bytes(session)?, right.bytes(session)?) {
            (Some(one), Some(other)) => (one, other),
            (None, None) => break true,
            _ => break false,
        };
        let len = one.len().min(other.len());
        let (one, other) = (&one[..len], &other[..len]);
        // Vector code finds that there is no difference, which is the usual case.
        let differs = match one == other {
            true => None,
            false => one.iter().zip(other).position(|(a, b)| a != b),
        };
        left.advance(differs.unwrap_or(len));
        right.advance(differs.unwrap_or(len));
        if differs.is_some() {
            break false;
        }
        // Behind damage nothing says where the log ends; holes on both sides need no reading.
        let holes = left.hole().min(right.hole());
        left.at += holes;
        right.at += holes;
    };
    if same {
        return equal(session, left.compared, json);
    }
    session.damage();
    let (one, other) = (left.named(session)?, right.named(session)?);
    match json {
        true => as_json(&mut session.out, left.compared, &one, &other)?,
        false => as_text(session, left.compared, &one, &other)?,
    }
    Ok(())
}

/// What a partition's segments hold, one after the other, without zeros behind their last batches.
struct Log<'a> {
    partition: &'a Partition,
    segments: std::slice::Iter<'a, Segment>,
    open: Option<(&'a Segment, Source)>,
    at: u64,
    /// Where the batch ends that `at` is in, or stands at; far away behind a header that is none.
    batch_end: u64,
    /// Bytes that were the same.
    compared: u64,
}

impl<'a> Log<'a> {
    fn new(partition: &'a Partition) -> Log<'a> {
        let segments = partition.segments.iter();
        Log { partition, segments, open: None, at: 0, batch_end: 0, compared: 0 }
    }

    /// The next bytes, if any are left; never more than a batch.
    fn bytes(&mut self, session: &mut Session) -> Result<Option<&[u8]>, Failure> {
        while !self.is_in_batch()? {
            let Some(segment) = self.segments.next() else { return Ok(None) };
            let source = match Source::open(&segment.path, segment.links, session.access) {
                // As if it had been listed a moment later.
                Err(failure) if self.compared == 0 && segment.vanished(&failure) => {
                    session.fail_of(segment, failure)?;
                    continue;
                }
                Err(failure) if segment.vanished(&failure) => {
                    let why = "was removed while the logs were compared; run the command again";
                    return Err(Failure::not_ours(&segment.path, why));
                }
                source => source?,
            };
            (self.open, self.at, self.batch_end) = (Some((segment, source)), 0, 0);
        }
        let Some((_, source)) = &mut self.open else { return Ok(None) };
        let (at, len) = (self.at, WINDOW.min(self.batch_end - self.at));
        source.again_if_cut(|source| source.window(at, len).map(|_| ()))?;
        let window = source.window(at, len)?;
        Ok(Some(&window[..window.len().min(len as usize)]))
    }

    /// Whether a batch, or damage, stands here; else the segment is at its end.
    fn is_in_batch(&mut self) -> Result<bool, Failure> {
        let Some((_, source)) = &mut self.open else { return Ok(false) };
        if self.at < self.batch_end {
            return Ok(self.at < source.len());
        }
        let at = self.at;
        let end = source.again_if_cut(|source| {
            let window = source.window(at, BATCH_HEADER_LEN as u64)?;
            let header = &window[..window.len().min(BATCH_HEADER_LEN)];
            let length = BatchHeader::parse(header).map(|header| header.batch_length);
            if first_nonzero(header).is_none() && source.zeros_to_end(at)? {
                return Ok(None);
            }
            Ok(Some(length.map_or(u64::MAX, |length| at + length)))
        })?;
        self.batch_end = end.unwrap_or(self.batch_end);
        Ok(end.is_some())
    }

    /// How much of nothing is here, behind damage.
    fn hole(&self) -> u64 {
        match &self.open {
            Some((_, source)) if self.batch_end == u64::MAX => source.next_data(self.at) - self.at,
            _ => 0,
        }
    }

    fn advance(&mut self, len: usize) {
        self.at += len as u64;
        self.compared += len as u64;
    }

    /// What stands here.
    fn named(&mut self, session: &mut Session) -> Result<Side, Failure> {
        let dir = self.partition.dir.clone();
        if self.bytes(session)?.is_none() {
            return Ok(Side { path: dir, place: None });
        }
        let (partition, at) = (self.partition, self.at);
        let Some((segment, source)) = &mut self.open else {
            return Ok(Side { path: dir, place: None });
        };
        let durable = crate::durable::Durable::nothing();
        let known = verify::known(partition, segment, &durable);
        let index = Index::open(&segment.path, segment.links, session.access);
        let start = match index {
            Some(mut index) => index.at_most(source, known, at, u64::MAX)?,
            None => None,
        };
        let start = start.unwrap_or(Start::first(known));
        let place = source.again_if_cut(|source| place(source, known, start, at))?;
        Ok(Side { path: segment.path.clone(), place: Some(place) })
    }
}

/// The byte at `at`, and what it is part of.
fn place(source: &mut Source, known: Known, start: Start, at: u64) -> Result<Place, Failure> {
    let mut place = Place::nowhere(at);
    walk_from(source, known, start, &mut |event| {
        let Event::Batch { at: begins, batch, .. } = event else { return Ok(Flow::Continue) };
        if begins + batch.header().batch_length <= at {
            return Ok(Flow::Continue);
        }
        if begins <= at {
            place.inside(&batch, begins);
        }
        Ok(Flow::Stop)
    })?;
    let window = source.window(at, SHOWN_BYTES as u64)?;
    place.bytes = window[..window.len().min(SHOWN_BYTES)].to_vec();
    source.intact()?;
    Ok(place)
}

/// One side of a difference.
struct Side {
    path: PathBuf,
    /// Nothing where this side has ended.
    place: Option<Place>,
}

/// A byte and what it is part of.
struct Place {
    position: u64,
    /// Offset of the message, or of the first one of the batch in whose header it is.
    offset: Option<u64>,
    /// The field, where the byte is in a batch that verifies.
    field: Option<&'static str>,
    /// What the field says.
    value: String,
    /// Bytes from here on.
    bytes: Vec<u8>,
}

impl Place {
    fn nowhere(position: u64) -> Place {
        let (value, bytes) = ("in no batch that verifies".to_string(), Vec::new());
        Place { position, offset: None, field: None, value, bytes }
    }

    /// The place is in this batch, which begins at `begins`.
    fn inside(&mut self, batch: &Batch<'_>, begins: u64) {
        let at = (self.position - begins) as usize;
        let holds = |piece: &Piece| piece.at <= at && at < piece.at + piece.len;
        let base = batch.header().base_offset;
        self.offset = Some(base);
        let mut delta = None;
        annotate::batch(batch.bytes(), &mut |piece| {
            if holds(&piece) {
                self.field = Some(piece.name);
                if let Part::Frame(index) = piece.part {
                    delta = Some(index);
                }
                self.value = piece.value;
            }
        });
        if let Some(index) = delta {
            let frame = batch.frames().nth(index as usize);
            self.offset = frame.map(|frame| base.saturating_add(u64::from(frame.offset_delta())));
        }
    }
}

fn equal(session: &mut Session, compared: u64, json: bool) -> Result<(), Failure> {
    match json {
        true => writeln!(
            session.out,
            "{{\"schema\":{SCHEMA},\"equal\":true,\"bytes\":{compared},\"a\":null,\"b\":null}}"
        )?,
        false => writeln!(session.out, "the same, {compared} bytes")?,
    }
    Ok(())
}

fn as_text(session: &mut Session, compared: u64, a: &Side, b: &Side) -> Result<(), Failure> {
    let style = session.style;
    let named = [a, b].into_iter().filter_map(|side| side.place.as_ref());
    let what = named.clone().find_map(|place| place.field.zip(place.offset));
    let what = match what {
        Some((field, offset)) => format!("they differ in {field} at offset {offset}"),
        None => "they differ".to_string(),
    };
    let out = &mut session.out;
    writeln!(out, "{}, behind {compared} bytes that are the same", style.paint(Colour::Bad, what))?;
    for (name, side) in [("A", a), ("B", b)] {
        let path = Shown(&side.path);
        match &side.place {
            None => writeln!(out, "  {name} {path}: ends")?,
            Some(place) => {
                let hex: Vec<String> = place.bytes.iter().map(|b| format!("{b:02x}")).collect();
                let (position, hex) = (place.position, hex.join(" "));
                let field = place.field.map_or(String::new(), |field| format!("{field} "));
                writeln!(out, "  {name} {path} at {position}: {field}{}", place.value)?;
                writeln!(out, "    {hex}")?;
            }
        }
    }
    Ok(())
}

fn as_json(out: Out<'_>, compared: u64, a: &Side, b: &Side) -> io::Result<()> {
    let mut object = Object::begin(&mut *out)?;
    object.number("schema", SCHEMA)?;
    object.flag("equal", false)?;
    object.number("bytes", compared)?;
    for (name, side) in [("a", a), ("b", b)] {
        let mut one = Object::begin(object.field(name)?)?;
        side_fields(&mut one, &side.path, side.place.as_ref())?;
        one.end()?;
    }
    object.end()?;
    out.write_all(b"\n")
}

fn side_fields(object: &mut Object<'_>, path: &Path, place: Option<&Place>) -> io::Result<()> {
    object.text("path", &path.to_string_lossy())?;
    object.flag("ended", place.is_none())?;
    object.maybe("position", place.map(|place| place.position))?;
    object.maybe("offset", place.and_then(|place| place.offset))?;
    match place.and_then(|place| place.field) {
        Some(field) => object.text("field", field)?,
        None => object.field("field")?.write_all(b"null")?,
    }
    object.text("value", place.map_or("", |place| &place.value))?;
    object.hex("hex", place.map_or(&[], |place| &place.bytes))
}
