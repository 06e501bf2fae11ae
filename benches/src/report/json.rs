//! The report for scripts: one document that has all of it. `docs/benchmarking.md` explains the
//! keys, `benches/schema/run-1.json` is their JSON Schema.

use std::time::{Duration, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::curve::{percentiles, points};
use super::{Report, SCHEMA};
use crate::account::Used;
use crate::ceiling::sweep::granted_json;
use crate::results::{INTERVAL, Pacing, Phase, PhaseRound, Series};
use crate::run::Ended;
use crate::stats::{mb_per_s, median};

impl Report<'_> {
    /// The report for scripts.
    pub(crate) fn to_json(&self) -> Value {
        let Report { settings, machine, outcome, started, .. } = self;
        let mut json = Map::new();
        let mut put = |key: &str, value: Value| json.insert(key.to_owned(), value);
        put("schema", json!(SCHEMA));
        put("program", program());
        put("machine", machine.to_json());
        put("settings", settings.to_json(outcome.batch_bytes));
        let since = started.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        put("started_unix_s", json!(since.as_secs_f64()));
        put("ended", json!(ended_name(outcome.ended)));
        put("notes", json!(outcome.notes));
        put("doubts", json!(self.doubts()));
        let names: Vec<_> = outcome.phases.iter().map(|phase| phase.name).collect();
        put("phases", json!(names));
        // Scripts rely on these three, also where the workload does not have them.
        for name in ["append", "poll", "durable"] {
            put(name, Value::Null);
        }
        for phase in outcome.phases.iter().filter(|phase| !phase.rounds.is_empty()) {
            put(phase.name, phase_json(phase));
        }
        put("ceiling", self.ceiling_json());
        put("ratio", self.of_phases(|phase| json!(phase.ratio())));
        put("ratio_interval_95", self.of_phases(|phase| interval_json(phase.ratio_interval())));
        let rounds = 0..outcome.rounds as usize;
        put("rounds", rounds.map(|number| self.pairs_json(number)).collect());
        Value::Object(json)
    }

    /// A value for each phase; for the latency of durable appends the key names the percentile.
    fn of_phases(&self, of: impl Fn(&Phase) -> Value) -> Value {
        let mut values = Map::new();
        for name in ["append", "poll", "durable"] {
            values.insert(ratio_key(name), Value::Null);
        }
        for phase in &self.outcome.phases {
            values.insert(ratio_key(phase.name), of(phase));
        }
        Value::Object(values)
    }

    /// Engine and ceiling of the three phases in one round: a table of the run at a glance.
    fn pairs_json(&self, number: usize) -> Value {
        let keys = [
            ("append", "append_mb_per_s", "ceiling_write_mb_per_s"),
            ("poll", "poll_mb_per_s", "ceiling_read_mb_per_s"),
            ("durable", "durable_p50_us", "ceiling_sync_write_p50_us"),
        ];
        let mut pairs = Map::new();
        for (name, engine_key, ceiling_key) in keys {
            let round = self.phase(name).and_then(|phase| phase.rounds.get(number));
            pairs.insert(engine_key.to_owned(), json!(round.map(|round| round.engine)));
            pairs.insert(ceiling_key.to_owned(), json!(round.and_then(|round| round.ceiling)));
        }
        Value::Object(pairs)
    }

    fn ceiling_json(&self) -> Value {
        let (settings, outcome) = (self.settings, self.outcome);
        let figure = |name| self.phase(name).and_then(Phase::ceiling_figure);
        let (method, synced) = outcome.synced.best();
        let has_synced = synced.count() > 0;
        json!({
            "write_mb_per_s": figure("append"),
            "read_mb_per_s": figure("poll"),
            "sync_write_p50_us": figure("durable"),
            "sync_write_latency_us": has_synced.then(|| percentiles(synced)),
            "sync_write_percentiles_us": has_synced.then(|| points(synced)),
            "sync_write_method": has_synced.then(|| method.name()),
            "sync_writes": has_synced.then(|| synced.count()),
            "block_bytes": settings.shape.block,
            "depth": settings.shape.depth,
            "rings": settings.shape.rings,
            "granted": outcome.granted.map(granted_json),
        })
    }
}

/// What was built from what.
pub(crate) fn program() -> Value {
    json!({
        "name": "corelog-bench",
        "version": env!("CARGO_PKG_VERSION"),
        "commit": option_env!("CORELOG_COMMIT"),
        "optimised": !cfg!(debug_assertions),
    })
}

fn ratio_key(phase: &str) -> String {
    if phase == "durable" { "durable_p50".to_owned() } else { phase.to_owned() }
}

/// What `of` says of each round: the middle one.
fn middle(phase: &Phase, of: impl Fn(&PhaseRound) -> f64) -> Option<f64> {
    median(&phase.rounds.iter().map(of).collect::<Vec<_>>())
}

fn phase_json(phase: &Phase) -> Value {
    let (service, latency) = (phase.service(), phase.latency());
    let is_append = !phase.answered_when.is_empty();
    let bytes = phase.bytes();
    let used = Used::merged(phase.rounds.iter().map(|round| &round.used));
    let (outstanding, scheduled) = match phase.pacing {
        Pacing::Closed { outstanding } => (Some(outstanding), None),
        Pacing::Open { operations_per_s } => (None, Some(operations_per_s)),
    };
    json!({
        "operation": phase.operation,
        "answered_when": is_append.then_some(phase.answered_when),
        // The engine refuses to open without it, and reopens before it reads.
        "direct_io": true,
        "page_cache": "bypassed",
        "loop": phase.pacing.name(),
        "outstanding": outstanding,
        "scheduled_operations_per_s": scheduled,
        "mb_per_s": middle(phase, mb_per_s_of),
        "messages_per_s": middle(phase, messages_per_s_of),
        "operations_per_s": middle(phase, operations_per_s_of),
        "bytes": bytes,
        "messages": phase.messages(),
        "operations": service.count(),
        "elapsed_s": phase.elapsed().as_secs_f64(),
        "latency_us": percentiles(&latency),
        "service_latency_us": percentiles(&service),
        "response_latency_us": phase.response().map(|response| percentiles(&response)),
        "percentiles_us": points(&latency),
        "figure": {
            "unit": phase.figure.unit(),
            "lower_is_better": phase.figure.lower_is_better(),
            "engine": phase.engine(),
            "ceiling": phase.ceiling_figure(),
            "ceiling_is": phase.ceiling,
            "of_ceiling": phase.of_ceiling(),
        },
        "usage": used.map(|used| used.to_json(bytes, is_append.then_some(bytes))),
        "rounds": phase.rounds.iter().map(round_json).collect::<Vec<_>>(),
    })
}

fn round_json(round: &PhaseRound) -> Value {
    let latency = round.response.as_ref().unwrap_or(&round.service);
    json!({
        "begun_s": round.begun.as_secs_f64(),
        "elapsed_s": round.elapsed.as_secs_f64(),
        "bytes": round.bytes,
        "messages": round.messages,
        "mb_per_s": mb_per_s_of(round),
        "messages_per_s": messages_per_s_of(round),
        "operations_per_s": operations_per_s_of(round),
        "latency_us": percentiles(latency),
        "cpu_percent": round.used.cpu_percent(),
        "cpu_s_per_gb": round.used.cpu_s_per_gb(round.bytes),
        "engine": round.engine,
        "ceiling": round.ceiling,
        "series": series_json(&round.series, round.elapsed),
    })
}

fn mb_per_s_of(round: &PhaseRound) -> f64 {
    mb_per_s(round.bytes, round.elapsed)
}

fn messages_per_s_of(round: &PhaseRound) -> f64 {
    round.messages as f64 / round.elapsed.as_secs_f64()
}

fn operations_per_s_of(round: &PhaseRound) -> f64 {
    round.service.count() as f64 / round.elapsed.as_secs_f64()
}

/// Columns, since a run of an hour has 36,000 rows.
fn series_json(series: &Series, elapsed: Duration) -> Value {
    let slots: Vec<_> = series.intervals(elapsed).collect();
    let column = |of: fn(&crate::results::Slot) -> u64| -> Vec<u64> {
        slots.iter().map(|(_, _, slot)| of(slot)).collect()
    };
    json!({
        "interval_s": INTERVAL.as_secs_f64(),
        "last_interval_s": slots.last().map(|(_, len, _)| len.as_secs_f64()),
        "bytes": column(|slot| slot.bytes),
        "messages": column(|slot| slot.messages),
        "operations": column(|slot| slot.operations),
    })
}

fn interval_json(interval: Option<(f64, f64)>) -> Value {
    interval.map_or(Value::Null, |(low, high)| json!([low, high]))
}

/// How a run ended, as scripts know it.
pub(crate) fn ended_name(ended: Ended) -> &'static str {
    match ended {
        Ended::Complete => "complete",
        Ended::TimeLimit => "time_limit",
        Ended::Interrupted => "interrupted",
    }
}
