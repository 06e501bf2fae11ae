//! Sources: heavy dependencies named only in their owners' rooms, and logic that stays above the
//! seam to the operating system.

use crate::finding::Finding;
use crate::source::{Source, begins};

/// A heavy dependency and the path prefixes of the files that may name it.
pub(crate) struct Owner {
    /// As Rust writes it: `io_uring`.
    pub(crate) name: String,
    pub(crate) rooms: Vec<String>,
}

/// A heavy dependency is named in its owner's rooms alone. Test crates and examples are left to
/// the manifests: they see what their package declares.
pub(crate) fn mentions(source: &Source, owners: &[Owner]) -> Vec<Finding> {
    if source.is_test() {
        return vec![];
    }
    let tokens = source.tokens();
    let (mut findings, mut in_use) = (Vec::new(), false);
    for (i, token) in tokens.iter().enumerate() {
        in_use = token.text == "use" || token.text == "extern" || (in_use && token.text != ";");
        // A module of ours may have a dependency's name.
        let is_ours = i >= 3 && tokens[i - 3].text == "crate" && begins(&tokens[i - 2..], ": :");
        let is_path = !is_ours && (in_use || begins(&tokens[i + 1..], ": :"));
        let owner = owners.iter().find(|owner| is_path && owner.name == token.text);
        let Some(owner) = owner else { continue };
        if !owner.rooms.iter().any(|room| source.path.starts_with(room.as_str())) {
            let what = format!("{} may be named only in {}", owner.name, owner.rooms.join(", "));
            findings.push(Finding::new(&source.path, source.line(token.at), what));
        }
    }
    findings
}

/// What the simulator could not see: storage and shard reach files, time and tasks through the
/// traits of `corelog-io` alone.
const BELOW_THE_SEAM: &[&str] = &[
    "std : : fs",
    "std : : net",
    "std : : process",
    "thread : : sleep",
    "thread : : spawn",
    "Instant : : now",
    "SystemTime : : now",
];

/// Nothing in storage and shard, their tests apart, reaches around the seam.
pub(crate) fn seam(source: &Source) -> Vec<Finding> {
    let above = ["crates/storage/src/", "crates/shard/src/"];
    if source.is_test() || !above.iter().any(|path| source.path.starts_with(path)) {
        return vec![];
    }
    let shipped = source.shipped();
    let tokens = shipped.tokens();
    let mut findings = Vec::new();
    for (i, token) in tokens.iter().enumerate() {
        for pattern in BELOW_THE_SEAM.iter().filter(|pattern| begins(&tokens[i..], pattern)) {
            let what = format!("{} goes around corelog-io: the simulator cannot see it", {
                pattern.replace(' ', "")
            });
            findings.push(Finding::new(&source.path, source.line(token.at), what));
        }
    }
    findings
}

/// The length of a file is not the end of its data: files are allocated ahead. Storage asks for it
/// in the folders of `rooms` as it needs, in the files of `rooms` once, and nowhere else; everyone
/// else asks the appender.
pub(crate) fn file_lengths(source: &Source, rooms: &[String]) -> Vec<Finding> {
    let path = source.path.as_str();
    let in_folder = rooms.iter().any(|room| room.ends_with('/') && path.starts_with(room.as_str()));
    if source.is_test() || !path.starts_with("crates/storage/src/") || in_folder {
        return vec![];
    }
    let allowed = rooms.iter().filter(|room| *room == path).count();
    let shipped = source.shipped();
    let tokens = shipped.tokens();
    let asks = tokens.iter().enumerate().filter(|(i, token)| {
        begins(&tokens[*i..], ". len ( ) . await") || token.text == "metadata"
    });
    let what = "a file's length says nothing about its data: docs/design.md, File lengths";
    asks.skip(allowed).map(|(_, token)| Finding::new(path, source.line(token.at), what)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(findings: &[Finding]) -> Vec<usize> {
        findings.iter().map(|finding| finding.line).collect()
    }

    fn mention(path: &str, text: &str) -> Vec<usize> {
        let owners = [Owner { name: "heavy_io".into(), rooms: vec!["crates/a/src/room/".into()] }];
        lines(&mentions(&Source::new(path, text), &owners))
    }

    #[test]
    fn a_heavy_dependency_is_named_in_its_room_alone() {
        let text = "use heavy_io::X;\nfn f() { heavy_io::g() }\nuse {a, heavy_io};\n\
            extern crate heavy_io;\n";
        assert_eq!(mention("crates/a/src/lib.rs", text), [1, 2, 3, 4]);
        assert!(mention("crates/a/src/room/x.rs", text).is_empty());
        assert!(mention("crates/a/tests/x.rs", text).is_empty());
    }

    #[test]
    fn comments_strings_and_other_names_are_no_mention() {
        let text =
            "// heavy_io::X\nconst A: &str = \"heavy_io::X\";\nlet heavy_io = my_heavy_io::x;\n";
        assert!(mention("crates/a/src/lib.rs", text).is_empty());
    }

    #[test]
    fn storage_and_shard_stay_above_the_seam() {
        let text = "use std::fs;\nfn f() { std::time::Instant::now(); }\n\
            #[cfg(test)]\nmod tests { use std::fs; }\n";
        let check = |path| lines(&seam(&Source::new(path, text)));
        assert_eq!(check("crates/storage/src/a.rs"), [1, 2]);
        assert_eq!(check("crates/shard/src/a/b.rs"), [1, 2]);
        assert!(check("crates/engine/src/a.rs").is_empty());
        assert!(check("crates/storage/tests/a.rs").is_empty());
    }

    #[test]
    fn a_length_is_asked_for_in_few_places() {
        let rooms = ["crates/storage/src/recover/", "crates/storage/src/roll.rs"].map(String::from);
        let ask = "async fn end(f: &F) { f\n.len()\n.await }\n";
        let check = |path: &str, text: &str| {
            file_lengths(&Source::new(&format!("crates/storage/{path}"), text), &rooms).len()
        };
        assert_eq!(check("src/recover/scan.rs", &ask.repeat(3)), 0);
        assert_eq!(check("src/roll.rs", ask), 0);
        assert_eq!(check("src/roll.rs", &ask.repeat(3)), 2);
        assert_eq!(check("src/appender.rs", ask), 1);
        assert_eq!(check("src/read.rs", "fn f() { x.metadata()?.len() }"), 1);
        assert_eq!(check("tests/a.rs", ask), 0);
        assert_eq!(check("src/read.rs", "fn f() { vec.len() }"), 0);
    }
}
