//! Every log is given the same bytes and gives them back; what differs is seen.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::json;

use crate::logs::{self, Kind};
use crate::table::{self, Row};
use crate::work::{Checker, Class, RECORD_BYTES, Work, fill};

const WORK: Work = Work { producers: 2, batches: 3, records: 4 };

/// An empty directory on the build's disk.
fn dir(name: &str) -> PathBuf {
    let binary = std::env::current_exe().unwrap();
    let target = binary.ancestors().nth(3).expect("target/PROFILE/deps/BINARY");
    let path = target.join("tmp/peers").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn record(producer: u32, number: u64) -> Vec<u8> {
    let mut record = vec![0; RECORD_BYTES];
    fill(&mut record, producer, number);
    record
}

/// Appends all of it, producer after producer.
fn append(kind: Kind, class: Class, work: Work, dir: &Path) {
    let log = logs::open(kind, class, work, dir).unwrap();
    for producer in 0..work.producers {
        for batch in 0..work.batches {
            let first = batch * work.records;
            let records: Vec<_> =
                (first..first + work.records).map(|n| record(producer, n)).collect();
            let slices: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
            log.append(producer, first, &slices).unwrap();
        }
    }
    log.sync().unwrap();
    log.close().unwrap();
}

/// walrus reads its directory from the environment, so it is held to this by the run itself.
fn kinds() -> impl Iterator<Item = Kind> {
    Kind::value_variants().iter().copied().filter(|kind| *kind != Kind::Walrus)
}

#[test]
fn every_log_gives_back_what_everyone_was_given() {
    for kind in kinds() {
        for class in Class::value_variants().iter().copied().filter(|class| kind.offers(*class)) {
            let dir = dir(&format!("{kind:?}-{class}"));
            append(kind, class, WORK, &dir);
            let compared = logs::read(kind, class, WORK, &dir, Checker::new(WORK)).unwrap();
            assert_eq!(compared, Some(2 * 3 * 4 * RECORD_BYTES as u64), "{kind:?} {class}");
            fs::remove_dir_all(dir).unwrap();
        }
    }
}

#[test]
fn a_log_that_lacks_a_batch_is_no_equal() {
    let less = Work { batches: WORK.batches - 1, ..WORK };
    for kind in kinds().filter(|kind| kind.offers(Class::Durable)) {
        let dir = dir(&format!("less-{kind:?}"));
        append(kind, Class::Durable, less, &dir);
        let read = logs::read(kind, Class::Durable, WORK, &dir, Checker::new(WORK));
        assert!(read.is_err(), "{kind:?}: {read:?}");
        fs::remove_dir_all(dir).unwrap();
    }
}

#[test]
fn the_checker_names_what_differs() {
    let after = |records: &[Vec<u8>]| {
        let mut checker = Checker::new(Work { producers: 2, batches: 1, records: 2 });
        let fed = records.iter().try_for_each(|record| checker.feed(record));
        fed.and_then(|()| checker.end()).map_err(|error| error.to_string())
    };
    let all = [record(0, 0), record(1, 0), record(0, 1), record(1, 1)];
    assert_eq!(after(&all), Ok(4 * RECORD_BYTES as u64));
    let mut flipped = all.clone();
    flipped[2][RECORD_BYTES - 1] ^= 1;
    assert_eq!(after(&flipped), Err("record 1 of producer 0 differs".to_owned()));
    assert!(after(&all[..3]).unwrap_err().contains("1 of 2 records of producer 1"));
    let swapped = [all[2].clone(), all[0].clone()];
    assert!(after(&swapped).unwrap_err().contains("record 1 came back instead of 0"));
    assert!(after(&[record(2, 0)]).unwrap_err().contains("producer 2, who is none"));
    assert!(after(&[vec![0; 3]]).unwrap_err().contains("3 bytes"));
    let mut longer = record(0, 0);
    longer.push(0);
    assert!(after(&[longer]).unwrap_err().contains("differs"));
}

#[test]
fn no_two_records_are_alike() {
    assert_ne!(record(0, 1)[16..], record(1, 0)[16..]);
    assert_eq!(record(3, 7), record(3, 7));
    let zeros = record(0, 0).iter().filter(|byte| **byte == 0).count();
    assert!(zeros < 40, "{zeros} zeros");
}

#[test]
fn a_table_is_medians_and_says_where_bytes_were_not_equal() {
    let work = Class::Durable.work(1000);
    let mut row = Row::new(Kind::WalDb);
    for (mb_per_s, compared) in [(10.0, 1), (1234.0, 1), (11.0, 1)] {
        row.add(json!({"mb_per_s": mb_per_s, "compared_bytes": compared,
                       "mb_per_s_until_durable": null}));
    }
    let other = table::markdown(Class::Durable, work, &[row]);
    assert!(other.contains("| wal-db 1.1.0 | 11.0 | - |"), "{other}");
    assert!(other.contains("NOT equal"), "{other}");
    let mut row = Row::new(Kind::WalDb);
    row.add(json!({"compared_bytes": work.payload_bytes()}));
    assert!(!table::markdown(Class::Durable, work, &[row]).contains("NOT"));
    let mut row = Row::new(Kind::WalDb);
    row.add(json!({"compared_bytes": work.payload_bytes()}));
    row.add(json!({"compared_bytes": null}));
    assert!(table::markdown(Class::Durable, work, &[row]).contains("NOT"));
}

#[test]
fn classes_give_all_logs_the_same() {
    for class in Class::value_variants() {
        let work = class.work(1000);
        assert_eq!(work, class.work(1000));
        assert!(work.timed_bytes() < work.payload_bytes() && work.timed_bytes() > 0);
        assert_eq!(class.work(1).batches, 2);
        let logs = Kind::value_variants().iter().filter(|kind| kind.offers(*class)).count();
        assert!(logs >= 4, "{class}: {logs}");
    }
}
