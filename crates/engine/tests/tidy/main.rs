//! The workspace's manners, held against the tree: arrows, owners, unsafe code, size, words, links.
//!
//! Every rule is a pure function of a path and a text, with a test beside it that shows it a bad
//! example. The rules that are lists stand in the documents, as tables that are read here: a change
//! of the rule is a change of the document. This test needs nothing of the engine.

mod api;
mod failures;
mod finding;
mod manifest;
mod markdown;
mod owners;
mod size;
mod source;
mod tree;
mod unsafe_list;
mod words;

use finding::{Finding, none};
use manifest::Arrows;
use owners::Owner;
use source::Source;
use tree::{TREE, exists};

fn every_source(rule: impl Fn(&Source) -> Vec<Finding>) {
    none(TREE.sources.iter().flat_map(rule));
}

fn document(path: &str) -> &'static str {
    TREE.document(path).unwrap_or_else(|| panic!("{path} is missing"))
}

/// The rows of a table of docs/design.md: the name in the first column, and each further cell's
/// code spans.
fn design(title: &str) -> Vec<(String, Vec<Vec<String>>)> {
    let rows = markdown::table(document("docs/design.md"), title).expect("docs/design.md");
    let mut named = Vec::new();
    for row in rows {
        let [name] = &markdown::spans(&row[0])[..] else { panic!("{title}: one name in {row:?}") };
        named.push((name.clone(), row[1..].iter().map(|cell| markdown::spans(cell)).collect()));
    }
    named
}

#[test]
fn the_tree_is_seen() {
    let has = |path: &str| TREE.sources.iter().any(|source| source.path == path);
    assert!(has("crates/engine/tests/tidy/main.rs") && has("crates/io/src/disk.rs"));
    assert!(TREE.document("crates/format/Cargo.toml").is_some());
    assert!(TREE.document(".ci/run").is_some() && TREE.document("README.md").is_some());
}

#[test]
fn arrows_point_one_way_and_heavy_dependencies_have_one_owner() {
    let first = |cells: Vec<Vec<String>>| cells.into_iter().next().unwrap_or_default();
    let read =
        |title| design(title).into_iter().map(|(name, cells)| (name, first(cells))).collect();
    let arrows = Arrows { ours: read("Arrows"), owners: read("Owners") };
    let manifests = TREE.with_extension("Cargo.toml");
    none(manifests.flat_map(|file| manifest::dependencies(&file.path, &file.text, &arrows)));
}

#[test]
fn heavy_dependencies_are_named_in_their_rooms_alone() {
    let owners: Vec<Owner> = design("Owners")
        .into_iter()
        .map(|(name, cells)| Owner { name: name.replace('-', "_"), rooms: cells[1].clone() })
        .collect();
    every_source(|source| owners::mentions(source, &owners));
}

#[test]
fn members_take_the_lints_of_the_workspace() {
    let manifests = TREE.with_extension("Cargo.toml");
    none(manifests.flat_map(|file| manifest::lints(&file.path, &file.text)));
}

#[test]
fn storage_and_shard_stay_above_the_seam() {
    every_source(owners::seam);
}

#[test]
fn the_length_of_a_file_is_asked_for_in_few_places() {
    let rooms: Vec<_> = design("File lengths").into_iter().map(|(room, _)| room).collect();
    every_source(|source| owners::file_lengths(source, &rooms));
}

#[test]
fn unsafe_code_is_where_the_list_says() {
    let list = TREE.document("docs/unsafe.md").unwrap_or_default();
    none(unsafe_list::list_matches(&TREE.sources, list));
}

#[test]
fn crates_that_need_no_unsafe_code_forbid_it() {
    every_source(unsafe_list::forbidden);
}

#[test]
fn files_functions_and_lines_are_short() {
    every_source(size::limits);
}

#[test]
fn nothing_is_left_over() {
    every_source(words::leftovers);
}

#[test]
fn every_source_says_what_it_is_for() {
    every_source(|source| words::first_line(&source.path, &source.text));
}

#[test]
fn names_exclude_something() {
    every_source(|source| words::file_name(&source.path));
}

#[test]
fn no_file_knows_a_machine_or_a_registry() {
    every_source(|source| words::places(&source.path, &source.text));
    none(TREE.documents.iter().flat_map(|file| words::places(&file.path, &file.text)));
}

#[test]
fn banned_words_do_not_occur_in_the_crates() {
    let rows = markdown::table(document("docs/glossary.md"), "Words we do not use");
    let rows = rows.expect("docs/glossary.md");
    let banned: Vec<_> = rows.iter().flat_map(|row| markdown::spans(&row[0])).collect();
    assert!(banned.contains(&concat!("commit", "ted").to_string()), "{banned:?}");
    every_source(|source| words::banned(&source.path, &source.text, &banned));
    let manifests = TREE.with_extension("Cargo.toml");
    none(manifests.flat_map(|file| words::banned(&file.path, &file.text, &banned)));
}

#[test]
fn documents_have_one_title_and_links_that_resolve() {
    let texts = |path: &str| TREE.document(path).map(String::from);
    none(TREE.with_extension(".md").flat_map(|file| {
        let mut findings = markdown::one_title(&file.path, &file.text);
        findings.extend(markdown::links(&file.path, &file.text, &exists, &texts));
        findings
    }));
}

#[test]
fn every_known_failure_has_a_test_or_a_reason() {
    let text = document(failures::MAP);
    none(failures::CLASSES.iter().flat_map(|class| failures::map(text, *class, &TREE.sources)));
}

/// The names of the first column of a table of docs/design.md.
fn listed(title: &str) -> Vec<String> {
    design(title).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn the_root_of_the_crate_has_few_names() {
    none(api::root(&TREE.sources, &listed("Public names")));
}

#[test]
fn public_types_can_grow() {
    let closed = listed("Closed types");
    every_source(|source| api::growth(source, &closed));
}

/// What may stand at the top level, besides names that begin with a dot and what runs leave behind.
const TOP: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "CHANGELOG.md",
    "LICENSE",
    "README.md",
    "benches",
    "crates",
    "docs",
    "scripts",
];

fn strangers(names: &[String]) -> Vec<Finding> {
    let known = |name: &str| name.starts_with('.') || TOP.contains(&name);
    let strangers = names.iter().filter(|name| !known(name));
    strangers.map(|name| Finding::new(name, 1, "has no place at the top level")).collect()
}

#[test]
fn the_top_level_holds_what_it_may() {
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(strangers(&names(&[".ci", "README.md"])).is_empty());
    assert_eq!(strangers(&names(&["notes.md", "docs", "src"])).len(), 2);
    none(strangers(&TREE.top));
}
