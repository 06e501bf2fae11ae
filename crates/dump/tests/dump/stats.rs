//! `stats`: the figures, held against what `show` prints of the same.

use serde_json::Value;

use crate::support::{Scratch, Segment, dump, real_partition, with_path};

fn numbers(lines: &[Value], name: &str) -> Vec<u64> {
    lines.iter().map(|line| line[name].as_u64().expect("a number")).collect()
}

#[test]
fn figures_agree_with_what_is_shown() {
    let real = real_partition();
    let stats = dump(with_path(&["stats", "--json"], &real)).expect(0).json();
    let batches = dump(with_path(&["show", "--ndjson"], &real)).expect(0).lines();
    let messages = dump(with_path(&["show", "--ndjson", "--messages"], &real)).expect(0).lines();
    assert_eq!((&stats["schema"], &stats["batches"]), (&1.into(), &20.into()));
    assert_eq!((&stats["messages"], &stats["bytes"]), (&1548.into(), &705_197.into()));
    assert_eq!((&stats["first_offset"], &stats["last_offset"]), (&0.into(), &1547.into()));
    let payloads = numbers(&messages, "payload_length");
    assert_eq!(stats["payload_bytes"], payloads.iter().sum::<u64>());

    let times = numbers(&batches, "base_timestamp");
    let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let delays: Vec<u64> = messages
        .iter()
        .map(|m| m["base_timestamp"].as_u64().zip(m["origin_timestamp"].as_u64()))
        .map(|pair| pair.map(|(server, producer)| server - producer).expect("numbers"))
        .collect();
    let expected = [
        ("batch_bytes", numbers(&batches, "batch_length")),
        ("batch_messages", numbers(&batches, "message_count")),
        ("payload_bytes", payloads),
        ("gap_us", gaps),
        ("delay_us", delays),
    ];
    let histograms = stats["histograms"].as_array().expect("a list");
    for (histogram, (name, mut values)) in histograms.iter().zip(expected) {
        values.sort_unstable();
        assert_eq!(histogram["name"], name);
        assert_eq!(histogram["count"], values.len());
        assert_eq!(histogram["min"], values[0]);
        assert_eq!(histogram["max"], values[values.len() - 1]);
        assert_eq!(histogram["mean"], values.iter().sum::<u64>() / values.len() as u64);
        let median = values[(values.len() - 1) / 2];
        let p50 = histogram["p50"].as_u64().expect("a number");
        assert!(p50 <= median && median - p50 <= median / 8, "{name}: {p50}, {median}");
        let buckets = histogram["buckets"].as_array().expect("a list");
        for bucket in buckets {
            let range = numbers(std::slice::from_ref(bucket), "from")[0]
                ..numbers(std::slice::from_ref(bucket), "to")[0];
            let count = values.iter().filter(|value| range.contains(value)).count();
            assert_eq!(bucket["count"], count, "{name} {range:?}");
        }
        assert_eq!(numbers(buckets, "count").iter().sum::<u64>(), values.len() as u64);
    }
    let rate = &stats["bytes_per_second"];
    let step = rate["step_us"].as_u64().expect("a number");
    let values = rate["values"].as_array().expect("a list");
    let bytes: u64 = values.iter().map(|v| v.as_u64().expect("a number") * step / 1_000_000).sum();
    assert!(bytes.abs_diff(705_197) < 100, "{bytes}");
}

#[test]
fn a_selection_counts_what_it_selects() {
    let real = real_partition();
    let stats = |flags: &[&str]| {
        dump(with_path(&[&["stats", "--json"], flags].concat(), &real)).expect(0).json()
    };
    let some = stats(&["--offset", "10..20"]);
    assert_eq!((&some["messages"], &some["batches"]), (&10.into(), &1.into()));
    let none = stats(&["--id", "99999999999999999999"]);
    assert_eq!((&none["messages"], &none["batches"]), (&0.into(), &0.into()));
    assert!(none["first_offset"].is_null() && none["histograms"][0]["p50"].is_null());
}

#[test]
fn a_drawing_is_written_once_and_over_nothing() {
    let scratch = Scratch::new();
    let log = Segment::new(0, 0, &[1, 2, 3, 4]).write(&scratch, "p");
    let svg = scratch.path().join("out.svg");
    let name = svg.to_str().expect("UTF-8");
    dump(with_path(&["stats", "--svg", name], &log)).expect(0);
    let drawing = std::fs::read_to_string(&svg).expect("written");
    assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"));
    assert_eq!(drawing.matches("<rect").count(), drawing.matches("</title></rect>").count() + 1);
    assert_eq!(drawing.matches("<text").count(), drawing.matches("</text>").count());
    assert!(drawing.contains("bytes of a batch: mean") && drawing.contains("bytes a second"));
    // Neither over a drawing nor, by a slip, over a segment.
    let before = std::fs::read(&log).expect("read");
    for path in [name, log.to_str().expect("UTF-8")] {
        assert!(dump(with_path(&["stats", "--svg", path], &log)).expect(2).err.contains("create"));
    }
    assert_eq!(std::fs::read(&log).expect("read"), before);
    assert_eq!(std::fs::read_to_string(&svg).expect("read"), drawing);
}
