//! Opens a data directory with the engine, reads everything, and holds it against a history.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use corelog::error::{LockError, OpenError, PollError};
use corelog::{Ack, Client, Engine, EngineBuilder, Limits, PartitionId, Poll};

use crate::changes::look;
use crate::history::{Broken, History};
use crate::ledger::Event;

/// The producer of the judge's own batches.
const JUDGE: u32 = u32::MAX;
/// Bytes a poll asks for.
const STEP: usize = 1 << 20;
/// A process that was killed holds the directory's lock until the kernel has ended its last I/O.
/// So long that is waited for, and so often looked.
const LOCKED_PATIENCE: Duration = Duration::from_secs(10);
const LOCKED_WAIT: Duration = Duration::from_millis(2);

/// What is done beside reading everything.
#[derive(Debug, Clone, Copy)]
pub struct Checks {
    /// Shards of the engine.
    pub shards: usize,
    /// Append a batch to each partition, durably, and read it back.
    pub append: bool,
    /// Close, open again with one more shard, and find the same.
    pub reopen: bool,
}

/// What was found, where all is in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Batches that were read at the first opening.
    pub batches: u64,
    /// Partitions in which recovery found something above the durable mark.
    pub recovered: u64,
    /// Bytes of interrupted writes that recovery cut.
    pub cut_bytes: u64,
    /// Files that went to quarantine.
    pub quarantined: u64,
}

/// Limits of which many fit on a machine.
pub fn small_limits() -> Limits {
    Limits {
        registered_bytes: 1 << 20,
        write_bytes: 16 << 20,
        read_bytes: 136 << 20,
        cache_bytes: 4 << 20,
        lease_bytes: 4 << 20,
        leases: 256,
        file_threads: 1,
        ..Limits::default()
    }
}

/// A small engine: what all rigs run.
pub fn small_engine(dir: &Path, shards: usize) -> EngineBuilder {
    let limits = small_limits();
    let builder = Engine::builder(dir).runtime(crate::runtime::chosen());
    builder.shards(shards).pin(false).huge_pages(false).limits(limits)
}

/// Opens `builder`; waits for the locks of a process that is dying.
///
/// # Errors
/// As `EngineBuilder::open`.
pub fn open_after_crash(builder: &EngineBuilder) -> Result<Engine, OpenError> {
    let patience = Instant::now() + LOCKED_PATIENCE;
    loop {
        match builder.clone().open() {
            Err(OpenError::Lock(LockError::Held { .. })) if Instant::now() < patience => {
                std::thread::sleep(LOCKED_WAIT);
            }
            opened => return opened,
        }
    }
}

/// Opens the engine in `dir` after the crash that `history` was told last, and demands what
/// docs/durability.md promises. Afterwards the history knows what is there: go on with another
/// life, or judge again. The engine is closed.
///
/// A partition that the engine does not know yet (its topic's creation was cut off) must not have
/// been promised anything.
///
/// # Errors
/// The first broken promise. The directory is as the engine left it.
pub fn judge(history: &mut History, dir: &Path, checks: Checks) -> Result<Verdict, Broken> {
    judge_aloud(history, dir, checks, &mut |_| ())
}

/// [`judge`], which shows the history to `known` when everything was read, before anything new is
/// offered, and when that was answered: each time while the engine runs, and may be cut off.
///
/// # Errors
/// As there.
pub fn judge_aloud(
    history: &mut History,
    dir: &Path,
    checks: Checks,
    known: &mut dyn FnMut(&History),
) -> Result<Verdict, Broken> {
    let engine = open(history, dir, checks.shards)?;
    let mut verdict = findings(history, &engine)?;
    let client = engine.client();
    let served = served_partitions(history, &client)?;
    for id in &served {
        verdict.batches += read(history, &client, *id)?;
    }
    find(history, &client)?;
    known(history);
    if checks.append {
        append(history, &client, &served, known)?;
        known(history);
    }
    close(history, engine)?;
    if checks.reopen {
        let engine = open(history, dir, checks.shards + 1)?;
        if let Some((id, opened)) = engine.opened().not_clean.first() {
            let found = format!("{opened:?}");
            let broken = history.broken("a clean opening after a clean close", found);
            return Err(Broken { partition: Some(*id), ..broken });
        }
        // The history knows each batch, its place and time by now, and allows nothing else.
        for id in &served {
            read(history, &engine.client(), *id)?;
        }
        find(history, &engine.client())?;
        close(history, engine)?;
    }
    Ok(verdict)
}

fn open(history: &History, dir: &Path, shards: usize) -> Result<Engine, Broken> {
    let opened = open_after_crash(&small_engine(dir, shards));
    opened.map_err(|error| history.broken("an engine that opens after a crash", error))
}

/// What the opening reports: no crash damages anything, or leaves a partition closed.
fn findings(history: &History, engine: &Engine) -> Result<Verdict, Broken> {
    let mut verdict = Verdict::default();
    for (id, opened) in &engine.opened().not_clean {
        let of = |broken| Broken { partition: Some(*id), ..broken };
        let report = opened
            .as_ref()
            .map_err(|error| of(history.broken("a partition that opens after a crash", error)))?;
        if !report.damage.is_empty() || report.read_only {
            return Err(of(history.broken("no damage by a crash", format!("{report:?}"))));
        }
        verdict.recovered += u64::from(report.recovered_batches > 0);
        verdict.cut_bytes += report.cut_bytes;
        verdict.quarantined += report.quarantined.len() as u64;
    }
    Ok(verdict)
}

/// The history's partitions that the engine has. A creation that was cut off leaves none, but then
/// nothing was answered either.
fn served_partitions(history: &History, client: &Client) -> Result<Vec<PartitionId>, Broken> {
    let mut served = Vec::new();
    for id in history.partitions() {
        match client.watermarks_blocking(id) {
            Ok(_) => served.push(id),
            Err(PollError::UnknownPartition(_)) if history.known_end(id) == 0 => {}
            Err(error) => {
                let broken = history.broken("a partition that is served", error);
                return Err(Broken { partition: Some(id), ..broken });
            }
        }
    }
    Ok(served)
}

/// Looks at the stream whose topics come and go.
fn find(history: &mut History, client: &Client) -> Result<(), Broken> {
    let shown = "what can be, whatever was changed";
    let found = look(client, history.content()).map_err(|what| history.broken(shown, what))?;
    history.found(&found)
}

/// Reads a whole partition. Answers the number of batches.
fn read(history: &mut History, client: &Client, id: PartitionId) -> Result<u64, Broken> {
    let template = history.broken("everything served after an opening", "");
    let unserved = |offset, error: &dyn fmt::Display| Broken {
        partition: Some(id),
        offset,
        found: error.to_string(),
        ..template.clone()
    };
    let marks = client.watermarks_blocking(id).map_err(|error| unserved(None, &error))?;
    if marks.durable() != marks.appended() {
        return Err(unserved(None, &format!("not all of it durable: {marks:?}")));
    }
    let mut reading = history.reading(id, marks.start())?;
    loop {
        let next = reading.next_offset();
        let polled = client.poll_blocking(id, Poll::offset(next).max_bytes(STEP));
        let records = polled.map_err(|error| unserved(Some(next), &error))?;
        if records.is_empty() {
            return reading.finish(marks.appended());
        }
        for batch in records.batches() {
            let batch = batch.map_err(|error| unserved(Some(next), &error))?;
            reading.batch(batch.bytes())?;
        }
    }
}

/// Appends to all partitions side by side: each answer is the next offset, and the batch is there.
fn append(
    history: &mut History,
    client: &Client,
    partitions: &[PartitionId],
    known: &mut dyn FnMut(&History),
) -> Result<(), Broken> {
    let (key, level) = (history.next_key(JUDGE), Ack::Durable);
    for &partition in partitions {
        history.note(&Event::Offered { partition, key, level })?;
    }
    known(history);
    let mut calls = Vec::new();
    for &partition in partitions {
        let batch = history.content().batch(partition, key);
        calls.push((partition, client.append(partition, batch, level)));
    }
    for (partition, call) in calls {
        let end = history.known_end(partition);
        let broken = |expected: &str, found: &dyn fmt::Display| Broken {
            partition: Some(partition),
            offset: Some(end),
            ..history.broken(expected, found)
        };
        let works = "an append that works after an opening, and is served";
        let appended = call.wait().map_err(|error| broken(works, &error))?;
        if appended.base_offset != end {
            let found = format!("the answer {appended:?}");
            return Err(broken("the next offset for the first new batch", &found));
        }
        let records = client.poll_blocking(partition, Poll::offset(end));
        let records = records.map_err(|error| broken(works, &error))?;
        let first = records.batches().next().and_then(Result::ok);
        let first = first.map(|batch| history.content().identify(partition, batch.bytes()));
        match first {
            Some(Ok(stored)) if stored.key == key && stored.header.base_offset == end => {}
            other => return Err(broken(works, &format!("{other:?}"))),
        }
        history.note(&Event::Acked { partition, key, level, appended })?;
    }
    Ok(())
}

fn close(history: &History, engine: Engine) -> Result<(), Broken> {
    engine.close_blocking().map_err(|error| history.broken("a close in order", error))
}
