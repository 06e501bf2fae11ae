//! `--fail-if`: conditions under which a comparison ends with exit status 1.

use std::fmt;
use std::str::FromStr;

use super::{Comparison, Row};

/// A condition on the change of a figure, such as `append.mb_per_s<-5%`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Gate {
    text: String,
    key: String,
    operator: Operator,
    limit: f64,
    /// The limit is in percent of the first side, else in the figure's own unit.
    is_percent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Operator {
    fn holds(self, change: f64, limit: f64) -> bool {
        match self {
            Operator::Less => change < limit,
            Operator::LessOrEqual => change <= limit,
            Operator::Greater => change > limit,
            Operator::GreaterOrEqual => change >= limit,
        }
    }
}

const EXAMPLE: &str = "write it as `append.mb_per_s<-5%` or `durable.latency_us.p99>10%`";

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Gate, String> {
        let at = text.find(['<', '>']).ok_or_else(|| format!("neither < nor >; {EXAMPLE}"))?;
        let (key, rest) = text.split_at(at);
        let (operator, limit) = match rest.as_bytes() {
            [b'<', b'=', ..] => (Operator::LessOrEqual, &rest[2..]),
            [b'>', b'=', ..] => (Operator::GreaterOrEqual, &rest[2..]),
            [b'<', ..] => (Operator::Less, &rest[1..]),
            _ => (Operator::Greater, &rest[1..]),
        };
        let (key, limit) = (key.trim(), limit.trim());
        if key.is_empty() {
            return Err(format!("no figure before the sign; {EXAMPLE}"));
        }
        let number = limit.strip_suffix('%').map(str::trim_end);
        let parsed = number.unwrap_or(limit).parse::<f64>().ok().filter(|limit| limit.is_finite());
        let limit_value =
            parsed.ok_or_else(|| format!("`{limit}` is no number or percentage; {EXAMPLE}"))?;
        Ok(Gate {
            text: text.to_owned(),
            key: key.to_owned(),
            operator,
            limit: limit_value,
            is_percent: number.is_some(),
        })
    }
}

/// What became of a condition for one figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Held {
    pub(crate) expression: String,
    pub(crate) key: String,
    pub(crate) holds: bool,
    /// In words.
    pub(crate) why: String,
}

/// A condition that cannot be decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Undecided(String);

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Undecided {}

impl Gate {
    /// Decides the condition for each figure that it names: one by its whole key, or all whose key
    /// ends with it (`p99` means every phase's).
    pub(crate) fn judge(&self, comparison: &Comparison) -> Result<Vec<Held>, Undecided> {
        let rows: Vec<&Row> = comparison.rows.iter().filter(|row| self.names(&row.key)).collect();
        if rows.is_empty() {
            let keys: Vec<&str> = comparison.rows.iter().map(|row| row.key.as_str()).collect();
            let what = format!(
                "--fail-if {}: neither result has {}; there are {}",
                self.text,
                self.key,
                keys.join(", ")
            );
            return Err(Undecided(what));
        }
        rows.iter().map(|row| self.judge_row(row)).collect()
    }

    fn names(&self, key: &str) -> bool {
        let short = key.replace(".latency_us.", ".");
        let ends = |key: &str| key == self.key || key.ends_with(&format!(".{}", self.key));
        ends(key) || ends(&short)
    }

    fn judge_row(&self, row: &Row) -> Result<Held, Undecided> {
        let missing = || {
            let side = if row.a.is_none() { "first" } else { "second" };
            let key = &row.key;
            Undecided(format!("--fail-if {}: the {side} result has no {key}", self.text))
        };
        let (Some(a), Some(b)) = (row.a, row.b) else { return Err(missing()) };
        let change = if self.is_percent { row.change_percent() } else { Some(b - a) };
        let change = change.ok_or_else(|| {
            Undecided(format!("--fail-if {}: {} was 0, which has no percent", self.text, row.key))
        })?;
        let is_beyond = self.operator.holds(change, self.limit);
        // Where there is an interval, a change that may be none is not one.
        let is_noise = row.interval.is_some_and(|(low, high)| low <= 1.0 && 1.0 <= high);
        let unit = if self.is_percent { " %" } else { "" };
        let why = match (is_beyond, is_noise, row.interval) {
            (true, true, _) => format!("{change:+.1}{unit}, which is within the noise"),
            (_, _, None) => format!("{change:+.1}{unit}, without an interval"),
            _ => format!("{change:+.1}{unit}"),
        };
        Ok(Held {
            expression: self.text.clone(),
            key: row.key.clone(),
            holds: is_beyond && !is_noise,
            why,
        })
    }
}
