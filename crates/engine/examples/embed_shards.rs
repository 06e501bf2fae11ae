//! Corelog under a broker of one thread a core: its code runs on the shards themselves. Each shard
//! serves the partitions that it owns without a hop, a lock or a wake; the rest cross by mailbox.
//!
//! ```text
//! cargo run --release -p corelog --example embed_shards -- [DIR]
//! ```
//!
//! Without a directory it uses a temporary one below the working directory.

use std::error::Error;
use std::path::{Path, PathBuf};

use corelog::error::{AppendError, PollError};
use corelog::{Ack, BatchBuilder, Engine, Message, PartitionId, Poll, ShardContext, TopicConfig};

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

const PARTITIONS: u32 = 4;
const BATCHES: u64 = 50;

fn main() -> Result<(), Failure> {
    let temporary = tempfile::Builder::new().prefix(".embed-").tempdir_in(".")?;
    let dir = std::env::args_os().nth(1).map_or_else(|| temporary.path().into(), PathBuf::from);
    let messages = run(&dir)?;
    println!("{messages} messages there and back, on the shards that own them");
    Ok(())
}

/// The whole way; answers how many messages came back.
pub(crate) fn run(dir: &Path) -> Result<u64, Failure> {
    let engine = Engine::builder(dir).shards(2).open()?;
    let catalog = engine.client().catalog();
    let config = TopicConfig { partitions: PARTITIONS, ..TopicConfig::default() };
    catalog.create_stream("shop").wait()?;
    catalog.create_topic("shop", "orders", config).wait()?;

    // A broker would accept connections here; this one is its own client. The closure goes to the
    // shard, the future that it makes never leaves it.
    let served: Vec<_> =
        (0..engine.shards()).map(|shard| engine.run_on_shard(shard, serve)).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let mut messages = 0;
    for served in served {
        messages += runtime.block_on(served)??;
    }
    runtime.block_on(engine.close())?;
    Ok(messages)
}

/// What one shard does: a task for each of its own partitions, side by side.
async fn serve(shard: ShardContext) -> Result<u64, Failure> {
    let (done, all) = std::sync::mpsc::channel();
    let own = (0..PARTITIONS).map(|number| PartitionId::new(0, 0, number));
    let own: Vec<_> = own.filter(|id| shard.owns(*id)).collect();
    for id in &own {
        let (inside, done, id) = (shard.clone(), done.clone(), *id);
        shard.spawn(async move {
            let _ = done.send(produce_and_consume(&inside, id).await);
        });
    }
    let mut messages = 0;
    for _ in &own {
        // Nothing on a shard may block: ask, and let the others run.
        let answer = loop {
            match all.try_recv() {
                Ok(answer) => break answer,
                Err(_) => shard.yield_now().await,
            }
        };
        messages += answer?;
    }
    Ok(messages)
}

async fn produce_and_consume(shard: &ShardContext, id: PartitionId) -> Result<u64, Failure> {
    let mut batch = BatchBuilder::new();
    for number in 0..BATCHES {
        batch.push(Message::new(format!("order {number}").as_bytes()))?;
        let bytes = bytes::Bytes::from(batch.finish()?);
        // An overloaded engine says `Busy` at once and has done nothing: wait a moment, try again.
        loop {
            match shard.append(id, bytes.clone(), Ack::Written).await {
                Err(AppendError::Busy) => shard.yield_now().await,
                answer => {
                    answer?;
                    break;
                }
            }
        }
    }
    let mut next = 0;
    while next < BATCHES {
        let records = match shard.poll(id, Poll::offset(next)).await {
            Err(PollError::Busy) => {
                shard.yield_now().await;
                continue;
            }
            answer => answer?,
        };
        next = records.next_offset();
        // `records` lends the shard's own buffers; its slices can be sent as they are.
    }
    Ok(next)
}
