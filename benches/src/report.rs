//! What a run says: a few lines for people, JSON for scripts.
//!
//! Units stand in the names. A ratio is engine over ceiling, per round, and then the median of the
//! rounds; percentiles come from merged histograms. What was not measured is null, and what an
//! answer promised (written, durable) stands beside the figure.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::ceiling::sweep::{describe, granted_json};
use crate::latency::Latency;
use crate::machine::Machine;
use crate::run::{Ended, Outcome, Round, Settings};
use crate::size;
use crate::stats::{median, median_interval};

/// Version of the JSON: raised when a key changes its meaning or goes; new keys do not count.
const SCHEMA: u32 = 1;

/// A phase that is shorter than this is start-up and noise.
const PHASE_MIN: Duration = Duration::from_millis(50);

/// A run, ready to be told.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) machine: &'a Machine,
    pub(crate) outcome: &'a Outcome,
}

/// A phase's pairs over the rounds, engine first.
struct Pairs(Vec<(f64, f64)>);

impl Pairs {
    fn engine(&self) -> Option<f64> {
        median(&self.0.iter().map(|pair| pair.0).collect::<Vec<_>>())
    }

    fn ceiling(&self) -> Option<f64> {
        median(&self.0.iter().map(|pair| pair.1).collect::<Vec<_>>())
    }

    fn ratios(&self) -> Vec<f64> {
        self.0.iter().map(|(engine, ceiling)| engine / ceiling).collect()
    }

    fn ratio(&self) -> Option<f64> {
        median(&self.ratios())
    }

    fn interval(&self) -> Option<(f64, f64)> {
        median_interval(&self.ratios())
    }
}

impl Report<'_> {
    fn pairs(&self, of: impl Fn(&Round) -> Option<(f64, f64)>) -> Pairs {
        Pairs(self.outcome.rounds.iter().filter_map(of).collect())
    }

    fn append(&self) -> Pairs {
        self.pairs(|round| Some(round.append_mb_per_s))
    }

    fn poll(&self) -> Pairs {
        self.pairs(|round| Some(round.poll_mb_per_s))
    }

    fn durable(&self) -> Pairs {
        self.pairs(|round| round.durable_p50_us)
    }

    /// The report for people.
    pub(crate) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Report { settings, machine, outcome } = self;
        writeln!(out, "{}", machine.line())?;
        writeln!(
            out,
            "shards {}, partitions {}, producers {} with {} appends in flight each (closed loop), \
             batches of {} x {} B ({}), rounds {}{}",
            settings.shards,
            settings.partitions,
            settings.producers,
            settings.in_flight,
            settings.batch_messages,
            settings.message_bytes,
            size::human(outcome.batch_bytes),
            outcome.rounds.len(),
            ended_words(outcome.ended),
        )?;
        if let Some(granted) = outcome.granted {
            writeln!(
                out,
                "ceiling: raw rings {}, requests {} x {} each, O_DIRECT, fresh allocated files; {}",
                settings.shape.rings,
                settings.shape.depth,
                size::human_block(settings.shape.block as u64),
                describe(granted),
            )?;
        }
        writeln!(out)?;
        let (append, poll) = (&outcome.append.latency, &outcome.poll.latency);
        throughput(out, "append", &self.append())?;
        below(out, append, "a batch, answered when written")?;
        throughput(out, "poll", &self.poll())?;
        below(out, poll, "a poll; cold, every byte checked")?;
        self.print_durable(out)?;
        self.print_doubt(out)
    }

    /// Says so when the phases were too short for their throughput to mean much.
    fn print_doubt(&self, out: &mut dyn Write) -> io::Result<()> {
        let rounds = u32::try_from(self.outcome.rounds.len()).unwrap_or(u32::MAX).max(1);
        let shortest = self.outcome.append.elapsed.min(self.outcome.poll.elapsed) / rounds;
        if self.outcome.rounds.is_empty() || shortest >= PHASE_MIN {
            return Ok(());
        }
        writeln!(
            out,
            "\nThe phases took {:.1} ms: too short to trust MB/s. Raise --total or lower --rounds.",
            shortest.as_secs_f64() * 1e3,
        )
    }

    fn print_durable(&self, out: &mut dyn Write) -> io::Result<()> {
        let pairs = self.durable();
        let (Some(engine), Some(ceiling), Some(ratio)) =
            (pairs.engine(), pairs.ceiling(), pairs.ratio())
        else {
            return writeln!(out, "durable  not run");
        };
        writeln!(
            out,
            "durable  p50 {engine:.0} us, {ratio:.2} x the ceiling ({}: {ceiling:.0} us){}",
            self.outcome.synced.best().0.name(),
            interval_words(pairs.interval(), |value| format!("{value:.2}")),
        )?;
        let promise = "an append of one small batch, alone, answered when durable (enforce_fsync)";
        below(out, &self.outcome.durable.latency, promise)
    }

    /// The report for scripts.
    pub(crate) fn to_json(&self) -> Value {
        let Report { settings, machine, outcome } = self;
        let (append, poll, durable) = (self.append(), self.poll(), self.durable());
        let (method, synced) = outcome.synced.best();
        let has_synced = synced.count() > 0;
        json!({
            "schema": SCHEMA,
            "program": {
                "name": "corelog-bench",
                "version": env!("CARGO_PKG_VERSION"),
                "optimised": !cfg!(debug_assertions),
            },
            "machine": machine.to_json(),
            "settings": settings_json(settings, outcome),
            "ended": ended_name(outcome.ended),
            "append": {
                "mb_per_s": append.engine(),
                "messages_per_s": outcome.append.messages_per_s(),
                "bytes": outcome.append.bytes,
                "latency_us": latency_json(&outcome.append.latency),
                "answered_when": "written",
                "syncs": null,
            },
            "poll": {
                "mb_per_s": poll.engine(),
                "messages_per_s": outcome.poll.messages_per_s(),
                "bytes": outcome.poll.bytes,
                "latency_us": latency_json(&outcome.poll.latency),
                "page_cache": "bypassed (O_DIRECT), engine reopened",
                "every_byte_checked": true,
            },
            "durable": match durable.engine() {
                None => Value::Null,
                Some(p50) => json!({
                    "p50_us_median_of_rounds": p50,
                    "messages_per_s": outcome.durable.messages_per_s(),
                    "appends": outcome.durable.messages,
                    "latency_us": latency_json(&outcome.durable.latency),
                    "answered_when": "durable (enforce_fsync)",
                    "syncs": null,
                }),
            },
            "ceiling": {
                "write_mb_per_s": append.ceiling(),
                "read_mb_per_s": poll.ceiling(),
                "sync_write_p50_us": durable.ceiling(),
                "sync_write_latency_us": has_synced.then(|| latency_json(synced)),
                "sync_write_method": has_synced.then(|| method.name()),
                "sync_writes": has_synced.then(|| synced.count()),
                "block_bytes": settings.shape.block,
                "depth": settings.shape.depth,
                "rings": settings.shape.rings,
                "granted": outcome.granted.map(granted_json),
            },
            "ratio": {
                "append": append.ratio(),
                "poll": poll.ratio(),
                "durable_p50": durable.ratio(),
            },
            "ratio_interval_95": {
                "append": interval_json(append.interval()),
                "poll": interval_json(poll.interval()),
                "durable_p50": interval_json(durable.interval()),
            },
            "rounds": outcome.rounds.iter().map(round_json).collect::<Vec<_>>(),
        })
    }
}

fn throughput(out: &mut dyn Write, name: &str, pairs: &Pairs) -> io::Result<()> {
    let (Some(engine), Some(ceiling), Some(ratio)) =
        (pairs.engine(), pairs.ceiling(), pairs.ratio())
    else {
        return writeln!(out, "{name:<8} not run");
    };
    writeln!(
        out,
        "{name:<8} {engine:.0} MB/s, {:.1} % of the ceiling ({ceiling:.0} MB/s){}",
        ratio * 100.0,
        interval_words(pairs.interval(), |value| format!("{:.1} %", value * 100.0)),
    )
}

/// The second line of a phase: how long its operations took, and what an answer meant.
fn below(out: &mut dyn Write, latency: &Latency, what: &str) -> io::Result<()> {
    writeln!(
        out,
        "{:<8} p50 {:.0}, p99 {:.0}, p99.9 {:.0}, max {:.0} us {what}",
        "",
        latency.percentile_us(50.0),
        latency.percentile_us(99.0),
        latency.percentile_us(99.9),
        latency.max_us(),
    )
}

fn interval_words(interval: Option<(f64, f64)>, one: impl Fn(f64) -> String) -> String {
    match interval {
        Some((low, high)) => format!(", 95 % interval {} to {}", one(low), one(high)),
        None => String::new(),
    }
}

fn latency_json(latency: &Latency) -> Value {
    json!({
        "p50": latency.percentile_us(50.0),
        "p90": latency.percentile_us(90.0),
        "p99": latency.percentile_us(99.0),
        "p999": latency.percentile_us(99.9),
        "max": latency.max_us(),
        "count": latency.count(),
    })
}

fn interval_json(interval: Option<(f64, f64)>) -> Value {
    interval.map_or(Value::Null, |(low, high)| json!([low, high]))
}

fn round_json(round: &Round) -> Value {
    let mut pairs = Map::new();
    let mut put = |engine_key: &str, ceiling_key: &str, pair: Option<(f64, f64)>| {
        pairs.insert(engine_key.to_owned(), json!(pair.map(|pair| pair.0)));
        pairs.insert(ceiling_key.to_owned(), json!(pair.map(|pair| pair.1)));
    };
    put("append_mb_per_s", "ceiling_write_mb_per_s", Some(round.append_mb_per_s));
    put("poll_mb_per_s", "ceiling_read_mb_per_s", Some(round.poll_mb_per_s));
    put("durable_p50_us", "ceiling_sync_write_p50_us", round.durable_p50_us);
    Value::Object(pairs)
}

fn settings_json(settings: &Settings, outcome: &Outcome) -> Value {
    json!({
        "shards": settings.shards,
        "partitions": settings.partitions,
        "producers": settings.producers,
        "in_flight": settings.in_flight,
        "loop": "closed",
        "batch_messages": settings.batch_messages,
        "message_bytes": settings.message_bytes,
        "batch_bytes": outcome.batch_bytes,
        "poll_bytes": settings.poll_bytes,
        "total_bytes": settings.total_bytes,
        "rounds": settings.rounds,
        "durable_samples": settings.durable_samples,
        "seed": settings.seed,
    })
}

fn ended_name(ended: Ended) -> &'static str {
    match ended {
        Ended::Complete => "complete",
        Ended::TimeLimit => "time_limit",
        Ended::Interrupted => "interrupted",
    }
}

fn ended_words(ended: Ended) -> &'static str {
    match ended {
        Ended::Complete => "",
        Ended::TimeLimit => " (then the time was up; --rounds or --total sets it aside)",
        Ended::Interrupted => " (then stopped)",
    }
}

#[cfg(test)]
mod tests;
