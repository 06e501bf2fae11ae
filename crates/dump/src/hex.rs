//! `hex`: the bytes of one batch, sound or damaged, with the names of its fields.

mod print;
#[cfg(test)]
mod tests;

use std::path::Path;

use corelog_format::layout::{Field, batch_header, index_entry, manifest};
use corelog_format::{BATCH_BYTES_MAX, BatchHeader, FormatError};

use crate::annotate::{self, BATCH_BYTES_MIN};
use crate::discover::{Partition, Segment};
use crate::failure::{Failure, Shown};
use crate::seek::Index;
use crate::select::Selection;
use crate::session::Session;
use crate::source::{Access, Links, Source};
use crate::verify;
use crate::visit::wanted;
use crate::walk::{Event, Flow, Known, Start, walk_from};

use print::{Printer, Wanted};

/// What is looked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Target {
    /// The message with this offset.
    Offset(u64),
    /// The batch that holds this byte of the file.
    Position(u64),
}

/// How it is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    /// Every frame, and payloads to their end.
    pub(crate) all: bool,
    /// As one JSON document.
    pub(crate) json: bool,
}

/// Shows what `target` names in the first of the partitions that has it.
pub(crate) fn run(
    session: &mut Session,
    partitions: &[Partition],
    target: Target,
    look: Look,
) -> Result<(), Failure> {
    let selection = match target {
        Target::Offset(offset) => {
            Selection { offsets: offset..offset.saturating_add(1), ..Selection::everything() }
        }
        Target::Position(_) => Selection::everything(),
    };
    for partition in partitions {
        let durable = verify::durable(session, &partition.dir)?;
        let segments = wanted(partition, &selection);
        if let (Target::Position(_), [_, _, ..]) = (target, &segments[..]) {
            let why = "holds several segments; --at counts the bytes of one, name that file";
            return Err(Failure::not_ours(&partition.dir, why));
        }
        for segment in segments {
            let mut source = match Source::open(&segment.path, segment.links, session.access) {
                Ok(source) => source,
                Err(failure) if segment.vanished(&failure) => {
                    session.fail_of(segment, failure)?;
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            let known = verify::known(partition, segment, &durable);
            let hex = Hex { access: session.access, segment, target };
            let found = source.again_if_cut(|source| hex.find(source, known, &selection))?;
            if let Some(found) = found {
                return found.show(session, &segment.path, target, look);
            }
        }
    }
    let path = partitions.first().map_or(Path::new(""), |first| &first.dir);
    Err(Failure::not_ours(
        path,
        match target {
            Target::Offset(offset) => {
                format!("no batch holds offset {offset}; ls shows what is there")
            }
            Target::Position(at) => format!("byte {at} is behind the last batch"),
        },
    ))
}

/// Shows the record of an index or a manifest that holds byte `at`.
pub(crate) fn record(
    session: &mut Session,
    path: &Path,
    at: u64,
    look: Look,
) -> Result<(), Failure> {
    let is_index = path.extension().is_some_and(|extension| extension == "index");
    let (fields, len): (&[Field], usize) = match is_index {
        true => (&index_entry::FIELDS, index_entry::LEN),
        false => (&manifest::FIELDS, manifest::LEN),
    };
    let access = Access { map: false, ..session.access };
    let mut source = Source::open(path, Links::Follow, access)?;
    if at >= source.len() {
        let why = format!("byte {at} is behind its end, {}", source.len());
        return Err(Failure::not_ours(path, why));
    }
    let begins = at - at % len as u64;
    let window = source.window(begins, len as u64)?;
    let bytes = &window[..window.len().min(len)];
    let mut printer = Printer::new(session, path, begins, None, look, None)?;
    annotate::records(bytes, fields, len, &mut |piece| printer.piece(bytes, piece));
    printer.end()
}

/// A target, looked for in one segment.
struct Hex<'a> {
    access: Access,
    segment: &'a Segment,
    target: Target,
}

/// What the target names. Its bytes are a copy: a file may be cut while they are printed.
struct Found {
    at: u64,
    bytes: Vec<u8>,
    is: Is,
}

/// A batch, or what stands where one should be.
enum Is {
    Batch {
        base_offset: u64,
    },
    /// Damage that begins at `from`.
    Damage {
        from: u64,
        why: FormatError,
    },
}

/// Bytes that are no batch where one should be.
struct Damaged {
    at: u64,
    offset: Option<u64>,
    why: FormatError,
    /// Where the next batch is, if there is one.
    end: u64,
}

impl Hex<'_> {
    /// The target, if this segment has it.
    fn find(
        &self,
        source: &mut Source,
        known: Known,
        selection: &Selection,
    ) -> Result<Option<Found>, Failure> {
        let start = self.start(source, known, selection)?;
        let len = source.len();
        let (mut found, mut damaged) = (None, None);
        walk_from(source, known, start, &mut |event| match event {
            Event::Damage { at, offset, why } => {
                damaged = Some(Damaged { at, offset, why, end: len });
                Ok(Flow::Continue)
            }
            Event::Batch { at, batch, .. } => {
                let header = batch.header();
                let behind = match self.target {
                    Target::Offset(offset) => header.base_offset > offset,
                    Target::Position(position) => at > position,
                };
                if behind {
                    if let Some(damaged) = &mut damaged {
                        damaged.end = at;
                    }
                    return Ok(Flow::Stop);
                }
                damaged = None;
                if self.is_in(at, header.base_offset, header.end_offset(), header.batch_length) {
                    let is = Is::Batch { base_offset: header.base_offset };
                    found = Some(Found { at, bytes: batch.bytes().to_vec(), is });
                    return Ok(Flow::Stop);
                }
                Ok(Flow::Continue)
            }
        })?;
        if let Some(damaged) = damaged.filter(|damaged| self.may_hold(damaged)) {
            found = Some(damaged.found(source, self.target)?);
        }
        // What was copied stood in the file, if the file is still as long.
        source.intact()?;
        Ok(found)
    }

    fn start(
        &self,
        source: &mut Source,
        known: Known,
        selection: &Selection,
    ) -> Result<Start, Failure> {
        let index = Index::open(&self.segment.path, self.segment.links, self.access);
        let start = match (index, self.target) {
            (None, _) => None,
            (Some(mut index), Target::Offset(_)) => {
                index.before(source, known, selection, false)?
            }
            (Some(mut index), Target::Position(at)) => {
                index.at_most(source, known, at, u64::MAX)?
            }
        };
        Ok(start.unwrap_or(Start::first(known)))
    }

    fn is_in(&self, at: u64, base: u64, end: Option<u64>, len: u64) -> bool {
        match self.target {
            Target::Offset(offset) => base <= offset && end.is_none_or(|end| offset < end),
            Target::Position(position) => at <= position && position < at + len,
        }
    }

    fn may_hold(&self, damaged: &Damaged) -> bool {
        match self.target {
            Target::Offset(offset) => damaged.offset.is_none_or(|first| first <= offset),
            Target::Position(position) => damaged.at <= position && position < damaged.end,
        }
    }
}

impl Damaged {
    /// What stands where a batch should be, as far as it can be read as one: of several the one that
    /// the target is in, as long as each states its length.
    fn found(self, source: &mut Source, target: Target) -> Result<Found, Failure> {
        let mut at = self.at;
        while let Some(next) = self.behind(source, at, target)? {
            at = next;
        }
        let have = (self.end - at).min(BATCH_BYTES_MAX);
        let length = self.stated_length(source, at)?.unwrap_or(have);
        let window = source.window(at, length)?;
        let bytes = window[..window.len().min(length as usize)].to_vec();
        Ok(Found { at, bytes, is: Is::Damage { from: self.at, why: self.why } })
    }

    /// Where the next one begins, if the target is not in the one at `at`.
    fn behind(&self, source: &mut Source, at: u64, target: Target) -> Result<Option<u64>, Failure> {
        let Some(length) = self.stated_length(source, at)? else { return Ok(None) };
        let header = BatchHeader::parse(source.window(at, batch_header::LEN as u64)?).ok();
        let is_behind = match target {
            Target::Position(position) => position >= at + length,
            Target::Offset(offset) => {
                header.and_then(|header| header.end_offset()).is_some_and(|end| end <= offset)
            }
        };
        Ok(Some(at + length).filter(|next| is_behind && *next < self.end))
    }

    /// The length that the header at `at` states, where it can be true. Otherwise all up to the next
    /// batch may belong to this one.
    fn stated_length(&self, source: &mut Source, at: u64) -> Result<Option<u64>, Failure> {
        let field = batch_header::BATCH_LENGTH;
        let header = source.window(at, batch_header::LEN as u64)?;
        let length = header.get(field.at..field.end()).map_or(0, |bytes| {
            bytes.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte))
        });
        let longest = (self.end - at).min(BATCH_BYTES_MAX);
        Ok(Some(length).filter(|length| (BATCH_BYTES_MIN as u64..=longest).contains(length)))
    }
}

impl Found {
    fn show(
        &self,
        session: &mut Session,
        path: &Path,
        target: Target,
        look: Look,
    ) -> Result<(), Failure> {
        let Found { at, bytes, is } = self;
        let (wanted, why) = match (target, is) {
            (Target::Offset(offset), Is::Batch { base_offset }) => {
                (Wanted::Delta(offset - base_offset), None)
            }
            (Target::Position(position), Is::Batch { .. }) => (Wanted::Byte(position - at), None),
            (Target::Offset(_), Is::Damage { why, .. }) => (Wanted::Nothing, Some(*why)),
            (Target::Position(position), Is::Damage { why, .. }) => {
                (Wanted::Byte(position - at), Some(*why))
            }
        };
        if let Is::Damage { from, why } = is {
            session.damage();
            session.say(format_args!("{}: damage at {from}: {why}", Shown(path)))?;
        }
        let mut printer = Printer::new(session, path, *at, Some(wanted), look, why)?;
        annotate::batch(bytes, &mut |piece| printer.piece(bytes, piece));
        printer.end()
    }
}
