//! The map from known failures to tests: every entry has its row, and every row a test that exists
//! or a reason why the failure cannot happen here.

use crate::finding::Finding;
use crate::markdown;
use crate::source::{Source, begins};

/// Where the map is.
pub(crate) const MAP: &str = "docs/known-failures.md";

/// The classes: their headings in the map, the letters of their entries and the entries' numbers.
/// An entry that is not listed here is not missed there.
pub(crate) const CLASSES: [(&str, &str, &[u32]); 11] = [
    (
        "Recovery and torn writes",
        "REC",
        &[1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20, 22, 23, 25, 26, 28, 29, 31, 32, 34, 35],
    ),
    ("Index", "IDX", &[1, 2, 4, 5, 7, 8, 10, 11, 13, 14]),
    ("Queries by time", "TS", &[1, 2, 4, 5, 7]),
    ("Retention and rolling", "RET", &[1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16]),
    ("Offsets and consumers", "OFF", &[1, 2, 4, 5, 7, 8, 10, 11]),
    ("Concurrency", "CON", &[1, 2, 4, 5, 7, 8]),
    ("Memory", "MEM", &[1, 2, 4, 5, 7]),
    ("Full disks, I/O errors, syncs that fail", "IO", &[1, 2, 4, 5, 7, 8, 10, 11, 13, 14]),
    ("Direct I/O", "DIO", &[1, 2, 4, 5, 7, 8]),
    ("Descriptors and limits", "FD", &[1, 2, 4, 5]),
    ("Tools", "TOOL", &[1, 2, 4, 5, 7, 8]),
];

/// Paths without a crate are below this one.
const HERE: &str = "crates/storage/tests/";
/// How a reason begins, where there is no test because nothing could fail.
const BY_CONSTRUCTION: &str = "By construction: ";

/// What is wrong with the table of one class: an entry that is missing, twice there or not known, a
/// row without evidence, evidence that is no test of `sources`.
pub(crate) fn map(
    text: &str,
    (title, letters, numbers): (&str, &str, &[u32]),
    sources: &[Source],
) -> Vec<Finding> {
    let rows = match markdown::table(text, title) {
        Ok(rows) => rows,
        Err(why) => return vec![Finding::new(MAP, 1, why)],
    };
    let mut findings = Vec::new();
    let mut find = |what: String| {
        let line =
            text.lines().position(|line| line.contains(&what[..what.find(':').unwrap_or(0)]));
        findings.push(Finding::new(MAP, line.map_or(1, |line| line + 1), what));
    };
    let named: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    for number in numbers {
        let entry = format!("{letters}-{number}");
        let count = named.iter().filter(|name| **name == entry).count();
        if count != 1 {
            find(format!("{entry}: {count} rows under \"{title}\""));
        }
    }
    for row in &rows {
        let [entry, _, _, evidence] = &row[..] else {
            find(format!("{}: a row has four cells", row[0]));
            continue;
        };
        let number = entry.strip_prefix(letters).and_then(|rest| rest.strip_prefix('-'));
        if !number.is_some_and(|n| n.parse().is_ok_and(|n: u32| numbers.contains(&n))) {
            find(format!("{entry}: no entry of \"{title}\""));
        }
        let tests: Vec<String> =
            markdown::spans(evidence).into_iter().filter(|span| span.contains(".rs::")).collect();
        let reason = evidence.split(BY_CONSTRUCTION).nth(1).unwrap_or_default();
        if tests.is_empty() && reason.len() < 40 {
            find(format!("{entry}: neither a test nor a reason"));
        }
        for test in tests.iter().filter(|test| !exists(test, sources)) {
            find(format!("{entry}: {test} is no test"));
        }
    }
    findings
}

/// Whether `file::function` is a test.
fn exists(test: &str, sources: &[Source]) -> bool {
    let Some((file, function)) = test.split_once("::") else { return false };
    let path = match file.starts_with("crates/") {
        true => file.to_owned(),
        false => format!("{HERE}{file}"),
    };
    let Some(source) = sources.iter().find(|source| source.path == path) else { return false };
    let tokens = source.tokens();
    (0..tokens.len()).any(|i| {
        begins(&tokens[i..], "# [ test ]")
            && tokens[i + 4..].iter().position(|token| token.text == "fn").is_some_and(|fun| {
                // Another attribute may stand in between, another body not.
                let between = &tokens[i + 4..i + 4 + fun];
                between.iter().all(|token| !["{", "}", ";"].contains(&token.text))
                    && tokens.get(i + 5 + fun).is_some_and(|name| name.text == function)
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: (&str, &str, &[u32]) = ("Index", "IDX", &[1, 2]);
    const GOOD: &str = "| IDX-1 | a #1 | it lied | `a.rs::one`; `crates/x/src/b.rs::two` |";
    const REASON: &str =
        "| IDX-2 | a #2 | it was cut | By construction: there is nothing in it that could be cut |";

    fn findings(rows: &[&str]) -> Vec<String> {
        let text = "fn helper() {}\n#[test]\nfn one() { two() }\n";
        let sources = [
            Source::new("crates/storage/tests/a.rs", text),
            Source::new(
                "crates/x/src/b.rs",
                "#[test]\n#[should_panic]\nfn two() {}\nfn three() {}",
            ),
        ];
        let head =
            "# T\n\n## Index\n\n| entry | reported | what | shown |\n| --- | --- | --- | --- |";
        let text = format!("{head}\n{}\n", rows.join("\n"));
        map(&text, CLASS, &sources).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn a_test_that_exists_and_a_reason_are_fine() {
        assert!(findings(&[GOOD, REASON]).is_empty());
    }

    #[test]
    fn an_entry_has_exactly_one_row() {
        assert_eq!(findings(&[GOOD]).len(), 1, "missing");
        assert_eq!(findings(&[GOOD, REASON, GOOD]).len(), 1, "twice");
        let other = GOOD.replace("IDX-1", "IDX-9");
        assert_eq!(findings(&[GOOD, REASON, &other]).len(), 1, "not known");
        assert!(!map("# T\n", CLASS, &[]).is_empty(), "no table at all");
    }

    #[test]
    fn what_is_no_test_is_found() {
        for wrong in
            ["a.rs::gone", "a.rs::helper", "a.rs::two", "b.rs::two", "crates/x/src/b.rs::three"]
        {
            let row = GOOD.replace("a.rs::one", wrong);
            assert_eq!(findings(&[&row, REASON]).len(), 1, "{wrong}");
        }
    }

    #[test]
    fn a_row_says_why() {
        for evidence in ["", "by test", "By construction: no", "`one`", "`a.rs`"] {
            let row = format!("| IDX-1 | a #1 | it lied | {evidence} |");
            assert_eq!(findings(&[&row, REASON]).len(), 1, "{evidence}");
        }
        assert_eq!(findings(&["| IDX-1 | three | cells |", REASON]).len(), 1);
    }
}
