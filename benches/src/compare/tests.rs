//! Constructed results: a known difference is found, none is invented, and gates do what they say.

use super::*;
use crate::rng::Rng;

/// A result with these rounds of appends in MB/s, beside a ceiling of 2000.
fn result(rounds: &[f64], p99: &[f64]) -> Value {
    let each: Vec<Value> = rounds
        .iter()
        .zip(p99)
        .map(|(mb_per_s, p99)| {
            json!({"mb_per_s": mb_per_s, "messages_per_s": mb_per_s * 1000.0,
                   "latency_us": {"p50": p99 / 2.0, "p99": p99}, "cpu_s_per_gb": 0.5,
                   "engine": mb_per_s, "ceiling": 2000.0})
        })
        .collect();
    let median = |values: &[f64]| crate::stats::median(values).unwrap();
    json!({
        "schema": 1,
        "program": {"optimised": true},
        "ended": "complete",
        "machine": {"kernel": "6.18", "cgroup": {"cpus": "max"}, "free_bytes": 1},
        "settings": {"partitions": 4},
        "phases": ["append"],
        "append": {"mb_per_s": median(rounds), "messages_per_s": median(rounds) * 1000.0,
                   "latency_us": {"p50": median(p99) / 2.0, "p99": median(p99)},
                   "usage": {"cpu_s_per_gb": 0.5}, "rounds": each},
        "poll": null,
        "durable": null,
        "ceiling": {"write_mb_per_s": 2000.0},
        "ratio": {"append": median(rounds) / 2000.0},
    })
}

fn side(name: &str, run: Value) -> Side {
    Side { name: name.to_owned(), runs: vec![run] }
}

fn noisy(rng: &mut Rng, count: usize, middle: f64, noise: f64) -> Vec<f64> {
    let uniform = |rng: &mut Rng| rng.draw() as f64 / u64::MAX as f64 - 0.5;
    (0..count).map(|_| middle * (1.0 + 2.0 * noise * uniform(rng))).collect()
}

fn row<'a>(comparison: &'a Comparison, key: &str) -> &'a Row {
    comparison.rows.iter().find(|row| row.key == key).unwrap_or_else(|| panic!("no row {key}"))
}

#[test]
fn a_known_difference_is_found_and_named() {
    let mut rng = Rng::new(1);
    for _ in 0..200 {
        let mut draw = |middle| noisy(&mut rng, 9, middle, 0.03);
        let a = result(&draw(1800.0), &draw(500.0));
        let b = result(&draw(1620.0), &draw(400.0));
        let comparison = compare(&side("a", a), &side("b", b), 0.99);
        let throughput = row(&comparison, "append.mb_per_s");
        assert_eq!(throughput.verdict, Verdict::Worse, "{throughput:?}");
        assert!((throughput.change_percent().unwrap() + 10.0).abs() < 4.0, "{throughput:?}");
        assert_eq!(row(&comparison, "append.latency_us.p99").verdict, Verdict::Better);
        assert_eq!(row(&comparison, "ratio.append").verdict, Verdict::Worse);
        assert_eq!(row(&comparison, "ceiling.write_mb_per_s").verdict, Verdict::NoDifference);
    }
}

#[test]
fn none_is_invented() {
    let mut rng = Rng::new(2);
    let (mut rows, mut invented, mut failed) = (0, 0, 0);
    let gate: Gate = "append.mb_per_s<-5%".parse().unwrap();
    for _ in 0..500 {
        // Rounds that swing by a fifth, as a shared disk does.
        let mut draw = |middle| noisy(&mut rng, 9, middle, 0.2);
        let a = result(&draw(1800.0), &draw(500.0));
        let b = result(&draw(1800.0), &draw(500.0));
        let comparison = compare(&side("a", a), &side("b", b), 0.99);
        for row in &comparison.rows {
            rows += 1;
            invented += usize::from(matches!(row.verdict, Verdict::Better | Verdict::Worse));
        }
        failed += usize::from(gate.judge(&comparison).unwrap().iter().any(|held| held.holds));
    }
    let share = invented as f64 / rows as f64;
    assert!(share <= 0.01, "{invented} of {rows}");
    assert!(failed <= 5, "the gate failed {failed} of 500 comparisons of the same thing");
}

#[test]
fn too_few_rounds_are_not_known_and_the_change_alone_decides_a_gate() {
    let few = |middle: f64| result(&[middle, middle * 1.01, middle * 0.99], &[5.0, 5.1, 4.9]);
    let comparison = compare(&side("a", few(1000.0)), &side("b", few(900.0)), 0.99);
    assert_eq!(row(&comparison, "append.mb_per_s").verdict, Verdict::NotKnown);
    assert!(comparison.warnings.iter().any(|warning| warning.contains("too few rounds")));
    let judge = |text: &str| text.parse::<Gate>().unwrap().judge(&comparison).unwrap();
    assert!(judge("append.mb_per_s<-5%")[0].holds);
    assert!(!judge("append.mb_per_s<-15%")[0].holds);
    // A change that is the limit itself.
    let a = comparison.rows[0].a.unwrap();
    let change = comparison.rows[0].b.unwrap() - a;
    for (sign, holds) in [("<", false), ("<=", true), (">", false), (">=", true)] {
        let text = format!("{}{sign}{change}", comparison.rows[0].key);
        assert_eq!(judge(&text)[0].holds, holds, "{text}");
    }
}

#[test]
fn a_result_without_rounds_or_with_edited_figures_is_compared_by_its_figures() {
    let bare = |mb_per_s: f64| json!({"schema": 1, "append": {"mb_per_s": mb_per_s}});
    let comparison = compare(&side("a", bare(1000.0)), &side("b", bare(800.0)), 0.99);
    assert_eq!(comparison.rows.len(), 1);
    assert_eq!(comparison.rows[0].change_percent().unwrap().round(), -20.0);

    let rounds = [1000.0, 1010.0, 990.0, 1005.0, 995.0, 1001.0, 999.0, 1002.0, 998.0];
    let a = result(&rounds, &rounds);
    let mut b = a.clone();
    b["append"]["mb_per_s"] = json!(800.0);
    b["append"]["latency_us"]["p99"] = json!(2000.0);
    let comparison = compare(&side("a", a), &side("b", b), 0.99);
    for key in ["append.mb_per_s", "append.latency_us.p99"] {
        assert_eq!(row(&comparison, key).interval, None, "{key}");
        assert!(comparison.warnings[0].contains(key), "{:?}", comparison.warnings);
    }
    assert_eq!(row(&comparison, "append.latency_us.p50").verdict, Verdict::NoDifference);
    let gate: Gate = "append.mb_per_s<-5%".parse().unwrap();
    assert!(gate.judge(&comparison).unwrap()[0].holds);
}

#[test]
fn several_runs_a_side_are_the_repeats() {
    let run = |middle: f64| result(&[middle; 3], &[500.0; 3]);
    let runs = |name: &str, middles: [f64; 5]| Side {
        name: name.to_owned(),
        runs: middles.map(run).to_vec(),
    };
    let a = runs("a", [1000.0, 1010.0, 990.0, 1020.0, 980.0]);
    let b = runs("b", [1100.0, 1110.0, 1090.0, 1120.0, 1080.0]);
    let comparison = compare(&a, &b, 0.99);
    assert_eq!(comparison.repeats, "runs");
    assert_eq!(row(&comparison, "append.mb_per_s").verdict, Verdict::Better);
    // Fewer runs than that: all their rounds together.
    let few = |side: &Side| Side { name: side.name.clone(), runs: side.runs[..2].to_vec() };
    assert_eq!(compare(&few(&a), &few(&b), 0.99).repeats, "rounds");
}

#[test]
fn a_disk_that_changed_is_told_from_an_engine_that_did() {
    let rounds = [1000.0, 1010.0, 990.0, 1005.0, 995.0, 1001.0, 999.0, 1002.0, 998.0];
    let a = result(&rounds, &rounds);
    let mut b = result(&rounds.map(|one| one / 2.0), &rounds);
    for round in b["append"]["rounds"].as_array_mut().unwrap() {
        round["ceiling"] = json!(1000.0);
    }
    b["ceiling"]["write_mb_per_s"] = json!(1000.0);
    b["ratio"]["append"] = a["ratio"]["append"].clone();
    let comparison = compare(&side("a", a), &side("b", b), 0.99);
    assert_eq!(row(&comparison, "append.mb_per_s").verdict, Verdict::Worse);
    assert_eq!(row(&comparison, "ratio.append").verdict, Verdict::NoDifference);
    assert!(comparison.warnings.iter().any(|warning| warning.contains("the disk itself")));
}

#[test]
fn differing_environments_are_named_by_key() {
    let a = result(&[1000.0; 3], &[5.0; 3]);
    let mut b = a.clone();
    b["machine"]["kernel"] = json!("6.1\u{1b}[31m");
    b["machine"]["cgroup"]["cpus"] = json!(1.5);
    b["machine"]["governor"] = json!("powersave");
    b["machine"]["free_bytes"] = json!(2);
    b["settings"]["partitions"] = json!(8);
    let comparison = compare(&side("a", a.clone()), &side("b", b), 0.99);
    let keys: Vec<_> = comparison.differences.iter().map(|one| one.key.as_str()).collect();
    assert_eq!(
        keys,
        ["machine.kernel", "machine.cgroup.cpus", "machine.governor", "settings.partitions"]
    );
    let mut text = Vec::new();
    comparison.print(&[], &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("warning: the environments differ:\n"), "{text}");
    assert!(!text.contains('\u{1b}') && text.contains("A max, B 1.5\n"), "{text}");
    assert!(compare(&side("a", a.clone()), &side("b", a), 0.99).differences.is_empty());
}

#[test]
fn conditions_are_read_and_anything_else_is_refused() {
    let comparison = {
        let rounds = |middle: f64| -> Vec<f64> {
            (0..9).map(|n| middle * (1.0 + f64::from(n) / 1000.0)).collect()
        };
        let a = result(&rounds(1000.0), &rounds(100.0));
        let b = result(&rounds(900.0), &rounds(120.0));
        compare(&side("a", a), &side("b", b), 0.99)
    };
    let holds = |text: &str| {
        let held = text.parse::<Gate>().unwrap().judge(&comparison).unwrap();
        held.iter().any(|held| held.holds)
    };
    assert!(holds("append.mb_per_s<-5%") && holds("append.mb_per_s <= -9.9 %"));
    assert!(!holds("append.mb_per_s<-11%") && !holds("append.mb_per_s>5%"));
    // Shorter names, and every phase's.
    assert!(holds("append.latency_us.p99>10%") && holds("append.p99>10%") && holds("p99>=10%"));
    // In the figure's own unit.
    assert!(holds("append.mb_per_s<-99") && !holds("append.mb_per_s<-101"));
    assert!(holds("ratio.append<-0.04"));
    for (text, word) in [
        ("append.mb_per_s", "neither < nor >"),
        ("append.mb_per_s=5%", "neither < nor >"),
        ("<5%", "no figure"),
        ("append.mb_per_s<", "no number"),
        ("append.mb_per_s<five%", "no number"),
        ("append.mb_per_s<inf%", "no number"),
        ("append.mb_per_s<<5%", "no number"),
    ] {
        let error = text.parse::<Gate>().unwrap_err();
        assert!(error.contains(word) && error.contains("write it as"), "{text}: {error}");
    }
    // What cannot be decided is no pass.
    for (text, word) in [("append.mb<5%", "neither result has"), ("mb_per<5%", "there are append")]
    {
        let undecided = text.parse::<Gate>().unwrap().judge(&comparison).unwrap_err();
        assert!(undecided.to_string().contains(word), "{text}: {undecided}");
    }
    let only_one = compare(
        &side("a", result(&[1.0], &[1.0])),
        &side("b", json!({"schema": 1, "ratio": {}})),
        0.99,
    );
    let undecided = "append.mb_per_s<-5%".parse::<Gate>().unwrap().judge(&only_one).unwrap_err();
    assert!(undecided.to_string().contains("second result has no"), "{undecided}");
}

#[test]
fn the_text_and_the_json_say_the_same() {
    let rounds = |middle: f64| -> Vec<f64> {
        (0..9).map(|n| middle * (1.0 + f64::from(n) / 1000.0)).collect()
    };
    let a = side("a.json", result(&rounds(1000.0), &rounds(100.0)));
    let b = side("b.json", result(&rounds(900.0), &rounds(100.0)));
    let comparison = compare(&a, &b, 0.99);
    let gate: Gate = "append.mb_per_s<-5%".parse().unwrap();
    let held = gate.judge(&comparison).unwrap();
    let mut text = Vec::new();
    comparison.print(&held, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text, include_str!("golden.txt"), "\n{text}");
    let json = comparison.to_json(&held);
    assert_eq!(json["rows"][0]["verdict"], "worse");
    assert_eq!(json["fail_if"][0]["holds"], true);
    assert_eq!(json["confidence"], 0.99);
    assert!(json["rows"][0]["interval_percent"][1].as_f64().unwrap() < -9.0, "{json:#}");
}

#[test]
fn names_that_are_none_of_ours_are_no_rows() {
    let mut run = result(&[1000.0; 3], &[5.0; 3]);
    run["phases"] = json!(["append", "\u{1b}[2J", "a.b", "", "tail"]);
    run["tail"] = json!({"mb_per_s": 3.0});
    run["\u{1b}[2J"] = json!({"mb_per_s": 3.0});
    let comparison = compare(&side("a", run.clone()), &side("b", run), 0.99);
    assert!(comparison.rows.iter().any(|row| row.key == "tail.mb_per_s"));
    assert!(comparison.rows.iter().all(|row| !row.key.contains('\u{1b}')));
}
