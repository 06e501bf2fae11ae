//! Text into HTML and SVG: everything that is not ours goes through [`escape`].

use std::fmt::Write;

use serde_json::Value;

/// A text that may stand between tags and in quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Not allowed in a document, and of no use to a reader.
            c if c.is_control() && !"\t\n".contains(c) => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// A figure for people: three or four digits that mean something, thousands apart.
pub(super) fn figure(value: f64) -> String {
    if !value.is_finite() {
        return "\u{2013}".to_owned();
    }
    let decimals = match value.abs() {
        size if size.fract() == 0.0 || size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    let plain = format!("{value:.decimals$}");
    let (whole, rest) = plain.split_once('.').map_or((&plain[..], None), |(a, b)| (a, Some(b)));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut grouped = sign.to_owned();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match rest {
        Some(rest) => format!("{grouped}.{rest}"),
        None => grouped,
    }
}

/// The same of a JSON value; a dash where there is no number.
pub(super) fn figure_of(value: &Value) -> String {
    value.as_f64().map_or_else(|| "\u{2013}".to_owned(), figure)
}

/// A number at a path of keys; None where there is none.
pub(super) fn number(value: &Value, path: &str) -> Option<f64> {
    value.pointer(path)?.as_f64().filter(|number| number.is_finite())
}

/// A text at a path of keys, not escaped; empty where there is none.
pub(super) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// A value of the environment or the settings in words, escaped; `null` is what null means there.
pub(super) fn words(value: &Value, null: &str) -> String {
    match value {
        Value::Null => format!("<span class=\"unknown\">{null}</span>"),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Number(number) => number
            .as_f64()
            .filter(|_| !number.is_u64() && !number.is_i64())
            .map_or_else(|| escape(&number.to_string()), figure),
        Value::String(text) => escape(text),
        Value::Array(all) if all.is_empty() => "none".to_owned(),
        Value::Array(all) => {
            all.iter().map(|value| words(value, null)).collect::<Vec<_>>().join(", ")
        }
        Value::Object(_) => escape(&value.to_string()),
    }
}

/// A table of names and values, one row a leaf; names of nested objects are joined. `null` is what
/// null means there.
pub(super) fn facts(value: &Value, null: &str) -> String {
    let mut rows = String::new();
    fact_rows(&mut rows, "", value, null);
    format!("<table class=\"facts\"><tbody>{rows}</tbody></table>\n")
}

fn fact_rows(rows: &mut String, prefix: &str, value: &Value, null: &str) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        if value.is_object() {
            fact_rows(rows, &name, value, null);
            continue;
        }
        // A curve is drawn, not listed.
        if value[0].is_array() {
            continue;
        }
        let shown = bytes_in_words(key, value).unwrap_or_else(|| words(value, null));
        let _ = write!(rows, "<tr><th>{}</th><td>{shown}</td></tr>", escape(&name));
    }
}

/// Large numbers of bytes, with the unit that people read.
fn bytes_in_words(key: &str, value: &Value) -> Option<String> {
    let bytes = value.as_u64().filter(|bytes| *bytes >= 10_000)?;
    key.ends_with("bytes").then(|| format!("{} ({bytes})", crate::size::human(bytes)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nothing_from_outside_is_markup() {
        let bad = "<script src='x'>&\"\u{1b}[31m";
        assert_eq!(escape(bad), "&lt;script src=&#39;x&#39;&gt;&amp;&quot;\u{fffd}[31m");
        let table =
            facts(&json!({ bad: bad, "a": { "b": [bad, 1], "curve": [[1, 2]] } }), "unknown");
        assert!(!table.contains("<script") && table.contains("<th>a.b</th>"), "{table}");
        assert!(!table.contains("curve"), "{table}");
    }

    #[test]
    fn figures_for_people() {
        for (value, text) in [
            (0.0, "0"),
            (0.1234, "0.123"),
            (1.005, "1.00"),
            (2.0, "2"),
            (42.25, "42.2"),
            (999.6, "1,000"),
            (1_234_567.0, "1,234,567"),
            (-1234.5, "-1,234"),
            (f64::NAN, "\u{2013}"),
        ] {
            assert_eq!(figure(value), text, "{value}");
        }
        assert_eq!(figure_of(&Value::Null), "\u{2013}");
        assert_eq!(words(&json!(null), "not set"), "<span class=\"unknown\">not set</span>");
        assert_eq!(words(&json!([]), ""), "none");
        assert_eq!(words(&json!([1, "a<b"]), ""), "1, a&lt;b");
        assert!(facts(&json!({"free_bytes": 20_000_000}), "").contains("20.00 MB (20000000)"));
        assert!(facts(&json!({"a": {"b": null}}), "not set").contains(">not set<"));
    }
}
