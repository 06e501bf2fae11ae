//! `hex`: the bytes of one batch, sound or damaged, with the names of its fields.

mod print;

use corelog_format::layout::{Field, batch_header, index_entry, manifest};
use corelog_format::{BATCH_BYTES_MAX, FormatError};

use crate::annotate;
use crate::discover::{Partition, Segment};
use crate::failure::{Failure, Shown};
use crate::seek::Index;
use crate::select::Selection;
use crate::session::Session;
use crate::source::{Links, Source};
use crate::verify;
use crate::visit::wanted;
use crate::walk::{Event, Flow, Known, Start, walk_from};

use print::Printer;

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
            let mut hex = Hex { session, segment, target, look };
            if source.again_if_cut(|source| hex.found(source, known, &selection))? {
                return Ok(());
            }
        }
    }
    let path = partitions.first().map_or(std::path::Path::new(""), |first| &first.dir);
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
    path: &std::path::Path,
    at: u64,
    look: Look,
) -> Result<(), Failure> {
    let is_index = path.extension().is_some_and(|extension| extension == "index");
    let (fields, len): (&[Field], usize) = match is_index {
        true => (&index_entry::FIELDS, index_entry::LEN),
        false => (&manifest::FIELDS, manifest::LEN),
    };
    let access = crate::source::Access { map: false, ..session.access };
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

struct Hex<'a> {
    session: &'a mut Session,
    segment: &'a Segment,
    target: Target,
    look: Look,
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
    /// Shows the target, if this segment has it.
    fn found(
        &mut self,
        source: &mut Source,
        known: Known,
        selection: &Selection,
    ) -> Result<bool, Failure> {
        let start = self.start(source, known, selection)?;
        let len = source.len();
        let (mut found, mut damaged) = (false, None);
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
                    found = true;
                    self.show(at, batch.bytes(), Some(header.base_offset), None)?;
                    return Ok(Flow::Stop);
                }
                Ok(Flow::Continue)
            }
        })?;
        match damaged {
            Some(damaged) if !found && self.may_hold(&damaged) => {
                self.damaged(source, &damaged)?;
                Ok(true)
            }
            _ => Ok(found),
        }
    }

    fn start(
        &mut self,
        source: &mut Source,
        known: Known,
        selection: &Selection,
    ) -> Result<Start, Failure> {
        let index = Index::open(&self.segment.path, self.segment.links, self.session.access);
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

    /// Shows what stands where a batch should be, as far as it can be read as one.
    fn damaged(&mut self, source: &mut Source, damaged: &Damaged) -> Result<(), Failure> {
        let have = (damaged.end - damaged.at).min(BATCH_BYTES_MAX);
        let window = source.window(damaged.at, have)?;
        self.session.damage();
        let path = Shown(&self.segment.path);
        self.session.say(format_args!("{path}: damage at {}: {}", damaged.at, damaged.why))?;
        let bytes = &window[..window.len().min(have as usize)];
        // The header's word counts where it can be true; else all up to the next batch is shown.
        let field = batch_header::BATCH_LENGTH;
        let length = bytes.get(field.at..field.end()).map_or(0, |bytes| {
            bytes.iter().rev().fold(0u64, |number, byte| number << 8 | u64::from(*byte))
        });
        let bytes = match usize::try_from(length) {
            Ok(length) if (304..=bytes.len()).contains(&length) => &bytes[..length],
            _ => bytes,
        };
        self.show(damaged.at, bytes, None, Some(&damaged.why))
    }

    /// Shows the batch at `at`. `base_offset`: of one that verifies.
    fn show(
        &mut self,
        at: u64,
        bytes: &[u8],
        base_offset: Option<u64>,
        why: Option<&FormatError>,
    ) -> Result<(), Failure> {
        let wanted = match (self.target, base_offset) {
            (Target::Offset(offset), Some(base)) => print::Wanted::Delta(offset - base),
            (Target::Offset(_), None) => print::Wanted::Nothing,
            (Target::Position(position), _) => print::Wanted::Byte(position - at),
        };
        let path = &self.segment.path;
        let mut printer =
            Printer::new(self.session, path, at, Some(wanted), self.look, why.copied())?;
        annotate::batch(bytes, &mut |piece| printer.piece(bytes, piece));
        printer.end()
    }
}
