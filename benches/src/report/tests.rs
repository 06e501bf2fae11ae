//! Known samples in, known text and JSON out: a report nobody checks ends up printing ranks.

use std::time::{Duration, Instant};

use super::*;
use crate::account::Used;
use crate::ceiling::{Granted, Pages, Synced};
use crate::results::{PhaseRound, Series};

/// 1 to 1000 milliseconds, one sample each.
fn latency() -> Latency {
    let mut latency = Latency::default();
    (1..=1000).for_each(|ms| latency.record(Duration::from_millis(ms)));
    latency
}

/// Fills a phase: three rounds with these pairs, bytes and messages shared among them.
fn fill(phase: &mut Phase, bytes: u64, messages: u64, pairs: [(f64, f64); 3]) {
    for (number, (engine, ceiling)) in pairs.into_iter().enumerate() {
        // All samples in the first round: merged, they are those of one histogram.
        let service = if number == 0 { latency() } else { Latency::default() };
        phase.rounds.push(PhaseRound {
            begun: Duration::from_secs(number as u64),
            elapsed: Duration::from_millis(500),
            bytes: bytes / 3,
            messages: messages / 3,
            service,
            response: None,
            series: Series::new(Instant::now()),
            used: Used::default(),
            engine,
            ceiling: Some(ceiling),
        });
    }
}

fn outcome() -> Outcome {
    let mut phases = Settings::sample().phases(None);
    // The medians of the ratios belong to different rounds.
    let ring = |figures: [f64; 3], ceiling| figures.map(|figure| (figure, ceiling));
    fill(&mut phases[0], 3_000_000_000, 3_000_000, ring([1900.0, 1800.0, 1700.0], 2000.0));
    fill(&mut phases[1], 3_001_500_000, 3_001_500, ring([800.0, 900.0, 950.0], 1000.0));
    fill(&mut phases[2], 0, 900, ring([150.0, 130.0, 140.0], 100.0));
    let mut synced = Synced::default();
    synced.dsync.record(Duration::from_micros(100));
    synced.linked.record(Duration::from_micros(130));
    Outcome {
        phases,
        synced,
        granted: Some(Granted {
            deferred_taskrun: true,
            registered_buffers: true,
            pages: Pages::Transparent,
        }),
        batch_bytes: 1_048_256,
        rounds: 3,
        ended: Ended::Complete,
        notes: Vec::new(),
    }
}

fn report<T>(outcome: &Outcome, look: impl FnOnce(&Report<'_>) -> T) -> T {
    let (settings, machine) = (Settings::sample(), Machine::default());
    look(&Report { settings: &settings, machine: &machine, outcome })
}

#[test]
fn the_json_is_the_golden_one() {
    let mut json = report(&outcome(), |report| report.to_json());
    // These two are the build's, not the report's.
    assert!(json["program"]["version"].take().is_string());
    assert!(json["program"]["optimised"].take().is_boolean());
    // Told by the settings themselves.
    assert_eq!(json["settings"].take(), Settings::sample().to_json(1_048_256));
    let golden: Value = serde_json::from_str(include_str!("golden.json")).unwrap();
    assert_eq!(json, golden, "\n{json:#}");
}

#[test]
fn the_text_is_the_golden_one() {
    let mut text = Vec::new();
    report(&outcome(), |report| report.print(&mut text)).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text, include_str!("golden.txt"), "\n{text}");
}

#[test]
fn phases_that_are_too_short_are_doubted() {
    let text = |ms| {
        let mut outcome = outcome();
        outcome.phases[1].rounds[2].elapsed = Duration::from_millis(ms);
        let mut text = Vec::new();
        report(&outcome, |report| report.print(&mut text)).unwrap();
        String::from_utf8(text).unwrap()
    };
    let doubt = "took 49.0 ms: too short to trust MB/s. Raise --total or lower --rounds.\n";
    assert!(text(49).ends_with(doubt));
    assert!(!text(50).contains("too short"));
}

#[test]
fn what_was_not_run_is_null() {
    let mut outcome = outcome();
    outcome.phases.pop();
    outcome.synced = Synced::default();
    let json = report(&outcome, |report| report.to_json());
    for pointer in [
        "/durable",
        "/ratio/durable_p50",
        "/ratio_interval_95/durable_p50",
        "/ceiling/sync_write_p50_us",
        "/ceiling/sync_write_latency_us",
        "/rounds/0/durable_p50_us",
    ] {
        assert_eq!(json.pointer(pointer), Some(&Value::Null), "{pointer}");
    }
    assert!(json.pointer("/ratio/append").unwrap().is_number());
}

#[test]
fn a_run_without_a_whole_round_has_no_figures_and_no_made_up_ones() {
    let outcome = Outcome {
        phases: Settings::sample().phases(None),
        synced: Synced::default(),
        granted: None,
        batch_bytes: 1,
        rounds: 0,
        ended: Ended::Interrupted,
        notes: Vec::new(),
    };
    let json = report(&outcome, |report| report.to_json());
    assert_eq!(json["ratio"], json!({ "append": null, "poll": null, "durable_p50": null }));
    assert_eq!(json["append"]["mb_per_s"], Value::Null);
    assert_eq!(json["ended"], "interrupted");
}

#[test]
fn no_figure_is_negative_and_times_say_their_unit() {
    fn walk(path: &str, value: &Value) {
        match value {
            Value::Object(map) => {
                map.iter().for_each(|(key, value)| walk(&format!("{path}/{key}"), value));
            }
            Value::Array(all) => all.iter().for_each(|value| walk(path, value)),
            Value::Number(number) => {
                assert!(number.as_f64().unwrap() >= 0.0, "{path}: {number}");
                let is_time = path.contains("latency") || path.contains("p50");
                let has_unit = path.contains("_us") || path.starts_with("/ratio");
                assert!(!is_time || has_unit, "{path} has no unit");
            }
            _ => {}
        }
    }
    walk("", &report(&outcome(), |report| report.to_json()));
}
