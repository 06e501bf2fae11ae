//! The public interface: few names at the root of the crate, and types that can grow.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::source::{Source, Token, begins, body};

/// The file whose public names are the root.
const ROOT: &str = "crates/engine/src/lib.rs";
/// So many names and modules stand there at most.
const NAMES_MAX: usize = 22;

/// The names that `root` makes public, by the kind of the item: modules, and what is re-exported.
fn names(root: &Source) -> BTreeMap<String, usize> {
    let tokens = root.tokens();
    let mut names = BTreeMap::new();
    for i in 0..tokens.len() {
        if begins(&tokens[i..], "pub mod") {
            names.insert(tokens[i + 2].text.to_owned(), tokens[i].at);
        }
        if begins(&tokens[i..], "pub use") {
            let end = tokens[i..].iter().position(|token| token.text == ";");
            let end = end.map_or(tokens.len(), |end| i + end);
            // A name is public where it ends a path: before a comma, a brace or the end.
            let last = |at: usize| {
                [",", "}", ";"].contains(&tokens.get(at + 1).map_or(";", |next| next.text))
            };
            let words = (i + 2..end).filter(|at| last(*at));
            for at in words.filter(|at| ![",", "}"].contains(&tokens[*at].text)) {
                names.insert(tokens[at].text.to_owned(), tokens[at].at);
            }
        }
    }
    names
}

/// What is at the root and not in `listed`, the other way round, and too much of it.
pub(crate) fn root(sources: &[Source], listed: &[String]) -> Vec<Finding> {
    let Some(root) = sources.iter().find(|source| source.path == ROOT) else {
        return vec![Finding::new(ROOT, 1, "is missing")];
    };
    let names = names(root);
    let find = |at: usize, what: String| Finding::new(ROOT, root.line(at), what);
    let unlisted = names.iter().filter(|(name, _)| !listed.contains(name));
    let mut findings: Vec<_> = unlisted
        .map(|(name, at)| find(*at, format!("{name} is public and not in docs/design.md")))
        .collect();
    let gone = listed.iter().filter(|name| !names.contains_key(*name));
    findings
        .extend(gone.map(|name| find(0, format!("{name} is in docs/design.md and not public"))));
    if names.len() > NAMES_MAX {
        findings.push(find(0, format!("{} public names, {NAMES_MAX} are allowed", names.len())));
    }
    findings
}

/// Where types are public that embedders name.
const ROOMS: &[&str] = &[
    "crates/engine/src/",
    "crates/shard/src/error.rs",
    "crates/shard/src/stats.rs",
    "crates/storage/src/error.rs",
    "crates/storage/src/figures.rs",
    "crates/storage/src/stats.rs",
    "crates/storage/src/recover/report.rs",
];

/// A public enum, or a public struct with public fields, is `non_exhaustive` or in `closed`: a
/// variant or a field more would break who matches or builds it.
pub(crate) fn growth(source: &Source, closed: &[String]) -> Vec<Finding> {
    if source.is_test() || !ROOMS.iter().any(|room| source.path.starts_with(room)) {
        return vec![];
    }
    let shipped = source.shipped();
    let tokens = shipped.tokens();
    let fixed = |i: &usize| {
        let tokens = &tokens[*i..];
        begins(tokens, "pub enum") || (begins(tokens, "pub struct") && has_public_fields(tokens))
    };
    (0..tokens.len())
        .filter(fixed)
        .filter(|i| !is_open(&tokens, *i) && !closed.iter().any(|name| name == tokens[i + 2].text))
        .map(|i| {
            let what =
                format!("{} is neither non_exhaustive nor a closed type", tokens[i + 2].text);
            Finding::new(&source.path, source.line(tokens[i].at), what)
        })
        .collect()
}

fn has_public_fields(tokens: &[Token<'_>]) -> bool {
    let end = match body(tokens, 0) {
        Some((_, end)) => end,
        None => return false,
    };
    (2..end).any(|at| tokens[at].text == "pub" && tokens[at + 1].text != "(")
}

/// Whether the attributes in front of the item at `i` say `non_exhaustive`.
fn is_open(tokens: &[Token<'_>], i: usize) -> bool {
    let before = tokens[..i].iter().rev().take_while(|token| ![";", "}"].contains(&token.text));
    before.take(40).any(|token| token.text == "non_exhaustive")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "mod a;\npub mod b;\npub use a::{One, Two};\npub use c::d::Three;\n\
        pub use e as f;\npub(crate) use g::Four;\n";

    #[test]
    fn the_root_is_what_is_listed() {
        let sources = [Source::new(ROOT, TEXT)];
        let listed = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let all = ["One", "Three", "Two", "b", "f"];
        assert!(root(&sources, &listed(&all)).is_empty());
        assert_eq!(root(&sources, &listed(&all[1..])).len(), 1, "one more than is listed");
        assert_eq!(root(&sources, &listed(&["One", "Three", "Two", "b", "f", "g"])).len(), 1);
        assert_eq!(root(&[], &[]).len(), 1);
        let many: String = (0..30).map(|n| format!("pub mod m{n};\n")).collect();
        let names: Vec<_> = (0..30).map(|n| format!("m{n}")).collect();
        assert_eq!(root(&[Source::new(ROOT, &many)], &names).len(), 1, "too many");
    }

    #[test]
    fn what_may_grow_says_so() {
        let find = |text: &str| growth(&Source::new("crates/engine/src/x.rs", text), &[]).len();
        assert_eq!(find("#[derive(Debug)]\npub enum A { B }"), 1);
        assert_eq!(find("pub struct A { pub b: u8 }"), 1);
        assert_eq!(find("pub struct A(pub u8);"), 1);
        for fine in [
            "#[non_exhaustive]\n#[derive(Debug)]\npub enum A { B }",
            "#[derive(Debug)]\n#[non_exhaustive]\npub struct A { pub b: u8 }",
            "pub struct A { b: u8 }",
            "pub struct A;",
            "pub(crate) enum A { B }",
            "pub struct A { pub(crate) b: u8 }",
        ] {
            assert_eq!(find(fine), 0, "{fine}");
        }
        let listed = growth(&Source::new("crates/engine/src/x.rs", "pub enum A {}"), &["A".into()]);
        assert!(listed.is_empty());
        assert_eq!(find("#[non_exhaustive]\npub enum A { B }\npub enum C { D }"), 1);
        assert!(growth(&Source::new("crates/io/src/x.rs", "pub enum A {}"), &[]).is_empty());
    }
}
