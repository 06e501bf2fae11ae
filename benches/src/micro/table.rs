//! Results: one row a measured thing, medians over the rounds, as Markdown and as JSON.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::Cpu;
use crate::stats::{median, median_interval};

/// What a row's figures count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// 10^6 bytes a second.
    MbPerS,
    /// Operations a second.
    PerS,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// 2^20 bytes.
    Mib,
    /// A plain number.
    Number,
}

/// How a row's figure stands to the one beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ratio {
    /// In percent of it.
    Percent,
    /// So many times it.
    Times,
    /// Not at all: it only stands there.
    None,
}

/// One round of a row.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// The engine's figure.
    pub engine: f64,
    /// The figure beside it, of the same round: the ceiling's, or what the row's name says.
    pub beside: Option<f64>,
    /// What the engine's phase cost.
    pub cpu: Option<Cpu>,
}

/// A measured thing.
#[derive(Debug, Clone)]
pub struct Row {
    what: String,
    unit: Unit,
    ratio: Ratio,
    /// What stands beside the engine; empty for nothing.
    beside: &'static str,
    /// What the design asks for; empty for nothing.
    reach: &'static str,
    samples: Vec<Sample>,
}

/// Rows under a title.
#[derive(Debug, Clone)]
pub struct Table {
    title: String,
    rows: Vec<Row>,
    /// Lines below the table.
    notes: Vec<String>,
}

impl Table {
    /// An empty one.
    pub fn new(title: impl Into<String>) -> Table {
        Table { title: title.into(), rows: Vec::new(), notes: Vec::new() }
    }

    /// The row `what`, to add a sample to; `new` describes it when it is met first.
    pub fn row(&mut self, what: &str, new: impl FnOnce(Row) -> Row) -> &mut Row {
        let at = self.rows.iter().position(|row| row.what == what).unwrap_or_else(|| {
            self.rows.push(new(Row {
                what: what.to_owned(),
                unit: Unit::Number,
                ratio: Ratio::Percent,
                beside: "",
                reach: "",
                samples: Vec::new(),
            }));
            self.rows.len() - 1
        });
        &mut self.rows[at]
    }

    /// Adds a line below the table.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// As Markdown.
    pub(super) fn print(&self, allocator: &str, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "\n**{}** ({allocator})\n", self.title)?;
        writeln!(
            out,
            "| what | engine | beside it | ratio (95 % interval) | to reach | shard's CPU left | \
             process CPU |"
        )?;
        writeln!(out, "| --- | --- | --- | --- | --- | --- | --- |")?;
        for row in &self.rows {
            row.print(out)?;
        }
        if !self.notes.is_empty() {
            writeln!(out)?;
        }
        for note in &self.notes {
            writeln!(out, "- {note}")?;
        }
        Ok(())
    }

    /// As JSON, all samples included.
    pub(super) fn to_json(&self) -> Value {
        json!({
            "title": self.title,
            "rows": self.rows.iter().map(Row::to_json).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

impl Row {
    /// Counted in `unit`.
    #[must_use]
    pub fn unit(self, unit: Unit) -> Row {
        Row { unit, ..self }
    }

    /// With `beside` standing beside the engine, compared by `ratio`.
    #[must_use]
    pub fn beside(self, beside: &'static str, ratio: Ratio) -> Row {
        Row { beside, ratio, ..self }
    }

    /// With what the design asks for.
    #[must_use]
    pub fn reach(self, reach: &'static str) -> Row {
        Row { reach, ..self }
    }

    /// Adds a round.
    pub fn add(&mut self, sample: Sample) {
        self.samples.push(sample);
    }

    fn each(&self, figure: impl Fn(&Sample) -> Option<f64>) -> Vec<f64> {
        self.samples.iter().filter_map(figure).collect()
    }

    /// Engine over what stands beside it, a round each.
    fn ratios(&self) -> Vec<f64> {
        if self.ratio == Ratio::None {
            return Vec::new();
        }
        self.each(|sample| Some(sample.engine / sample.beside?))
    }

    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let engine = self.told(&self.each(|sample| Some(sample.engine)));
        let beside = match self.told(&self.each(|sample| sample.beside)) {
            told if told.is_empty() => String::new(),
            told => format!("{told} ({})", self.beside),
        };
        let share = |figure: &dyn Fn(Cpu) -> f64| {
            let values = self.each(|sample| sample.cpu.map(figure));
            median(&values).map_or(String::new(), |value| format!("{:.0} %", value * 100.0))
        };
        let left = share(&|cpu| (1.0 - cpu.shard).max(0.0));
        let process = share(&|cpu| cpu.process);
        writeln!(
            out,
            "| {} | {engine} | {beside} | {} | {} | {left} | {process} |",
            self.what,
            self.told_ratio(),
            self.reach
        )
    }

    fn told(&self, values: &[f64]) -> String {
        let Some(middle) = median(values) else { return String::new() };
        match self.unit {
            Unit::MbPerS => format!("{} MB/s", thousands(middle)),
            Unit::PerS => format!("{} /s", thousands(middle)),
            Unit::Us if middle >= 100.0 => format!("{} us", thousands(middle)),
            Unit::Us => format!("{middle:.1} us"),
            Unit::Ms if middle >= 100.0 => format!("{} ms", thousands(middle)),
            Unit::Ms => format!("{middle:.1} ms"),
            Unit::Mib => format!("{} MiB", thousands(middle)),
            Unit::Number => format!("{middle:.2}"),
        }
    }

    fn told_ratio(&self) -> String {
        let ratios = self.ratios();
        let Some(middle) = median(&ratios) else { return String::new() };
        let told = |ratio: f64| match self.ratio {
            Ratio::Percent => format!("{:.0}", ratio * 100.0),
            _ => format!("{ratio:.2}"),
        };
        let sign = match self.ratio {
            Ratio::Percent => "%",
            _ => "x",
        };
        match median_interval(&ratios) {
            None => format!("{} {sign}", told(middle)),
            Some((low, high)) => {
                format!("{} {sign} ({} to {})", told(middle), told(low), told(high))
            }
        }
    }

    fn to_json(&self) -> Value {
        let ratios = self.ratios();
        json!({
            "what": self.what,
            "unit": match self.unit {
                Unit::MbPerS => "MB/s",
                Unit::PerS => "1/s",
                Unit::Us => "us",
                Unit::Ms => "ms",
                Unit::Mib => "MiB",
                Unit::Number => "1",
            },
            "engine": median(&self.each(|sample| Some(sample.engine))),
            "beside": median(&self.each(|sample| sample.beside)),
            "beside_what": self.beside,
            "ratio": median(&ratios),
            "ratio_interval": median_interval(&ratios).map(|(low, high)| [low, high]),
            "reach": self.reach,
            "shard_cpu": median(&self.each(|sample| sample.cpu.map(|cpu| cpu.shard))),
            "process_cpu": median(&self.each(|sample| sample.cpu.map(|cpu| cpu.process))),
            "rounds": {
                "engine": self.each(|sample| Some(sample.engine)),
                "beside": self.each(|sample| sample.beside),
            },
        })
    }
}

/// A whole number with commas: `12,345`.
fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut told = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            told.push(',');
        }
        told.push(digit);
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("append");
        for round in 1..=6 {
            let sample = Sample {
                engine: 1000.0 + f64::from(round),
                beside: Some(2.0 * (1000.0 + f64::from(round))),
                cpu: Some(Cpu { shard: 0.25, process: 1.5 }),
            };
            let new =
                |row: Row| row.unit(Unit::MbPerS).beside("ring", Ratio::Percent).reach("90 %");
            table.row("one", new).add(sample);
        }
        table
            .row("other", |row| row.unit(Unit::Us))
            .add(Sample { engine: 9.5, ..Sample::default() });
        table
    }

    #[test]
    fn a_row_tells_medians_of_its_rounds() {
        let mut text = Vec::new();
        table().print("no allocator", &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let row =
            "| one | 1,004 MB/s | 2,007 MB/s (ring) | 50 % (50 to 50) | 90 % | 75 % | 150 % |";
        assert!(text.contains(row), "{text}");
        assert!(text.contains("| other | 9.5 us |  |  |  |  |  |"), "{text}");
    }

    #[test]
    fn json_keeps_every_round() {
        let json = table().to_json();
        assert_eq!(json["rows"][0]["rounds"]["engine"].as_array().unwrap().len(), 6);
        assert_eq!(json["rows"][0]["ratio"], 0.5);
        assert!(json["rows"][1]["ratio"].is_null());
    }

    #[test]
    fn numbers_have_commas() {
        assert_eq!(thousands(999.4), "999");
        assert_eq!(thousands(1_234_567.0), "1,234,567");
    }
}
