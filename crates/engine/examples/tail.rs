//! Follows a partition as it grows, as `tail -f` does a file: polls that wait, and an offset that is
//! stored when the messages were dealt with.
//!
//! ```text
//! cargo run --release -p corelog --example tail -- [DIR]
//! ```
//!
//! Without a directory it uses a temporary one below the working directory.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use corelog::consumers::{ConsumerKey, ConsumerKind};
use corelog::{Ack, BatchBuilder, Client, Engine, Message, PartitionId, Poll, TopicConfig};

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

const PARTITION: PartitionId = PartitionId::new(0, 0, 0);
const MESSAGES: u64 = 20;
/// Who reads: what it has stored is kept under this number.
const READER: ConsumerKey = ConsumerKey { kind: ConsumerKind::Consumer, id: 1 };

fn main() -> Result<(), Failure> {
    let temporary = tempfile::Builder::new().prefix(".tail-").tempdir_in(".")?;
    let dir = std::env::args_os().nth(1).map_or_else(|| temporary.path().into(), PathBuf::from);
    for line in run(&dir)? {
        println!("{line}");
    }
    Ok(())
}

/// The whole way; answers the lines that were read.
pub(crate) fn run(dir: &Path) -> Result<Vec<String>, Failure> {
    let engine = Engine::builder(dir).shards(1).open()?;
    let client = engine.client();
    if client.catalog().stream("shop").is_none() {
        client.catalog().create_stream("shop").wait()?;
        client.catalog().create_topic("shop", "orders", TopicConfig::default()).wait()?;
    }
    let writer = client.clone();
    let writing = thread::spawn(move || write(&writer));
    let mut lines = Vec::new();
    while lines.len() < MESSAGES as usize {
        lines.extend(follow(&client)?);
    }
    writing.join().expect("the writer does not panic")?;
    engine.close_blocking()?;
    Ok(lines)
}

/// Messages that come now and then.
fn write(client: &Client) -> Result<(), Failure> {
    let mut batch = BatchBuilder::new();
    for number in 0..MESSAGES {
        batch.push(Message::new(format!("order {number}").as_bytes()))?;
        client.append_blocking(PARTITION, batch.finish()?, Ack::Written)?;
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// What comes next. Where there is nothing the poll waits for it, without asking again and again.
fn follow(client: &Client) -> Result<Vec<String>, Failure> {
    let poll = Poll::next(READER).max_wait(Duration::from_secs(1)).max_bytes(64 << 10);
    let records = client.poll_blocking(PARTITION, poll)?;
    let mut lines = Vec::new();
    for batch in records.batches() {
        for frame in batch?.open()?.frames() {
            lines.push(String::from_utf8_lossy(frame.payload()).into_owned());
        }
    }
    if !records.is_empty() {
        // Dealt with: a reader that starts anew goes on behind it.
        let last = records.next_offset() - 1;
        client.store_offset(PARTITION, READER, last, Ack::Appended).wait()?;
    }
    Ok(lines)
}
