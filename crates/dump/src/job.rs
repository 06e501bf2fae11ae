//! The command line resolved: paths have become segments, flags have become choices.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::args::{Args, Command, DecodeArgs, HexArgs, LsArgs, VerifyArgs, WireType};
use crate::discover::{self, Found, Partition};
use crate::failure::Failure;
use crate::hex::{Look, Target};
use crate::session::Session;
use crate::show::Rows;
use crate::source::Access;
use crate::style::Style;
use crate::visit::Order;
use crate::{decode, hex, ls, show, verify};

/// What to do, ready to be done.
pub(crate) struct Job {
    /// How files are opened.
    pub(crate) access: Access,
    /// Colours, or none.
    pub(crate) style: Style,
    task: Task,
}

enum Task {
    Ls { found: Found, json: bool },
    Show { found: Found, rows: Rows },
    Hex { found: Found, target: Target, look: Look },
    HexRecord { path: PathBuf, at: u64, look: Look },
    Verify { found: Found, json: bool },
    DecodeOne { wire_type: WireType, hex: String },
    DecodeLines { wire_type: WireType },
}

impl Job {
    /// Looks behind the paths. What does not work comes along and is said when the job runs.
    pub(crate) fn resolve(args: Args) -> Job {
        let task = match args.command {
            Command::Ls(LsArgs { paths, json }) => {
                Task::Ls { found: discover::discover(&paths), json }
            }
            Command::Show(show) => Task::Show {
                found: discover::discover(&show.paths),
                rows: Rows {
                    shape: show.rows.shape(),
                    selection: show.select.resolve(now_us()),
                    order: if show.reverse { Order::Backwards } else { Order::Forwards },
                    skip: show.skip,
                    limit: show.limit.unwrap_or(u64::MAX),
                },
            },
            Command::Hex(hex) => hex_task(hex),
            Command::Verify(VerifyArgs { paths, json }) => {
                Task::Verify { found: discover::discover(&paths), json }
            }
            Command::Decode(DecodeArgs { wire_type, hex: Some(hex) }) => {
                Task::DecodeOne { wire_type, hex }
            }
            Command::Decode(DecodeArgs { wire_type, hex: None }) => Task::DecodeLines { wire_type },
        };
        let progress = matches!(task, Task::Ls { .. } | Task::Verify { .. });
        let access = Access { map: !args.no_mmap, direct: args.direct, progress };
        Job { access, style: Style::decide(args.color), task }
    }

    /// Does it.
    pub(crate) fn run(self, session: &mut Session) -> Result<(), Failure> {
        match self.task {
            Task::Ls { found, json } => {
                let partitions = announced(session, found)?;
                ls::run(session, &partitions, json)
            }
            Task::Show { found, rows } => {
                let partitions = announced(session, found)?;
                show::run(session, &partitions, rows)
            }
            Task::Hex { found, target, look } => {
                let partitions = announced(session, found)?;
                match partitions[..] {
                    [] => Ok(()),
                    _ => hex::run(session, &partitions, target, look),
                }
            }
            Task::HexRecord { path, at, look } => hex::record(session, &path, at, look),
            Task::Verify { found, json } => {
                let partitions = announced(session, found)?;
                verify::run(session, &partitions, json)
            }
            Task::DecodeOne { wire_type, hex } => decode::one(session, wire_type, hex),
            Task::DecodeLines { wire_type } => decode::lines(session, wire_type),
        }
    }
}

fn hex_task(hex: HexArgs) -> Task {
    let HexArgs { path, offset, at, all, json } = hex;
    let look = Look { all, json };
    let is_records = path.extension().is_some_and(|extension| extension == "index")
        || path.file_name().is_some_and(|name| name == "manifest");
    match (at, offset) {
        (Some(at), _) if is_records => Task::HexRecord { path, at, look },
        (at, offset) => {
            let target = at.map(Target::Position).or(offset.map(Target::Offset));
            let target = target.unwrap_or(Target::Position(0));
            Task::Hex { found: discover::discover(&[path]), target, look }
        }
    }
}

/// The present, in microseconds: what relative times count from.
fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Says what was passed over and what does not work; gives the partitions to work on.
fn announced(session: &mut Session, found: Found) -> Result<Vec<Partition>, Failure> {
    for line in found.ignored {
        session.say(line)?;
    }
    for failure in found.failures {
        session.fail(failure)?;
    }
    Ok(found.partitions)
}
