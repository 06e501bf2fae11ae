//! The SDK as a load: producers and consumers in the shapes that the reference server is measured
//! with, against a broker process of its own, beside an echo of the same bytes over the same
//! loopback.
//!
//! Usage: `load [BYTES]`, with `CORELOG_BROKER` as `scripts/interop.sh` sets it. BYTES is what each
//! shape moves at most, 1 GB unless given; small batches end after ten seconds.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use corelog_interop::{Broker, cpu_seconds, id};
use hdrhistogram::Histogram;
use iggy::prelude::*;

/// Payload of a message, bytes.
const PAYLOAD: usize = 1000;
/// Longest that a shape goes on.
const LIMIT: Duration = Duration::from_secs(10);

/// What is measured: clients that send or poll batches of so many messages.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    clients: usize,
    batch: u32,
    polls: bool,
}

const SHAPES: [Shape; 6] = [
    Shape { name: "2 producers x 1,000", clients: 2, batch: 1000, polls: false },
    Shape { name: "2 consumers x 1,000", clients: 2, batch: 1000, polls: true },
    Shape { name: "8 producers x 1", clients: 8, batch: 1, polls: false },
    Shape { name: "8 producers x 10", clients: 8, batch: 10, polls: false },
    Shape { name: "8 producers x 100", clients: 8, batch: 100, polls: false },
    Shape { name: "8 producers x 1,000", clients: 8, batch: 1000, polls: false },
];

/// What came of a shape.
struct Outcome {
    messages: u64,
    seconds: f64,
    cpu_seconds: f64,
    latencies_us: Histogram<u64>,
}

#[tokio::main]
async fn main() {
    let bytes = std::env::args().nth(1).map_or(1_000_000_000, |bytes| bytes.parse().unwrap());
    println!("| shape | MB/s | messages/s | p50 us | p99 us | broker CPU s/GB | of an echo |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    // Consumers poll what the producers in front of them have sent.
    let mut broker = Broker::start();
    for shape in SHAPES {
        if !shape.polls {
            broker = Broker::start();
        }
        let outcome = run(&broker, shape, bytes).await;
        let echo = echo(shape, outcome.messages);
        let gigabytes = outcome.messages as f64 * PAYLOAD as f64 / 1e9;
        println!(
            "| {} | {:.0} | {:.0} | {} | {} | {:.2} | {:.0} % |",
            shape.name,
            gigabytes * 1e3 / outcome.seconds,
            outcome.messages as f64 / outcome.seconds,
            outcome.latencies_us.value_at_quantile(0.5),
            outcome.latencies_us.value_at_quantile(0.99),
            outcome.cpu_seconds / gigabytes,
            100.0 * echo / outcome.seconds,
        );
    }
}

async fn run(broker: &Broker, shape: Shape, bytes: u64) -> Outcome {
    let messages = bytes / PAYLOAD as u64 / shape.clients as u64;
    let mut clients = Vec::new();
    for number in 0..shape.clients {
        let client = broker.client().await;
        if !shape.polls {
            let stream = format!("stream-{number}");
            client.create_stream(&stream).await.unwrap();
            let options =
                TopicCreateOptions { partitions_count: Some(1), ..TopicCreateOptions::default() };
            client.create_topic(&id(&stream), "topic", &options).await.unwrap();
        }
        clients.push(client);
    }
    let before = cpu_seconds(broker.pid());
    let begin = Instant::now();
    let tasks: Vec<_> = clients
        .into_iter()
        .enumerate()
        .map(|(number, client)| tokio::spawn(one(client, number, shape, messages, begin)))
        .collect();
    let mut outcome = Outcome {
        messages: 0,
        seconds: 0.0,
        cpu_seconds: 0.0,
        latencies_us: Histogram::new(3).unwrap(),
    };
    for task in tasks {
        let (messages, latencies) = task.await.unwrap();
        outcome.messages += messages;
        outcome.latencies_us.add(latencies).unwrap();
    }
    outcome.seconds = begin.elapsed().as_secs_f64();
    outcome.cpu_seconds = cpu_seconds(broker.pid()) - before;
    outcome
}

/// One client's part: how many messages, and how long each request took.
async fn one(
    client: IggyClient,
    number: usize,
    shape: Shape,
    messages: u64,
    begin: Instant,
) -> (u64, Histogram<u64>) {
    let (stream, topic) = (id(&format!("stream-{number}")), id("topic"));
    let payload = bytes::Bytes::from(vec![b'x'; PAYLOAD]);
    let consumer = Consumer::new(id("me"));
    let mut batch: Vec<IggyMessage> = (0..shape.batch)
        .map(|_| IggyMessage::builder().payload(payload.clone()).build().unwrap())
        .collect();
    let mut latencies = Histogram::new(3).unwrap();
    let mut done = 0;
    while done < messages && begin.elapsed() < LIMIT {
        let asked = Instant::now();
        let moved = if shape.polls {
            let from = PollingStrategy::offset(done);
            let polled = client
                .poll_messages(&stream, &topic, Some(0), &consumer, &from, shape.batch, false)
                .await
                .unwrap();
            if polled.messages.is_empty() {
                break;
            }
            polled.messages.len() as u64
        } else {
            let to = Partitioning::partition_id(0);
            client.send_messages(&stream, &topic, &to, &mut batch).await.unwrap();
            u64::from(shape.batch)
        };
        latencies.record(asked.elapsed().as_micros() as u64).unwrap();
        done += moved;
    }
    (done, latencies)
}

/// Seconds that the same bytes take over plain sockets, as many at a time, each answered by one
/// byte for a producer, or asked for by one byte for a consumer.
fn echo(shape: Shape, messages: u64) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let frame = shape.batch as usize * (PAYLOAD + 48) + 512;
    let frames = messages / u64::from(shape.batch) / shape.clients as u64;
    let (large, small) = (vec![1_u8; frame], [1_u8; 300]);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..shape.clients {
            let (asks, answers) =
                if shape.polls { (&small[..], &large[..]) } else { (&large[..], &small[..]) };
            let client = TcpStream::connect(address).unwrap();
            let server = listener.accept().unwrap().0;
            scope.spawn(move || talk(client, asks, answers.len(), frames, true));
            scope.spawn(move || talk(server, answers, asks.len(), frames, false));
        }
    });
    begin.elapsed().as_secs_f64()
}

/// Sends `sends` and receives as many bytes as the other side sends, in turn.
fn talk(mut socket: TcpStream, sends: &[u8], receives: usize, times: u64, first: bool) {
    socket.set_nodelay(true).unwrap();
    let mut received = vec![0; receives];
    for _ in 0..times {
        if first {
            socket.write_all(sends).unwrap();
            socket.read_exact(&mut received).unwrap();
        } else {
            socket.read_exact(&mut received).unwrap();
            socket.write_all(sends).unwrap();
        }
    }
}
