//! Opening an engine on a disk in trouble: a clear error, or the rest works; nothing is cut; and
//! with the trouble gone everything is there.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use corelog::error::PollError;
use corelog::error::storage::PollError::Corrupt;
use corelog::{Client, Engine, PartitionId, Poll};
use corelog_crash::history::{Crash, History};
use corelog_crash::hostile::{Answer, Kind, Op, Rule, When};

use crate::support::{Mounted, Running, builder, mounted, unhurt, unmet};

/// What a killed engine has left, and what is known about it.
struct Left {
    mounted: Mounted,
    histories: Vec<(PartitionId, History)>,
}

/// Runs traffic for a while and copies the files under the engine's feet when all is answered: what
/// a kill leaves.
fn left() -> Left {
    let (mounted, copy) = (mounted(), mounted());
    let running = Running::start(&mounted.point, 2);
    let start = running.counts();
    running.wait(&start, |_, new| unhurt(new, 25)).unwrap_or_else(|behind| panic!("{behind}"));
    let Running { engine, traffic, .. } = running;
    let histories = traffic.stop().unwrap_or_else(|broken| panic!("{broken}"));
    copy_files(&mounted.backing, &copy.backing);
    engine.close_blocking().expect("nothing is wrong");
    Left { mounted: copy, histories }
}

fn copy_files(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from.join(".")).arg(to).status();
    assert!(copied.expect("there is cp").success());
}

/// Reads everything of partition `id`. Where an opening could not read everything, appends go on at
/// a higher offset, and polls say so behind the last batch.
fn read(client: &Client, id: PartitionId, history: &mut History) -> Result<(), String> {
    history.crashed(Crash::Kill);
    let mut reading = history.reading(id, 0).map_err(|broken| broken.to_string())?;
    loop {
        let next = reading.next_offset();
        let records = match client.poll_blocking(id, Poll::offset(next)) {
            Ok(records) => records,
            Err(PollError::Storage(Corrupt { resume_offset: Some(resume), .. })) => {
                let rest = client.poll_blocking(id, Poll::offset(resume));
                if !rest.map_err(|error| error.to_string())?.is_empty() {
                    return Err(format!("batches at {resume}, which nobody has appended"));
                }
                return reading.finish(next).map(drop).map_err(|broken| broken.to_string());
            }
            Err(error) => return Err(error.to_string()),
        };
        if records.is_empty() {
            return reading.finish(next).map(drop).map_err(|broken| broken.to_string());
        }
        for batch in records.batches() {
            let batch = batch.map_err(|error| error.to_string())?;
            reading.batch(batch.bytes()).map_err(|broken| broken.to_string())?;
        }
    }
}

/// What opened serves all partitions that no rule is about, and says what it found in the others.
fn serves_the_rest(engine: &Engine, rule: &Rule, left: &Left, error: &str) {
    for (id, opened) in &engine.opened().not_clean {
        if rule.partition == Some(id.partition) {
            if let Err(why) = opened {
                assert!(why.to_string().contains(error), "{rule}: {id}: {why}");
            }
        } else {
            let report = opened.as_ref().unwrap_or_else(|why| panic!("{rule}: {id}: {why}"));
            assert!(report.damage.is_empty() && !report.read_only, "{rule}: {id}: {report:?}");
        }
    }
    for (id, history) in &left.histories {
        if rule.partition != Some(id.partition) {
            let served = read(&engine.client(), *id, &mut history.clone());
            served.unwrap_or_else(|broken| panic!("{rule}: {broken}"));
        }
    }
}

/// Opens a copy of what was left with `rule` in force, then without it. `opens`: the engine does.
fn run(left: &Left, rule: Rule, opens: bool) {
    println!("{rule}");
    let mounted = mounted();
    let _watch = mounted.disk.watch(Duration::from_secs(60), format!("opening with {rule}"));
    copy_files(&left.mounted.backing, &mounted.backing);
    let error = match rule.answer {
        Answer::Errno(errno) => std::io::Error::from_raw_os_error(errno).to_string(),
        _ => String::new(),
    };
    mounted.disk.begin(&[rule]);
    match builder(&mounted.point).open() {
        Ok(engine) => {
            assert!(opens, "{rule}: it opens");
            serves_the_rest(&engine, &rule, left, &error);
            mounted.disk.end();
            // Poisoned partitions say so.
            let _ = engine.close_blocking();
        }
        Err(why) => {
            assert!(!opens, "{rule}: {why}");
            assert!(why.to_string().contains(&error), "{rule}: {why}");
            mounted.disk.end();
        }
    }
    assert_eq!(unmet(&mounted.disk), []);
    let engine = builder(&mounted.point).open().unwrap_or_else(|why| panic!("{rule}: {why}"));
    for (id, history) in &left.histories {
        let served = read(&engine.client(), *id, &mut history.clone());
        served.unwrap_or_else(|broken| panic!("{rule}, and gone: {id}: {broken}"));
    }
    engine.close_blocking().unwrap_or_else(|why| panic!("{rule}, and gone: {why}"));
}

const fn errno(op: Op, kind: Kind, errno: i32) -> Rule {
    Rule::new(op, kind, Answer::Errno(errno))
}

#[test]
fn what_belongs_to_one_partition_keeps_no_other_from_being_served() {
    let left = left();
    let rules = [
        errno(Op::Read, Kind::Log, libc::EIO),
        errno(Op::Read, Kind::Log, libc::EIO).when(When::Nth(0)),
        errno(Op::Write, Kind::Log, libc::EIO),
        errno(Op::Write, Kind::Log, libc::ENOSPC),
        errno(Op::Open, Kind::Log, libc::EMFILE),
        errno(Op::Open, Kind::Log, libc::EIO),
        errno(Op::Truncate, Kind::Log, libc::EIO),
        Rule::new(Op::Read, Kind::Log, Answer::Ragged),
        errno(Op::Read, Kind::Manifest, libc::EIO),
        errno(Op::Write, Kind::Manifest, libc::EROFS),
        errno(Op::List, Kind::Dir, libc::EIO),
    ];
    for rule in rules {
        run(&left, rule.of(0), true);
    }
}

#[test]
fn what_the_whole_engine_needs_is_a_clear_error() {
    let left = left();
    let rules = [
        errno(Op::Open, Kind::Lock, libc::EIO),
        errno(Op::Write, Kind::Lock, libc::ENOSPC),
        errno(Op::Create, Kind::Other, libc::EROFS),
        errno(Op::Write, Kind::Other, libc::EIO),
        errno(Op::Open, Kind::Clock, libc::EMFILE),
        errno(Op::Read, Kind::Clock, libc::EIO),
        errno(Op::Write, Kind::Clock, libc::EDQUOT),
        errno(Op::Fdatasync, Kind::Clock, libc::EIO),
        errno(Op::Open, Kind::Catalog, libc::EMFILE),
        errno(Op::Read, Kind::Catalog, libc::EIO),
    ];
    for rule in rules {
        run(&left, rule, false);
    }
}
