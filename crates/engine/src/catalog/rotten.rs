//! A bit of the catalog rots while nobody has it open, after a kill: a change that was answered is
//! there, or the damage is named. It is never taken for a change that the kill has cut off.

use std::fs;
use std::path::Path;

use corelog_format::Identifier;

use super::*;
use crate::groups::GroupLimits;
use crate::topic::{TopicConfig, TopicOptions};

/// Of the bytes of a page that hold something so many are tried: each costs an opening.
const TRIED: usize = 4;
const PAGE: usize = 4096;

/// Two streams with a topic each; the file as a kill leaves it is copied to `killed`.
fn written(path: &Path, killed: &Path) {
    let catalog = CatalogKeeper::open(path, GroupLimits::default(), &Events::of_test()).unwrap();
    for stream in 0..2 {
        let (done, answer) = mpsc::channel();
        let change = move |desk: &Desk| {
            let name = ["first", "second"][stream as usize];
            desk.change(|model| model.create_stream(name, 1)).unwrap();
            let config = TopicConfig { partitions: 3, ..TopicConfig::default() };
            let options = TopicOptions::from(config);
            let stream = Identifier::Numeric(stream);
            desk.change(|model| model.create_topic(stream, name, &options, 2)).unwrap();
            done.send(()).unwrap();
        };
        catalog.run(change).unwrap();
        answer.recv().unwrap();
    }
    fs::copy(path, killed).unwrap();
}

#[test]
fn no_bit_of_a_killed_catalog_undoes_a_change_without_a_word() {
    let dir = tempfile::tempdir().unwrap();
    let (path, killed) = (dir.path().join("catalog.redb"), dir.path().join("killed.redb"));
    written(&path, &killed);
    let whole = fs::read(&killed).unwrap();
    let entries = |path: &Path| {
        let catalog = CatalogKeeper::open(path, GroupLimits::default(), &Events::of_test())?;
        Ok::<_, CatalogError>(catalog.model().entries().len())
    };
    assert_eq!(entries(&killed).unwrap(), 6);
    // The first block says which of two slots counts, and which layout: a bit of it is not covered
    // by any checksum of the store.
    let mut tried: Vec<usize> = Vec::new();
    for page in 1..whole.len() / PAGE {
        let held: Vec<usize> = (page * PAGE..).take(PAGE).filter(|at| whole[*at] != 0).collect();
        tried.extend(held.iter().step_by((held.len() / TRIED).max(1)));
    }
    let mut named = 0;
    for at in tried.iter().copied() {
        let mut rotten = whole.clone();
        rotten[at] ^= 1 << (at % 8);
        fs::write(&killed, &rotten).unwrap();
        match entries(&killed) {
            Ok(found) => assert_eq!(found, 6, "byte {at}"),
            Err(error) => {
                assert!(error.to_string().contains("killed.redb"), "byte {at}: {error}");
                named += 1;
            }
        }
    }
    assert!(named >= 4, "{named} of {}", tried.len());
}
