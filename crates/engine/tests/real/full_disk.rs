//! Disks without space, and writes that are refused: the answers, and the way back.

use std::fs;

use corelog::error::{AppendError, ControlError, ReopenError, storage};
use corelog::{Ack, Client, TopicConfig};

use crate::small_disk::{self, fill};
use crate::support::{
    P, Sent, assert_same, batch, fresh_dir, partition_dir, poll_all, reopened, with_topic,
};

fn append(client: &Client, tag: u64, ack: Ack) -> Result<Sent, AppendError> {
    let bytes = batch(tag, 1, 60_000);
    let appended = client.append_blocking(P, bytes.clone(), ack)?;
    Ok(Sent { bytes, appended })
}

/// Appends until it is refused, and gives the refusal.
fn append_until_refused(client: &Client, sent: &mut Vec<Sent>, ack: Ack) -> storage::AppendError {
    for tag in sent.len() as u64..10_000 {
        match append(client, tag, ack) {
            Ok(one) => sent.push(one),
            Err(AppendError::Storage(error)) => return error,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the disk has no end")
}

/// The disk fills up while segments are begun and grown, for both ways to be durable.
#[test]
fn a_full_disk_refuses_and_takes_appends_again_without_reopening() {
    for enforce_fsync in [false, true] {
        let dir = fresh_dir(&format!("full_disk_{enforce_fsync}"));
        let (disk, _mounted) = small_disk::ext4(&dir, 24);
        let (data, filler) = (disk.join("data"), disk.join("filler"));
        let config = TopicConfig {
            segment_bytes: 1 << 20,
            enforce_fsync,
            preallocate_segments: enforce_fsync,
            ..TopicConfig::default()
        };
        let (engine, client) = with_topic(&data, 1, config);
        let mut sent = Vec::new();
        for tag in 0..10 {
            sent.push(append(&client, tag, Ack::Written).expect("there is room"));
        }
        fill(&filler);
        for _ in 0..2 {
            let refused = append_until_refused(&client, &mut sent, Ack::Written);
            assert!(matches!(refused, storage::AppendError::StorageFull(_)), "{refused}");
            assert!(refused.to_string().contains("streams"), "it says where: {refused}");
            assert_same(P, &sent, &poll_all(&client, P, 0, 1 << 20));
        }
        fs::remove_file(&filler).expect("it is there");
        for tag in 1_000..1_060 {
            sent.push(append(&client, tag, Ack::Durable).expect("space is back"));
        }
        assert_same(P, &sent, &poll_all(&client, P, 0, 1 << 20));
        engine.close_blocking().expect("nothing is wrong");
        let (engine, client) = reopened(&data, 1);
        assert_same(P, &sent, &poll_all(&client, P, 0, 1 << 20));
        engine.close_blocking().expect("nothing is wrong");
    }
}

/// The kernel refuses writes to the active segment, whose space is reserved: nothing may fail there
/// any more.
#[test]
fn a_write_that_fails_poisons_and_the_partition_is_reopened_in_place() {
    for enforce_fsync in [false, true] {
        let dir = fresh_dir(&format!("refused_writes_{enforce_fsync}"));
        let (disk, _mounted) = small_disk::ext4(&dir, 24);
        let data = disk.join("data");
        let config = TopicConfig { enforce_fsync, ..TopicConfig::default() };
        let (engine, client) = with_topic(&data, 1, config);
        let mut sent = Vec::new();
        for tag in 0..20 {
            let ack = if tag % 2 == 0 { Ack::Written } else { Ack::Durable };
            sent.push(append(&client, tag, ack).expect("there is room"));
        }
        let healthy = client.reopen_partition_blocking(P);
        assert!(
            matches!(healthy, Err(ReopenError::Partition(ControlError::NotPoisoned(_)))),
            "{healthy:?}"
        );
        let log = partition_dir(&data, P).join("00000000000000000000.log");
        small_disk::refuse_writes(&log, true);
        let refused = append_until_refused(&client, &mut sent, Ack::Written);
        let storage::AppendError::Poisoned(fault) = &refused else { panic!("{refused}") };
        assert!(fault.to_string().contains(log.to_str().expect("UTF-8")), "{fault}");
        assert_eq!(sent.len(), 20);
        assert_same(P, &sent, &poll_all(&client, P, 0, 1 << 20));
        assert!(append(&client, 99, Ack::Appended).is_err());
        let still = client.reopen_partition_blocking(P);
        assert!(still.is_err(), "it cannot be recovered while writes are refused");
        small_disk::refuse_writes(&log, false);

        let report = client.reopen_partition_blocking(P).expect("writes work again");
        assert_eq!(report.damage, []);
        assert_same(P, &sent, &poll_all(&client, P, 0, 1 << 20));
        sent.push(append(&client, 1_000, Ack::Durable).expect("it takes appends"));
        assert_same(P, &sent, &poll_all(&client, P, 0, 1 << 20));
        engine.close_blocking().expect("nothing is wrong any more");
        let (engine, client) = reopened(&data, 1);
        assert_same(P, &sent, &poll_all(&client, P, 0, 1 << 20));
        engine.close_blocking().expect("nothing is wrong");
    }
}
