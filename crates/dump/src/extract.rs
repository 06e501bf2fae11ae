//! `extract`: what is selected, copied as whole batches, as NDJSON, or payload by payload into a
//! command.

mod command;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use corelog_format::segment_file_name;

use crate::args::{Format, Framing, Payload};
use crate::discover::Partition;
use crate::failure::{Failure, Shown};
use crate::rows::{self, Shape};
use crate::select::Selection;
use crate::session::Session;
use crate::style::Style;
use crate::visit::{Order, each_batch};
use crate::walk::Flow;

/// What to do with what is selected.
#[derive(Debug)]
pub(crate) enum Target {
    /// Copy it, to a file or a directory, or to standard output.
    Copy { format: Format, payload: Payload, output: Option<PathBuf> },
    /// Feed its payloads to a command.
    Pipe { command: String, framing: Framing },
}

/// Extracts. Memory does not grow with what is extracted.
pub(crate) fn run(
    session: &mut Session,
    partitions: &[Partition],
    selection: &Selection,
    target: Target,
) -> Result<(), Failure> {
    match target {
        Target::Pipe { command, framing } => {
            command::feed(session, partitions, selection, &command, framing)
        }
        Target::Copy { format: Format::Raw, output: None, .. } if io::stdout().is_terminal() => {
            let why = "raw batches would not do a terminal good; give --output, or --format ndjson";
            Err(Failure::not_ours(Path::new("standard output"), why))
        }
        Target::Copy { format: Format::Raw, output, .. } => {
            batches(session, partitions, selection, Output::to(output))
        }
        Target::Copy { format: Format::Ndjson, payload, output } => {
            messages(session, partitions, selection, payload, Output::to(output))
        }
    }
}

/// Whole batches. Those that do not follow one another are copied all the same, and said.
fn batches(
    session: &mut Session,
    partitions: &[Partition],
    selection: &Selection,
    mut output: Output,
) -> Result<(), Failure> {
    let mut next = None;
    let mut gaps = 0u64;
    each_batch(session, partitions, selection, Order::Forwards, &mut |session, _, batch| {
        if selection.takes_some_of(&batch) {
            let header = batch.header();
            let place = (Some(header.partition_id), Some(header.base_offset));
            gaps += u64::from(next.is_some_and(|next| next != place));
            next = Some((place.0, header.end_offset()));
            output.write(session, header.base_offset, batch.bytes())?;
        }
        Ok(Flow::Continue)
    })?;
    if gaps > 0 {
        session.say(format_args!(
            "{gaps} of the batches do not follow the one in front: as one segment they are no log"
        ))?;
    }
    output.end(session)
}

/// A line for each message.
fn messages(
    session: &mut Session,
    partitions: &[Partition],
    selection: &Selection,
    payload: Payload,
    mut output: Output,
) -> Result<(), Failure> {
    let shape = Shape { messages: true, ndjson: true, payload };
    let mut line = Vec::new();
    each_batch(session, partitions, selection, Order::Forwards, &mut |session, at, batch| {
        let header = batch.header();
        for frame in batch.frames().filter(|frame| selection.takes(header, frame)) {
            line.clear();
            rows::message(&mut line, at.position, header, &frame, shape, Style::default())?;
            output.write(session, header.base_offset, &line)?;
        }
        Ok(Flow::Continue)
    })?;
    output.end(session)
}

/// Where the copy goes. A file is created with the first byte, so that nothing selected leaves
/// nothing behind.
enum Output {
    Stdout,
    Named(PathBuf),
    Open(PathBuf, BufWriter<File>),
}

impl Output {
    fn to(path: Option<PathBuf>) -> Output {
        path.map_or(Output::Stdout, Output::Named)
    }

    /// Appends bytes. `base_offset`: of the first batch, which names a segment in a directory.
    fn write(
        &mut self,
        session: &mut Session,
        base_offset: u64,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        if let Output::Named(path) = self {
            let path = match path.is_dir() {
                true => path.join(segment_file_name(base_offset)),
                false => path.clone(),
            };
            // Never over something that is there.
            let file = File::create_new(&path).map_err(Failure::io(&path, "create"))?;
            *self = Output::Open(path, BufWriter::with_capacity(1 << 18, file));
        }
        match self {
            Output::Open(path, file) => {
                file.write_all(bytes).map_err(|error| Failure::io(path, "write")(error))
            }
            Output::Stdout | Output::Named(_) => Ok(session.out.write_all(bytes)?),
        }
    }

    fn end(self, session: &mut Session) -> Result<(), Failure> {
        match self {
            Output::Stdout => Ok(()),
            Output::Named(path) => {
                session.say(format_args!("{}: not written, nothing is selected", Shown(&path)))
            }
            Output::Open(path, mut file) => {
                file.flush().map_err(|error| Failure::io(&path, "write")(error))?;
                session.say(format_args!("{}: written", Shown(&path)))
            }
        }
    }
}
