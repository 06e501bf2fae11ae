//! What a search behind damage may cost: neither zeros nor hostile payloads make an open endless.

mod common;

use bytes::Bytes;
use common::*;
use corelog_format::{BatchBuilder, BatchHeader, Message};
use corelog_io::IoOp;
use corelog_io::sim::Sim;
use corelog_storage::{Ack, From, LogConfig, Place, Shared, SharedLimits};

fn carrying(payload: &[u8]) -> Bytes {
    let mut builder = BatchBuilder::new();
    builder.push(Message::new(payload).id(1)).unwrap();
    builder.finish().unwrap().into()
}

#[test]
fn headers_in_a_payload_do_not_make_the_search_quadratic() {
    // Each looks like the head of a batch of this partition that reaches almost to the end.
    const PAYLOAD: usize = 2 << 20;
    let mut payload = vec![0; PAYLOAD];
    for at in (0..PAYLOAD - (64 << 10)).step_by(256) {
        let header = BatchHeader {
            partition_id: u64::from(PARTITION),
            base_offset: 1,
            base_timestamp: 1,
            origin_timestamp: 1,
            batch_length: (PAYLOAD - at) as u64 - 4096,
            batch_checksum: 1,
            message_count: 1,
        };
        payload[at..at + 256].copy_from_slice(&header.encode());
    }
    let sim = Sim::new(1);
    sim.run(async {
        let log = open(sim.platform(), LogConfig::default()).await;
        append_wait(&log, &batch(1, &[10]), Ack::Written).await;
        append_wait(&log, &carrying(&payload), Ack::Written).await;
        log.close().await.unwrap();
    });
    let at = 256 + 48 + 10;
    sim.disk().flip_bit(log_file(0), at + 17, 0).unwrap();
    let before = sim.disk().bytes(IoOp::Read);
    sim.run(async {
        let (log, report) = try_open(sim.platform(), LogConfig::default()).await.unwrap();
        assert_eq!(report.damage.len(), 1);
        let appended = append_wait(&log, &batch(2, &[10]), Ack::Durable).await;
        let reach = 2 + (PAYLOAD as u64 + 304) / 48;
        assert!((2..=reach).contains(&appended.base_offset), "{}", appended.base_offset);
        assert_eq!(poll(&log, From::First, 9, 1 << 20).await.unwrap().messages, 1);
    });
    let read = sim.disk().bytes(IoOp::Read) - before;
    assert!(read < 100 << 20, "{} MiB read of a file of 2 MiB", read >> 20);
}

#[test]
fn whole_batches_of_partition_0_are_found_at_every_distance_behind_zeros() {
    // Zeros are passed over in steps, and with offset 0 and time 0 the header's first 32 bytes are
    // zeros, too.
    let mut builder = BatchBuilder::new();
    builder.push(Message::new(b"").origin_timestamp(0)).unwrap();
    let stored = as_stored(&builder.finish().unwrap(), 0, 0, 0);
    assert_eq!(stored[..32], [0; 32]);
    for gap in (0..600).chain([4095, 4096, 70_000]) {
        let file = [&[1][..], &vec![0; gap], &stored].concat();
        let sim = Sim::new(gap as u64);
        sim.disk().put(log_file(0), &file).unwrap();
        sim.run(async {
            let place = Place { partition_id: 0, ..place() };
            let shared = Shared::new(sim.platform().clone(), SharedLimits::default());
            let (log, report) = Log::open(shared, place, LogConfig::default()).await.unwrap();
            assert_eq!(report.damage.len(), 1, "gap {gap}");
            assert_eq!(log.watermarks().appended(), 1, "gap {gap}: behind what verifies");
        });
    }
}
