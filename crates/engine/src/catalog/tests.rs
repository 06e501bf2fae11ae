//! The catalog on a real file.

use std::fs;

use corelog_format::Identifier;

use super::*;
use crate::topic::{TopicConfig, TopicOptions};

fn open(path: &Path) -> Result<CatalogKeeper, CatalogError> {
    CatalogKeeper::open(path, GroupLimits::default(), &Events::of_test())
}

/// Makes a change on the catalog's thread and waits for it.
fn change<T: Send + 'static>(
    catalog: &CatalogKeeper,
    plan: impl FnOnce(&Model) -> Result<(T, Plan), ChangeError> + Send + 'static,
) -> Result<(T, Plan), ChangeError> {
    let (done, answer) = mpsc::channel();
    catalog.run(move |desk| drop(done.send(desk.change(plan)))).unwrap();
    answer.recv().unwrap()
}

/// Creates a stream and a topic in it, both called `name`; answers the partitions.
fn create(catalog: &CatalogKeeper, name: &'static str, partitions: u32) -> Vec<Entry> {
    let (stream, _) = change(catalog, move |model| model.create_stream(name, 1)).unwrap();
    let config = TopicConfig { partitions, enforce_fsync: true, ..TopicConfig::default() };
    let options = TopicOptions::from(config);
    let stream = Identifier::Numeric(stream);
    change(catalog, move |model| model.create_topic(stream, name, &options, 2)).unwrap().1.begun
}

fn entries(catalog: &CatalogKeeper) -> Vec<Entry> {
    catalog.model().entries()
}

#[test]
fn what_was_created_is_there_after_a_reopen_with_incarnations_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.redb");
    let catalog = open(&path).unwrap();
    assert_eq!(entries(&catalog), []);
    let first = create(&catalog, "first", 3);
    let second = create(&catalog, "second", 1_000);
    let (group, _) = change(&catalog, |model| {
        model.create_group(Identifier::Numeric(1), Identifier::Numeric(0), "readers", 3)
    })
    .unwrap();
    assert_eq!((first.len(), second.len(), group), (3, 1_000, (1, 0, 0)));
    assert!(first.iter().all(|entry| entry.config.enforce_fsync));
    let before = format!("{:?}", catalog.model());
    drop(catalog);

    let catalog = open(&path).unwrap();
    let lives = |entries: &[Entry]| -> Vec<_> {
        entries.iter().map(|entry| (entry.id, entry.incarnation)).collect()
    };
    assert!(lives(&entries(&catalog)) == lives(&[&first[..], &second[..]].concat()));
    assert_eq!(entries(&catalog)[3].follow.groups[..], [0], "it is told of the group");
    assert_eq!(sorted(&format!("{:?}", catalog.model())), sorted(&before));
    let third = create(&catalog, "third", 1);
    let mut incarnations: Vec<u64> =
        [first, second, third].iter().flatten().map(|entry| entry.incarnation).collect();
    assert!(incarnations.is_sorted(), "no incarnation comes twice: {incarnations:?}");
    incarnations.dedup();
    assert_eq!(incarnations.len(), 1_004);
}

/// What a file that is written anew gets is the whole catalog.
#[test]
fn the_rows_of_a_model_make_the_same_model() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(&dir.path().join("catalog.redb")).unwrap();
    create(&catalog, "first", 3);
    change(&catalog, |model| model.create_stream("empty", 1)).unwrap();
    create(&catalog, "third", 2);
    for name in ["readers", "others"] {
        let place = Identifier::Numeric(2);
        let made = move |model: &Model| model.create_group(place, Identifier::Numeric(0), name, 3);
        change(&catalog, made).unwrap();
    }
    change(&catalog, |model| model.delete_stream(Identifier::Numeric(0))).unwrap();
    let again = Model::load(catalog.model().rows(), Arc::default()).unwrap();
    assert_eq!(sorted(&format!("{again:?}")), sorted(&format!("{:?}", catalog.model())));
}

/// Maps are printed in no order.
fn sorted(text: &str) -> Vec<&str> {
    let mut words: Vec<_> = text.split([',', '{', '}', ' ']).collect();
    words.sort_unstable();
    words
}

#[test]
fn what_is_deleted_is_gone_after_a_reopen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.redb");
    let catalog = open(&path).unwrap();
    create(&catalog, "first", 3);
    let kept = create(&catalog, "second", 2);
    change(&catalog, |model| {
        model.create_group(Identifier::Numeric(0), Identifier::Numeric(0), "readers", 3)
    })
    .unwrap();
    change(&catalog, |model| model.delete_stream(Identifier::Numeric(0))).unwrap();
    drop(catalog);
    let catalog = open(&path).unwrap();
    assert_eq!(entries(&catalog), kept);
    let (id, _) = change(&catalog, |model| model.create_stream("third", 1)).unwrap();
    assert_eq!(id, 0, "the lowest free one");
}

/// A catalog that is lost and made anew does not take old directories for its own.
#[test]
fn a_new_catalog_begins_with_new_incarnations() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.redb");
    let first = create(&open(&path).unwrap(), "a", 1);
    fs::remove_file(&path).unwrap();
    let catalog = open(&path).unwrap();
    let second = create(&catalog, "a", 1);
    assert!(second[0].incarnation > first[0].incarnation);
    assert!(!catalog.model().gave(first[0].incarnation));
    assert!(catalog.model().gave(second[0].incarnation));
}

#[test]
fn a_first_open_that_was_interrupted_is_begun_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.redb");
    fs::write(dir.path().join("catalog.tmp"), b"half a catalog").unwrap();
    let catalog = open(&path).unwrap();
    assert_eq!(entries(&catalog), []);
    assert!(!dir.path().join("catalog.tmp").exists());
}

#[test]
fn a_closed_catalog_takes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(&dir.path().join("catalog.redb")).unwrap();
    catalog.close();
    assert_eq!(catalog.run(|_| ()), Err(NotTaken::Closed));
}

#[test]
fn a_job_that_panics_ends_alone() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(&dir.path().join("catalog.redb")).unwrap();
    let (done, answer) = mpsc::channel::<()>();
    catalog
        .run(move |_| {
            let _held = done;
            panic!("a bug in a job");
        })
        .unwrap();
    assert!(answer.recv().is_err());
    assert_eq!(create(&catalog, "a", 2).len(), 2);
}

/// Every 64th byte of a catalog, changed: either it opens with what was in it (the byte is in free
/// space), or it is refused by name. Nothing panics through, nothing else is served.
#[test]
fn damage_is_refused_by_name_or_does_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.redb");
    let catalog = open(&path).unwrap();
    let whole = create(&catalog, "a", 20);
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
        match open(&path) {
            Ok(catalog) => {
                assert_eq!(entries(&catalog), whole, "byte {at}");
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
    let error = open(&path).unwrap_err();
    assert!(error.to_string().contains("catalog.redb"), "{error}");
}

#[test]
fn a_catalog_of_another_version_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("catalog.redb");
    drop(open(&path).unwrap());
    let version = |version: u64| {
        let database = redb::Database::open(&path).unwrap();
        let write = database.begin_write().unwrap();
        let table: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("meta");
        write.open_table(table).unwrap().insert("version", version).unwrap();
        write.commit().unwrap();
        drop(database);
        open(&path).map(drop)
    };
    let error = version(3).unwrap_err();
    assert!(matches!(error, CatalogError::Newer { found: 3, known: 2, .. }), "{error}");
    assert!(error.to_string().contains("version 3"), "{error}");
    let error = version(1).unwrap_err();
    assert!(matches!(error, CatalogError::Older { found: 1 }), "{error}");
    let error = version(0).unwrap_err();
    assert!(matches!(error, CatalogError::Damaged { .. }), "{error}");
    version(2).unwrap();
}

/// A change whose rows cannot be made durable changes nothing in memory.
#[test]
fn a_change_that_is_refused_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let catalog = open(&dir.path().join("catalog.redb")).unwrap();
    create(&catalog, "a", 2);
    let before = format!("{:?}", catalog.model());
    for error in [
        change(&catalog, |model| model.create_stream("a", 1)).map(drop).unwrap_err(),
        change(&catalog, |model| model.create_stream("", 1)).map(drop).unwrap_err(),
        change(&catalog, |model| model.delete_stream(Identifier::Numeric(5)))
            .map(drop)
            .unwrap_err(),
    ] {
        assert!(!error.to_string().is_empty());
    }
    assert_eq!(format!("{:?}", catalog.model()), before);
}
