//! Streams and topics that come and go, with messages in them.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use corelog::error::{AppendError, ChangeError, PollError};
use corelog::stats::Scope;
use corelog::streams::Ident;
use corelog::{Ack, Client, PartitionId, Poll, TopicConfig};

use crate::support::{P, batch, builder, fresh_dir, names, poll_all, reopened, small_segments};

fn topic(partitions: u32) -> TopicConfig {
    TopicConfig { partitions, ..small_segments() }
}

/// Appends a batch whose payload says `tag`; answers its offset.
fn append(client: &Client, id: PartitionId, tag: u64) -> u64 {
    client.append_blocking(id, batch(tag, 1, 100), Ack::Written).expect("it fits").base_offset
}

fn served(client: &Client, id: PartitionId) -> usize {
    poll_all(client, id, 0, 1 << 20).len()
}

/// Waits until the trash is empty, as it must become.
fn emptied(dir: &Path) {
    emptied_but_for(dir, 0);
}

/// Waits until the trash has so many entries left, or fewer. Its thread stops when the engine closes.
fn emptied_but_for(dir: &Path, left: usize) {
    let end = Instant::now() + Duration::from_secs(60);
    let trash = dir.join("trash");
    while fs::read_dir(&trash).is_ok_and(|entries| entries.count() > left) {
        assert!(Instant::now() < end, "the trash is never emptied");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The figures of a broker's answers, topic by topic, as messages come and go.
#[test]
fn figures_are_those_of_what_is_there() {
    let dir = fresh_dir("catalog_figures");
    let engine = builder(&dir, 2).open().expect("a fresh directory opens");
    let client = engine.client();
    let catalog = client.catalog();
    catalog.create_stream("s").wait().expect("it is new");
    catalog.create_stream("empty").wait().expect("it is new");
    for name in ["t", "u"] {
        catalog.create_topic("s", name, topic(3)).wait().expect("it is new");
    }
    let (t, u) = (Scope::Topic { stream: 0, topic: 0 }, Scope::Topic { stream: 0, topic: 1 });
    let second = PartitionId { partition: 1, ..P };
    let bytes = batch(1, 3, 100_000);
    for _ in 0..5 {
        client.append_blocking(second, bytes.clone(), Ack::Written).expect("it fits");
    }
    let told = |scope| {
        let figures = client.figures_blocking(scope).expect("it is open").into_iter();
        let figures = figures.map(|(id, f)| (id, (f.segments, f.bytes, f.messages, f.last_offset)));
        figures.unzip::<_, _, Vec<_>, Vec<_>>()
    };
    let empty = (1, 0, 0, None);
    let full = (2, 5 * bytes.len() as u64, 15, Some(14));
    let ids = [0, 1, 2].map(|partition| PartitionId { partition, ..P });
    assert_eq!(told(t), (ids.to_vec(), vec![empty, full, empty]));
    assert_eq!(told(Scope::Partition(second)), (vec![second], vec![full]));
    assert_eq!(told(u).1, [empty; 3]);
    assert_eq!((told(Scope::Stream(0)).0.len(), told(Scope::All).0.len()), (6, 6));
    let nothing = [Scope::Stream(1), Scope::Partition(PartitionId { topic: 7, ..P })];
    assert!(nothing.iter().all(|scope| told(*scope).0.is_empty()));

    client.delete_segments(second, 1).wait().expect("it is sealed");
    let kept = (1, bytes.len() as u64, 3, Some(14));
    assert_eq!(told(t).1, [empty, kept, empty]);
    catalog.purge_topic("s", "t").wait().expect("it is there");
    assert_eq!(told(t).1, [empty; 3]);
    catalog.delete_topic("s", "t").wait().expect("it is there");
    assert_eq!(told(Scope::All).0.len(), 3);
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn a_deleted_topic_is_gone_at_once_and_its_successor_begins_empty() {
    let dir = fresh_dir("catalog_delete");
    let engine = builder(&dir, 2).open().expect("a fresh directory opens");
    let client = engine.client();
    let catalog = client.catalog();
    catalog.create_stream("s").wait().expect("it is new");
    catalog.create_topic("s", "t", topic(3)).wait().expect("it is new");
    for partition in 0..3 {
        for tag in 0..20 {
            append(&client, PartitionId { partition, ..P }, tag);
        }
    }
    catalog.delete_topic("s", "t").wait().expect("it is there");
    let error = client.append_blocking(P, batch(1, 1, 1), Ack::Written).unwrap_err();
    assert!(matches!(error, AppendError::UnknownPartition(_)), "{error}");
    let error = client.poll_blocking(P, Poll::first()).unwrap_err();
    assert!(matches!(error, PollError::UnknownPartition(_)), "{error}");
    emptied(&dir);
    assert!(!dir.join("streams/0/topics").exists(), "nothing of it is left");

    let made = catalog.create_topic("s", "another", topic(1)).wait().expect("it is new");
    assert_eq!(made, (0, 0), "the id is used again");
    assert_eq!(served(&client, P), 0);
    assert_eq!(append(&client, P, 7), 0);
    engine.close_blocking().expect("nothing is wrong");
    let (engine, client) = reopened(&dir, 1);
    assert_eq!(served(&client, P), 1);
    assert_eq!(client.catalog().topics("s").expect("it is there").len(), 1);
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn a_purge_empties_and_keeps_the_rest() {
    let dir = fresh_dir("catalog_purge");
    let engine = builder(&dir, 2).open().expect("a fresh directory opens");
    let client = engine.client();
    let catalog = client.catalog();
    catalog.create_stream("s").wait().expect("it is new");
    for name in ["a", "b"] {
        catalog.create_topic("s", name, topic(2)).wait().expect("it is new");
    }
    let (other, last) = (PartitionId::new(0, 1, 1), PartitionId::new(0, 0, 1));
    for tag in 0..5 {
        for id in [P, last, other] {
            append(&client, id, tag);
        }
    }
    // A reply that is out still has its bytes when what it came from is gone.
    let out = client.poll_blocking(P, Poll::first()).expect("it is there");
    catalog.purge_topic("s", "a").wait().expect("it is there");
    assert_eq!(crate::support::batches(&out).len(), 5);
    assert_eq!([P, last, other].map(|id| served(&client, id)), [0, 0, 5]);
    assert_eq!(append(&client, P, 9), 0, "offsets begin again");
    drop(out);
    emptied(&dir);
    engine.close_blocking().expect("nothing is wrong");
    let (engine, client) = reopened(&dir, 1);
    assert_eq!([P, last, other].map(|id| served(&client, id)), [1, 0, 5]);
    client.catalog().purge_stream("s").wait().expect("it is there");
    assert_eq!([P, last, other].map(|id| served(&client, id)), [0, 0, 0]);
    engine.close_blocking().expect("nothing is wrong");
}

#[test]
fn partitions_are_added_and_removed_at_the_end() {
    let dir = fresh_dir("catalog_partitions");
    let engine = builder(&dir, 2).open().expect("a fresh directory opens");
    let client = engine.client();
    let catalog = client.catalog();
    catalog.create_stream("s").wait().expect("it is new");
    catalog.create_topic("s", "t", topic(0)).wait().expect("a topic may begin without any");
    catalog.add_partitions("s", "t", 3).wait().expect("there is room");
    let id = |partition| PartitionId { partition, ..P };
    for partition in 0..3 {
        append(&client, id(partition), 1);
    }
    catalog.remove_partitions("s", "t", 2).wait().expect("there are three");
    assert_eq!((catalog.partition("s", "t", 0), catalog.partition("s", "t", 1)), (Some(P), None));
    let error = catalog.remove_partitions("s", "t", 2).wait().unwrap_err();
    assert!(matches!(error, ChangeError::TooFewPartitions { there: 1, .. }), "{error}");
    catalog.add_partitions("s", "t", 1).wait().expect("there is room");
    assert_eq!([0, 1].map(|partition| served(&client, id(partition))), [1, 0]);
    engine.close_blocking().expect("nothing is wrong");
    let (engine, client) = reopened(&dir, 3);
    assert_eq!([0, 1].map(|partition| served(&client, id(partition))), [1, 0]);
    engine.close_blocking().expect("nothing is wrong");
}

/// Names that lead elsewhere on some file system make nothing anywhere.
#[test]
fn names_never_become_paths() {
    let parent = fresh_dir("catalog_names");
    fs::create_dir_all(&parent).expect("the target is writable");
    let dir = parent.join("data");
    let engine = builder(&dir, 1).open().expect("a fresh directory opens");
    let catalog = engine.client().catalog();
    let strange = [
        ".",
        "..",
        "../x",
        "../../../x",
        "a/b",
        "a\\b",
        "/abs",
        "C:x",
        "nul\0l",
        "new\nline",
        "-rf",
        "LOCK",
        "catalog.redb",
        "trailing. ",
        "A",
        "a",
        "0",
        "🦀",
        "%2e%2e%2f",
    ];
    for name in strange {
        let stream = catalog.create_stream(name).wait().expect("any text is a name");
        catalog.create_topic(stream.id, name, topic(1)).wait().expect("any text is a name");
        catalog.create_group(name, name, name).wait().expect("any text is a name");
        assert_eq!(catalog.group(name, name, name).expect("it is there").stream, stream.id);
    }
    assert_eq!(catalog.streams().len(), strange.len());
    for name in ["", &"x".repeat(256)] {
        let error = catalog.create_stream(name).wait().unwrap_err();
        assert!(matches!(error, ChangeError::Name(_)), "{error}");
    }
    engine.close_blocking().expect("nothing is wrong");
    assert_eq!(names(&parent, ""), ["data"]);
    let numbers: Vec<_> = (0..strange.len()).map(|number| number.to_string()).collect();
    let mut found = names(&dir.join("streams"), "");
    found.sort_by_key(|name| name.parse::<u32>().expect("only ids are directories"));
    assert_eq!(found, numbers);
    let (engine, client) = reopened(&dir, 1);
    for (id, name) in (0..).zip(strange) {
        let found = client.catalog().stream(Ident::Id(id)).expect("it is there");
        assert_eq!(&*found.name, name);
    }
    engine.close_blocking().expect("nothing is wrong");
}

/// What a crash between the catalog and the directories leaves is cleared at the next opening; what
/// this catalog never made is left alone.
#[test]
fn leftovers_go_and_files_of_others_stay() {
    let dir = fresh_dir("catalog_leftovers");
    let engine = builder(&dir, 1).open().expect("a fresh directory opens");
    let client = engine.client();
    client.catalog().create_stream("s").wait().expect("it is new");
    client.catalog().create_topic("s", "t", topic(2)).wait().expect("it is new");
    append(&client, P, 1);
    engine.close_blocking().expect("nothing is wrong");
    let partitions = dir.join("streams/0/topics/0/partitions");
    let copy = |to: &str| {
        let to = partitions.join(to);
        fs::create_dir_all(&to).expect("the target is writable");
        for file in fs::read_dir(partitions.join("0")).expect("it is there") {
            let file = file.expect("it can be listed");
            fs::copy(file.path(), to.join(file.file_name())).expect("it can be copied");
        }
    };
    // As after a crash behind the commit of a deletion.
    copy("7");
    // Without a manifest it may be anybody's.
    copy("8");
    fs::remove_file(partitions.join("8/manifest")).expect("it is there");
    fs::create_dir_all(partitions.join("notes")).expect("the target is writable");

    let (engine, client) = reopened(&dir, 1);
    assert_eq!(engine.opened().partitions, 2);
    assert_eq!(served(&client, P), 1);
    emptied(&dir);
    assert_eq!(names(&partitions, ""), ["0", "1", "8", "notes"]);
    engine.close_blocking().expect("nothing is wrong");

    // Without its catalog nothing is taken for a leftover.
    fs::remove_file(dir.join("catalog.redb")).expect("it is there");
    let error = builder(&dir, 1).open().map(drop).expect_err("the data needs it");
    assert!(error.to_string().contains("catalog.redb"), "{error}");
    assert_eq!(names(&partitions, ""), ["0", "1", "8", "notes"]);
}

/// Data of an older engine lies where a topic is created: it is kept, in the trash.
#[test]
fn the_data_of_another_catalog_is_never_removed() {
    let (older, dir) = (fresh_dir("catalog_older"), fresh_dir("catalog_younger"));
    let create = |client: &Client| {
        client.catalog().create_stream("s").wait().expect("it is new");
        client.catalog().create_topic("s", "t", topic(1)).wait().expect("it is new");
    };
    let engine = builder(&older, 1).open().expect("a fresh directory opens");
    create(&engine.client());
    append(&engine.client(), P, 1);
    engine.close_blocking().expect("nothing is wrong");

    let engine = builder(&dir, 1).open().expect("a fresh directory opens");
    let client = engine.client();
    fs::rename(older.join("streams"), dir.join("streams")).expect("it is one file system");
    create(&client);
    assert_eq!(served(&client, P), 0);
    client.catalog().purge_topic("s", "t").wait().expect("it is there");
    engine.close_blocking().expect("nothing is wrong");
    let (engine, _) = reopened(&dir, 1);
    emptied_but_for(&dir, 1);
    engine.close_blocking().expect("nothing is wrong");
    let kept = names(&dir.join("trash"), "");
    assert_eq!(kept.len(), 1, "{kept:?}");
    let log = dir.join("trash").join(&kept[0]).join("00000000000000000000.log");
    assert!(fs::metadata(log).expect("it is there").len() > 0);
}
