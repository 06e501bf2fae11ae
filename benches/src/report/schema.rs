//! The JSON Schemas of what the commands print for scripts, and the check that holds them to it.

use clap::ValueEnum;
use serde_json::{Value, json};

/// Draft 2020-12.
const RUN: &str = include_str!("../../schema/run-1.json");

/// A document that a command writes with `--json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Document {
    Run,
    Ceiling,
    Compare,
    Crash,
    Doctor,
    Moved,
    Verify,
}

impl Document {
    /// Its schema, whole: what it shares with that of a run is defined there only.
    pub(crate) fn schema(self) -> Value {
        let own = match self {
            Document::Run => RUN,
            Document::Ceiling => include_str!("../../schema/ceiling-1.json"),
            Document::Compare => include_str!("../../schema/compare-1.json"),
            Document::Crash => include_str!("../../schema/crash-1.json"),
            Document::Doctor => include_str!("../../schema/doctor-1.json"),
            Document::Moved => include_str!("../../schema/moved-1.json"),
            Document::Verify => include_str!("../../schema/verify-1.json"),
        };
        let parse = |text| serde_json::from_str::<Value>(text).expect("our schemas are JSON");
        let mut schema = parse(own);
        if self != Document::Run && own.contains("#/$defs/") {
            let run = parse(RUN);
            let (properties, definitions) = (&run["properties"], &run["$defs"]);
            schema["$defs"] = json!({
                "program": properties["program"],
                "machine": properties["machine"],
                "limit": definitions["limit"],
                "latency": definitions["latency"],
            });
        }
        schema
    }
}

#[cfg(test)]
#[path = "../../tests/commands/schema.rs"]
mod check;

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use clap::Parser;

    use super::check::violations;
    use super::*;
    use crate::args::{Cli, Command, Percentiles};
    use crate::engine_load::Corelog;
    use crate::interrupt::Interrupt;
    use crate::live::Live;
    use crate::machine::Machine;
    use crate::report::Report;

    fn schema() -> Value {
        Document::Run.schema()
    }

    #[test]
    fn the_report_is_as_its_schema_says() {
        let golden: Value = serde_json::from_str(include_str!("golden.json")).unwrap();
        // What the tests of the report take out of it, since it is the build's.
        let mut whole = golden;
        whole["program"]["version"] = json!("0.1.0");
        whole["program"]["optimised"] = json!(true);
        whole["settings"] = json!({});
        whole["machine"]["architecture"] = json!("x86_64");
        let schema = schema();
        assert_eq!(violations(&schema, &schema, &whole, ""), [""; 0]);
    }

    /// Every phase that there is, on the real engine and disk: no key that the schema does not
    /// know, none that it misses, and what was run is not null.
    #[test]
    fn real_runs_are_as_the_schema_says() {
        let small = "--total 1MiB --rounds 2 --shards 1 --batch-messages 10 --message-size 300 \
                     --durable-samples 3 --durable-producers 2";
        let mut phases = Vec::new();
        for words in ["standard --verify", "fsync", "mixed", "small-batches --rate 2000msg"] {
            let json = run(&format!("corelog-bench run {words} {small}"));
            let schema = schema();
            assert_eq!(violations(&schema, &schema, &json, words), [""; 0]);
            for phase in json["phases"].as_array().unwrap() {
                let phase = phase.as_str().unwrap();
                assert!(json[phase]["mb_per_s"].as_f64().unwrap() > 0.0, "{words}: {phase}");
                assert!(json[phase]["latency_us"]["max"].as_f64().unwrap() > 0.0, "{phase}");
                let syncs = &json[phase]["usage"]["engine_syncs"];
                assert_eq!(syncs.is_null(), phase == "verify", "{words}: {phase}: {syncs}");
                phases.push(phase.to_owned());
            }
        }
        phases.sort();
        phases.dedup();
        let all =
            ["append", "catch_up", "durable", "durable_shared", "durable_spread", "poll", "tail"];
        assert_eq!(phases, [&all[..], &["verify"]].concat());
    }

    /// The JSON of a run with this command line, in a directory of its own.
    fn run(words: &str) -> Value {
        let cli = Cli::try_parse_from(words.split_whitespace()).unwrap();
        let Command::Run(args) = cli.command else { panic!("{words}") };
        let settings = args.settings(2).unwrap();
        let place = crate::place::tests::test_dir("schema-run");
        let machine = Machine::look(place.path());
        let interrupt = Interrupt::default();
        let live = Live::default();
        let ran =
            crate::run::run(&Corelog, &settings, &place, &interrupt, &live, &mut |_, _, _| {});
        let outcome = ran.unwrap();
        let started = SystemTime::now();
        let percentiles = Percentiles::default();
        Report { settings: &settings, machine: &machine, outcome: &outcome, started, percentiles }
            .to_json()
    }

    #[test]
    fn what_is_not_so_is_seen() {
        let golden: Value = serde_json::from_str(include_str!("golden.json")).unwrap();
        let schema = schema();
        let broken = |change: fn(&mut Value)| {
            let mut value = golden.clone();
            change(&mut value);
            violations(&schema, &schema, &value, "").join("\n")
        };
        for (change, word) in [
            ((|value| value["schema"] = json!(2)) as fn(&mut Value), "/schema"),
            (|value| value["append"]["mb_per_s"] = json!("fast"), "/append/mb_per_s"),
            (|value| value["append"]["loop"] = json!("both"), "/append/loop"),
            (|value| value["append"]["rounds"][0]["bytes"] = json!(-1), "/append/rounds/0/bytes"),
            (|value| value["machine"]["device"]["odd"] = json!(1), "/machine/device/odd"),
            (|value| drop(value.as_object_mut().unwrap().remove("ratio")), "no ratio"),
            (|value| value["durable"]["latency_us"] = Value::Null, "/durable/latency_us"),
        ] {
            let found = broken(change);
            assert!(found.contains(word), "{word}: {found}");
        }
    }

    /// Every reference of every schema leads somewhere in it.
    #[test]
    fn schemas_are_whole() {
        fn references(value: &Value, found: &mut Vec<String>) {
            if let Some(reference) = value["$ref"].as_str() {
                found.push(reference.to_owned());
            }
            for one in value.as_object().into_iter().flatten().map(|(_, one)| one) {
                references(one, found);
            }
            value.as_array().into_iter().flatten().for_each(|one| references(one, found));
        }
        for document in Document::value_variants() {
            let schema = document.schema();
            assert_eq!(schema["properties"]["schema"]["const"], crate::report::SCHEMA);
            let mut found = Vec::new();
            references(&schema, &mut found);
            for reference in found {
                let path = reference.strip_prefix('#').unwrap();
                assert!(schema.pointer(path).is_some(), "{document:?}: {reference}");
            }
        }
    }
}
