//! Corelog under a tokio program: a producer and a consumer as tasks of its runtime.
//!
//! ```text
//! cargo run --release -p corelog --example embed_tokio -- [DIR]
//! ```
//!
//! Without a directory it uses a temporary one below the working directory.

use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use corelog::{Ack, BatchBuilder, Client, Engine, Message, PartitionId, Poll, TopicConfig};

const BATCHES: u64 = 100;
const MESSAGES: u64 = 10;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let temporary = tempfile::Builder::new().prefix(".embed-").tempdir_in(".")?;
    let dir = std::env::args_os().nth(1).map_or_else(|| temporary.path().into(), PathBuf::from);
    let bytes = run(dir).await?;
    println!("{} messages there and back, {bytes} bytes of payload", BATCHES * MESSAGES);
    Ok(())
}

/// The whole way; answers how many bytes of payload came back.
pub(crate) async fn run(dir: PathBuf) -> Result<usize, Box<dyn Error + Send + Sync>> {
    // Opening blocks: not on a thread of the runtime.
    let open = move || Engine::builder(dir).shards(1).open();
    let engine = tokio::task::spawn_blocking(open).await??;
    let client = engine.client();
    client.catalog().create_stream("shop").await?;
    client.catalog().create_topic("shop", "orders", TopicConfig::default()).await?;

    let partition = PartitionId::new(0, 0, 0);
    let consumer = tokio::spawn(consume(client.clone(), partition));
    produce(&client, partition).await?;
    let bytes = consumer.await??;
    engine.close().await?;
    Ok(bytes)
}

/// One batch after the other, each in the device before the next is sent.
async fn produce(
    client: &Client,
    partition: PartitionId,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut batch = BatchBuilder::new();
    for number in 0..BATCHES {
        for message in 0..MESSAGES {
            batch.push(Message::new(format!("message {message} of batch {number}").as_bytes()))?;
        }
        let appended = client.append(partition, batch.finish()?, Ack::Written).await?;
        assert_eq!(appended.base_offset, number * MESSAGES);
    }
    Ok(())
}

/// Polls until all messages came, and counts the bytes of their payloads.
async fn consume(
    client: Client,
    partition: PartitionId,
) -> Result<usize, Box<dyn Error + Send + Sync>> {
    let (mut next, mut bytes) = (0, 0);
    while next < BATCHES * MESSAGES {
        // Where there is nothing new it waits for the producer.
        let poll = Poll::offset(next).max_wait(Duration::from_secs(1));
        let records = client.poll(partition, poll).await?;
        for batch in records.batches() {
            bytes += batch?.open()?.frames().map(|frame| frame.payload().len()).sum::<usize>();
        }
        next = records.next_offset();
    }
    Ok(bytes)
}
