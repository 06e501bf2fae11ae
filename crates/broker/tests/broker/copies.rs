//! How often the bytes of a message are copied between its producer's socket and the device, and
//! between the log and its consumer's socket, by this process: the kernel's copies between sockets
//! and the process are not among them. Client and broker are one process here; what the client
//! copies, it copies before or behind what is counted.

#[path = "../../../../benches/tests/copies/interpose.rs"]
mod interpose;

use corelog::machine::Runtime;
use corelog::{BatchBuilder, Message};

use crate::client::{Client, join};
use crate::messages::{self, From, ME};
use crate::running::Running;

/// How far a path may be off what is due: the first bytes of a batch may come with its header, and
/// a block that is written again is copied again.
const SLACK: f64 = 0.2;

/// What is sent: messages of 1,000 bytes a batch, batches, and the copies that are due. How often a
/// lone message's block is written again depends on the disk.
const SHAPES: [(u32, usize, Option<f64>); 3] =
    [(1000, 24, Some(1.0)), (100, 100, Some(1.0)), (1, 300, None)];

// One test, as what is counted is the process's.
#[test]
fn a_message_is_copied_once_from_a_socket_to_the_device_and_never_to_a_socket() {
    interpose::check();
    for runtime in [Runtime::Glommio, Runtime::Ring] {
        for (messages, batches, due) in SHAPES {
            let broker = Running::start_with(move |config| config.runtime = Some(runtime));
            let mut client = broker.log_in();
            // Two shards: some are the connection's own, the others are sent on.
            messages::create(&mut client, 4, &[]);
            let what = format!("{messages} a batch on {runtime}");
            let (bytes, copied) = sent(&mut client, messages, batches);
            let copies = copied as f64 / bytes as f64;
            println!("{what}: {copies:.3} copies in");
            if let Some(due) = due {
                assert!((copies - due).abs() < SLACK, "{what}: {copies:.3} copies of a byte");
            }
            let (polled, copied) = polled(&mut client, messages);
            assert!(polled * 10 > bytes * 9, "{what}: {polled} of {bytes} bytes were polled");
            assert_eq!(copied, 0, "{what}: copied on the way out");
        }
    }
}

/// Sends to all partitions in turn, and has all of it written: bytes of messages, and those copied.
fn sent(client: &mut Client, messages: u32, batches: usize) -> (u64, u64) {
    let payload = vec![interpose::PAYLOAD; 1000];
    let mut batch = BatchBuilder::new();
    for _ in 0..messages {
        batch.push(Message::new(&payload)).unwrap();
    }
    let batch = batch.finish().unwrap().to_vec();
    let frame = |to: usize| {
        let body = messages::send_body(&messages::to(to as u32 % 4), messages, &batch);
        client.frame(160, 0, &body)
    };
    let frames: Vec<_> = (0..batches).map(frame).collect();
    let flush = |partition: u32| {
        client.frame(2, 102, &join([&messages::topic(), &partition.to_le_bytes(), &[0]]))
    };
    let flushes: Vec<_> = (0..4).map(flush).collect();
    let ((), copied) = interpose::copied(|| {
        for frame in frames.iter().chain(&flushes) {
            client.send_raw(frame);
            assert_eq!(client.receive().status(), 0);
        }
    });
    (batch.len() as u64 * batches as u64, copied)
}

/// Polls all of it: bytes that came, and those copied.
fn polled(client: &mut Client, messages: u32) -> (u64, u64) {
    interpose::copied(|| {
        let mut bytes = 0;
        for partition in 0..4 {
            let mut offset = 0;
            loop {
                let from = From::Offset(offset);
                let poll = messages::poll_body(&ME, Some(partition), from, messages, false);
                let reply = client.question(100, &poll);
                assert_eq!(reply.status(), 0);
                if reply.body.len() <= 16 {
                    break;
                }
                bytes += reply.body.len() as u64;
                offset += u64::from(messages);
            }
        }
        bytes
    })
}
