//! The comparison for people.

use std::io::{self, Write};

use serde_json::Value;

use super::{Comparison, Held, Row};

/// Differences of the environment that are listed; more are counted.
const DIFFERENCES_SHOWN: usize = 12;

impl Comparison {
    /// A table, warnings above it, conditions below.
    pub(crate) fn print(&self, gates: &[Held], out: &mut dyn Write) -> io::Result<()> {
        let percent = self.confidence * 100.0;
        writeln!(out, "A  {}\nB  {}", self.a, self.b)?;
        writeln!(
            out,
            "Change from A to B; intervals hold the true change with {percent} %, from the {} of \
             both, unpaired (Hodges-Lehmann, Mann-Whitney).",
            self.repeats
        )?;
        for warning in &self.warnings {
            writeln!(out, "warning: {warning}")?;
        }
        if !self.differences.is_empty() {
            writeln!(out, "warning: the environments differ:")?;
            for difference in self.differences.iter().take(DIFFERENCES_SHOWN) {
                let (a, b) = (words(&difference.a), words(&difference.b));
                writeln!(out, "  {:<36} A {a}, B {b}", difference.key)?;
            }
            let more = self.differences.len().saturating_sub(DIFFERENCES_SHOWN);
            if more > 0 {
                writeln!(out, "  and {more} more; --json has them")?;
            }
        }
        let width = self.rows.iter().map(|row| row.key.len()).max().unwrap_or(0);
        writeln!(
            out,
            "\n{:<width$} {:>13} {:>13} {:>10}   {:<20} verdict",
            "", "A", "B", "change", "interval"
        )?;
        for row in &self.rows {
            print_row(out, row, width)?;
        }
        for held in gates {
            let verb = if held.holds { "FAIL" } else { "pass" };
            writeln!(out, "\n{verb}  {}  ({}: {})", held.expression, held.key, held.why)?;
        }
        Ok(())
    }
}

fn print_row(out: &mut dyn Write, row: &Row, width: usize) -> io::Result<()> {
    let figure = |value: Option<f64>| match value {
        None => "not run".to_owned(),
        Some(value) if value.abs() < 10.0 => format!("{value:.3}"),
        Some(value) => format!("{value:.0}"),
    };
    let change = row.change_percent().map_or(String::new(), |change| format!("{change:+.1} %"));
    let interval = row.interval.map_or(String::new(), |(low, high)| {
        format!("{:+.1} % to {:+.1} %", (low - 1.0) * 100.0, (high - 1.0) * 100.0)
    });
    writeln!(
        out,
        "{:<width$} {:>13} {:>13} {change:>10}   {interval:<20} {}",
        row.key,
        figure(row.a),
        figure(row.b),
        row.verdict.word()
    )
}

/// A fact on one line, without what a terminal would act on.
fn words(value: &Value) -> String {
    match value {
        Value::Null => "unknown".to_owned(),
        Value::String(text) => text.chars().filter(|c| !c.is_control()).collect(),
        other => other.to_string(),
    }
}
