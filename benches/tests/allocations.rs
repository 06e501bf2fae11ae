//! In steady state our own append path allocates nothing: counted over real appends, by whose code
//! asked. What glommio allocates for its timers, requests and tasks is outside of the promise.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use corelog::{Ack, Limits, TopicConfig};
use corelog_bench::interrupt::Interrupt;
use corelog_bench::micro::{
    self, Awaited, BenchAlloc, Blamed, Failed, OneShard, blame, partition, traced,
};

#[global_allocator]
static ALLOCATOR: BenchAlloc = BenchAlloc;

/// Appends whose allocations are looked into.
const STEADY: u32 = 300;

/// So many times so many appends are looked at until they allocate nothing. A list whose length
/// hangs on how fast the device answers may grow once more after any warm-up; what allocates for an
/// append does it every time.
const WINDOWS: u32 = 4;

/// A way to append, on a topic of its own.
struct Case {
    what: &'static str,
    enforce_fsync: bool,
    ack: Ack,
    messages: u32,
    on_shard: bool,
    /// Until every list and pool has the size that it keeps. Most of it is the cache of dispatched
    /// tail buffers, which holds 4,096 of one block.
    warm_up: u32,
}

/// Those that are written come first, as they fill the cache for all.
const CASES: [Case; 5] = [
    case("one message, written", Ack::Written, 1, 10_000),
    case("one message, appended", Ack::Appended, 1, 10_000),
    Case { enforce_fsync: true, ..case("one message, durable", Ack::Durable, 1, 10_000) },
    // Each has an entry in the index, whose list doubles at 1,024.
    case("a thousand messages, written", Ack::Written, 1_000, 1_100),
    Case { on_shard: false, ..case("from another thread, written", Ack::Written, 1, 10_000) },
];

const fn case(what: &'static str, ack: Ack, messages: u32, warm_up: u32) -> Case {
    Case { what, enforce_fsync: false, ack, messages, on_shard: true, warm_up }
}

/// A directory that goes with the test.
struct Dir(PathBuf);

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// `count` appends, one behind the other's answer; traced on the shard's thread, or not.
fn append(
    engine: &OneShard,
    interrupt: &Interrupt,
    (topic, case): (u32, &Case),
    count: u32,
    trace: bool,
) -> Result<(), Failed> {
    let (to, ack) = (partition(topic, 0), case.ack);
    let batch = micro::batches(case.messages, 100)?.remove(0);
    if case.on_shard {
        return engine.on_shard(move |shard| async move {
            traced(trace);
            for _ in 0..count {
                shard.append(to, batch.clone(), ack).await?;
            }
            Ok(())
        });
    }
    engine.on_shard(move |_| async move {
        traced(trace);
        Ok(())
    })?;
    for _ in 0..count {
        interrupt.awaited(engine.client().append(to, batch.clone(), ack))??;
    }
    Ok(())
}

/// Who of ours allocated on the shard's thread while so many appends were made, and how often.
fn ours(
    engine: &OneShard,
    interrupt: &Interrupt,
    case: (u32, &Case),
    count: u32,
) -> Result<BTreeMap<Blamed, u32>, Failed> {
    append(engine, interrupt, case, count, true)?;
    let traces = engine.on_shard(|_| async { Ok(traced(false)) })?;
    let mut ours: BTreeMap<Blamed, u32> = BTreeMap::new();
    for author in traces.iter().filter_map(blame) {
        // Space for 64 MiB of log at a time is asked of the file threads, off the append's path.
        if author.is_ours() && !author.place.starts_with("runtime/file_threads.rs:") {
            *ours.entry(author).or_default() += 1;
        }
    }
    Ok(ours)
}

#[test]
fn a_steady_append_allocates_nothing_of_ours() -> Result<(), Failed> {
    let name = format!("allocations-{}", std::process::id());
    let dir = Dir(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
    let interrupt = Interrupt::on_signals()?;
    let engine = OneShard::open(&dir.0, Limits::default(), &interrupt)?;
    let mut wrong = Vec::new();
    for case in (0..).zip(&CASES) {
        let (topic, Case { what, enforce_fsync, warm_up, .. }) = case;
        let config = TopicConfig { enforce_fsync: *enforce_fsync, ..TopicConfig::default() };
        engine.topic(topic, config)?;
        append(&engine, &interrupt, case, *warm_up, false)?;
        // What it costs to bring code to the shard, which shows that authors are found.
        let own = ours(&engine, &interrupt, case, 0)?;
        assert!(!own.is_empty(), "{what}: nobody is blamed");
        let mut found = BTreeMap::new();
        for _ in 0..WINDOWS {
            found = ours(&engine, &interrupt, case, STEADY)?;
            found.retain(|author, count| *count > own.get(author).copied().unwrap_or(0));
            if found.is_empty() {
                break;
            }
        }
        for (Blamed { owner, place }, count) in found {
            wrong.push(format!("{what}: {count} in {STEADY} by {owner}, {place}"));
        }
    }
    engine.close()?;
    assert!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}
