//! `index show`: the entries of indexes as they stand, true or not. `index check` says which it is.

use std::io::{self, Write};
use std::path::Path;

use corelog_format::{INDEX_ENTRY_LEN, IndexEntry};

use crate::discover::Partition;
use crate::failure::{Failure, Shown};
use crate::index_check::beside;
use crate::json::Object;
use crate::session::Session;
use crate::source::Source;
use crate::style::{Colour, Style};
use crate::time::Utc;

const ENTRY: u64 = INDEX_ENTRY_LEN as u64;

/// The version of the lines.
const SCHEMA: u64 = 1;

/// Prints the entries of each log's index, a line each. An index that is missing is said, and no
/// failure. Memory does not grow with an index.
pub(crate) fn run(
    session: &mut Session,
    partitions: &[Partition],
    ndjson: bool,
) -> Result<(), Failure> {
    for segment in partitions.iter().flat_map(|partition| &partition.segments) {
        let path = beside(&segment.path);
        match Source::open(&path, segment.links, session.access) {
            Ok(mut source) => {
                if let Err(failure) = entries(session, &path, &mut source, ndjson) {
                    session.fail(failure)?;
                }
            }
            Err(failure) if failure.is_not_found() => {
                session.say(format_args!("{}: missing", Shown(&path)))?;
            }
            Err(failure) => session.fail(failure)?,
        }
    }
    Ok(())
}

fn entries(
    session: &mut Session,
    path: &Path,
    source: &mut Source,
    ndjson: bool,
) -> Result<(), Failure> {
    let style = session.style;
    let mut at = 0;
    while let Some(bytes) = source.window(at, ENTRY)?.first_chunk() {
        let entry = IndexEntry::decode(bytes);
        match ndjson {
            true => object(&mut session.out, path, &entry)?,
            false => text(&mut session.out, &entry, style)?,
        }
        at += ENTRY;
    }
    match source.len().saturating_sub(at) {
        0 => Ok(()),
        rest => session.say(format_args!("{}: {rest} bytes are no whole entry", Shown(path))),
    }
}

fn text(out: &mut dyn Write, entry: &IndexEntry, style: Style) -> io::Result<()> {
    let name = |name| style.paint(Colour::Name, name);
    writeln!(
        out,
        "@{} {} {} {} {}",
        entry.position,
        name("offset"),
        entry.base_offset,
        name("time"),
        style.paint(Colour::Stamped, Utc(entry.base_timestamp)),
    )
}

fn object(out: &mut dyn Write, path: &Path, entry: &IndexEntry) -> io::Result<()> {
    let mut object = Object::begin(out)?;
    object.number("schema", SCHEMA)?;
    object.text("path", &path.to_string_lossy())?;
    object.number("base_offset", entry.base_offset)?;
    object.number("base_timestamp", entry.base_timestamp)?;
    object.number("position", entry.position)?;
    object.end()?;
    out.write_all(b"\n")
}
