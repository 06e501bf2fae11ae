//! The page holds together, needs nothing from outside, and lets nothing from outside in.

use serde_json::json;

use super::*;

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden.json")).unwrap()
}

/// Checks that tags are nested and closed, attributes quoted, and nothing stands unescaped.
fn check_well_formed(page: &str) -> Result<(), String> {
    const VOID: [&str; 1] = ["meta"];
    let mut rest = page.strip_prefix("<!DOCTYPE html>\n").ok_or("no doctype")?;
    let mut open: Vec<String> = Vec::new();
    while let Some(at) = rest.find('<') {
        let (before, tag) = rest.split_at(at);
        check_text(before)?;
        let end = tag.find('>').ok_or_else(|| format!("no end of {tag:.40}"))?;
        let inner = &tag[1..end];
        rest = &tag[end + 1..];
        if let Some(name) = inner.strip_prefix('/') {
            let last = open.pop().ok_or_else(|| format!("</{name}> closes nothing"))?;
            if last != name {
                return Err(format!("</{name}> closes <{last}>"));
            }
            continue;
        }
        let (name, attributes) = inner.split_once([' ', '\n']).unwrap_or((inner, ""));
        check_attributes(attributes.trim_end_matches('/'))
            .map_err(|error| format!("<{inner}>: {error}"))?;
        if !inner.ends_with('/') && !VOID.contains(&name) {
            open.push(name.to_owned());
        }
        if name == "style" {
            let end = rest.find("</style>").ok_or("a style without an end")?;
            rest = &rest[end..];
        }
    }
    check_text(rest)?;
    if open.is_empty() { Ok(()) } else { Err(format!("left open: {open:?}")) }
}

fn check_text(text: &str) -> Result<(), String> {
    let entities = ["amp;", "lt;", "gt;", "quot;", "#39;"];
    let is_fit = |after: &str| entities.iter().any(|entity| after.starts_with(entity));
    match text.split('&').skip(1).find(|after| !is_fit(after)) {
        Some(bad) => Err(format!("a bare & before {bad:.20}")),
        None if text.contains('>') => Err(format!("a bare > in {text:.60}")),
        None => Ok(()),
    }
}

/// `name="value"`, apart from each other by white space.
fn check_attributes(mut attributes: &str) -> Result<(), String> {
    loop {
        attributes = attributes.trim_start();
        if attributes.is_empty() {
            return Ok(());
        }
        let (name, rest) = attributes.split_once("=\"").ok_or("an attribute without a value")?;
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || c == '"') {
            return Err(format!("a bad attribute {name}"));
        }
        if name.starts_with("on") {
            return Err(format!("{name} is a script"));
        }
        let (value, rest) = rest.split_once('"').ok_or("a value without an end")?;
        check_text(value)?;
        attributes = rest;
    }
}

#[test]
fn the_checker_sees_what_is_broken() {
    let doc = |body: &str| format!("<!DOCTYPE html>\n<html>{body}</html>");
    check_well_formed(&doc("<p class=\"a\">x &amp; y</p><meta charset=\"x\">")).unwrap();
    for broken in [
        "<p>",
        "</p>",
        "<b><i></b></i>",
        "<p class=a>x</p>",
        "x & y",
        "a > b",
        "<p onclick=\"x\">x</p>",
        "<p",
    ] {
        assert!(check_well_formed(&doc(broken)).is_err(), "{broken}");
    }
}

#[test]
fn the_page_is_well_formed_and_needs_nothing_from_outside() {
    let page = page(&golden());
    check_well_formed(&page).unwrap();
    for reference in
        ["http:", "https:", "//", "src=", "href=", "url(", "@import", "<script", "<link", "<iframe"]
    {
        assert!(!page.contains(reference), "{reference}");
    }
    // What was measured is on it: the figures, the charts and the unknown machine.
    for words in
        ["1,800", "90 % of the ceiling", "its ceiling: sequential write", "unknown", "durable"]
    {
        assert!(page.contains(words), "{words}");
    }
    assert_eq!(page.matches("<svg viewBox=\"0 0 760").count(), 3);
}

#[test]
fn what_comes_from_outside_is_shown_and_not_run() {
    let attack = "</title><script>alert('x')</script>\"><img src=x onerror=alert(1)>&";
    fn poison(value: &mut Value, attack: &str) {
        match value {
            Value::String(text) => *text = attack.to_owned(),
            Value::Array(all) => all.iter_mut().for_each(|one| poison(one, attack)),
            Value::Object(map) => {
                map.values_mut().for_each(|one| poison(one, attack));
                map.insert(attack.to_owned(), json!({ attack: attack }));
            }
            _ => {}
        }
    }
    let mut run = golden();
    poison(&mut run, attack);
    run["phases"] = json!(["append", attack]);
    let page = page(&run);
    check_well_formed(&page).unwrap();
    assert!(!page.contains("<script") && !page.contains("<img"));
    assert!(page.contains("&lt;script&gt;"));
}

#[test]
fn any_document_makes_a_page() {
    for run in [json!(null), json!([]), json!({}), json!({"phases": 3, "machine": "x"})] {
        check_well_formed(&page(&run)).unwrap();
    }
    let mut run = golden();
    for key in ["/append/rounds", "/append/figure", "/poll/usage", "/ceiling", "/durable"] {
        *run.pointer_mut(key).unwrap() = Value::Null;
        check_well_formed(&page(&run)).unwrap();
    }
}

#[test]
fn moments_are_dates() {
    for (unix_s, text) in [
        (0.0, "1970-01-01 00:00 UTC"),
        (951_827_696.0, "2000-02-29 12:34 UTC"),
        (1_796_035_699.5, "2026-11-30 10:48 UTC"),
        (4_102_444_800.0, "2100-01-01 00:00 UTC"),
    ] {
        assert_eq!(date(unix_s), text);
    }
    date(f64::NAN);
    date(f64::INFINITY);
}
