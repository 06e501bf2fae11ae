//! The outputs of the commands against the schemas that the program prints, and a validator that is
//! as small as these schemas allow: what it does not know it refuses.

use serde_json::{Value, json};

use crate::support::{Scratch, Segment, dump, dump_with_input, real_log, vectors};

/// Words of a schema that say nothing about the value.
const SILENT: [&str; 5] = ["$schema", "title", "description", "$defs", "$comment"];

/// Why `value` is not as `schema` says; `root` holds the definitions.
fn refusal(value: &Value, schema: &Value, root: &Value) -> Option<String> {
    let rules = schema.as_object().expect("a schema is an object");
    rules.iter().filter(|(word, _)| !SILENT.contains(&word.as_str())).find_map(|(word, rule)| {
        let is_fine = match word.as_str() {
            "$ref" => {
                let path = rule.as_str().and_then(|path| path.strip_prefix('#'));
                let target = path.and_then(|path| root.pointer(path)).expect("a definition");
                return refusal(value, target, root);
            }
            "anyOf" => {
                let any = rule.as_array().expect("a list");
                let refusals: Vec<_> = any.iter().map(|one| refusal(value, one, root)).collect();
                match refusals.iter().any(Option::is_none) {
                    true => return None,
                    false => return Some(format!("{value} fits none: {refusals:?}")),
                }
            }
            "properties" => return properties(value, schema, root),
            "additionalProperties" => {
                assert_eq!(rule, false, "the validator knows no other");
                let known = schema["properties"].as_object().expect("properties");
                value.as_object().is_none_or(|all| all.keys().all(|key| known.contains_key(key)))
            }
            "items" => {
                let items = value.as_array().into_iter().flatten();
                return items.filter_map(|item| refusal(item, rule, root)).next();
            }
            "required" => {
                let names = rule.as_array().expect("a list").iter().filter_map(Value::as_str);
                names.into_iter().all(|name| !value.is_object() || value.get(name).is_some())
            }
            "type" => has_type(value, rule),
            "enum" => rule.as_array().expect("a list").contains(value),
            "const" => rule == value,
            "minimum" => value.as_u64().is_none_or(|v| Some(v) >= rule.as_u64()),
            "maximum" => value.as_u64().is_none_or(|v| Some(v) <= rule.as_u64()),
            "pattern" => value.as_str().is_none_or(|text| fits(text, rule.as_str())),
            other => panic!("the validator does not know {other:?}"),
        };
        (!is_fine).then(|| format!("{value} breaks {word}: {rule}"))
    })
}

fn properties(value: &Value, schema: &Value, root: &Value) -> Option<String> {
    let known = schema["properties"].as_object().expect("properties");
    known.iter().find_map(|(name, rule)| {
        let found = value.get(name)?;
        refusal(found, rule, root).map(|why| format!("{name}: {why}"))
    })
}

fn has_type(value: &Value, rule: &Value) -> bool {
    let is = |name: &Value| match name.as_str().expect("a name") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        other => panic!("the validator does not know the type {other}"),
    };
    rule.as_array().map_or_else(|| is(rule), |any| any.iter().any(is))
}

/// The two patterns that the schemas have.
fn fits(text: &str, pattern: Option<&str>) -> bool {
    match pattern.expect("a pattern") {
        "^-?[0-9]+$" => {
            let digits = text.strip_prefix('-').unwrap_or(text);
            !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
        }
        "^([0-9a-f][0-9a-f])*$" => {
            text.len().is_multiple_of(2)
                && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        }
        other => panic!("the validator does not know {other}"),
    }
}

/// The schema that the program prints.
pub(crate) fn schema(output: &str) -> Value {
    dump(["schema", output]).expect(0).json()
}

/// Fails where `value` is not as the schema of `output` says.
pub(crate) fn assert_fits(value: &Value, output: &str) {
    let schema = schema(output);
    if let Some(why) = refusal(value, &schema, &schema) {
        panic!("the output of {output} is not as its schema says: {why}\n{value}");
    }
}

#[test]
fn the_validator_refuses_what_does_not_fit() {
    let schema = schema("verify");
    let good = json!({"schema": 1, "files": [], "partitions": [], "data": []});
    assert_eq!(refusal(&good, &schema, &schema), None);
    for (name, value) in [
        ("schema", json!(2)),
        ("files", json!({})),
        ("files", json!([{"path": "x"}])),
        ("data", json!([{"path": "x", "lock": "odd", "clock": {}, "catalog_bytes": 1}])),
        ("more", json!(1)),
    ] {
        let mut bad = good.clone();
        bad[name] = value;
        assert!(refusal(&bad, &schema, &schema).is_some(), "{bad}");
    }
    for name in ["schema", "files", "partitions", "data"] {
        let mut bad = good.clone();
        bad.as_object_mut().expect("an object").remove(name);
        assert!(refusal(&bad, &schema, &schema).is_some(), "{bad}");
    }
}

/// A data directory with everything that an output can speak of.
fn damaged_data() -> (Scratch, String) {
    let scratch = Scratch::new();
    let dir = "streams/0/topics/0/partitions/7";
    let mut first = Segment::new(7, 0, &[2, 3, 1]);
    first.bytes[first.batches[1].start + 320] ^= 1;
    first.write(&scratch, dir);
    let mut second = Segment::new(7, 6, &[2, 2]);
    scratch.file(&format!("{dir}/manifest"), &second.manifest_at(second.bytes.len()));
    second.index.clear();
    second.write(&scratch, dir);
    scratch.file(&format!("{dir}/notes.txt"), b"none of a log's");
    scratch.file(&format!("{dir}/consumer_offsets"), &[9; 8192]);
    scratch.file(&format!("{dir}/offsets/consumers/3"), b"short");
    scratch.file("LOCK", b"");
    scratch.file("clock", &[1; 8192]);
    scratch.file("catalog.redb", b"x");
    let path = scratch.path().to_str().expect("UTF-8").to_string();
    (scratch, path)
}

#[test]
fn verify_is_as_its_schema_says() {
    let (_scratch, path) = damaged_data();
    for level in ["layout", "batch", "full"] {
        let ran = dump(["verify", "--json", "--level", level, &path]);
        let document = ran.json();
        assert_fits(&document, "verify");
        let (files, about) = (&document["files"], &document["partitions"][0]);
        assert_eq!(files[0]["level"], level);
        // A payload's byte shows only where every frame's checksum is compared.
        let verdict = if level == "full" { "corrupt" } else { "clean" };
        assert_eq!(files[0]["verdict"], verdict, "{level}");
        assert_eq!(ran.code, Some(i32::from(level == "full")));
        assert_eq!(files[1]["index"], "stale");
        let unchecked = ["checksums", "frame_checksums"];
        let said = files[0]["not_checked"][0]["what"].as_str().unwrap_or("nothing");
        assert_eq!(unchecked.contains(&said), level != "full", "{document}");
        let words: Vec<_> = about["findings"].as_array().expect("a list").iter().collect();
        assert_eq!(words.len(), 3, "{about}");
        assert_eq!(about["ignored"].as_array().map(Vec::len), Some(1));
        assert_eq!(document["data"][0]["clock"]["state"], "damaged");
    }
    let holes = dump(["verify", "--json", &path]).json()["partitions"][0]["holes"].clone();
    assert_eq!(holes, json!([{"from": 2, "to": 5}]));
}

#[test]
fn repair_and_index_are_as_their_schemas_say() {
    let (_scratch, path) = damaged_data();
    assert_fits(&dump(["index", "check", "--json", &path]).expect(1).json(), "index");
    assert_fits(&dump(["index", "rebuild", "--json", &path]).expect(1).json(), "index");
    let plan = dump(["repair", "--json", &path]).expect(1).json();
    assert_fits(&plan, "repair");
    assert_eq!(plan["partitions"][0]["applied"], false);
    let done = dump(["repair", "--json", "--apply", &path]).expect(0).json();
    assert_fits(&done, "repair");
    assert_eq!(done["partitions"][0]["actions"], plan["partitions"][0]["actions"]);
    assert_eq!(done["partitions"][0]["applied"], true);
    let again = dump(["repair", "--json", &path]).expect(0).json();
    assert_fits(&again, "repair");
    assert_eq!(again["partitions"][0]["actions"], json!([]));
    assert_fits(&dump(["index", "check", "--json", &path]).expect(0).json(), "index");
}

#[test]
fn rows_are_as_their_schemas_say() {
    let scratch = Scratch::new();
    let path = scratch.file("00000000000000000000.log", &real_log());
    let path = path.to_str().expect("UTF-8");
    for (args, output) in
        [(&["--ndjson"][..], "show-batch"), (&["--messages", "--ndjson"], "show-message")]
    {
        let rows = dump([&["show"], args, &[path]].concat()).expect(0).lines();
        assert!(rows.len() >= 20);
        rows.iter().for_each(|row| assert_fits(row, output));
    }
    for payload in ["text", "hex", "base64", "none"] {
        let args = ["extract", "--format", "ndjson", "--payload", payload, path];
        let rows = dump(args).expect(0).lines();
        assert!(rows.len() >= 20);
        rows.iter().for_each(|row| assert_fits(row, "extract"));
    }
}

#[test]
fn readings_are_as_their_schemas_say() {
    let (_scratch, path) = damaged_data();
    let log = format!("{path}/streams/0/topics/0/partitions/7/00000000000000000000.log");
    let other = format!("{path}/streams/0/topics/0/partitions/7/00000000000000000006.log");
    for (args, output) in [
        (&["ls", "--json", &path][..], "ls"),
        (&["stats", "--json", &path], "stats"),
        (&["hex", "--json", "--at", "0", &log], "hex"),
        (&["hex", "--json", "--all", "--offset", "2", &log], "hex"),
        (&["diff", "--json", &log, &other], "diff"),
        (&["diff", "--json", &log, &log], "diff"),
    ] {
        let ran = dump(args);
        assert!(ran.code < Some(2), "{args:?}: {ran:?}");
        assert_fits(&ran.json(), output);
    }
}

#[test]
fn decoded_values_are_as_their_schema_says() {
    let rows = std::fs::read_to_string(vectors().join("wire.jsonl")).expect("the vectors");
    let schema = schema("decode");
    let mut by_type = std::collections::BTreeMap::<String, String>::new();
    for row in rows.lines() {
        let row: Value = serde_json::from_str(row).expect("JSON");
        let (name, hex) = (row["type"].as_str().expect("a type"), row["hex"].as_str());
        let lines = by_type.entry(name.to_string()).or_default();
        lines.push_str(hex.expect("hex"));
        lines.push('\n');
    }
    assert_eq!(by_type.len(), 9);
    for (name, lines) in by_type {
        for value in dump_with_input(["decode", &name], lines.as_bytes()).expect(0).lines() {
            assert_eq!(refusal(&value, &schema, &schema), None, "{name}: {value}");
        }
    }
}
