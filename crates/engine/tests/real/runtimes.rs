//! The two runtimes: one directory, by turns.

use corelog::machine::Runtime;
use corelog::{Ack, PartitionId, TopicConfig};

use crate::support::{Sent, assert_same, batch, builder, create_topic, fresh_dir, poll_all};

/// What one has written the other serves, byte for byte, appends to and closes, and the other way
/// round; and each says which it is.
#[test]
fn both_open_the_same_directory_one_after_the_other() {
    let dir = fresh_dir("both_runtimes");
    let ids: Vec<_> = (0..4).map(|partition| PartitionId::new(0, 0, partition)).collect();
    let mut sent: Vec<Vec<Sent>> = vec![Vec::new(); ids.len()];
    let turns = [Runtime::Glommio, Runtime::Ring, Runtime::Glommio, Runtime::Ring];
    for (turn, runtime) in (0..).zip(turns) {
        let engine = builder(&dir, 2).runtime(runtime).open().expect("whoever had it closed it");
        assert_eq!(engine.opened().runtime, runtime);
        assert!(engine.opened().not_clean.is_empty(), "{:?}", engine.opened());
        let client = engine.client();
        assert_eq!(client.stats_blocking().expect("it is open").runtime, runtime);
        if turn == 0 {
            // Segments are rolled by each of them.
            let config = TopicConfig {
                partitions: ids.len() as u32,
                segment_bytes: 1 << 20,
                ..TopicConfig::default()
            };
            create_topic(&client, config);
        }
        for (id, sent) in ids.iter().zip(&mut sent) {
            assert_same(*id, sent, &poll_all(&client, *id, 0, 300_000));
            for number in 0..30 {
                // From less than a block to many.
                let bytes =
                    batch(turn * 1_000 + number, 1 + number as u32 % 5, 100 << (number % 9));
                let ack = [Ack::Appended, Ack::Written, Ack::Durable][number as usize % 3];
                let appended = client.append_blocking(*id, bytes.clone(), ack).expect("it fits");
                sent.push(Sent { bytes, appended });
            }
            // Out of the tail's memory, and of files.
            assert_same(*id, sent, &poll_all(&client, *id, 0, 300_000));
        }
        engine.close_blocking().expect("nothing is wrong");
    }
}
