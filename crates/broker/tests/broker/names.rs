//! A name is kept as it is and never becomes a path.

use std::path::Path;

use crate::client::{join, name, named};
use crate::messages::{From, ME, batch};
use crate::running::Running;

/// Every file below `dir`, by its path.
fn files(dir: &Path, into: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, into);
        }
        into.push(path.display().to_string());
    }
}

#[test]
fn names_are_no_paths() {
    let mut broker = Running::start();
    let umlauts = "ä".repeat(127);
    let longest = "x".repeat(255);
    let names = [
        "../../x",
        "/etc/passwd",
        "..",
        ".",
        "a/b",
        "a\0b",
        "\0",
        "\n",
        " ",
        "C:\\x",
        "%2e%2e",
        "\u{202e}",
        &umlauts,
        &longest,
        "streams",
    ];
    let mut client = broker.log_in();
    for text in names {
        client.ask(128, &name(text)).done();
        let topic = join([&named(text), &1_u32.to_le_bytes(), &name(text)]);
        client.ask(132, &topic).done();
        client.ask(139, &join([&named(text), &named(text), &name(text)])).done();
        let metadata =
            join([&named(text), &named(text), &[2, 4, 0, 0, 0, 0], &1_u32.to_le_bytes()]);
        let len = (metadata.len() as u32).to_le_bytes();
        let sent = client.ask(160, &join([&len, &metadata, &batch(&["x"])]));
        assert_eq!(sent.status(), 0, "{text:?}");
    }
    let mut all = Vec::new();
    files(broker.directory(), &mut all);
    for path in &all {
        let inside = path.strip_prefix(&broker.directory().display().to_string()).unwrap();
        let known = |part: &str| {
            part.chars().all(|char| char.is_ascii_alphanumeric() || "._-".contains(char))
        };
        assert!(inside.split('/').all(known), "{inside:?}");
        assert!(!inside.contains("passwd") && !inside.contains('ä'), "{inside:?}");
    }
    // They are what they were, also for the next broker.
    drop(client);
    broker.restart();
    let mut client = broker.log_in();
    for text in names {
        let found = client.question(200, &named(text)).body;
        assert_eq!(found[32], text.len() as u8, "{text:?}");
        assert_eq!(&found[33..33 + text.len()], text.as_bytes());
        let mut poll = crate::messages::poll_body(&ME, Some(0), From::First, 1, false);
        let topic = crate::messages::topic();
        let at = poll.windows(topic.len()).position(|window| window == topic).unwrap();
        poll.splice(at..at + topic.len(), join([&named(text), &named(text)]));
        assert_eq!(client.question(100, &poll).body[12..16], 1_u32.to_le_bytes(), "{text:?}");
    }
    assert_eq!(client.ask(128, &[0]).status(), 3, "an empty name is none");
    assert_eq!(client.ask(128, &[2, 0xff, 0xfe]).status(), 3, "nor are bytes that are no text");
}
