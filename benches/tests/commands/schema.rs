//! Holds a document to its JSON Schema.

use serde_json::Value;

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
        found.extend(schema.map(|schema| violations(root, schema, one, &at)).unwrap_or_default());
    }
    found
}
