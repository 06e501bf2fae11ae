//! Between catalog and directories, on real files: a crash behind each step of each change. What it
//! leaves is put together from the directory before the change and the one after it: the catalog of
//! the later one, and of the partitions' directories as many steps as were taken.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use corelog::error::ChangeError;
use corelog::{Ack, Client, PartitionId, Poll, TopicConfig};
use corelog_format::Manifest;

use crate::support::{batch, batches, builder, fresh_dir, reopened, small_segments};

type Change = fn(&Client) -> Result<(), ChangeError>;

/// Each kind of change that ends or begins partitions, of what `begin` makes.
const CHANGES: [(&str, Change); 8] = [
    ("create a topic", |c| c.catalog().create_topic(0, "new", topic(3)).wait().map(drop)),
    ("delete a topic", |c| c.catalog().delete_topic(0, "x").wait()),
    ("purge a topic", |c| c.catalog().purge_topic(0, "x").wait()),
    ("add partitions", |c| c.catalog().add_partitions(0, "x", 2).wait().map(drop)),
    ("remove partitions", |c| c.catalog().remove_partitions(0, "x", 2).wait().map(drop)),
    ("delete a stream", |c| c.catalog().delete_stream("s").wait()),
    ("purge a stream", |c| c.catalog().purge_stream("s").wait()),
    ("delete and create again", |c| {
        c.catalog().delete_topic(0, "x").wait()?;
        c.catalog().create_topic(0, "z", topic(2)).wait().map(drop)
    }),
];

fn topic(partitions: u32) -> TopicConfig {
    TopicConfig { partitions, ..small_segments() }
}

/// Two streams; the first has two topics of three and of one partition. Each partition has messages.
fn begin(data: &Path) {
    let engine = builder(data, 2).open().expect("a fresh directory opens");
    let client = engine.client();
    let catalog = client.catalog();
    for name in ["s", "other"] {
        catalog.create_stream(name).wait().expect("it is new");
    }
    for (stream, name, partitions) in [(0, "x", 3), (0, "y", 1), (1, "x", 1)] {
        catalog.create_topic(stream, name, topic(partitions)).wait().expect("it is new");
    }
    for id in ids(&client) {
        let tag = u64::from(id.stream * 100 + id.topic * 10 + id.partition) + 1;
        for number in 0..tag % 7 + 1 {
            let bytes = batch(tag * 1_000 + number, 1, 500);
            client.append_blocking(id, bytes, Ack::Durable).expect("it fits");
        }
    }
    engine.close_blocking().expect("nothing is wrong");
}

/// All partitions that the catalog has.
fn ids(client: &Client) -> Vec<PartitionId> {
    let catalog = client.catalog();
    let mut ids = Vec::new();
    for stream in catalog.streams() {
        for topic in catalog.topics(stream.id).expect("it is there") {
            let partitions = 0..topic.partitions.len() as u32;
            ids.extend(
                partitions.map(|partition| PartitionId::new(stream.id, topic.id, partition)),
            );
        }
    }
    ids
}

/// What is served, by partition.
fn served(client: &Client) -> BTreeMap<PartitionId, Vec<Vec<u8>>> {
    let all = |id| {
        let poll = Poll::first().max_bytes(1 << 20);
        batches(&client.poll_blocking(id, poll).unwrap_or_else(|error| panic!("{id}: {error}")))
    };
    ids(client).into_iter().map(|id| (id, all(id))).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the target is writable");
    for entry in fs::read_dir(from).expect("it is there") {
        let entry = entry.expect("it can be listed");
        let to = to.join(entry.file_name());
        if entry.file_type().expect("it has one").is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("it can be copied");
        }
    }
}

/// The partitions' directories below `data`, and the life that each manifest names.
fn lives(data: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    let mut todo = vec![data.join("streams")];
    while let Some(dir) = todo.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for entry in entries.map(|entry| entry.expect("it can be listed")) {
            if entry.file_type().expect("it has one").is_dir() {
                todo.push(entry.path());
            } else if entry.file_name() == "manifest" {
                let bytes = fs::read(entry.path()).expect("it is there");
                let (a, b) = bytes.split_at(bytes.len() / 2);
                let (manifest, _) = Manifest::pick(a, b).expect("ours").expect("it is stored");
                let place = dir.strip_prefix(data).expect("it is below").to_owned();
                found.insert(place, manifest.incarnation);
            }
        }
    }
    found
}

/// What one step of a change does to the directories.
enum Step {
    MoveAway(PathBuf, u64),
    Make(PathBuf),
}

fn take(step: &Step, data: &Path, after: &Path) {
    match step {
        Step::MoveAway(place, life) => {
            let numbers: Vec<_> = place
                .iter()
                .filter_map(|part| part.to_str().and_then(|part| part.parse::<u32>().ok()))
                .map(|number| number.to_string())
                .collect();
            let trash = data.join("trash");
            fs::create_dir_all(&trash).expect("the target is writable");
            let to = trash.join(format!("{}-{life}", numbers.join("-")));
            fs::rename(data.join(place), to).expect("it is there");
        }
        Step::Make(place) => copy(&after.join(place), &data.join(place)),
    }
}

/// Waits until nothing is in the trash and no partition has a directory that it should not have.
fn cleared(data: &Path, wanted: &BTreeMap<PathBuf, u64>, what: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    let trash = data.join("trash");
    while fs::read_dir(&trash).is_ok_and(|mut entries| entries.next().is_some()) {
        assert!(Instant::now() < end, "{what}: the trash is never emptied");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(&lives(data), wanted, "{what}: directories and their lives");
}

#[test]
fn a_crash_behind_any_step_leaves_nothing_that_is_served_and_should_not_be() {
    let root = fresh_dir("protocol");
    let before = root.join("before");
    begin(&before);
    let mut crashes = 0;
    for (number, (what, change)) in CHANGES.iter().enumerate() {
        let after = root.join(format!("after_{number}"));
        copy(&before, &after);
        let (engine, client) = reopened(&after, 1);
        change(&client).unwrap_or_else(|error| panic!("{what}: {error}"));
        let wanted = served(&client);
        engine.close_blocking().expect("nothing is wrong");
        let (old, new) = (lives(&before), lives(&after));
        let ended = old.iter().filter(|(place, life)| new.get(*place) != Some(life));
        let begun = new.iter().filter(|(place, life)| old.get(*place) != Some(life));
        let moves = ended.map(|(place, life)| Step::MoveAway(place.clone(), *life));
        let steps: Vec<Step> =
            moves.chain(begun.map(|(place, _)| Step::Make(place.clone()))).collect();
        assert!(!steps.is_empty(), "{what}");
        for taken in 0..=steps.len() {
            let what = format!("{what}, {taken} of {} steps", steps.len());
            let data = root.join("crashed");
            let _ = fs::remove_dir_all(&data);
            copy(&before, &data);
            for file in ["catalog.redb", "clock"] {
                fs::copy(after.join(file), data.join(file)).expect("it is there");
            }
            steps[..taken].iter().for_each(|step| take(step, &data, &after));
            for opening in 0..2 {
                let engine = builder(&data, 1 + opening).open();
                let engine = engine.unwrap_or_else(|error| panic!("{what}: {error}"));
                let client = engine.client();
                assert_eq!(served(&client), wanted, "{what}");
                let gone = old.len().max(4) as u32 + 7;
                let orphan = PartitionId::new(0, 0, gone);
                assert!(client.poll_blocking(orphan, Poll::first()).is_err());
                cleared(&data, &new, &what);
                engine.close_blocking().expect("nothing is wrong");
            }
            crashes += 1;
        }
    }
    assert!(crashes > 25, "{crashes}");
}
