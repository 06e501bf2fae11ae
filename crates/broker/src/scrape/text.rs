//! Families of metrics as text, version 0.0.4 of the exposition format: each family once, with its
//! help and type, all of its series behind each other.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// Upper ends of the buckets of histograms, seconds: from 10 us, as appends take, to 10 s.
pub(super) const BUCKETS: [f64; 19] = [
    0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025,
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// What a series has.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Whole(u64),
    Real(f64),
    Times(Times),
}

/// Times, by bucket; the last one is of those that are longer.
#[derive(Debug, Clone, Default)]
pub(super) struct Times {
    pub(super) counts: [u64; BUCKETS.len() + 1],
    pub(super) sum: f64,
}

impl Times {
    pub(super) fn add(&mut self, seconds: f64, count: u64) {
        let place = BUCKETS.iter().position(|end| seconds <= *end).unwrap_or(BUCKETS.len());
        self.counts[place] += count;
        self.sum += seconds * count as f64;
    }
}

/// A metric with all its series, by their labels as they are written.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) kind: Kind,
    pub(super) help: String,
    pub(super) series: BTreeMap<String, Value>,
}

/// Families by name.
#[derive(Debug, Default)]
pub(super) struct Families(pub(super) BTreeMap<String, Family>);

impl Families {
    /// A family; made where it is not there.
    pub(super) fn family(&mut self, name: &str, kind: Kind, help: &str) -> &mut Family {
        let new = || Family { kind, help: help.to_owned(), series: BTreeMap::new() };
        self.0.entry(name.to_owned()).or_insert_with(new)
    }

    /// One series of a family.
    pub(super) fn put(&mut self, of: (&str, Kind, &str), labels: &[(&str, &str)], value: Value) {
        self.family(of.0, of.1, of.2).series.insert(labelled(labels), value);
    }
}

/// `a="1",b="2"`, without braces.
pub(super) fn labelled(labels: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (key, value) in labels {
        let comma = if out.is_empty() { "" } else { "," };
        let _ = write!(out, "{comma}{key}=\"{}\"", escaped(value, true));
    }
    out
}

fn escaped(text: &str, in_quotes: bool) -> String {
    let text = text.replace('\\', r"\\").replace('\n', r"\n");
    if in_quotes { text.replace('"', "\\\"") } else { text }
}

impl fmt::Display for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, Family { kind, help, series }) in &self.0 {
            let word = match kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            writeln!(f, "# HELP {name} {}", escaped(help, false))?;
            writeln!(f, "# TYPE {name} {word}")?;
            for (labels, value) in series {
                match value {
                    Value::Times(times) => write_times(f, name, labels, times)?,
                    Value::Whole(value) => writeln!(f, "{name}{} {value}", braced(labels, ""))?,
                    Value::Real(value) => writeln!(f, "{name}{} {value}", braced(labels, ""))?,
                }
            }
        }
        Ok(())
    }
}

fn write_times(f: &mut impl Write, name: &str, labels: &str, times: &Times) -> fmt::Result {
    let mut below = 0;
    for (place, count) in times.counts.iter().enumerate() {
        below += count;
        let end = BUCKETS.get(place).map_or("+Inf".to_owned(), f64::to_string);
        writeln!(f, "{name}_bucket{} {below}", braced(labels, &format!("le=\"{end}\"")))?;
    }
    writeln!(f, "{name}_sum{} {}", braced(labels, ""), times.sum)?;
    writeln!(f, "{name}_count{} {below}", braced(labels, ""))
}

fn braced(labels: &str, more: &str) -> String {
    match (labels.is_empty(), more.is_empty()) {
        (true, true) => String::new(),
        (false, false) => format!("{{{labels},{more}}}"),
        _ => format!("{{{labels}{more}}}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_written_once_with_all_its_series() {
        let mut families = Families::default();
        let of = ("b_total", Kind::Counter, "Of \"b\".\nMore \\");
        families.put(of, &[("shard", "0"), ("why", "a\"b\\c\nd")], Value::Whole(u64::MAX));
        families.put(of, &[("shard", "1")], Value::Whole(2));
        families.put(("a", Kind::Gauge, "Of a."), &[], Value::Real(0.5));
        let expected = "# HELP a Of a.\n# TYPE a gauge\na 0.5\n\
            # HELP b_total Of \"b\".\\nMore \\\\\n# TYPE b_total counter\n\
            b_total{shard=\"0\",why=\"a\\\"b\\\\c\\nd\"} 18446744073709551615\n\
            b_total{shard=\"1\"} 2\n";
        assert_eq!(families.to_string(), expected);
    }

    #[test]
    fn buckets_hold_what_is_below_their_end() {
        let mut times = Times::default();
        times.add(0.000_01, 1);
        times.add(0.3, 2);
        times.add(60.0, 1);
        let mut families = Families::default();
        families.put(("t", Kind::Histogram, "T."), &[("op", "x")], Value::Times(times));
        let text = families.to_string();
        for line in [
            "t_bucket{op=\"x\",le=\"0.00001\"} 1",
            "t_bucket{op=\"x\",le=\"0.25\"} 1",
            "t_bucket{op=\"x\",le=\"0.5\"} 3",
            "t_bucket{op=\"x\",le=\"10\"} 3",
            "t_bucket{op=\"x\",le=\"+Inf\"} 4",
            "t_count{op=\"x\"} 4",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
