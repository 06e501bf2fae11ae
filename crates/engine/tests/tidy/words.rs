//! Words: what must not be written, and the line that every file begins with.

use crate::finding::Finding;
use crate::source::{Source, Token, begins};

/// Half-done work, and lints silenced without a reason.
pub(crate) fn leftovers(source: &Source) -> Vec<Finding> {
    let tokens = source.tokens();
    let mut findings = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        let here = &tokens[i..];
        let macros = ["todo !", "unimplemented !", "dbg !"];
        let what = if macros.iter().any(|pattern| begins(here, pattern)) {
            format!("{}! is left over", token.text)
        } else if begins(here, "# [ ignore") {
            "an ignored test tests nothing: repair it or remove it".into()
        } else if is_bare(here) {
            "a lint is silenced without a reason: #[expect(lint, reason = \"..\")]".into()
        } else {
            continue;
        };
        findings.push(Finding::new(&source.path, source.line(token.at), what));
    }
    for (i, line) in source.comments.lines().enumerate() {
        for word in [concat!("TO", "DO"), concat!("FIX", "ME")] {
            if line.contains(word) {
                let what = format!("{word}: a thing to do is an issue, not a comment");
                findings.push(Finding::new(&source.path, i + 1, what));
            }
        }
    }
    findings
}

/// Whether an attribute begins here that silences lints, with `allow(..)` or `expect(..)`, without
/// a reason.
fn is_bare(tokens: &[Token<'_>]) -> bool {
    if !begins(tokens, "# [") && !begins(tokens, "# ! [") {
        return false;
    }
    let end = tokens.iter().position(|token| token.text == "]").unwrap_or(tokens.len());
    let attribute = &tokens[..end];
    (0..end).map(|i| &attribute[i..]).any(|here| {
        let silences = begins(here, "allow (") || begins(here, "expect (");
        let mut inside = here.iter().take_while(|token| token.text != ")");
        silences && !inside.any(|token| token.text == "reason")
    })
}

/// Folders that exist on one machine only, and hosts that a registry's own client knows by itself.
/// Written in halves, so that the list does not find itself.
const PLACES: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/fa", "rm/"),
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/tm", "p/"),
];
const HOSTS: &[&str] = &[
    concat!("crates", ".io/"),
    concat!("index.", "crates"),
    concat!("static.", "crates"),
    concat!("pypi", ".org"),
    concat!("registry.", "npm"),
    concat!("deb.", "debian"),
];

/// No path of one machine, no registry host.
pub(crate) fn places(path: &str, text: &str) -> Vec<Finding> {
    // A folder of the tree may have such a name; a place of a machine has nothing before it.
    let inner = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '}' | ')' | '>');
    let mut findings = Vec::new();
    for (i, line) in text.lines().enumerate() {
        for place in PLACES {
            let outer = |(at, _): &(usize, &str)| !line[..*at].ends_with(inner);
            if line.match_indices(place).any(|found| outer(&found)) {
                findings.push(Finding::new(
                    path,
                    i + 1,
                    format!("{place} is a place of one machine"),
                ));
            }
        }
        for host in HOSTS.iter().filter(|host| line.contains(**host)) {
            findings.push(Finding::new(path, i + 1, format!("{host} is a registry host")));
        }
    }
    findings
}

/// No word that the glossary bans, in any case or part of a longer word.
pub(crate) fn banned(path: &str, text: &str, words: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.to_lowercase();
        for word in words.iter().filter(|word| line.contains(word.as_str())) {
            let what = format!("\"{word}\" is not a word of ours: docs/glossary.md says what is");
            findings.push(Finding::new(path, i + 1, what));
        }
    }
    findings
}

/// Every file says in its first line what it is for. A fuzz target may say `#![no_main]` first.
pub(crate) fn first_line(path: &str, text: &str) -> Vec<Finding> {
    let target = path.contains("/fuzz/") && text.starts_with("#![no_main]");
    if target || text.starts_with("//! ") {
        return vec![];
    }
    vec![Finding::new(path, 1, "the first line is `//!` and says what the file is for")]
}

/// Names that exclude nothing, and so collect everything.
const VAGUE: &[&str] = &["common", "util", "utils", "helper", "helpers", "misc", "manager"];

/// No file or folder of the sources has a name that excludes nothing.
pub(crate) fn file_name(path: &str) -> Vec<Finding> {
    let mut parts = path
        .split('/')
        .skip_while(|part| *part != "src")
        .map(|part| part.strip_suffix(".rs").unwrap_or(part));
    match parts.find(|part| VAGUE.contains(part)) {
        Some(part) => {
            vec![Finding::new(path, 1, format!("\"{part}\" excludes nothing: name the noun"))]
        }
        None => vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(text: &str) -> Vec<usize> {
        leftovers(&Source::new("a.rs", text)).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn half_done_work_is_found() {
        for text in
            ["todo!()", "unimplemented!(\"x\")", "dbg!(x)", "#[ignore]", "#[ignore = \"x\"]"]
        {
            assert_eq!(left(&format!("a\n{text}\n")), [2], "{text}");
            assert!(left(&format!("// {text}\nf(r#\"{text}\"#)")).is_empty(), "{text}");
        }
        assert_eq!(left(concat!("a // TO", "DO: b")), [1]);
    }

    #[test]
    fn a_silenced_lint_has_a_reason() {
        for text in
            ["#[allow(x)]", "#![allow(a::b, c)]", "#[expect(x)]", "#[cfg_attr(y, allow(x))]"]
        {
            assert_eq!(left(text), [1], "{text}");
        }
        for text in [
            "#[expect(x, reason = \"because\")]",
            "#![allow(x, reason = \"because\")]",
            "#[cfg_attr(y, expect(x, reason = \"because\"))]",
            "x.expect(\"message\")",
            "vec![x.expect(message), y.expect(message)]",
            "policy.allow(host);",
        ] {
            assert!(left(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn places_of_one_machine_are_found() {
        for place in PLACES.iter().chain(HOSTS) {
            assert_eq!(places("a.md", &format!("a\nsee \"{place}x\"\n")).len(), 1, "{place}");
        }
        assert!(places("a.md", "target/tmp/x ${dir}/tmp/x\n").is_empty());
    }

    #[test]
    fn banned_words_are_found_in_any_form() {
        let words = ["frobbed".to_string()];
        assert_eq!(banned("a.rs", "x\n/// Frobbed\nlet unfrobbed_to = 1;", &words).len(), 2);
        assert!(banned("a.rs", "frob", &words).is_empty());
    }

    #[test]
    fn every_file_begins_with_what_it_is_for() {
        assert!(first_line("a.rs", "//! Why.\n").is_empty());
        assert!(first_line("crates/a/fuzz/fuzz_targets/x.rs", "#![no_main]\n").is_empty());
        for text in ["", "// a\n", "//!\n", "#![no_main]\n", "\n//! a\n"] {
            assert_eq!(first_line("crates/a/src/x.rs", text).len(), 1, "{text}");
        }
    }

    #[test]
    fn a_name_excludes_something() {
        assert_eq!(file_name("crates/a/src/utils.rs").len(), 1);
        assert_eq!(file_name("crates/a/src/common/x.rs").len(), 1);
        assert!(file_name("crates/a/src/partition.rs").is_empty());
        assert!(file_name("crates/a/tests/common/mod.rs").is_empty());
    }
}
