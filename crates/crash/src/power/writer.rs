//! The process whose power is cut: it appends to an engine on the recorded device and says on its
//! standard output what it offers and what it is answered.

use std::collections::VecDeque;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use corelog::calls::Call;
use corelog::error::AppendError;
use corelog::{Ack, Appended, Client, PartitionId, Poll};

use super::plan::Plan;
use crate::changes::{Operator, look};
use crate::content::BatchKey;
use crate::judge::small_engine;
use crate::ledger::Event;
use crate::random::Random;
use crate::topics::create_topic;

/// The operator appends so many bytes in a life.
const CHANGED_BYTES: u64 = 4 << 20;

/// Lives the lives of `plan` in the data directory `dir`, which is not there yet.
///
/// # Errors
/// The engine refuses something on a device that does nothing wrong.
pub fn write(plan: &Plan, dir: &Path) -> Result<(), String> {
    for (life, lasts) in plan.lives.iter().enumerate() {
        Event::Opening.print();
        let engine = small_engine(dir, plan.shards).open().map_err(|error| error.to_string())?;
        let client = engine.client();
        if life == 0 {
            for (config, topic) in plan.topics.iter().zip(0..) {
                let created = create_topic(&client, 0, topic, config.clone());
                created.map_err(|error| error.to_string())?;
            }
        }
        if plan.changes {
            Event::Found(look(&client, plan.content)?).print();
        }
        Event::Opened.print();
        let killed = life + 1 == plan.lives.len() && !plan.closes;
        // Who watches this kills it earlier.
        let end = Instant::now() + if killed { Duration::from_secs(3600) } else { *lasts };
        produce(plan, &client, life as u32, end)?;
        drop(client);
        Event::Closing.print();
        engine.close_blocking().map_err(|error| error.to_string())?;
        Event::Closed.print();
    }
    Ok(())
}

/// Appends from all producers until `end`.
fn produce(plan: &Plan, client: &Client, life: u32, end: Instant) -> Result<(), String> {
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (partition, enforce_fsync) in plan.partitions() {
            for number in 0..plan.producers {
                let producer = Producer {
                    plan,
                    client,
                    partition,
                    enforce_fsync,
                    number,
                    waiting: VecDeque::new(),
                };
                threads.push(scope.spawn(move || producer.run(life, end)));
            }
        }
        if plan.changes {
            let operator = Operator::new(client, plan.content, life, CHANGED_BYTES);
            threads.push(scope.spawn(move || operator.run(|| Instant::now() >= end)));
        }
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a panic")?)
    })
}

struct Producer<'a> {
    plan: &'a Plan,
    client: &'a Client,
    partition: PartitionId,
    enforce_fsync: bool,
    number: u32,
    waiting: VecDeque<(BatchKey, Ack, Call<Appended, AppendError>)>,
}

impl Producer<'_> {
    fn run(mut self, life: u32, end: Instant) -> Result<(), String> {
        let partition = self.partition;
        let words = [self.plan.content.seed(), 2, u64::from(life), u64::from(partition.topic)];
        let mut random = Random::of(&words);
        random =
            Random::of(&[random.draw(), u64::from(partition.partition), u64::from(self.number)]);
        for nth in 0.. {
            if Instant::now() >= end {
                break;
            }
            let key = BatchKey::new(self.number, life, nth);
            let level = self.plan.level(&mut random);
            let batch = self.plan.content.batch(partition, key);
            Event::Offered { partition, key, level }.print();
            self.waiting.push_back((key, level, self.client.append(partition, batch, level)));
            while self.waiting.len() >= self.plan.window {
                self.hear()?;
            }
            if random.once_in(50) {
                self.look(&mut random)?;
            }
        }
        while !self.waiting.is_empty() {
            self.hear()?;
        }
        Ok(())
    }

    /// Waits for the oldest answer.
    fn hear(&mut self) -> Result<(), String> {
        let Some((key, level, call)) = self.waiting.pop_front() else { return Ok(()) };
        let partition = self.partition;
        match call.wait() {
            Ok(appended) => Event::Acked { partition, key, level, appended }.print(),
            Err(AppendError::Busy) => Event::Refused { partition, key }.print(),
            Err(error) => return Err(format!("{partition}: {error}")),
        }
        Ok(())
    }

    /// Flushes and asks how far the log has come, or polls its end where that is a promise.
    fn look(&mut self, random: &mut Random) -> Result<(), String> {
        let said = |error: &dyn std::error::Error| format!("{}: {error}", self.partition);
        let (partition, client) = (self.partition, self.client);
        if self.enforce_fsync && random.once_in(2) {
            let marks = client.watermarks_blocking(partition).map_err(|error| said(&error))?;
            let Some(last) = marks.durable().checked_sub(1) else { return Ok(()) };
            let records = client.poll_blocking(partition, Poll::offset(last));
            let end = records.map_err(|error| said(&error))?.next_offset();
            Event::Served { partition, end }.print();
        } else {
            let level = random.pick(&[Ack::Written, Ack::Durable]);
            client.flush_blocking(partition, level).map_err(|error| said(&error))?;
            let marks = client.watermarks_blocking(partition).map_err(|error| said(&error))?;
            for (level, end) in [(Ack::Written, marks.written()), (Ack::Durable, marks.durable())] {
                Event::Reached { partition, end, level }.print();
            }
        }
        Ok(())
    }
}
