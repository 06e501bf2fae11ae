//! What each change is, and what is refused.

use corelog_format::{HeaderValue, MessagesKey, OptionsBuilder, Partitioning};

use super::*;
use crate::topic::TopicConfig;

fn id(number: u32) -> Identifier<'static> {
    Identifier::Numeric(number)
}

fn name(name: &str) -> Identifier<'_> {
    Identifier::String(Name::new(name).unwrap())
}

fn options(partitions: u32) -> TopicOptions {
    TopicConfig { partitions, ..TopicConfig::default() }.into()
}

/// Plans and takes the rows in.
fn make<T>(model: &mut Model, plan: impl FnOnce(&Model) -> Planned<T>) -> (T, Plan) {
    let (answer, plan) = plan(model).unwrap();
    for row in &plan.rows {
        model.apply(row.clone()).unwrap();
    }
    (answer, plan)
}

/// Stream "s" with topic "t" of three partitions.
fn with_a_topic() -> Model {
    let mut model = Model::default();
    make(&mut model, |m| m.create_stream("s", 5));
    make(&mut model, |m| m.create_topic(name("s"), "t", &options(3), 6));
    model
}

fn refused<T: std::fmt::Debug>(planned: Planned<T>, words: &[&str]) {
    let text = planned.unwrap_err().to_string();
    assert!(words.iter().all(|word| text.contains(word)), "{text} should have {words:?}");
}

#[test]
fn ids_and_names_both_lead_there() {
    let mut model = with_a_topic();
    make(&mut model, |m| m.create_stream("0", 7));
    for stream in [id(0), name("s")] {
        for topic in [id(0), name("t")] {
            assert_eq!(model.partition(stream, topic, 2), Some(PartitionId::new(0, 0, 2)));
            assert_eq!(model.partition(stream, topic, 3), None);
        }
    }
    assert_eq!(model.stream_info(name("0")).unwrap().id, 1, "a name of digits is a name");
    assert_eq!(model.stream_infos().len(), 2);
    let info = model.topic_info(id(0), id(0)).unwrap();
    assert_eq!((&*info.name, info.created_us, info.partitions), ("t", 6, vec![6; 3]));
    assert_eq!(model.topic_info(id(1), id(0)), None);
    assert_eq!(model.topic_infos(id(2)), None);
}

#[test]
fn names_are_free_text_of_one_to_255_bytes_and_unique() {
    let mut model = with_a_topic();
    for good in ["../x", ".", "..", "a/b", "/abs", "C:x", "new\nline", "nul\0", "-rf", "LOCK", "S"]
    {
        make(&mut model, |m| m.create_stream(good, 1));
    }
    let (long, longer) = ("x".repeat(255), "x".repeat(256));
    make(&mut model, |m| m.create_stream(&long, 1));
    refused(model.create_stream(&longer, 1), &["256", "255"]);
    refused(model.create_stream("", 1), &["name"]);
    refused(model.create_stream("s", 1), &["stream 0", "\"s\"", "choose another"]);
    refused(model.rename_stream(id(1), "s"), &["stream 0"]);
    refused(model.create_topic(id(0), "t", &options(1), 1), &["topic 0", "\"t\""]);
    refused(model.create_group(id(0), id(0), &longer, 1), &["256"]);
    // The same name in another stream is another topic's.
    make(&mut model, |m| m.create_topic(id(1), "t", &options(1), 1));
    make(&mut model, |m| m.rename_stream(id(0), "s"));
    make(&mut model, |m| m.rename_stream(id(0), "free"));
    assert_eq!(model.find_stream(name("free")).unwrap().0, 0);
    assert!(model.find_stream(name("s")).is_none());
}

#[test]
fn what_is_not_there_is_named() {
    let model = with_a_topic();
    refused(model.delete_stream(name("x")), &["no stream \"x\""]);
    refused(model.delete_topic(id(0), id(7)), &["no topic 7"]);
    refused(model.purge_topic(id(9), id(0)), &["no stream 9"]);
    refused(model.delete_group(id(0), id(0), name("g")), &["no consumer group \"g\""]);
}

#[test]
fn partitions_come_behind_and_go_from_the_end() {
    let mut model = with_a_topic();
    let (_, added) = make(&mut model, |m| m.add_partitions(id(0), id(0), 2, 9));
    let numbers: Vec<_> = added.begun.iter().map(|entry| entry.id.partition).collect();
    assert_eq!((numbers, added.ended), (vec![3, 4], vec![]));
    let (_, removed) = make(&mut model, |m| m.remove_partitions(id(0), id(0), 4));
    let numbers: Vec<_> = removed.ended.iter().map(|ended| ended.id.partition).collect();
    assert_eq!((numbers, removed.begun), (vec![1, 2, 3, 4], vec![]));
    assert_eq!(model.entries().len(), 1);
    refused(model.remove_partitions(id(0), id(0), 2), &["2 partitions cannot go", "there are 1"]);
    for count in [0, 1_001] {
        refused(model.add_partitions(id(0), id(0), count, 1), &["1 to 1000"]);
        refused(model.remove_partitions(id(0), id(0), count), &["1 to 1000"]);
    }
    refused(model.create_topic(id(0), "u", &options(1_001), 1), &["1001", "0 to 1000"]);
    let (_, empty) = make(&mut model, |m| m.create_topic(id(0), "none", &options(0), 1));
    assert!(empty.begun.is_empty());
}

/// A topic's size is shared by its partitions, but none keeps less than a segment and a batch.
#[test]
fn each_partition_has_its_part_of_the_topics_size() {
    let mut model = Model::default();
    make(&mut model, |m| m.create_stream("s", 5));
    let config =
        TopicConfig { partitions: 2, max_topic_size: Some(8 << 30), ..TopicConfig::default() };
    make(&mut model, |m| m.create_topic(id(0), "t", &config.clone().into(), 6));
    let parts = |plan: &Plan| -> Vec<_> {
        plan.follows.iter().map(|(_, follow)| follow.retention.sealed_bytes.unwrap()).collect()
    };
    let entries = model.entries();
    assert!(entries.iter().all(|entry| entry.follow.retention.sealed_bytes == Some(4 << 30)));
    let (_, more) = make(&mut model, |m| m.add_partitions(id(0), id(0), 2, 1));
    assert_eq!(parts(&more), [2 << 30; 4]);
    let (_, many) = make(&mut model, |m| m.add_partitions(id(0), id(0), 996, 1));
    assert!(parts(&many).iter().all(|part| *part > 1 << 30), "at least a segment");
    let (_, fewer) = make(&mut model, |m| m.remove_partitions(id(0), id(0), 999));
    assert_eq!(parts(&fewer), [8 << 30]);
}

/// Keys and hashes of iggy-behaviour, section 5 and its vectors.
#[test]
fn batches_go_to_the_named_the_hashed_or_the_next_partition() {
    let model = with_a_topic();
    let route = |partitioning: &Partitioning<'_>| {
        model.route(id(0), name("t"), partitioning).map(|found| found.partition)
    };
    let key = |key: &'static [u8]| Partitioning::MessagesKey(MessagesKey::new(key).unwrap());
    assert_eq!(route(&key(b"key1")), Some(133_378_825 % 3));
    assert_eq!(route(&key(b"a")), Some(1_426_945_110 % 3));
    assert_eq!([0, 2, 3].map(|id| route(&Partitioning::PartitionId(id))), [Some(0), Some(2), None]);
    let round: Vec<_> = (0..7).map(|_| route(&Partitioning::Balanced).unwrap()).collect();
    assert_eq!(round, [0, 1, 2, 0, 1, 2, 0]);
    assert_eq!(model.route(id(0), id(5), &Partitioning::Balanced), None);
    let mut model = with_a_topic();
    make(&mut model, |m| m.create_topic(id(0), "none", &options(0), 1));
    for partitioning in [Partitioning::Balanced, key(b"a"), Partitioning::PartitionId(0)] {
        assert_eq!(model.route(id(0), name("none"), &partitioning), None);
    }
}

#[test]
fn a_topic_has_at_most_a_million_partitions() {
    let mut model = with_a_topic();
    let record =
        model.streams.get(0).unwrap().topics.get(0).unwrap().record.with_partitions(999_999);
    model.apply(Row::Topic { stream: 0, id: 0, record: Some(record) }).unwrap();
    refused(model.add_partitions(id(0), id(0), 2, 1), &["1000000 partitions of a topic"]);
}

#[test]
fn there_are_at_most_so_many_topics_and_streams() {
    let mut model = with_a_topic();
    for number in 1..TOPICS_MAX {
        make(&mut model, |m| m.create_topic(id(0), &number.to_string(), &options(0), 1));
    }
    refused(model.create_topic(id(0), "more", &options(0), 1), &["4096 topics of a stream"]);
    make(&mut model, |m| m.delete_topic(id(0), id(17)));
    let ((_, topic), _) = make(&mut model, |m| m.create_topic(id(0), "more", &options(0), 1));
    assert_eq!(topic, 17);
    for number in 1..STREAMS_MAX {
        let record = Some(StreamRecord { created_us: 1, name: number.to_string().into() });
        model.apply(Row::Stream { id: number, record }).unwrap();
    }
    refused(model.create_stream("more", 1), &["1048576 streams"]);
}

#[test]
fn a_purge_begins_new_lives_and_keeps_the_rest() {
    let mut model = with_a_topic();
    make(&mut model, |m| m.create_group(id(0), id(0), "g", 1));
    let before = model.entries();
    let (_, purge) = make(&mut model, |m| m.purge_stream(id(0)));
    assert_eq!(purge.ended.len(), 3);
    for (old, new) in before.iter().zip(&purge.begun) {
        assert!(new.incarnation > before[2].incarnation && new.id == old.id);
    }
    assert_eq!(model.entries(), purge.begun);
    assert_eq!(model.group_infos(id(0), id(0)).unwrap().len(), 1);
    let created = model.topic_info(id(0), id(0)).unwrap().partitions;
    assert_eq!(created, [6; 3]);
}

#[test]
fn a_groups_id_is_never_used_again() {
    let mut model = with_a_topic();
    for number in 0..3 {
        let (made, _) = make(&mut model, |m| m.create_group(id(0), id(0), "g", 1));
        assert_eq!(made, (0, 0, number));
        let (_, gone) = make(&mut model, |m| m.delete_group(id(0), id(0), name("g")));
        assert_eq!(gone.follows.len(), 3, "all partitions forget what was stored for it");
        assert!(gone.follows.iter().all(|(_, follow)| follow.groups.is_empty()));
    }
    make(&mut model, |m| m.create_group(id(0), id(0), "g", 1));
    refused(model.create_group(id(0), id(0), "g", 1), &["consumer group 3"]);
    let (_, gone) = make(&mut model, |m| m.delete_topic(id(0), id(0)));
    assert!(gone.rows.iter().any(|row| matches!(row, Row::Group { id: 3, record: None, .. })));
}

#[test]
fn an_update_is_a_patch() {
    let mut model = with_a_topic();
    make(&mut model, |m| m.create_topic(id(0), "other", &options(1), 6));
    let mut patch = OptionsBuilder::new();
    patch.push("message_expiry", HeaderValue::Uint64(5)).unwrap();
    make(&mut model, |m| m.update_topic(id(0), id(0), "renamed", &patch.block()));
    let info = model.topic_info(id(0), name("renamed")).unwrap();
    let (_, again) = model.update_topic(id(0), id(0), "renamed", &patch.block()).unwrap();
    assert_eq!(again.follows.len(), 3);
    for (_, follow) in again.follows {
        assert_eq!(follow.retention.expiry.unwrap().as_micros(), 5);
    }
    assert_eq!(info.options.config().message_expiry.unwrap().as_micros(), 5);
    let nothing = OptionsBuilder::new();
    make(&mut model, |m| m.update_topic(id(0), id(0), "renamed", &nothing.block()));
    assert_eq!(model.topic_info(id(0), id(0)).unwrap(), info);
    refused(model.update_topic(id(0), id(0), "other", &nothing.block()), &["topic 1"]);
    let mut fixed = OptionsBuilder::new();
    fixed.push("enforce_fsync", HeaderValue::Bool(true)).unwrap();
    refused(model.update_topic(id(0), id(0), "t", &fixed.block()), &["enforce_fsync", "fixed"]);
}

/// Each of these rows fits into no catalog.
#[test]
fn rows_that_no_catalog_has_are_refused() {
    let stream = |name: &str| StreamRecord { created_us: 1, name: name.into() };
    let partition = Some(PartitionRecord { incarnation: 1, created_us: 1 });
    let at = |stream, topic, partition| PartitionId::new(stream, topic, partition);
    for row in [
        Row::Stream { id: 1, record: Some(stream("s")) },
        Row::Stream { id: 1, record: None },
        Row::Topic { stream: 1, id: 0, record: None },
        Row::Topic { stream: 0, id: 1, record: None },
        Row::Partition { id: at(0, 1, 0), record: partition },
        Row::Partition { id: at(0, 0, 4), record: partition },
        Row::Partition { id: at(0, 0, 1), record: None },
        Row::Group { stream: 0, topic: 0, id: 0, record: None },
    ] {
        let error = with_a_topic().apply(row.clone()).unwrap_err();
        assert!(!error.is_empty(), "{row:?}");
    }
    // A topic says how many partitions it has.
    let topic = with_a_topic().streams.get(0).unwrap().topics.get(0).unwrap().record.clone();
    let rows = [
        Row::Stream { id: 0, record: Some(stream("s")) },
        Row::Topic { stream: 0, id: 0, record: Some(topic) },
    ];
    let error = Model::load(rows, Arc::default()).unwrap_err();
    assert!(error.contains("0 of 3 partitions"), "{error}");
}
