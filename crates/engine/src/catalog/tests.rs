//! The catalog on a real file.

use std::fs;

use super::*;
use crate::topic::{NewTopic, TopicConfig};

fn topic(stream: u32, topic: u32, partitions: u32) -> NewTopic {
    NewTopic { stream, topic, config: TopicConfig { partitions, ..TopicConfig::default() } }
}

/// Creates `new` on the catalog's thread and waits for the answer.
fn create(catalog: &Catalog, new: NewTopic) -> Result<Vec<Entry>, CreateFailure> {
    let (done, answer) = mpsc::channel();
    let job = move |store: &Store| drop(done.send(store.create_topic(&new, 1)));
    catalog.run(job).unwrap();
    answer.recv().unwrap()
}

#[test]
fn what_was_created_is_there_after_a_reopen_with_incarnations_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.redb");
    let (catalog, entries) = Catalog::open(&path).unwrap();
    assert_eq!(entries, []);
    let mut config = topic(7, 4_095, 3);
    config.config.enforce_fsync = true;
    let first = create(&catalog, config).unwrap();
    let second = create(&catalog, topic(1_048_575, 0, 1_000)).unwrap();
    assert!(matches!(create(&catalog, topic(7, 4_095, 9)), Err(CreateFailure::Exists)));
    assert_eq!(first.len() + second.len(), 1_003);
    assert!(first.iter().all(|entry| entry.config.enforce_fsync));
    drop(catalog);

    let (catalog, entries) = Catalog::open(&path).unwrap();
    assert_eq!(entries, [&first[..], &second[..]].concat());
    let third = create(&catalog, topic(7, 0, 1)).unwrap();
    let mut incarnations: Vec<u64> = entries.iter().map(|entry| entry.incarnation).collect();
    incarnations.push(third[0].incarnation);
    assert!(incarnations.is_sorted(), "no incarnation comes twice: {incarnations:?}");
    incarnations.dedup();
    assert_eq!(incarnations.len(), 1_004);
}

/// A catalog that is lost and made anew does not take old directories for its own.
#[test]
fn a_new_catalog_begins_with_new_incarnations() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.redb");
    let first = create(&Catalog::open(&path).unwrap().0, topic(0, 0, 1)).unwrap();
    fs::remove_file(&path).unwrap();
    let second = create(&Catalog::open(&path).unwrap().0, topic(0, 0, 1)).unwrap();
    assert!(second[0].incarnation > first[0].incarnation);
}

#[test]
fn a_first_open_that_was_interrupted_is_begun_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.redb");
    fs::write(dir.path().join("catalog.tmp"), b"half a catalog").unwrap();
    let (_catalog, entries) = Catalog::open(&path).unwrap();
    assert_eq!(entries, []);
    assert!(!dir.path().join("catalog.tmp").exists());
}

#[test]
fn a_closed_catalog_takes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (catalog, _) = Catalog::open(&dir.path().join("catalog.redb")).unwrap();
    catalog.close();
    assert_eq!(catalog.run(|_| ()), Err(NotTaken::Closed));
}

#[test]
fn a_job_that_panics_ends_alone() {
    let dir = tempfile::tempdir().unwrap();
    let (catalog, _) = Catalog::open(&dir.path().join("catalog.redb")).unwrap();
    let (done, answer) = mpsc::channel::<()>();
    catalog
        .run(move |_| {
            let _held = done;
            panic!("a bug in a job");
        })
        .unwrap();
    assert!(answer.recv().is_err());
    assert_eq!(create(&catalog, topic(0, 0, 2)).unwrap().len(), 2);
}

/// Every 64th byte of a catalog, changed: either it opens with what was in it (the byte is in free
/// space), or it is refused by name. Nothing panics through, nothing else is served.
#[test]
fn damage_is_refused_by_name_or_does_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.redb");
    let (catalog, _) = Catalog::open(&path).unwrap();
    let whole = create(&catalog, topic(3, 4, 20)).unwrap();
    drop(catalog);
    let good = fs::read(&path).unwrap();
    let (mut refused, mut untouched) = (0, 0);
    for at in (0..good.len()).step_by(64).chain(0..64) {
        if good[at..].iter().take(64).all(|byte| *byte == 0) {
            continue;
        }
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        fs::write(&path, &bad).unwrap();
        match Catalog::open(&path) {
            Ok((_, entries)) => {
                assert_eq!(entries, whole, "byte {at}");
                untouched += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("catalog.redb"), "byte {at}: {error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 10 && untouched > 0, "{refused} refused, {untouched} did not matter");
    fs::write(&path, b"not a catalog at all").unwrap();
    let error = Catalog::open(&path).unwrap_err();
    assert!(error.to_string().contains("catalog.redb"), "{error}");
}

#[test]
fn a_newer_catalog_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.redb");
    drop(Catalog::open(&path).unwrap());
    let database = redb::Database::open(&path).unwrap();
    let write = database.begin_write().unwrap();
    let table: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("meta");
    write.open_table(table).unwrap().insert("version", 2).unwrap();
    write.commit().unwrap();
    drop(database);
    let error = Catalog::open(&path).unwrap_err();
    assert!(matches!(error, CatalogError::Newer { found: 2, known: 1, .. }), "{error}");
    assert!(error.to_string().contains("version 2"), "{error}");
}
