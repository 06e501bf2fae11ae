//! Producers: each way to append, and what each is answered.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use corelog::calls::{Call, Producer};
use corelog::error::AppendError;
use corelog::{Ack, Appended, Client, Engine, PartitionId, ShardContext};

use crate::content::BatchKey;
use crate::ledger::Event;
use crate::random::Random;

use super::life::{Offer, Stage};

const BUSY_WAIT: Duration = Duration::from_micros(200);

/// What is said about an answer without the batch.
#[derive(Clone, Copy)]
struct Asked {
    partition: PartitionId,
    key: BatchKey,
    level: Ack,
}

impl From<&Offer> for Asked {
    fn from(offer: &Offer) -> Asked {
        Asked { partition: offer.partition, key: offer.key, level: offer.level }
    }
}

/// Says what was answered. False where the producer is done.
fn say(stage: &Stage, asked: Asked, answer: Result<Appended, AppendError>) -> bool {
    let Asked { partition, key, level } = asked;
    match answer {
        Ok(appended) => {
            Event::Acked { partition, key, level, appended }.print();
            stage.note_answer();
            true
        }
        Err(AppendError::Closed) => {
            Event::Failed { partition, key }.print();
            false
        }
        Err(error) => {
            Event::Broken(format!("{partition}: {key:?} was answered: {error}")).print();
            false
        }
    }
}

fn random_of(stage: &Stage, producer: u32) -> Random {
    Random::of(&[stage.content.seed(), u64::from(stage.life), u64::from(producer)])
}

/// One thread, one append at a time; sometimes a flush.
pub(super) fn blocking(number: u32, client: &Client, stage: &Stage) {
    let mut random = random_of(stage, number);
    let mut ends: HashMap<PartitionId, u64> = HashMap::new();
    for nth in 0.. {
        let Some(offer) = stage.offer(&mut random, number, nth) else { return };
        let asked = Asked::from(&offer);
        let answer = loop {
            match client.append_blocking(offer.partition, offer.batch.clone(), offer.level) {
                Err(AppendError::Busy) => thread::sleep(BUSY_WAIT),
                answer => break answer,
            }
        };
        if let Ok(Appended { base_offset, message_count, .. }) = answer {
            ends.insert(offer.partition, base_offset + u64::from(message_count));
        }
        if !say(stage, asked, answer) {
            return;
        }
        if random.once_in(32) && !flush(&mut random, client, offer.partition, &ends) {
            return;
        }
    }
}

/// A flush promises what this thread was answered before. False where the producer is done.
fn flush(
    random: &mut Random,
    client: &Client,
    partition: PartitionId,
    ends: &HashMap<PartitionId, u64>,
) -> bool {
    let level = random.pick(&[Ack::Written, Ack::Durable]);
    match client.flush_blocking(partition, level) {
        Ok(()) => Event::Reached { partition, end: ends[&partition], level }.print(),
        Err(AppendError::Busy) => {}
        Err(AppendError::Closed) => return false,
        Err(error) => {
            Event::Broken(format!("{partition}: a flush was answered: {error}")).print();
            return false;
        }
    }
    true
}

/// One thread with several appends in flight, whose order the engine's producer handles keep.
pub(super) fn pipelined(number: u32, client: &Client, stage: &Stage) {
    let mut random = random_of(stage, number);
    let mut handles: HashMap<PartitionId, Producer> = HashMap::new();
    let mut flying: VecDeque<(Asked, Call<Appended, AppendError>)> = VecDeque::new();
    let depth = random.between(2, 24) as usize;
    for nth in 0.. {
        let offer = stage.offer(&mut random, number, nth);
        while flying.len() >= if offer.is_some() { depth } else { 1 } {
            let (asked, call) = flying.pop_front().expect("it is not empty");
            if !say(stage, asked, call.wait()) {
                return fail(flying);
            }
        }
        let Some(offer) = offer else { return };
        let asked = Asked::from(&offer);
        let new = || client.producer(offer.partition);
        let handle = handles.entry(offer.partition).or_insert_with(new);
        let mut call = handle.append(offer.batch, offer.level);
        while matches!(call.refusal(), Some(AppendError::Busy)) {
            thread::sleep(BUSY_WAIT);
            call = handle.retry().expect("a batch that was refused as busy is kept");
        }
        flying.push_back((asked, call));
    }
}

/// The rest after a refusal: each says for itself what became of it.
fn fail(flying: VecDeque<(Asked, Call<Appended, AppendError>)>) {
    for (Asked { partition, key, level }, call) in flying {
        match call.wait() {
            Ok(appended) => Event::Acked { partition, key, level, appended }.print(),
            Err(_) => Event::Failed { partition, key }.print(),
        }
    }
}

/// A task on a shard, whose calls to its own shard's partitions cross no mailbox.
pub(super) fn start_on_shard(number: u32, engine: &Engine, stage: Arc<Stage>) {
    let shard = number as usize % engine.shards();
    // Dropping the answer does not stop the code.
    drop(engine.run_on_shard(shard, move |context| on_shard(number, context, stage)));
}

async fn on_shard(number: u32, context: ShardContext, stage: Arc<Stage>) {
    let mut random = random_of(&stage, number);
    let mut nth = 0;
    loop {
        let mut flying = Vec::new();
        for _ in 0..random.between(1, 4) {
            let Some(offer) = stage.offer(&mut random, number, nth) else { break };
            nth += 1;
            let asked = Asked::from(&offer);
            flying.push((asked, context.append(offer.partition, offer.batch, offer.level)));
        }
        if flying.is_empty() {
            return;
        }
        for (asked, call) in flying {
            let answer = call.await;
            // It keeps no order across this, so it does not offer the batch again.
            if let Err(AppendError::Busy) = answer {
                Event::Refused { partition: asked.partition, key: asked.key }.print();
            } else if !say(&stage, asked, answer) {
                return;
            }
        }
        context.yield_now().await;
    }
}
