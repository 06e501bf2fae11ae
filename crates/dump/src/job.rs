//! The command line resolved: paths have become segments, flags have become choices.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::args::{
    Args, Command, DecodeArgs, DiffArgs, ExtractArgs, FollowArgs, HexArgs, LsArgs, StatsArgs,
    WireType,
};
use crate::discover::{self, Found, Partition};
use crate::failure::Failure;
use crate::follow::From;
use crate::hex::{Look, Target};
use crate::select::Selection;
use crate::session::Session;
use crate::show::Rows;
use crate::source::Access;
use crate::style::Style;
use crate::upkeep::Upkeep;
use crate::visit::Order;
use crate::{decode, diff, extract, follow, hex, ls, show, stats};

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
    Follow { path: PathBuf, from: From, rows: Rows },
    Stats { found: Found, selection: Selection, output: stats::Output },
    Diff { a: Found, b: Found, json: bool },
    Extract { found: Found, selection: Selection, target: extract::Target },
    HexRecord { path: PathBuf, at: u64, look: Look },
    Upkeep(Upkeep),
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
            Command::Follow(follow) => follow_task(follow),
            Command::Stats(StatsArgs { paths, select, svg, json }) => Task::Stats {
                found: discover::discover(&paths),
                selection: select.resolve(now_us()),
                output: stats::Output { json, svg },
            },
            Command::Diff(DiffArgs { a, b, json }) => {
                Task::Diff { a: discover::discover(&[a]), b: discover::discover(&[b]), json }
            }
            Command::Extract(extract) => extract_task(extract),
            Command::Verify(args) => Task::Upkeep(Upkeep::verify(args)),
            Command::Index(args) => Task::Upkeep(Upkeep::index(args.command)),
            Command::Repair(args) => Task::Upkeep(Upkeep::repair(&args)),
            Command::Schema(args) => Task::Upkeep(Upkeep::Schema(args.output)),
            Command::Completions(args) => Task::Upkeep(Upkeep::Completions(args.shell)),
            Command::Man(args) => Task::Upkeep(Upkeep::Man(args.command)),
            Command::Decode(DecodeArgs { wire_type, hex: Some(hex) }) => {
                Task::DecodeOne { wire_type, hex }
            }
            Command::Decode(DecodeArgs { wire_type, hex: None }) => Task::DecodeLines { wire_type },
        };
        let progress = !matches!(task, Task::Show { .. } | Task::Follow { .. });
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
            Task::Follow { path, from, rows } => follow::run(session, &path, from, rows),
            Task::Stats { found, selection, output } => {
                let partitions = announced(session, found)?;
                stats::run(session, &partitions, &selection, &output)
            }
            Task::Diff { a, b, json } => {
                let (a, b) = (announced(session, a)?, announced(session, b)?);
                match (&a[..], &b[..]) {
                    ([a], [b]) => diff::run(session, a, b, json),
                    ([], _) | (_, []) => Ok(()),
                    ([_, more, ..], _) | (_, [_, more, ..]) => {
                        let why = "more than one partition: name one on each side";
                        Err(Failure::not_ours(&more.dir, why))
                    }
                }
            }
            Task::Extract { found, selection, target } => {
                let partitions = announced(session, found)?;
                extract::run(session, &partitions, &selection, target)
            }
            Task::HexRecord { path, at, look } => hex::record(session, &path, at, look),
            Task::Upkeep(upkeep) => upkeep.run(session),
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

fn follow_task(follow: FollowArgs) -> Task {
    let rows = Rows {
        shape: follow.rows.shape(),
        selection: follow.select.resolve(now_us()),
        order: Order::Forwards,
        skip: 0,
        limit: follow.limit.unwrap_or(u64::MAX),
    };
    Task::Follow { path: follow.path, from: follow.from, rows }
}

fn extract_task(extract: ExtractArgs) -> Task {
    let ExtractArgs { paths, select, format, output, payload, pipe, framing } = extract;
    let target = match pipe {
        Some(command) => extract::Target::Pipe { command, framing },
        None => extract::Target::Copy { format, payload, output },
    };
    let selection = select.resolve(now_us());
    Task::Extract { found: discover::discover(&paths), selection, target }
}

/// The present, in microseconds: what relative times count from.
fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

/// Says what was passed over and what does not work; gives the partitions to work on.
pub(crate) fn announced(session: &mut Session, found: Found) -> Result<Vec<Partition>, Failure> {
    for line in found.ignored {
        session.say(line)?;
    }
    for failure in found.failures {
        session.fail(failure)?;
    }
    Ok(found.partitions)
}
