//! The medians of the rounds, as Markdown for people and JSON for scripts.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::logs::Kind;
use crate::work::{Class, RECORD_BYTES, Work};

/// The figures of a round whose medians are shown, by their keys.
const KEYS: [&str; 8] = [
    "mb_per_s",
    "mb_per_s_until_durable",
    "p50_us",
    "p99_us",
    "disk_bytes_a_payload_byte",
    "device_bytes_a_payload_byte",
    "cpu_s_per_gb",
    "peak_memory_bytes",
];

/// A log in a class: all its rounds.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) log: Kind,
    rounds: Vec<Value>,
    /// None where nobody counted.
    pub(crate) calls_a_batch: Option<f64>,
}

impl Row {
    pub(crate) fn new(log: Kind) -> Row {
        Row { log, rounds: Vec::new(), calls_a_batch: None }
    }

    /// Takes what a child printed.
    pub(crate) fn add(&mut self, round: Value) {
        self.rounds.push(round);
    }

    /// The median of a figure; None where no round has it.
    fn median(&self, key: &str) -> Option<f64> {
        let mut all: Vec<f64> =
            self.rounds.iter().filter_map(|round| round[key].as_f64()).collect();
        all.sort_by(f64::total_cmp);
        let middle = all.len() / 2;
        match all.len() {
            0 => None,
            len if len % 2 == 1 => Some(all[middle]),
            _ => Some(f64::midpoint(all[middle - 1], all[middle])),
        }
    }

    /// Payload bytes that were read back and compared, in each round the same; None where a round
    /// compared none, or others.
    fn compared(&self) -> Option<u64> {
        let mut all = self.rounds.iter().map(|round| round["compared_bytes"].as_u64());
        let first = all.next()??;
        all.all(|one| one == Some(first)).then_some(first)
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut row = json!({ "log": self.log.name(), "compared_bytes": self.compared(),
                              "calls_a_batch": self.calls_a_batch });
        for key in KEYS {
            row[key] = json!(self.median(key));
        }
        row["rounds"] = json!(self.rounds);
        row
    }
}

/// One table, with what everybody was given above it.
pub(crate) fn markdown(class: Class, work: Work, rows: &[Row]) -> String {
    let mut table = format!(
        "\n### {}\n\n{} batches of {} x {RECORD_BYTES} B from each of {} producers.\n\n",
        class.title(),
        work.batches,
        work.records,
        work.producers,
    );
    table.push_str(
        "| log | MB/s | MB/s until durable | p50 us | p99 us | on disk | to the device | CPU s/GB \
         | calls a batch | peak memory | read back |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for row in rows {
        let figure = |key: &str| words(row.median(key));
        let memory = row.median("peak_memory_bytes").map(|bytes| bytes / 1e6);
        let equal = row.compared() == Some(work.payload_bytes());
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} MB | {} |",
            row.log.name(),
            figure(KEYS[0]),
            figure(KEYS[1]),
            figure(KEYS[2]),
            figure(KEYS[3]),
            figure(KEYS[4]),
            figure(KEYS[5]),
            figure(KEYS[6]),
            words(row.calls_a_batch),
            words(memory),
            if equal { "equal" } else { "NOT equal" },
        );
    }
    table
}

/// Three digits that mean something.
fn words(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value < 10.0 => format!("{value:.2}"),
        Some(value) if value < 100.0 => format!("{value:.1}"),
        Some(value) => {
            let digits = format!("{value:.0}");
            let mut grouped = String::new();
            for (at, digit) in digits.chars().enumerate() {
                if at > 0 && (digits.len() - at).is_multiple_of(3) {
                    grouped.push(',');
                }
                grouped.push(digit);
            }
            grouped
        }
    }
}
