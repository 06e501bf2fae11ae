//! Allocations of a steady append: on the shard's thread, on the caller's, and whose code made them.
//!
//! Counts are exact; whose they are is told by the backtrace of every allocation of a shorter phase.

use std::collections::BTreeMap;
use std::process::ExitCode;

use bytes::Bytes;
use corelog::{Ack, Limits, TopicConfig};
use corelog_bench::micro::{
    self, Awaited, BenchAlloc, Blamed, Failed, OneShard, Options, Row, Run, Sample, Table, blame,
    counted, partition, traced,
};

#[global_allocator]
static ALLOCATOR: BenchAlloc = BenchAlloc;

fn main() -> ExitCode {
    micro::main::<Options>("allocations", env!("CARGO_TARGET_TMPDIR"), measure)
}

/// A way to append.
#[derive(Clone, Copy)]
struct Case {
    what: &'static str,
    on_shard: bool,
    messages: u32,
    payload: usize,
    ack: Ack,
    topic: u32,
}

/// Topic 0 has no `enforce_fsync`, topic 1 has.
const CASES: [Case; 6] = [
    case("on the shard, 1 x 100 B, appended", true, 1, Ack::Appended, 0),
    case("on the shard, 1 x 100 B, written", true, 1, Ack::Written, 0),
    case("on the shard, 1 x 100 B, durable", true, 1, Ack::Durable, 1),
    case("on the shard, 1,000 x 100 B, written", true, 1000, Ack::Written, 0),
    case("from another thread, 1 x 100 B, written", false, 1, Ack::Written, 0),
    case("from another thread, 1,000 x 100 B, written", false, 1000, Ack::Written, 0),
];

const fn case(what: &'static str, on_shard: bool, messages: u32, ack: Ack, topic: u32) -> Case {
    Case { what, on_shard, messages, payload: 100, ack, topic }
}

/// An author below this, in allocations an append, is not named: it worked for something else.
const OFTEN: f64 = 0.1;

/// Allocations by author.
type Authors = BTreeMap<Blamed, u64>;

fn measure(run: &Run<'_>, _: &Options) -> Result<Vec<Table>, Failed> {
    let engine = OneShard::open(&run.fresh_dir(0)?, Limits::default(), &run.interrupt)?;
    for (topic, enforce_fsync) in [(0, false), (1, true)] {
        engine.topic(topic, TopicConfig { enforce_fsync, ..TopicConfig::default() })?;
    }
    let (warm_up, steady, blamed) = run.pick((2000, 1000, 100), (20, 20, 5));
    let mut table = Table::new("allocations an append, after a warm-up");
    for case in CASES {
        let batch = micro::batches(case.messages, case.payload)?.remove(0);
        let appends = Appends { run, engine: &engine, case, batch };
        appends.make(warm_up, false)?;
        let mut add = |what: &str, each: f64| {
            let what = format!("{}: {what}", case.what);
            let reach = if what.ends_with("ours") { "0" } else { "" };
            table
                .row(&what, |row: Row| row.reach(reach))
                .add(Sample { engine: each, ..Sample::default() });
        };
        for _ in run.rounds() {
            let (shard, caller) = appends.make(steady, false)?;
            add("shard's thread", shard as f64 / f64::from(steady));
            if !case.on_shard {
                add("caller's thread", caller as f64 / f64::from(steady));
            }
        }
        let authors = appends.blamed(blamed)?;
        let each = |count: u64| count as f64 / f64::from(blamed);
        let ours = authors.iter().filter(|(author, _)| author.is_ours()).map(|(_, n)| n).sum();
        add("shard's thread, ours", each(ours));
        let mut often: Vec<_> = authors.into_iter().filter(|(_, n)| each(*n) >= OFTEN).collect();
        often.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (Blamed { owner, place }, count) in often {
            table.note(format!("{}: {:.2} by {owner}, {place}", case.what, each(count)));
        }
    }
    engine.close()?;
    Ok(vec![table])
}

struct Appends<'a> {
    run: &'a Run<'a>,
    engine: &'a OneShard,
    case: Case,
    batch: Bytes,
}

impl Appends<'_> {
    /// `count` appends, one at a time; answers the allocations of the shard's thread and of the
    /// caller's. Those on the shard are all that its thread makes, whatever for.
    fn make(&self, count: u32, trace: bool) -> Result<(u64, u64), Failed> {
        let Case { on_shard, ack, topic, .. } = self.case;
        let (to, batch) = (partition(topic, 0), self.batch.clone());
        if on_shard {
            let made = self.engine.on_shard(move |shard| async move {
                traced(trace);
                let before = counted();
                for _ in 0..count {
                    shard.append(to, batch.clone(), ack).await?;
                }
                Ok(counted() - before)
            })?;
            return Ok((made, 0));
        }
        let at_shard = || {
            self.engine.on_shard(move |_| async move {
                traced(trace);
                Ok(counted())
            })
        };
        let before = at_shard()?;
        let mut caller = 0;
        for _ in 0..count {
            let begun = counted();
            let call = self.engine.client().append(to, batch.clone(), ack);
            caller += counted() - begun;
            self.run.interrupt.awaited(call)??;
        }
        Ok((at_shard()? - before, caller))
    }

    /// Whose the allocations of the shard's thread are.
    fn blamed(&self, count: u32) -> Result<Authors, Failed> {
        self.make(count, true)?;
        let traces = self.engine.on_shard(|_| async { Ok(traced(false)) })?;
        let mut authors = Authors::new();
        for author in traces.iter().filter_map(blame) {
            *authors.entry(author).or_default() += 1;
        }
        Ok(authors)
    }
}
