//! Medians of the rounds, as a table and as JSON.

use serde_json::{Value, json};

use crate::shape::Shape;
use crate::window::Outcome;

/// What came of one shape.
pub struct Row {
    name: &'static str,
    batch: u32,
    pub broker: Vec<Outcome>,
    pub echo: Vec<Outcome>,
    pub nothing: Vec<Outcome>,
}

impl Row {
    pub fn new(shape: &Shape) -> Row {
        let (broker, echo, nothing) = Default::default();
        Row { name: shape.name, batch: shape.batch, broker, echo, nothing }
    }
}

/// A figure of a round.
type Figure = fn(&Outcome) -> f64;

/// The figures, with the names they have in JSON.
const FIGURES: [(&str, Figure); 10] = [
    ("mb_per_s", |outcome| outcome.bytes as f64 / 1e6 / outcome.seconds),
    ("requests_per_s", |outcome| outcome.requests as f64 / outcome.seconds),
    ("p50_us", |outcome| outcome.latencies_us.value_at_quantile(0.5) as f64),
    ("p99_us", |outcome| outcome.latencies_us.value_at_quantile(0.99) as f64),
    ("p999_us", |outcome| outcome.latencies_us.value_at_quantile(0.999) as f64),
    ("max_us", |outcome| outcome.latencies_us.max() as f64),
    ("server_cpu_s_per_gb", |outcome| 1e9 * outcome.server_cpu / outcome.bytes as f64),
    ("client_cpu_s_per_gb", |outcome| 1e9 * outcome.client_cpu / outcome.bytes as f64),
    ("rss_mb", |outcome| outcome.memory.resident as f64 / 1e6),
    ("rss_max_mb", |outcome| outcome.memory.most as f64 / 1e6),
];

/// The median of a figure, by its name; 0 where nothing was measured.
fn median(outcomes: &[Outcome], name: &str) -> f64 {
    let figure = FIGURES.iter().find(|(known, _)| *known == name).expect("a figure's name").1;
    let mut values: Vec<f64> = outcomes.iter().map(figure).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Prints the table.
pub fn print(rows: &[Row]) {
    println!(
        "| shape | MB/s | messages/s | p50 us | p99 us | p99.9 us | CPU s/GB | clients' | \
         RSS MB (most) | idle server: MB/s, p99, CPU s/GB, clients' | echo: the same |"
    );
    println!("|{}", " --- |".repeat(11));
    for row in rows {
        let of = |name| median(&row.broker, name);
        let beside = |outcomes: &[Outcome]| {
            format!(
                "{:.0} ({:.0} %), {:.0}, {:.2}, {:.2}",
                median(outcomes, "mb_per_s"),
                100.0 * of("mb_per_s") / median(outcomes, "mb_per_s"),
                median(outcomes, "p99_us"),
                median(outcomes, "server_cpu_s_per_gb"),
                median(outcomes, "client_cpu_s_per_gb"),
            )
        };
        println!(
            "| {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} | {:.0} ({:.0}) | {} | \
             {} |",
            row.name,
            of("mb_per_s"),
            of("requests_per_s") * f64::from(row.batch),
            of("p50_us"),
            of("p99_us"),
            of("p999_us"),
            of("server_cpu_s_per_gb"),
            of("client_cpu_s_per_gb"),
            of("rss_mb"),
            of("rss_max_mb"),
            beside(&row.nothing),
            beside(&row.echo),
        );
    }
}

/// Every round.
pub fn json(rows: &[Row]) -> String {
    let round = |outcome: &Outcome| -> Value {
        let figure = |(name, figure): &(&str, Figure)| (name.to_string(), json!(figure(outcome)));
        FIGURES.iter().map(figure).collect::<serde_json::Map<String, Value>>().into()
    };
    let rounds = |outcomes: &[Outcome]| outcomes.iter().map(round).collect::<Vec<Value>>();
    let row = |row: &Row| {
        json!({
            "shape": row.name,
            "messages_per_request": row.batch,
            "broker": rounds(&row.broker),
            "idle_server": rounds(&row.nothing),
            "echo": rounds(&row.echo),
        })
    };
    let shapes: Vec<Value> = rows.iter().map(row).collect();
    json!({ "schema": 1, "payload_bytes": crate::shape::PAYLOAD, "shapes": shapes }).to_string()
}
