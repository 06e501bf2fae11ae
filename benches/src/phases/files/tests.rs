//! Segment files made by hand, on a real file system, and damaged.

use std::fs;

use corelog_format::admit;

use super::*;
use crate::content::{BatchId, Content, Outbox, Sizes};
use crate::interrupt::Interrupt;
use crate::live::Live;
use crate::place::Place;
use crate::place::tests::test_dir;

/// Two partitions of two segments each, written by two producers.
struct Specimen {
    place: Place,
    content: Content,
    sent: Sent,
}

impl Specimen {
    fn new(name: &str) -> Specimen {
        let place = test_dir(name);
        let sizes = Sizes { messages: 1..4, payload: 0..3000, headers: 1, entropy_percent: 80 };
        let content = Content::of(9, &sizes).unwrap();
        let mut specimen = Specimen { place, content, sent: Sent::nothing(2, 2) };
        for partition in 0..2 {
            let mut offset = 0;
            for _segment in 0..2 {
                let path = specimen.path(partition, offset);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                let mut bytes = Vec::new();
                for number in 0..600 {
                    let batch = specimen.next(partition, (number % 2) as u16, &mut offset);
                    bytes.extend(batch);
                }
                fs::write(path, bytes).unwrap();
            }
        }
        specimen
    }

    fn path(&self, partition: u32, first_offset: u64) -> PathBuf {
        let dir = self.place.round_dir(0).join(partition.to_string());
        dir.join(format!("{first_offset:020}.log"))
    }

    /// A producer's next batch as the log stores it.
    fn next(&mut self, partition: u32, producer: u16, offset: &mut u64) -> Vec<u8> {
        let sequence = self.sent.batches(partition)[usize::from(producer)];
        let id = BatchId { round: 0, producer, partition, sequence };
        let batch = Outbox::new(&self.content).batch(id);
        let header = admit(&batch).unwrap().stamp(u64::from(partition), *offset, 1 + *offset);
        *offset += u64::from(self.content.message_count(id));
        self.sent.add(producer, partition);
        [&header, &batch[BATCH_HEADER_LEN..]].concat()
    }

    fn check(&self, sent: Option<&Sent>, is_retained: bool) -> Result<Moved, RunError> {
        let (interrupt, live) = (Interrupt::default(), Live::default());
        let content = &self.content;
        let stage = Stage { content, round: 0, poll_bytes: 1, interrupt: &interrupt, live: &live };
        let dir = &self.place.round_dir(0);
        run(stage, Written { dir, partitions: 2, readers: 2, sent, producers: 2, is_retained })
    }

    fn mismatch(&self) -> Mismatch {
        match self.check(Some(&self.sent), false).unwrap_err() {
            RunError::Mismatch(mismatch) => mismatch,
            error => panic!("{error}"),
        }
    }
}

#[test]
fn files_as_they_were_written_pass() {
    let specimen = Specimen::new("files-good");
    let moved = specimen.check(Some(&specimen.sent), false).unwrap();
    let messages: u64 =
        (0..2).map(|partition| specimen.sent.end(partition, &specimen.content, 0)).sum();
    assert_eq!(moved.messages, messages);
    let dirs = (0..2)
        .flat_map(|one| fs::read_dir(specimen.place.round_dir(0).join(one.to_string())).unwrap());
    let bytes: u64 = dirs.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    // Several reads of a segment, the last one short.
    assert!(moved.bytes == bytes && bytes > 4 * BLOCK as u64, "{} of {bytes}", moved.bytes);
}

#[test]
fn a_flipped_byte_is_found_and_named_wherever_it_is() {
    let specimen = Specimen::new("files-flipped");
    let path = specimen.path(1, 0);
    let good = fs::read(&path).unwrap();
    for at in [0, 8, 40, 255, 256, 300, BLOCK - 1, BLOCK, BLOCK + 77, good.len() - 1] {
        let mut bytes = good.clone();
        bytes[at] ^= 0x20;
        fs::write(&path, &bytes).unwrap();
        let Mismatch { partition, file, .. } = specimen.mismatch();
        let file = file.unwrap();
        assert_eq!((partition, &file.path), (1, &path), "byte {at}");
        assert!(file.position <= at as u64, "byte {at}: {}", file.position);
        let said = specimen.mismatch().to_string();
        assert!(said.contains("(batch at byte"), "{said}");
    }
    fs::write(&path, &good).unwrap();
    specimen.check(Some(&specimen.sent), false).unwrap();
}

#[test]
fn a_cut_a_missing_and_a_repeated_segment_are_found() {
    let specimen = Specimen::new("files-cut");
    let first = specimen.path(0, 0);
    let good = fs::read(&first).unwrap();
    fs::write(&first, &good[..good.len() - 1]).unwrap();
    assert!(matches!(specimen.mismatch().what, What::Invalid { .. }), "{}", specimen.mismatch());
    fs::write(&first, &good[..good.len() / 2 + 100]).unwrap();
    specimen.mismatch();
    fs::remove_file(&first).unwrap();
    specimen.mismatch();
    // Where old segments are deleted, a log may begin anywhere.
    specimen.check(Some(&specimen.sent), true).unwrap();
    fs::write(&first, &good).unwrap();
    fs::write(specimen.path(0, 999_999), &good).unwrap();
    specimen.mismatch();
}

#[test]
fn fewer_batches_than_were_sent_are_missing() {
    let mut specimen = Specimen::new("files-missing");
    specimen.sent.add(1, 1);
    assert!(matches!(specimen.mismatch().what, What::Missing { .. }), "{}", specimen.mismatch());
    // Where nobody knows what was sent, what is there must be right.
    specimen.check(None, false).unwrap();
}
