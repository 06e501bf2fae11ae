//! Known samples in, known text and JSON out: a report nobody checks ends up printing ranks.

use std::time::Duration;

use super::*;
use crate::ceiling::{Granted, Pages, Shape, Synced};
use crate::run::Sum;

fn settings() -> Settings {
    Settings {
        shards: 1,
        partitions: 4,
        producers: 4,
        in_flight: 4,
        batch_messages: 1000,
        message_bytes: 1000,
        total_bytes: 3_000_000_000,
        rounds: 3,
        time_limit: None,
        poll_bytes: 2 << 20,
        durable_samples: 300,
        shape: Shape { block: 1 << 20, depth: 4, rings: 1 },
        seed: 1,
    }
}

/// 1 to 1000 milliseconds, one sample each.
fn latency() -> Latency {
    let mut latency = Latency::default();
    (1..=1000).for_each(|ms| latency.record(Duration::from_millis(ms)));
    latency
}

fn sum(bytes: u64, messages: u64) -> Sum {
    Sum { bytes, messages, elapsed: Duration::from_millis(1500), latency: latency() }
}

fn outcome() -> Outcome {
    let round = |append: f64, poll: f64, durable: f64| Round {
        append_mb_per_s: (append, 2000.0),
        poll_mb_per_s: (poll, 1000.0),
        durable_p50_us: Some((durable, 100.0)),
    };
    let mut synced = Synced::default();
    synced.dsync.record(Duration::from_micros(100));
    synced.linked.record(Duration::from_micros(130));
    Outcome {
        // The medians of the ratios belong to different rounds.
        rounds: vec![
            round(1900.0, 800.0, 150.0),
            round(1800.0, 900.0, 130.0),
            round(1700.0, 950.0, 140.0),
        ],
        append: sum(3_000_000_000, 3_000_000),
        poll: sum(3_001_000_000, 3_001_000),
        durable: sum(0, 900),
        synced,
        granted: Some(Granted {
            deferred_taskrun: true,
            registered_buffers: true,
            pages: Pages::Transparent,
        }),
        batch_bytes: 1_048_256,
        ended: Ended::Complete,
    }
}

fn report<T>(outcome: &Outcome, look: impl FnOnce(&Report<'_>) -> T) -> T {
    let (settings, machine) = (settings(), Machine::default());
    look(&Report { settings: &settings, machine: &machine, outcome })
}

#[test]
fn the_json_is_the_golden_one() {
    let mut json = report(&outcome(), |report| report.to_json());
    // These two are the build's, not the report's.
    assert!(json["program"]["version"].take().is_string());
    assert!(json["program"]["optimised"].take().is_boolean());
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
        outcome.poll.elapsed = Duration::from_millis(ms);
        let mut text = Vec::new();
        report(&outcome, |report| report.print(&mut text)).unwrap();
        String::from_utf8(text).unwrap()
    };
    // Three rounds.
    assert!(
        text(149)
            .ends_with("took 49.7 ms: too short to trust MB/s. Raise --total or lower --rounds.\n")
    );
    assert!(!text(150).contains("too short"));
}

#[test]
fn what_was_not_run_is_null() {
    let mut outcome = outcome();
    outcome.rounds.iter_mut().for_each(|round| round.durable_p50_us = None);
    outcome.synced = Synced::default();
    outcome.durable = Sum::default();
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
        rounds: Vec::new(),
        append: Sum::default(),
        poll: Sum::default(),
        durable: Sum::default(),
        synced: Synced::default(),
        granted: None,
        batch_bytes: 1,
        ended: Ended::Interrupted,
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
