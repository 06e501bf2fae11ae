//! `moved`: which rows of the benchmarks in `benches/micro` are not what they were.
//!
//! A row's repeats are its rounds: engine over what stands beside it where the two are compared, so
//! that a disk that drifted drifts out, else the engine's own figure. Rounds of two results do not
//! belong together; [`shift`] bounds the change without pairing them.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};

use super::environment::{self, Difference};
use super::{Verdict, verdict};
use crate::report::SCHEMA;
use crate::shift::shift;
use crate::stats::median;

/// Rows by their name: bench, table, what, allocator, runtime.
type Rows = BTreeMap<String, Measured>;

/// What one side knows of a row.
#[derive(Debug, Clone)]
struct Measured {
    repeats: Vec<f64>,
    lower_is_better: bool,
}

/// A row of both sides, or of one.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    name: String,
    /// Medians of the repeats; None where a side has none.
    a: Option<f64>,
    b: Option<f64>,
    /// Of `b` over `a`: the estimate and its bounds.
    change: Option<f64>,
    interval: Option<(f64, f64)>,
    verdict: Verdict,
}

/// What is different.
#[derive(Debug)]
pub(crate) struct Moved {
    rows: Vec<Row>,
    differences: Vec<Difference>,
    confidence: f64,
    /// Changes below this share are none, however sure they are.
    least: f64,
}

/// Compares the results of benchmarks, each side a document a benchmark; the error says what is no
/// result of one.
pub(crate) fn moved(
    a: &[Value],
    b: &[Value],
    confidence: f64,
    least: f64,
) -> Result<Moved, String> {
    let (of_a, of_b) = (rows(a)?, rows(b)?);
    let mut names: Vec<&String> = of_a.keys().chain(of_b.keys()).collect();
    names.sort();
    names.dedup();
    let row = |name: &String| compare(name, of_a.get(name), of_b.get(name), confidence, least);
    Ok(Moved {
        rows: names.into_iter().map(row).collect(),
        differences: environment::differences(a, b),
        confidence,
        least,
    })
}

fn compare(
    name: &str,
    a: Option<&Measured>,
    b: Option<&Measured>,
    confidence: f64,
    least: f64,
) -> Row {
    let middle = |side: Option<&Measured>| median(&side?.repeats);
    let both = a.zip(b);
    let found = both.and_then(|(a, b)| shift(&a.repeats, &b.repeats, confidence));
    let interval = found.and_then(|found| found.interval);
    let change = found.map(|found| found.ratio);
    let is_small = change.is_some_and(|change| (change - 1.0).abs() < least);
    let (before, after) = (middle(a), middle(b));
    let verdict = match both {
        Some(_) if is_small && interval.is_some() => Verdict::NoDifference,
        // A figure that is 0, as allocations are, has no quotient.
        Some((a, _)) if before == Some(0.0) || after == Some(0.0) => {
            match before.partial_cmp(&after) {
                Some(Ordering::Equal) => Verdict::NoDifference,
                Some(order) if (order == Ordering::Less) != a.lower_is_better => Verdict::Better,
                _ => Verdict::Worse,
            }
        }
        Some((a, _)) => verdict(interval, a.lower_is_better),
        None => Verdict::NotKnown,
    };
    Row { name: name.to_owned(), a: before, b: after, change, interval, verdict }
}

fn rows(documents: &[Value]) -> Result<Rows, String> {
    let mut rows = Rows::new();
    for document in documents {
        let (Some(bench), Some(tables)) =
            (document["bench"].as_str(), document["tables"].as_array())
        else {
            return Err("no result of a benchmark in benches/micro: no bench, no tables".to_owned());
        };
        if document["quick"] == true {
            return Err(format!("the result of {bench} is a quick look, which measures nothing"));
        }
        let word = |key: &str| document[key].as_str().unwrap_or("?");
        let (allocator, runtime) = (word("allocator"), word("runtime"));
        for table in tables {
            let title = table["title"].as_str().unwrap_or("?");
            for row in table["rows"].as_array().into_iter().flatten() {
                let what = row["what"].as_str().unwrap_or("?");
                let name = format!("{bench}: {title}: {what} ({allocator}, {runtime})");
                rows.insert(printable(&name), measured(row));
            }
        }
    }
    Ok(rows)
}

/// Names end up on terminals.
fn printable(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).collect()
}

fn measured(row: &Value) -> Measured {
    let figures = |key: &str| -> Vec<f64> {
        let all = row["rounds"][key].as_array().into_iter().flatten();
        all.filter_map(Value::as_f64).collect()
    };
    let (engine, beside) = (figures("engine"), figures("beside"));
    // A row whose figures only stand beside each other has no ratio.
    let is_compared = row["ratio"].is_number() && engine.len() == beside.len();
    let repeats = match is_compared {
        true => engine.iter().zip(&beside).map(|(engine, beside)| engine / beside).collect(),
        false => engine,
    };
    let unit = row["unit"].as_str().unwrap_or_default();
    Measured { repeats, lower_is_better: !matches!(unit, "MB/s" | "1/s") }
}

impl Moved {
    /// Rows that are worse, or that are gone.
    pub(crate) fn has_worse(&self) -> bool {
        self.rows.iter().any(|row| row.verdict == Verdict::Worse || row.b.is_none())
    }

    /// For people: what moved, then how many did not.
    pub(crate) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        for Difference { key, a, b } in &self.differences {
            writeln!(out, "warning: {key} was {a} and is {b}")?;
        }
        let mut still = 0;
        let mut unknown = 0;
        for row in &self.rows {
            match (row.verdict, row.a, row.b) {
                (_, _, None) => writeln!(out, "gone    {}", row.name)?,
                (_, None, _) => writeln!(out, "new     {}", row.name)?,
                (Verdict::Better | Verdict::Worse, Some(a), Some(b)) => {
                    write!(out, "{:<7} {}: {a:.3} to {b:.3}", row.verdict.word(), row.name)?;
                    if let (Some(change), Some((low, high))) = (row.change, row.interval) {
                        let [change, low, high] = [change, low, high].map(percent);
                        write!(out, ", {change:+.1} % ({low:+.1} to {high:+.1})")?;
                    }
                    writeln!(out)?;
                }
                (Verdict::NoDifference, ..) => still += 1,
                (Verdict::NotKnown, ..) => {
                    unknown += 1;
                    writeln!(out, "unknown {}: too few rounds to tell", row.name)?;
                }
            }
        }
        writeln!(
            out,
            "{} rows: {still} did not move, {unknown} unknown (engine over what stands beside it, \
             or the engine's figure; {} %, changes below {} % left out)",
            self.rows.len(),
            self.confidence * 100.0,
            self.least * 100.0,
        )
    }

    /// The same for scripts.
    pub(crate) fn to_json(&self) -> Value {
        let row = |row: &Row| {
            json!({
                "row": row.name,
                "a": row.a,
                "b": row.b,
                "change_percent": row.change.map(percent),
                "interval_percent": row.interval.map(|(low, high)| [percent(low), percent(high)]),
                "verdict": row.verdict.word(),
            })
        };
        let difference = |one: &Difference| json!({ "key": one.key, "a": one.a, "b": one.b });
        json!({
            "schema": SCHEMA,
            "confidence": self.confidence,
            "least_percent": self.least * 100.0,
            "worse": self.has_worse(),
            "differences": self.differences.iter().map(difference).collect::<Vec<_>>(),
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    /// A result of one row, nine rounds around `middle`; where it is compared, beside 2,000 that
    /// swing by a third.
    fn result(what: &str, unit: &str, middle: f64, is_compared: bool) -> Value {
        let swing = |n: i32| 1.0 + f64::from(n - 4) / 12.0;
        let noise = |n: i32| 1.0 + f64::from(n % 3 - 1) / 200.0;
        let engine: Vec<f64> =
            (0..9).map(|n| middle * noise(n) * if is_compared { swing(n) } else { 1.0 }).collect();
        let beside: Vec<f64> = (0..9).map(|n| 2000.0 * swing(n)).collect();
        json!({"schema": 1, "bench": "append", "quick": false,
               "allocator": "own", "runtime": "ring", "machine": {"kernel": "6.18"},
               "tables": [{"title": "t", "rows": [{"what": what, "unit": unit,
                   "ratio": if is_compared { json!(0.5) } else { Value::Null },
                   "rounds": {"engine": engine, "beside": beside}}]}]})
    }

    fn told(a: &Value, b: &Value) -> (bool, String) {
        let moved = moved(from_ref(a), from_ref(b), 0.99, 0.03).unwrap();
        let mut text = Vec::new();
        moved.print(&mut text).unwrap();
        assert_eq!(moved.to_json()["worse"], moved.has_worse());
        (moved.has_worse(), String::from_utf8(text).unwrap())
    }

    #[test]
    fn rows_that_moved_beyond_the_noise_are_named() {
        let old = result("1 KB", "MB/s", 1000.0, true);
        let (worse, text) = told(&old, &old);
        assert!(!worse && text.contains("1 rows: 1 did not move, 0 unknown"), "{text}");
        let (worse, text) = told(&old, &result("1 KB", "MB/s", 900.0, true));
        assert!(
            worse
                && text.starts_with("worse   append: t: 1 KB (own, ring): 0.500 to 0.450, -10.0 %")
        );
        let (worse, text) = told(&old, &result("1 KB", "MB/s", 1100.0, true));
        assert!(!worse && text.starts_with("better  append: t: 1 KB (own, ring)"), "{text}");
        // Sure, and too small to matter.
        let (worse, text) = told(&old, &result("1 KB", "MB/s", 980.0, true));
        assert!(!worse && text.contains("1 did not move"), "{text}");
    }

    #[test]
    fn a_time_that_grew_is_worse_and_so_is_a_row_that_is_gone() {
        let old = result("p50", "us", 100.0, false);
        let (worse, text) = told(&old, &result("p50", "us", 120.0, false));
        assert!(worse && text.starts_with("worse   append: t: p50"), "{text}");
        let (worse, text) = told(&old, &result("p50", "us", 80.0, false));
        assert!(!worse && text.starts_with("better"), "{text}");
        let (worse, text) = told(&old, &result("p51", "us", 100.0, false));
        assert!(worse && text.contains("gone    append: t: p50") && text.contains("new     "));
    }

    #[test]
    fn the_runtimes_have_rows_of_their_own() {
        let ring = result("p50", "us", 100.0, false);
        let mut glommio = ring.clone();
        glommio["runtime"] = json!("glommio");
        let (worse, text) = told(&ring, &glommio);
        assert!(worse && text.contains("gone    append: t: p50 (own, ring)"), "{text}");
        assert!(text.contains("new     append: t: p50 (own, glommio)"), "{text}");
    }

    #[test]
    fn what_was_0_and_is_not_has_moved() {
        let (none, some) = (result("all", "1", 0.0, false), result("all", "1", 3.0, false));
        let (worse, text) = told(&none, &none);
        assert!(!worse && text.contains("1 did not move"), "{text}");
        let (worse, text) = told(&none, &some);
        assert!(
            worse && text.starts_with("worse   append: t: all (own, ring): 0.000 to 3.0"),
            "{text}"
        );
        let (worse, text) = told(&some, &none);
        assert!(!worse && text.starts_with("better"), "{text}");
    }

    #[test]
    fn a_disk_that_is_another_one_is_no_regression_where_there_is_a_ceiling() {
        let slower = |key: &str, result: &mut Value, by: f64| {
            let figures = &mut result["tables"][0]["rows"][0]["rounds"][key];
            for figure in figures.as_array_mut().unwrap() {
                *figure = json!(figure.as_f64().unwrap() * by);
            }
        };
        let old = result("1 KB", "MB/s", 1000.0, true);
        let mut new = old.clone();
        slower("engine", &mut new, 0.5);
        slower("beside", &mut new, 0.5);
        assert!(!told(&old, &new).0);
        let mut new = old.clone();
        slower("engine", &mut new, 0.5);
        assert!(told(&old, &new).0);
    }

    #[test]
    fn what_cannot_be_compared_is_said() {
        let fault = |a: &Value, b: &Value| moved(from_ref(a), from_ref(b), 0.99, 0.03).unwrap_err();
        let old = result("1 KB", "MB/s", 1000.0, true);
        let mut quick = old.clone();
        quick["quick"] = json!(true);
        assert!(fault(&old, &quick).contains("quick look"));
        assert!(fault(&json!({"schema": 1}), &old).contains("no bench"));
        let mut few = old.clone();
        few["tables"][0]["rows"][0]["rounds"] = json!({"engine": [1.0], "beside": [2.0]});
        let (worse, text) = told(&old, &few);
        assert!(!worse && text.contains("too few rounds"), "{text}");
        let mut other = old.clone();
        other["machine"]["kernel"] = json!("6.1");
        assert!(told(&old, &other).1.contains("warning: machine.kernel was \"6.18\""));
    }
}
