//! Known samples in, known text and JSON out: a report nobody checks ends up printing ranks.

use std::io;
use std::time::{Duration, Instant, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use serde_json::{Value, json};

use super::*;
use crate::account::Used;
use crate::ceiling::{Granted, Pages, Synced};
use crate::latency::Latency;
use crate::results::{Pacing, PhaseRound, Series};
use crate::run::Ended;
use crate::seconds::Seconds;

/// 1 to 1000 milliseconds, one sample each.
fn latency() -> Latency {
    let mut latency = Latency::default();
    (1..=1000).for_each(|ms| latency.record(Duration::from_millis(ms)));
    latency
}

/// Fills a phase: three rounds with these pairs, bytes and messages shared among them.
fn fill(phase: &mut Phase, bytes: u64, messages: u64, pairs: [(f64, f64); 3]) {
    let start = Instant::now();
    for (number, (engine, ceiling)) in pairs.into_iter().enumerate() {
        let mut series = Series::new(start);
        // In two intervals of three; the last one ends with the phase.
        for ms in [50, 240] {
            series.record(start + Duration::from_millis(ms), bytes / 6, messages / 6);
        }
        let mut seconds = Seconds::new(start);
        if number == 0 {
            (1..=1000).for_each(|ms| seconds.record(start, Duration::from_millis(ms)));
        }
        phase.rounds.push(PhaseRound {
            begun: Duration::from_secs(number as u64),
            elapsed: Duration::from_millis(250),
            bytes: bytes / 3,
            messages: messages / 3,
            // All samples in the first round: merged, they are those of one histogram.
            service: if number == 0 { latency() } else { Latency::default() },
            response: None,
            series,
            seconds,
            used: Used::sample(bytes / 2),
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
    fill(&mut phases[2], 480_000, 900, ring([150.0, 130.0, 140.0], 100.0));
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
    let started = UNIX_EPOCH + Duration::from_millis(1_796_035_699_500);
    let percentiles = Percentiles::default();
    look(&Report { settings: &settings, machine: &machine, outcome, started, percentiles })
}

fn written(
    outcome: &Outcome,
    tell: impl FnOnce(&Report<'_>, &mut Vec<u8>) -> io::Result<()>,
) -> String {
    let mut text = Vec::new();
    report(outcome, |report| tell(report, &mut text)).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn the_json_is_the_golden_one() {
    let mut json = report(&outcome(), |report| report.to_json());
    // These are the build's, not the report's.
    assert!(json["program"]["version"].take().is_string());
    assert!(json["program"]["optimised"].take().is_boolean());
    // Told by the settings themselves.
    assert_eq!(json["settings"].take(), Settings::sample().to_json(1_048_256));
    json["program"]["commit"].take();
    json["machine"]["architecture"].take();
    let golden: Value = serde_json::from_str(include_str!("golden.json")).unwrap();
    assert_eq!(json, golden, "\n{json:#}");
}

#[test]
fn the_text_is_the_golden_one() {
    let text = written(&outcome(), |report, out| report.print(out));
    assert_eq!(text, include_str!("golden.txt"), "\n{text}");
}

#[test]
fn the_time_series_is_the_golden_one() {
    let text = written(&outcome(), |report, out| report.write_csv(out));
    assert_eq!(text, include_str!("golden.csv"), "\n{text}");
}

/// What HdrHistogram's own reader makes of a log: tag, begin, length and histogram of each line.
fn read_hdr(text: &str) -> Vec<(String, Duration, Duration, Histogram<u64>)> {
    let mut intervals = Vec::new();
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        let LogEntry::Interval(interval) = entry.unwrap() else { continue };
        let bytes = STANDARD.decode(interval.encoded_histogram()).unwrap();
        let histogram = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        let tag = interval.tag().unwrap().as_str().to_owned();
        intervals.push((tag, interval.start_timestamp(), interval.duration(), histogram));
    }
    intervals
}

#[test]
fn the_histograms_are_read_back_by_the_reader_of_their_format() {
    let mut outcome = outcome();
    let round = &mut outcome.phases[0].rounds[1];
    // A round of two seconds and a half that was slow in its last half.
    let start = Instant::now();
    let at = |ms| start + Duration::from_millis(ms);
    (round.begun, round.elapsed) = (Duration::from_secs(10), Duration::from_millis(2500));
    round.seconds = Seconds::new(start);
    round.seconds.record(at(100), Duration::from_millis(7));
    round.seconds.record(at(2400), Duration::from_millis(900));
    let text = written(&outcome, |report, out| report.write_hdr(out));
    let head: Vec<&str> = text.lines().take_while(|line| line.starts_with('#')).collect();
    assert_eq!(
        head,
        [
            "#[Histogram log format version 1.3]",
            "#corelog-bench: values in nanoseconds, Interval_Max in milliseconds",
            "#[StartTime: 1796035699.500 (seconds since epoch)]",
            "#[BaseTime: 1796035699.500 (seconds since epoch)]",
            "#[MaxValueDivisor: 1000000.000]",
        ]
    );
    // Version 2, compressed: what the readers of all languages know.
    assert!(text.lines().nth(5).unwrap().contains(",HISTFAAA"), "{text}");
    let intervals = read_hdr(&text);
    let places: Vec<_> = intervals
        .iter()
        .map(|(tag, begun, length, _)| (tag.as_str(), begun.as_secs(), length.as_millis()))
        .collect();
    assert_eq!(
        places,
        [
            ("append", 0, 250),
            ("poll", 0, 250),
            ("durable", 0, 250),
            ("append", 10, 1000),
            ("append", 12, 500),
        ]
    );
    assert_eq!(&intervals[0].3, latency().nanos());
    let maxima = intervals[3..].iter().map(|one| one.3.max() / 1_000_000).collect::<Vec<_>>();
    assert_eq!(maxima, [7, 900]);
}

#[test]
fn an_open_loop_has_both_times_and_the_report_is_of_the_response() {
    let mut outcome = outcome();
    let phase = &mut outcome.phases[0];
    phase.pacing = crate::results::Pacing::Open { operations_per_s: 1000.0 };
    // The generator stood still for a second: each of its operations began late.
    for round in &mut phase.rounds {
        let mut late = Latency::default();
        (1..=1000).for_each(|ms| late.record(Duration::from_millis(1000 + ms)));
        round.response = Some(late);
    }
    let json = report(&outcome, |report| report.to_json());
    assert_eq!(
        (&json["append"]["loop"], &json["poll"]["loop"]),
        (&json!("open"), &json!("closed"))
    );
    assert_eq!(json["append"]["scheduled_operations_per_s"], 1000.0);
    let p50 = |key: &str| json["append"][key]["p50"].as_f64().unwrap();
    assert_eq!(p50("latency_us"), p50("response_latency_us"));
    assert!(p50("response_latency_us") > 1_400_000.0 && p50("service_latency_us") < 600_000.0);
    assert!(json["poll"]["response_latency_us"].is_null());

    let tags: Vec<String> = read_hdr(&written(&outcome, |report, out| report.write_hdr(out)))
        .into_iter()
        .map(|(tag, ..)| tag)
        .collect();
    assert_eq!(tags[..4], ["append", "append.service", "poll", "durable"]);
    let text = written(&outcome, |report, out| report.print(out));
    assert!(text.contains("from its intended start") && text.contains("real start"), "{text}");
}

#[test]
fn phases_that_are_too_short_are_doubted() {
    let doubt = |ms| {
        let mut outcome = outcome();
        outcome.phases[1].rounds[2].elapsed = Duration::from_millis(ms);
        let text = written(&outcome, |report, out| report.print(out));
        let json = report(&outcome, |report| report.to_json());
        assert_eq!(json["doubts"].as_array().unwrap().len(), text.matches("too short").count());
        text
    };
    let words = "took 49.0 ms: too short to trust MB/s. Raise --total or lower --rounds.\n";
    assert!(doubt(49).ends_with(words));
    assert!(!doubt(50).contains("too short"));
}

#[test]
fn a_ceiling_that_swings_is_doubted() {
    let doubts = |ceilings: [f64; 5]| {
        let mut outcome = outcome();
        let sample = outcome.phases[1].rounds[0].clone();
        outcome.phases[1].rounds =
            ceilings.map(|ceiling| PhaseRound { ceiling: Some(ceiling), ..sample.clone() }).into();
        report(&outcome, |report| report.doubts())
    };
    let swung = doubts([1000.0, 500.0, 1500.0, 1000.0, 400.0]);
    assert!(swung.len() == 1 && swung[0].contains("ceiling of poll swung by 50 %"), "{swung:?}");
    assert!(doubts([1000.0, 900.0, 1100.0, 1000.0, 100.0]).is_empty());
}

/// BEN-7: durable answers, and the device was never told to flush a cache that loses its bytes.
#[test]
fn a_phase_that_changes_on_its_way_is_doubted() {
    let paced = |pacing, mb_per_s: [u64; 3], seconds: u64| {
        let mut outcome = outcome();
        outcome.phases[0].pacing = pacing;
        let round = &mut outcome.phases[0].rounds[1];
        let start = Instant::now();
        let mut series = Series::new(start);
        for interval in 0..seconds * 10 {
            let rate = mb_per_s[(interval * 3 / (seconds * 10)) as usize];
            series.record(start + Duration::from_millis(interval * 100), rate * 100_000, 1);
        }
        (round.elapsed, round.series) = (Duration::from_secs(seconds), series);
        report(&outcome, |report| report.doubts())
    };
    let doubts = |mb_per_s, seconds| paced(Pacing::Closed { outstanding: 1 }, mb_per_s, seconds);
    let fell = doubts([2000, 1000, 500], 6);
    assert!(fell[0].contains("append was not steady: 2000 MB/s in the first third"), "{fell:?}");
    assert!(fell[0].contains(", 500 in the last"), "{fell:?}");
    assert!(doubts([500, 1000, 2000], 6)[0].contains("not steady"));
    assert!(doubts([1000, 300, 900], 6).is_empty());
    assert!(doubts([2000, 1000, 500], 2).is_empty(), "too short to tell");
    let open = Pacing::Open { operations_per_s: 1.0 };
    assert!(paced(open, [2000, 1000, 500], 6).is_empty(), "the schedule's own");
}

#[test]
fn a_schedule_that_is_not_kept_is_doubted() {
    // 1000 answers in 750 ms: 1333 a second.
    let doubts = |operations_per_s| {
        let mut outcome = outcome();
        outcome.phases[0].pacing = Pacing::Open { operations_per_s };
        report(&outcome, |report| report.doubts())
    };
    assert!(doubts(1400.0).is_empty());
    let behind = doubts(3000.0);
    assert!(behind[0].contains("3000 a second were due and 1333 were answered"), "{behind:?}");
}

#[test]
fn durable_without_a_flush_is_doubted() {
    let doubts = |write_cache: Option<&str>, fua, flushes| {
        let mut outcome = outcome();
        for round in &mut outcome.phases[2].rounds {
            round.used = Used::sample(1);
            round.used.device.as_mut().unwrap().flushes = flushes;
        }
        let device = crate::machine::Device {
            write_cache: write_cache.map(str::to_owned),
            fua,
            ..crate::machine::Device::default()
        };
        let machine = Machine { device: Some(device), ..Machine::default() };
        let (settings, started) = (Settings::sample(), UNIX_EPOCH);
        let percentiles = Percentiles::default();
        Report { settings: &settings, machine: &machine, outcome: &outcome, started, percentiles }
            .doubts()
    };
    let told = doubts(Some("write back"), Some(0), 0);
    assert!(told.len() == 1 && told[0].contains("was not durable"), "{told:?}");
    // A flush, a cache that needs none, a device that syncs write by write, nothing known.
    assert!(doubts(Some("write back"), Some(0), 1).is_empty());
    assert!(doubts(Some("write through"), Some(0), 0).is_empty());
    assert!(doubts(Some("write back"), Some(1), 0).is_empty());
    assert!(doubts(None, None, 0).is_empty());
}

/// Scripts rely on these. A key that goes or changes its place breaks them.
#[test]
fn the_keys_that_scripts_rely_on() {
    let json = report(&outcome(), |report| report.to_json());
    assert_eq!(json["schema"], 1);
    assert!(json["machine"].is_object());
    for phase in ["append", "poll", "durable"] {
        for key in ["mb_per_s", "messages_per_s"] {
            assert!(json[phase][key].is_number(), "{phase}.{key}");
        }
        for key in ["p50", "p90", "p99", "p999", "max"] {
            assert!(json[phase]["latency_us"][key].is_number(), "{phase}.latency_us.{key}");
        }
    }
    for key in ["write_mb_per_s", "read_mb_per_s", "sync_write_p50_us"] {
        assert!(json["ceiling"][key].is_number(), "ceiling.{key}");
    }
    for key in ["append", "poll", "durable_p50"] {
        assert!(json["ratio"][key].is_number(), "ratio.{key}");
    }
    // Fractions, engine over ceiling; for latency lower is better.
    assert_eq!(
        (&json["ratio"]["append"], &json["ratio"]["durable_p50"]),
        (&json!(0.9), &json!(1.4))
    );
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
        "/ceiling/sync_write_percentiles_us",
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
    for pointer in ["/append", "/poll", "/durable", "/ceiling/write_mb_per_s"] {
        assert_eq!(json.pointer(pointer), Some(&Value::Null), "{pointer}");
    }
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
                let may_shrink = path.ends_with("/page_cache_growth_bytes");
                assert!(number.as_f64().unwrap() >= 0.0 || may_shrink, "{path}: {number}");
                let is_time = path.contains("latency") || path.contains("p50");
                let has_unit = path.contains("_us") || path.starts_with("/ratio");
                assert!(!is_time || has_unit, "{path} has no unit");
            }
            _ => {}
        }
    }
    walk("", &report(&outcome(), |report| report.to_json()));
}
