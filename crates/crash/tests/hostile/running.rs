//! Trouble under a running engine: a table of what the disk does and what producers and consumers
//! see of it, while it lasts and when it has ended.

use std::time::Duration;

use corelog::error::{AppendError, storage};
use corelog::{Ack, PartitionId};
use corelog_crash::content::{BatchKey, Content};
use corelog_crash::hostile::{Answer, Counts, Kind, Op, Rule, When};

use crate::support::{FSYNC, PLAIN, Running, builder, create_topics, mounted, unhurt, unmet};

/// What the trouble does to a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Nobody notices.
    Nothing,
    /// Appends are refused; they go on by themselves afterwards.
    Refused,
    /// Appends end in `Poisoned` and go on after reopening; polls go on.
    Poisoned,
    /// Polls of what is not in memory are answered with the device's error; appends go on.
    PollErrors,
    /// What needs the device waits for it.
    Waits,
}
use Effect::{Nothing, Poisoned, PollErrors, Refused, Waits};

struct Row {
    rules: Vec<Rule>,
    /// Of the partitions that a rule is about: in the topic without `enforce_fsync`, and with it.
    plain: Effect,
    fsync: Effect,
}

fn row<const N: usize>(rules: [Rule; N], plain: Effect, fsync: Effect) -> Row {
    Row { rules: rules.to_vec(), plain, fsync }
}

const fn errno(op: Op, kind: Kind, errno: i32) -> Rule {
    Rule::new(op, kind, Answer::Errno(errno)).of(0)
}

const fn held(op: Op, kind: Kind) -> Rule {
    Rule::new(op, kind, Answer::Held { then: None }).of(0)
}

/// Runs a row: calm, trouble, calm again, and everything is judged.
fn run(row: &Row) {
    let names: Vec<_> = row.rules.iter().map(Rule::to_string).collect();
    let name = names.join(" + ");
    println!("{name}");
    let mounted = mounted();
    let _watch = mounted.disk.watch(Duration::from_secs(150), name.clone());
    let running = Running::start(&mounted.point, 1);
    let start = running.counts();
    let calm = running.wait(&start, |_, new| unhurt(new, 4));
    let outcome = calm.and_then(|()| trouble(row, &running, &mounted.disk));
    // Nothing may be held any more, whatever was seen.
    mounted.disk.end();
    running.traffic.may_reopen(true);
    let ended = running.counts();
    let after = outcome.and_then(|()| running.wait(&ended, |_, new| unhurt(new, 4)));
    if let Err(behind) = after {
        let broken = running.traffic.stop().err();
        panic!("{name}:\n{behind}\n{broken:?}");
    }
    for ((id, seen), counts) in running.seen.iter().zip(running.counts()) {
        let effect = effect(row, *id);
        assert_eq!(counts.poisoned > 0, effect == Poisoned, "{name}: {id}: {counts:?}");
        assert_eq!(counts.reopened > 0, effect == Poisoned, "{name}: {id}: {counts:?}");
        assert_eq!(counts.refused > 0, effect == Refused, "{name}: {id}: {counts:?}");
        if effect != PollErrors {
            assert_eq!(counts.poll_errors, 0, "{name}: {id}: {:?}", seen.messages());
        }
        if matches!(effect, Poisoned | Refused | PollErrors) {
            says(row, *id, &seen.messages());
        }
    }
    running.end(&mounted.point, true);
}

/// What a partition is to see.
fn effect(row: &Row, id: PartitionId) -> Effect {
    let about = |rule: &Rule| rule.partition.is_none_or(|number| number == id.partition);
    match row.rules.iter().any(about) {
        true if id.topic == FSYNC => row.fsync,
        true => row.plain,
        false => Nothing,
    }
}

/// Begins the trouble and waits until everyone has seen what they are to see of it.
fn trouble(
    row: &Row,
    running: &Running,
    disk: &corelog_crash::hostile::Disk,
) -> Result<(), String> {
    running.traffic.may_reopen(false);
    disk.begin(&row.rules);
    let start = running.counts();
    let seen = |id: PartitionId, new: &Counts| match effect(row, id) {
        Nothing => unhurt(new, 6),
        Refused => new.refused >= 3 && new.polls >= 3,
        Poisoned => new.poisoned >= 1,
        PollErrors => new.poll_errors >= 2 && new.acked.iter().all(|acked| *acked >= 3),
        Waits => true,
    };
    running.wait(&start, |id, new| seen(id, new) && unmet(disk).is_empty())?;
    // And with all that in force: the others, and polls of what was written before.
    let then = running.counts();
    running.wait(&then, |id, new| match effect(row, id) {
        Nothing => unhurt(new, 3),
        Refused | Poisoned => new.polls >= 3,
        PollErrors => new.acked.iter().all(|acked| *acked >= 1),
        Waits => true,
    })
}

/// An error names the system's error, the operation's file, and what to do.
fn says(row: &Row, id: PartitionId, messages: &[String]) {
    let place = format!("topics/{}/partitions/{}", id.topic, id.partition);
    let errors = row.rules.iter().filter_map(|rule| match rule.answer {
        Answer::Errno(errno) | Answer::Held { then: Some(errno) } => {
            Some(std::io::Error::from_raw_os_error(errno).to_string())
        }
        _ => None,
    });
    let actions = ["retry", "reopen", "poll again"];
    for error in errors {
        let told = messages.iter().any(|text| {
            text.contains(&error)
                && text.contains(&place)
                && actions.iter().any(|action| text.contains(action))
        });
        assert!(told, "{error} at {place}, and what to do: {messages:?}");
    }
}

fn run_all(rows: &[Row]) {
    rows.iter().for_each(run);
}

#[test]
fn failed_writes_and_syncs_poison_their_partition_and_no_other() {
    run_all(&[
        row([errno(Op::Write, Kind::Log, libc::EIO)], Poisoned, Poisoned),
        row([errno(Op::Write, Kind::Log, libc::ENOSPC).when(When::From(2))], Poisoned, Poisoned),
        row([errno(Op::Write, Kind::Log, libc::EDQUOT)], Poisoned, Poisoned),
        row([errno(Op::Write, Kind::Log, libc::EROFS)], Poisoned, Poisoned),
        row([errno(Op::Fdatasync, Kind::Log, libc::EIO)], Poisoned, Poisoned),
        row([errno(Op::SyncDir, Kind::Dir, libc::EIO)], Poisoned, Poisoned),
    ]);
}

#[test]
fn what_says_nothing_about_the_disk_is_tried_again() {
    run_all(&[
        row(
            [
                errno(Op::Write, Kind::Log, libc::EINTR).when(When::Nth(1)),
                errno(Op::Write, Kind::Log, libc::EAGAIN).when(When::Nth(2)),
                errno(Op::Read, Kind::Log, libc::EINTR).when(When::Nth(0)),
                errno(Op::Read, Kind::Log, libc::EAGAIN).when(When::Nth(1)),
            ],
            Nothing,
            Nothing,
        ),
        row([Rule::new(Op::Read, Kind::Log, Answer::Short).of(0)], Nothing, Nothing),
        row([Rule::new(Op::Read, Kind::Log, Answer::Ragged).of(0)], Nothing, Nothing),
    ]);
}

#[test]
fn no_space_and_no_descriptors_are_refusals_that_end_by_themselves() {
    run_all(&[
        row([errno(Op::Allocate, Kind::Log, libc::ENOSPC)], Refused, Refused),
        row([errno(Op::Allocate, Kind::Log, libc::EDQUOT)], Refused, Refused),
        row([errno(Op::Create, Kind::Log, libc::EMFILE)], Refused, Refused),
        row([errno(Op::Create, Kind::Log, libc::EROFS)], Refused, Refused),
        row([errno(Op::Create, Kind::Log, libc::ENOSPC)], Refused, Refused),
    ]);
}

#[test]
fn what_is_no_log_hurts_no_append_and_no_poll() {
    const EIO: Answer = Answer::Errno(libc::EIO);
    run_all(&[
        row(
            [
                errno(Op::Write, Kind::Index, libc::ENOSPC).when(When::From(0)),
                errno(Op::Write, Kind::Manifest, libc::ENOSPC),
            ],
            Nothing,
            Nothing,
        ),
        row([errno(Op::Create, Kind::Index, libc::EIO)], Nothing, Nothing),
        row([errno(Op::Write, Kind::Manifest, libc::EIO)], Nothing, Nothing),
        row([Rule::new(Op::Fdatasync, Kind::Clock, EIO).when(When::Nth(0))], Nothing, Nothing),
        row([Rule::new(Op::Write, Kind::Clock, EIO).when(When::Nth(0))], Nothing, Nothing),
    ]);
}

#[test]
fn failed_reads_are_answers_and_harm_nothing() {
    run_all(&[row([errno(Op::Read, Kind::Log, libc::EIO)], PollErrors, PollErrors)]);
}

/// Without `fdatasync` and `fallocate` of the log: FUSE holds the inode's lock meanwhile, and
/// io_uring waits for it with the next write, on the thread that submits. Other file systems refuse
/// to wait there. What they do is tried on the simulated disk (`crates/storage/tests/faults_slow.rs`).
#[test]
fn what_hangs_holds_up_its_own_partition_only() {
    run_all(&[
        row([held(Op::Write, Kind::Log)], Waits, Waits),
        row([held(Op::Read, Kind::Log)], Waits, Waits),
        row([held(Op::Create, Kind::Log)], Waits, Waits),
        row([held(Op::SyncDir, Kind::Dir)], Waits, Waits),
        row([held(Op::Write, Kind::Manifest)], Waits, Waits),
    ]);
}

/// The rows above see the fault in the end, at a roll perhaps; here it is the very sync that an append
/// waits for: what is not durable is not acknowledged, and after the trouble it is as if never sent,
/// or stored.
#[test]
fn an_append_whose_sync_fails_is_not_acknowledged() {
    let mounted = mounted();
    let _watch = mounted.disk.watch(Duration::from_secs(60), "a sync that fails");
    let engine = builder(&mounted.point).open().expect("a healthy disk");
    let client = engine.client();
    create_topics(&client);
    let id = PartitionId::new(0, PLAIN, 0);
    let content = Content::new(9);
    let append =
        |nth, ack| client.append_blocking(id, content.batch(id, BatchKey::new(0, 0, nth)), ack);
    append(0, Ack::Durable).expect("the disk is healthy");
    mounted.disk.begin(&[errno(Op::Fdatasync, Kind::Log, libc::EIO)]);
    append(1, Ack::Written).expect("nothing is synced for it");
    let error = append(2, Ack::Durable).expect_err("its sync fails");
    let poisoned = matches!(error, AppendError::Storage(storage::AppendError::Poisoned(_)));
    assert!(poisoned && error.to_string().contains("Input/output error"), "{error}");
    // A sync that succeeds later says nothing about what the first was to keep.
    mounted.disk.end();
    append(3, Ack::Durable).expect_err("the partition waits to be reopened");
    let report = client.reopen_partition_blocking(id).expect("the disk is healthy again");
    assert!(report.damage.is_empty(), "{report:?}");
    append(4, Ack::Durable).expect("it goes on");
    engine.close_blocking().expect("nothing is wrong");
}
