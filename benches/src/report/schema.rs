//! The JSON Schema of a run's result, and the check that holds the report to it.

/// Draft 2020-12. Printed by `corelog-bench schema`.
pub(crate) const RUN: &str = include_str!("../../schema/run-1.json");

#[cfg(test)]
pub(crate) mod tests {
    use std::time::SystemTime;

    use clap::Parser;
    use serde_json::{Value, json};

    use crate::args::{Cli, Command};
    use crate::engine_load::Corelog;
    use crate::interrupt::Interrupt;
    use crate::machine::Machine;
    use crate::report::Report;

    /// What in `value` is not as `schema` has it. Knows the words that our schemas use: `$ref` to
    /// `$defs`, `type`, `const`, `enum`, `minimum`, `properties`, `required`,
    /// `additionalProperties`, `items`, `prefixItems`.
    pub(crate) fn violations(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
        if let Some(name) = schema["$ref"].as_str() {
            let target = name.strip_prefix('#').and_then(|path| root.pointer(path));
            return violations(root, target.expect("a definition"), value, at);
        }
        let mut found = Vec::new();
        let types = match &schema["type"] {
            Value::String(one) => vec![one.as_str()],
            Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let is = |kind: &&str| match *kind {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_u64() || value.is_i64(),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("no type {other}"),
        };
        if !types.is_empty() && !types.iter().any(is) {
            found.push(format!("{at}: {value} is not {types:?}"));
        }
        if schema.get("const").is_some_and(|constant| constant != value) {
            found.push(format!("{at}: {value} is not {}", schema["const"]));
        }
        if schema["enum"].as_array().is_some_and(|all| !all.contains(value)) {
            found.push(format!("{at}: {value} is none of {}", schema["enum"]));
        }
        if let (Some(minimum), Some(number)) = (schema["minimum"].as_f64(), value.as_f64())
            && number < minimum
        {
            found.push(format!("{at}: {number} is below {minimum}"));
        }
        if let Some(map) = value.as_object() {
            let required = schema["required"].as_array().into_iter().flatten();
            let missing = required.filter_map(Value::as_str).filter(|key| !map.contains_key(*key));
            found.extend(missing.map(|key| format!("{at}: no {key}")));
            for (key, value) in map {
                let at = format!("{at}/{key}");
                match (schema["properties"].get(key), schema.get("additionalProperties")) {
                    (Some(schema), _) => found.extend(violations(root, schema, value, &at)),
                    (None, Some(Value::Bool(false))) => found.push(format!("{at} is not known")),
                    (None, Some(schema)) => found.extend(violations(root, schema, value, &at)),
                    (None, None) => {}
                }
            }
        }
        for (number, one) in value.as_array().into_iter().flatten().enumerate() {
            let at = format!("{at}/{number}");
            let schema = schema["prefixItems"].get(number).or_else(|| schema.get("items"));
            found.extend(
                schema.map(|schema| violations(root, schema, one, &at)).unwrap_or_default(),
            );
        }
        found
    }

    fn schema() -> Value {
        serde_json::from_str(super::RUN).unwrap()
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
        let ran = crate::run::run(&Corelog, &settings, &place, &interrupt, &mut |_, _, _| {});
        let outcome = ran.unwrap();
        let started = SystemTime::now();
        Report { settings: &settings, machine: &machine, outcome: &outcome, started }.to_json()
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
}
