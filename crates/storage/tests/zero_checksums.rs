//! A checksum may be 0, as any other number: it never means that nothing was written.

mod common;
#[path = "../../format/tests/batches/zero_hash.rs"]
mod zero_hash;

use bytes::Bytes;
use common::*;
use corelog_format::checksum::xxh3;
use corelog_format::{BatchBuilder, BatchHeader, Message};
use corelog_io::sim::{Rng, Sim};
use corelog_storage::{Ack, Appended, From, LogConfig, SharedLimits};
use zero_hash::{SECRET_0, make_zero};

/// XXH3's secret from its byte 32 on, as two little-endian numbers.
const SECRET_32: [u64; 2] = [0x78e5_c0cc_4ee6_79cb, 0x2172_ffcc_7dd0_5a82];

/// What the batch checksum of a batch of `messages` empty messages covers.
fn covered(batch: &[u8], messages: usize) -> Vec<u8> {
    let mut covered = [&batch[..40], &batch[48..52]].concat();
    (0..messages).for_each(|i| covered.extend_from_slice(&batch[256 + 48 * i..][..8]));
    covered
}

fn reseal(batch: &mut [u8], messages: usize) {
    let sum = xxh3(&covered(batch, messages));
    batch[40..48].copy_from_slice(&sum.to_le_bytes());
}

/// A producer's batch of one message whose frame has the checksum 0, by its id.
fn frame_of_zero() -> Bytes {
    let mut builder = BatchBuilder::new();
    builder.push(Message::new(&[0; 24])).unwrap();
    let mut batch = builder.finish().unwrap();
    make_zero(&mut batch, 256 + 8, SECRET_0, |batch| xxh3(&batch[256 + 8..]));
    batch[256..264].fill(0);
    reseal(&mut batch, 1);
    batch.into()
}

#[test]
fn a_frame_whose_checksum_is_zero_is_stored_and_recovered() {
    for cache_bytes in [0, 1 << 20] {
        let sim = Sim::new(1);
        let limits = SharedLimits { cache_bytes, ..SharedLimits::default() };
        let mut model = Model::default();
        sim.run(async {
            let opened = open_limited(sim.platform(), LogConfig::default(), limits).await;
            let (log, _) = opened.unwrap();
            for (tag, ack) in [(0, Ack::Appended), (1, Ack::Written), (2, Ack::Durable)] {
                for bytes in [frame_of_zero(), batch(tag, &[0])] {
                    model.push(bytes.clone(), append_wait(&log, &bytes, ack).await);
                }
                model.check_all(&log, &mut Rng::new(tag)).await;
            }
        });
        sim.disk().process_kill(1);
        for round in 0..2 {
            sim.run(async {
                let opened = try_open(sim.platform(), LogConfig::default()).await;
                let (log, report) = opened.unwrap();
                assert_eq!((report.damage, report.cut_bytes), (Vec::new(), 0));
                model.check_all(&log, &mut Rng::new(round)).await;
                let bytes = frame_of_zero();
                model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Durable).await);
                log.close().await.unwrap();
            });
            let file = sim.disk().contents(log_file(0)).unwrap();
            assert_eq!(file_batches(&file).len(), model.batches.len());
        }
    }
}

/// Messages of the batches here: the checksum covers so many bytes of them that the two times,
/// which are free, stand in one place of the sum alone.
const MESSAGES: usize = 6;

/// A stored batch at `offset` whose batch checksum is 0, by its two times; as it was sent, too.
fn stored_of_zero(offset: u64, tag: u64) -> (Bytes, Bytes, Appended) {
    let sent = batch(tag, &[0; MESSAGES]);
    let mut stored = sent.to_vec();
    stored[..8].copy_from_slice(&u64::from(PARTITION).to_le_bytes());
    stored[8..16].copy_from_slice(&offset.to_le_bytes());
    make_zero(&mut stored, 16, SECRET_32, |batch| xxh3(&covered(batch, MESSAGES)));
    reseal(&mut stored, MESSAGES);
    assert_eq!(stored[40..48], [0; 8]);
    let header = BatchHeader::parse(&stored).unwrap();
    let BatchHeader { base_offset, base_timestamp, message_count, .. } = header;
    let mut sent = sent.to_vec();
    sent[24..32].copy_from_slice(&stored[24..32]);
    (stored.into(), sent.into(), Appended { base_offset, base_timestamp, message_count })
}

#[test]
fn a_batch_whose_checksum_is_zero_is_found_by_every_lookup() {
    // Its time is what the sum asks for: of some thousands the first one that has passed.
    let mut made = (0..).map(|tag| stored_of_zero(0, tag));
    let (stored, sent, appended) = made.find(|made| made.2.base_timestamp < 1 << 50).unwrap();
    let sim = Sim::new(2);
    sim.disk().put(log_file(0), &stored).unwrap();
    let mut model = Model { batches: vec![(sent, appended)] };
    for round in 0..3 {
        sim.run(async {
            let limits = SharedLimits { cache_bytes: 0, ..SharedLimits::default() };
            let opened = open_limited(sim.platform(), LogConfig::default(), limits).await;
            let (log, report) = opened.unwrap();
            assert_eq!(report.damage, []);
            for from in [From::First, From::Offset(3), From::Timestamp(appended.base_timestamp)] {
                let got = poll(&log, from, u32::MAX, 1).await.unwrap();
                assert_eq!(got.batches()[0].header().base_timestamp, appended.base_timestamp);
            }
            model.check_all(&log, &mut Rng::new(round)).await;
            let bytes = batch(90 + round, &[30]);
            model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Durable).await);
            if round == 1 {
                log.close().await.unwrap();
            }
        });
        sim.disk().process_kill(round);
        let file = sim.disk().contents(log_file(0)).unwrap();
        assert_eq!(file_batches(&file).len(), model.batches.len());
    }
}
