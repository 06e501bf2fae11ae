//! Unsafe code: the files that hold it are the files that docs/unsafe.md lists, and no others.

use std::collections::BTreeSet;

use crate::finding::Finding;
use crate::source::{Source, begins};

/// Crates whose first lines forbid unsafe code, so that no file below can opt in.
const FORBIDDEN: &[&str] = &["format", "storage", "shard"];

/// The line of the first unsafe code of a file, or of the attribute that lets it in.
pub(crate) fn first_unsafe(source: &Source) -> Option<usize> {
    let tokens = source.tokens();
    let found = tokens.iter().enumerate().find(|(i, token)| {
        let lets_in = ["allow ( unsafe_code", "expect ( unsafe_code"];
        token.text == "unsafe" || lets_in.iter().any(|pattern| begins(&tokens[*i..], pattern))
    });
    found.map(|(_, token)| source.line(token.at))
}

/// The files named in the first column of the tables of docs/unsafe.md.
pub(crate) fn listed(document: &str) -> BTreeSet<String> {
    let rows = document.lines().filter_map(|line| line.strip_prefix('|'));
    let cells = rows.filter_map(|row| row.split('|').next());
    cells.flat_map(crate::markdown::spans).filter(|path| path.ends_with(".rs")).collect()
}

/// The list and the tree agree.
pub(crate) fn list_matches(sources: &[Source], document: &str) -> Vec<Finding> {
    let listed = listed(document);
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    for source in sources {
        let Some(line) = first_unsafe(source) else { continue };
        seen.insert(source.path.clone());
        if !listed.contains(&source.path) {
            findings.push(Finding::new(
                &source.path,
                line,
                "unsafe code, and no row in docs/unsafe.md",
            ));
        }
    }
    let gone = listed.difference(&seen);
    findings.extend(gone.map(|path| {
        Finding::new("docs/unsafe.md", 1, format!("{path} holds no unsafe code: take out its row"))
    }));
    findings
}

/// `#![forbid(unsafe_code)]` stands where it must. A crate without any code yet has nothing to
/// forbid.
pub(crate) fn forbidden(source: &Source) -> Vec<Finding> {
    let is_root = FORBIDDEN.iter().any(|name| source.path == format!("crates/{name}/src/lib.rs"));
    let tokens = source.tokens();
    let forbids = (0..tokens.len()).any(|i| begins(&tokens[i..], "# ! [ forbid ( unsafe_code )"));
    if !is_root || tokens.is_empty() || forbids {
        return vec![];
    }
    vec![Finding::new(&source.path, 1, "no `#![forbid(unsafe_code)]`")]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str =
        "# Unsafe\n\n| file | contract |\n| --- | --- |\n| `a.rs` | `b.rs` helps |\n";

    fn check(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<_> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        list_matches(&sources, LIST).into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn the_list_and_the_tree_agree() {
        assert!(check(&[("a.rs", "unsafe { f() }"), ("c.rs", "// unsafe\n\"unsafe\"")]).is_empty());
        assert!(
            check(&[("a.rs", "unsafe impl X {}"), ("c.rs", "#![deny(unsafe_code)]")]).is_empty()
        );
    }

    #[test]
    fn unsafe_code_without_a_row_is_found() {
        for text in
            ["unsafe fn f() {}", "#[expect(unsafe_code)]", "#![allow(unsafe_code, reason = \"x\")]"]
        {
            assert_eq!(check(&[("a.rs", "unsafe {}"), ("b.rs", text)]), ["b.rs"], "{text}");
        }
    }

    #[test]
    fn a_row_without_unsafe_code_is_found() {
        assert_eq!(check(&[("a.rs", "fn f() {}")]), ["docs/unsafe.md"]);
    }

    #[test]
    fn crates_that_need_none_forbid_it() {
        let check = |path, text| forbidden(&Source::new(path, text)).len();
        assert_eq!(check("crates/shard/src/lib.rs", "//! a\n#![forbid(unsafe_code)]\nmod a;"), 0);
        assert_eq!(
            check("crates/shard/src/lib.rs", "//! a\n// #![forbid(unsafe_code)]\nmod a;"),
            1
        );
        assert_eq!(check("crates/shard/src/lib.rs", "//! (being written)"), 0);
        assert_eq!(check("crates/engine/src/lib.rs", "mod a;"), 0);
    }
}
