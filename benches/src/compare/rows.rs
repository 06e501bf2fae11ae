//! Which figures are compared, and where their values and their repeats stand in a result.

use serde_json::Value;

use crate::stats::median;

/// Relative difference up to which two figures are the same one, rounded.
const SAME: f64 = 1e-6;

/// A figure of both sides.
#[derive(Debug, Clone)]
pub(super) struct Figure {
    pub(super) key: String,
    pub(super) lower_is_better: bool,
    /// The phase whose rounds repeat it.
    phase: String,
    repeat: Repeat,
}

/// What a round says about a figure.
#[derive(Debug, Clone)]
enum Repeat {
    /// A key of the round; the figure is the median of the rounds.
    Median(&'static str),
    /// A percentile of the round; the figure is that of all samples, so it lies between the lowest
    /// and the highest of the rounds.
    Percentile(&'static str),
    /// A key of the round whose figure is neither: a total over a total.
    Total(&'static str),
    /// Engine over ceiling.
    Ratio,
}

/// The value of one side.
#[derive(Debug, Default)]
pub(super) struct Of {
    pub(super) value: Option<f64>,
    pub(super) repeats: Vec<f64>,
    /// The repeats cannot have given the value.
    pub(super) is_contradicted: bool,
}

/// Every figure that a phase of either side has, phase by phase.
pub(super) fn figures(a: &[Value], b: &[Value]) -> Vec<Figure> {
    let mut names: Vec<&str> = vec!["append", "poll", "durable"];
    for run in a.iter().chain(b) {
        let phases = run["phases"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for name in phases {
            // Names end up on terminals, and dots part the keys.
            let is_ours = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
            let is_name = !name.is_empty() && name.chars().all(|c| is_ours(c) || c == '-');
            if is_name && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let mut figures: Vec<Figure> = names.iter().flat_map(|name| of_phase(name)).collect();
    figures.extend([
        ceiling("write_mb_per_s", "append", false),
        ceiling("read_mb_per_s", "poll", false),
        ceiling("sync_write_p50_us", "durable", true),
    ]);
    let has = |figure: &Figure, runs: &[Value]| runs.iter().any(|run| figure.value(run).is_some());
    figures.retain(|figure| has(figure, a) || has(figure, b));
    figures
}

fn ceiling(key: &str, phase: &str, lower_is_better: bool) -> Figure {
    Figure {
        key: format!("ceiling.{key}"),
        lower_is_better,
        phase: phase.to_owned(),
        repeat: Repeat::Median("ceiling"),
    }
}

fn of_phase(name: &str) -> Vec<Figure> {
    let figure = |key: String, lower_is_better, repeat| Figure {
        key,
        lower_is_better,
        phase: name.to_owned(),
        repeat,
    };
    let latency = |key: &'static str| {
        figure(format!("{name}.latency_us.{key}"), true, Repeat::Percentile(key))
    };
    let ratio = if name == "durable" { "durable_p50" } else { name };
    vec![
        figure(format!("{name}.mb_per_s"), false, Repeat::Median("mb_per_s")),
        figure(format!("{name}.messages_per_s"), false, Repeat::Median("messages_per_s")),
        latency("p50"),
        latency("p90"),
        latency("p99"),
        latency("p999"),
        latency("max"),
        figure(format!("{name}.usage.cpu_s_per_gb"), true, Repeat::Total("cpu_s_per_gb")),
        figure(format!("ratio.{ratio}"), name == "durable", Repeat::Ratio),
    ]
}

impl Figure {
    /// The figure of one run.
    fn value(&self, run: &Value) -> Option<f64> {
        let value = self.key.split('.').try_fold(run, |value, key| value.get(key))?;
        value.as_f64().filter(|value| value.is_finite())
    }

    /// The figure and its repeats on one side: the runs' own values, or those of all their rounds.
    pub(super) fn of(&self, runs: &[Value], are_runs: bool) -> Of {
        let values: Vec<f64> = runs.iter().filter_map(|run| self.value(run)).collect();
        let Some(value) = median(&values) else { return Of::default() };
        if are_runs {
            return Of { value: Some(value), repeats: values, is_contradicted: false };
        }
        let mut repeats = Vec::new();
        let mut is_contradicted = false;
        for run in runs {
            let rounds = self.rounds(run);
            if let Some(value) = self.value(run).filter(|_| !rounds.is_empty()) {
                is_contradicted |= !self.may_give(&rounds, value);
            }
            repeats.extend(rounds);
        }
        if is_contradicted {
            repeats.clear();
        }
        Of { value: Some(value), repeats, is_contradicted }
    }

    fn rounds(&self, run: &Value) -> Vec<f64> {
        let rounds = run[&self.phase]["rounds"].as_array().into_iter().flatten();
        let one = |round: &Value| match self.repeat {
            Repeat::Median(key) | Repeat::Total(key) => round[key].as_f64(),
            Repeat::Percentile(key) => round["latency_us"][key].as_f64(),
            Repeat::Ratio => Some(round["engine"].as_f64()? / round["ceiling"].as_f64()?),
        };
        rounds.filter_map(one).filter(|value| value.is_finite()).collect()
    }

    fn may_give(&self, rounds: &[f64], value: f64) -> bool {
        let is_near = |a: f64, b: f64| (a - b).abs() <= SAME * a.abs().max(b.abs());
        match self.repeat {
            Repeat::Median(_) | Repeat::Ratio => {
                median(rounds).is_some_and(|median| is_near(median, value))
            }
            Repeat::Percentile(_) | Repeat::Total(_) => {
                let low = rounds.iter().copied().fold(f64::INFINITY, f64::min);
                let high = rounds.iter().copied().fold(0.0, f64::max);
                (low..=high).contains(&value) || is_near(low, value) || is_near(high, value)
            }
        }
    }
}
