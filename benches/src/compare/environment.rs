//! Where two results were measured under different conditions.

use serde_json::{Map, Value};

/// What is expected to change from run to run, so it explains nothing.
const VOLATILE: [&str; 6] = [
    "machine.free_bytes",
    "machine.used_percent",
    "machine.huge_pages_free",
    "machine.device.temperature_celsius",
    "machine.mount_source",
    "machine.device.name",
];

/// A fact that is not the same on both sides.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Difference {
    pub(crate) key: String,
    pub(crate) a: Value,
    pub(crate) b: Value,
}

/// Facts about machine and workload that differ between any two of the runs, the first of each side
/// standing for it. A fact that one side does not have counts as null there.
pub(super) fn differences(a: &[Value], b: &[Value]) -> Vec<Difference> {
    let (Some(first_a), Some(first_b)) = (a.first(), b.first()) else { return Vec::new() };
    let mut found = Vec::new();
    for area in ["machine", "settings"] {
        walk(area, &first_a[area], &first_b[area], &mut found);
    }
    found.retain(|difference: &Difference| !VOLATILE.contains(&difference.key.as_str()));
    found
}

fn walk(key: &str, a: &Value, b: &Value, found: &mut Vec<Difference>) {
    let none = Map::new();
    if a.is_object() || b.is_object() {
        let (in_a, in_b) = (a.as_object().unwrap_or(&none), b.as_object().unwrap_or(&none));
        let only_b = in_b.keys().filter(|key| !in_a.contains_key(*key));
        for name in in_a.keys().chain(only_b) {
            walk(&format!("{key}.{name}"), &a[name], &b[name], found);
        }
        return;
    }
    if a != b {
        found.push(Difference { key: key.to_owned(), a: a.clone(), b: b.clone() });
    }
}
