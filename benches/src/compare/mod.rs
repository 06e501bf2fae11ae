//! `compare`: what changed from one result to another, and what is only noise.
//!
//! Repeats are a run's rounds, or whole runs where each side has at least four. Two runs have no
//! rounds in common, so they are not paired: `shift` says how the interval is made. A figure whose
//! repeats contradict it (somebody edited the file) is compared without them.

mod environment;
mod gate;
mod moved;
mod rows;
mod text;

use serde_json::{Value, json};

use crate::report::SCHEMA;
use crate::shift::shift;

pub(crate) use environment::Difference;
pub(crate) use gate::{Gate, Held};
pub(crate) use moved::moved;

/// Results of a side from which the runs themselves are the repeats.
const RUNS_MIN: usize = 4;

/// One side of a comparison: a result, or several of the same thing.
#[derive(Debug)]
pub(crate) struct Side {
    /// The file or files, for people.
    pub(crate) name: String,
    /// At least one.
    pub(crate) runs: Vec<Value>,
}

/// What became of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Better,
    Worse,
    /// The interval of the change holds "none".
    NoDifference,
    /// Too few repeats for an interval.
    NotKnown,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::NoDifference => "no difference",
            Verdict::NotKnown => "not known",
        }
    }
}

/// One figure of both sides.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// Where it stands in the JSON, and what `--fail-if` calls it: `append.mb_per_s`.
    pub(crate) key: String,
    /// None where it was not measured.
    pub(crate) a: Option<f64>,
    pub(crate) b: Option<f64>,
    /// Bounds of `b` over `a`.
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) verdict: Verdict,
}

impl Row {
    /// `b` over `a`.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let ratio = self.b? / self.a?;
        ratio.is_finite().then_some(ratio)
    }

    /// From `a` to `b`, in percent.
    pub(crate) fn change_percent(&self) -> Option<f64> {
        Some((self.ratio()? - 1.0) * 100.0)
    }
}

/// Everything that a comparison found.
#[derive(Debug)]
pub(crate) struct Comparison {
    a: String,
    b: String,
    confidence: f64,
    /// What was repeated: "rounds" or "runs".
    repeats: &'static str,
    pub(crate) rows: Vec<Row>,
    pub(crate) differences: Vec<Difference>,
    pub(crate) warnings: Vec<String>,
}

/// Compares all figures that at least one side has.
pub(crate) fn compare(a: &Side, b: &Side, confidence: f64) -> Comparison {
    let are_runs = a.runs.len().min(b.runs.len()) >= RUNS_MIN;
    let mut warnings = Vec::new();
    let mut edited = Vec::new();
    let mut rows = Vec::new();
    for figure in rows::figures(&a.runs, &b.runs) {
        let (of_a, of_b) = (figure.of(&a.runs, are_runs), figure.of(&b.runs, are_runs));
        edited.extend((of_a.is_contradicted || of_b.is_contradicted).then(|| figure.key.clone()));
        let found = shift(&of_a.repeats, &of_b.repeats, confidence);
        let interval = found.and_then(|found| found.interval);
        let verdict = verdict(interval, figure.lower_is_better);
        rows.push(Row { key: figure.key, a: of_a.value, b: of_b.value, interval, verdict });
    }
    if !edited.is_empty() {
        let keys = edited.join(", ");
        warnings.push(format!("the rounds do not give the figure, so it has no interval: {keys}"));
    }
    warnings.extend(disk_changed(&rows));
    for side in [a, b] {
        if side.runs.iter().any(|run| run["program"]["optimised"] == json!(false)) {
            warnings.push(format!("{} is of a build that is not optimised", side.name));
        }
        if side.runs.iter().any(|run| run["ended"] == json!("interrupted")) {
            warnings.push(format!("{} was stopped before its end", side.name));
        }
    }
    let repeats = if are_runs { "runs" } else { "rounds" };
    if rows.iter().all(|row| row.interval.is_none()) {
        warnings.push(format!("too few {repeats} for intervals: raise --rounds"));
    }
    Comparison {
        a: a.name.clone(),
        b: b.name.clone(),
        confidence,
        repeats,
        rows,
        differences: environment::differences(&a.runs, &b.runs),
        warnings,
    }
}

fn verdict(interval: Option<(f64, f64)>, lower_is_better: bool) -> Verdict {
    let Some((low, high)) = interval else { return Verdict::NotKnown };
    match (low > 1.0, high < 1.0) {
        (false, false) => Verdict::NoDifference,
        (is_more, _) if is_more != lower_is_better => Verdict::Better,
        _ => Verdict::Worse,
    }
}

/// The ceiling has no engine in it: what differs there is the disk.
fn disk_changed(rows: &[Row]) -> Option<String> {
    let changed: Vec<&str> = rows
        .iter()
        .filter(|row| row.key.starts_with("ceiling."))
        .filter(|row| matches!(row.verdict, Verdict::Better | Verdict::Worse))
        .map(|row| row.key.as_str())
        .collect();
    (!changed.is_empty()).then(|| {
        format!(
            "the disk itself was another one ({}): go by the rows of `ratio`, which take it out",
            changed.join(", ")
        )
    })
}

impl Comparison {
    /// The comparison for scripts, with what `--fail-if` came to.
    pub(crate) fn to_json(&self, gates: &[Held]) -> Value {
        let row = |row: &Row| {
            json!({
                "key": row.key,
                "a": row.a,
                "b": row.b,
                "change_percent": row.change_percent(),
                "interval_percent": row
                    .interval
                    .map(|(low, high)| [(low - 1.0) * 100.0, (high - 1.0) * 100.0]),
                "verdict": row.verdict.word(),
            })
        };
        let gate = |held: &Held| {
            json!({ "expression": held.expression, "key": held.key, "holds": held.holds,
                    "why": held.why })
        };
        let difference = |one: &Difference| json!({ "key": one.key, "a": one.a, "b": one.b });
        json!({
            "schema": SCHEMA,
            "a": self.a,
            "b": self.b,
            "confidence": self.confidence,
            "repeats": self.repeats,
            "method": "Hodges-Lehmann, unpaired, interval of the Mann-Whitney test",
            "warnings": self.warnings,
            "differences": self.differences.iter().map(difference).collect::<Vec<_>>(),
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "fail_if": gates.iter().map(gate).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests;
