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
use crate::results::{Figure, Phase};
use crate::run::{Ended, Outcome, Settings};
use crate::size;

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

impl Report<'_> {
    fn phase(&self, name: &str) -> Option<&Phase> {
        self.outcome.phase(name)
    }

    /// The report for people.
    pub(crate) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let Report { settings, machine, outcome } = self;
        writeln!(out, "{}", machine.line())?;
        writeln!(
            out,
            "{}, rounds {}{}",
            settings.line(outcome.batch_bytes),
            outcome.rounds,
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
        for phase in &outcome.phases {
            self.print_phase(out, phase)?;
        }
        for note in &outcome.notes {
            writeln!(out, "\n{note}")?;
        }
        self.print_doubt(out)
    }

    /// Says so when the phases were too short for their throughput to mean much.
    fn print_doubt(&self, out: &mut dyn Write) -> io::Result<()> {
        let throughput = self.outcome.phases.iter().filter(|phase| phase.figure == Figure::MbPerS);
        let shortest = throughput.flat_map(|phase| &phase.rounds).map(|round| round.elapsed).min();
        let Some(shortest) = shortest.filter(|shortest| *shortest < PHASE_MIN) else {
            return Ok(());
        };
        writeln!(
            out,
            "\nThe phases took {:.1} ms: too short to trust MB/s. Raise --total or lower --rounds.",
            shortest.as_secs_f64() * 1e3,
        )
    }

    fn print_phase(&self, out: &mut dyn Write, phase: &Phase) -> io::Result<()> {
        let name = phase.name;
        let (Some(engine), Some(ceiling), Some(ratio)) =
            (phase.engine(), phase.ceiling_figure(), phase.ratio())
        else {
            return writeln!(out, "{name:<8} not run");
        };
        let interval = phase.ratio_interval();
        if phase.figure.lower_is_better() {
            writeln!(
                out,
                "{name:<8} p50 {engine:.0} us, {ratio:.2} x the ceiling ({}: {ceiling:.0} us){}",
                self.outcome.synced.best().0.name(),
                interval_words(interval, |value| format!("{value:.2}")),
            )?;
        } else {
            writeln!(
                out,
                "{name:<8} {engine:.0} {unit}, {:.1} % of the ceiling ({ceiling:.0} {unit}){}",
                ratio * 100.0,
                interval_words(interval, |value| format!("{:.1} %", value * 100.0)),
                unit = phase.figure.unit(),
            )?;
        }
        below(out, &phase.latency(), phase.operation)
    }

    /// The report for scripts.
    pub(crate) fn to_json(&self) -> Value {
        let Report { settings, machine, outcome } = self;
        let [append, poll, durable] = ["append", "poll", "durable"].map(|name| self.phase(name));
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
            "settings": settings.to_json(outcome.batch_bytes),
            "ended": ended_name(outcome.ended),
            "append": append.map(|phase| json!({
                "mb_per_s": phase.engine(),
                "messages_per_s": phase.messages_per_s(),
                "bytes": phase.bytes(),
                "latency_us": latency_json(&phase.latency()),
                "answered_when": phase.answered_when,
                "syncs": null,
            })),
            "poll": poll.map(|phase| json!({
                "mb_per_s": phase.engine(),
                "messages_per_s": phase.messages_per_s(),
                "bytes": phase.bytes(),
                "latency_us": latency_json(&phase.latency()),
                "page_cache": "bypassed (O_DIRECT), engine reopened",
                "every_byte_checked": true,
            })),
            "durable": durable.filter(|phase| !phase.rounds.is_empty()).map(|phase| json!({
                "p50_us_median_of_rounds": phase.engine(),
                "messages_per_s": phase.messages_per_s(),
                "appends": phase.messages(),
                "latency_us": latency_json(&phase.latency()),
                "answered_when": phase.answered_when,
                "syncs": null,
            })),
            "ceiling": {
                "write_mb_per_s": append.and_then(Phase::ceiling_figure),
                "read_mb_per_s": poll.and_then(Phase::ceiling_figure),
                "sync_write_p50_us": durable.and_then(Phase::ceiling_figure),
                "sync_write_latency_us": has_synced.then(|| latency_json(synced)),
                "sync_write_method": has_synced.then(|| method.name()),
                "sync_writes": has_synced.then(|| synced.count()),
                "block_bytes": settings.shape.block,
                "depth": settings.shape.depth,
                "rings": settings.shape.rings,
                "granted": outcome.granted.map(granted_json),
            },
            "ratio": {
                "append": append.and_then(Phase::ratio),
                "poll": poll.and_then(Phase::ratio),
                "durable_p50": durable.and_then(Phase::ratio),
            },
            "ratio_interval_95": {
                "append": interval_json(append.and_then(Phase::ratio_interval)),
                "poll": interval_json(poll.and_then(Phase::ratio_interval)),
                "durable_p50": interval_json(durable.and_then(Phase::ratio_interval)),
            },
            "notes": outcome.notes,
            "rounds": self.rounds_json(),
        })
    }
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

impl Report<'_> {
    /// The pairs of each round that reached its end.
    fn rounds_json(&self) -> Vec<Value> {
        let keys = [
            ("append", "append_mb_per_s", "ceiling_write_mb_per_s"),
            ("poll", "poll_mb_per_s", "ceiling_read_mb_per_s"),
            ("durable", "durable_p50_us", "ceiling_sync_write_p50_us"),
        ];
        let round = |number: usize| {
            let mut pairs = Map::new();
            for (name, engine_key, ceiling_key) in keys {
                let round = self.phase(name).and_then(|phase| phase.rounds.get(number));
                pairs.insert(engine_key.to_owned(), json!(round.map(|round| round.engine)));
                let ceiling = round.and_then(|round| round.ceiling);
                pairs.insert(ceiling_key.to_owned(), json!(ceiling));
            }
            Value::Object(pairs)
        };
        (0..self.outcome.rounds as usize).map(round).collect()
    }
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
