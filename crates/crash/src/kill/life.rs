//! The process that is killed: opens the engine, appends, reads, closes, and says everything.

use std::os::unix::process::parent_id;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use corelog::{Ack, Engine, PartitionId};

use crate::changes::{Operator, look};
use crate::content::{BatchKey, Content};
use crate::judge::{open_after_crash, small_engine};
use crate::ledger::Event;
use crate::random::Random;
use crate::runtime;

use super::{STREAM, partitions, producer, reader, topics};
use crate::topics::create_topic;

/// A life offers about so many bytes, then it idles: directories stay small.
const BYTES: u64 = 6 << 20;
/// The operator appends so many beside them.
const CHANGED_BYTES: u64 = 4 << 20;
const LOOK: Duration = Duration::from_millis(1);

/// One life of the process under test.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct Life {
    /// The data directory.
    #[arg(long)]
    pub data: PathBuf,
    /// Seed of the content.
    #[arg(long)]
    pub seed: u64,
    /// Number of the life in this directory.
    #[arg(long)]
    pub life: u32,
    /// Partitions of each topic.
    #[arg(long)]
    pub partitions: u32,
    /// Shards of the engine.
    #[arg(long)]
    pub shards: usize,
    /// Producers of each kind.
    #[arg(long)]
    pub producers: u32,
    /// Close after so many answers.
    #[arg(long)]
    pub close_after: Option<u64>,
    /// Open the engine and do nothing more.
    #[arg(long)]
    pub only_open: bool,
}

/// What all actors of a life share.
pub(super) struct Stage {
    pub(super) content: Content,
    pub(super) life: u32,
    pub(super) partitions: Vec<PartitionId>,
    offered_bytes: AtomicU64,
    answers: AtomicU64,
    over: AtomicBool,
}

impl Life {
    /// The arguments that make the same life of a process.
    pub(super) fn to_args(&self) -> Vec<String> {
        let Life { data, seed, life, partitions, shards, producers, close_after, only_open } = self;
        let mut args = vec![
            format!("--data={}", data.display()),
            format!("--seed={seed}"),
            format!("--life={life}"),
            format!("--partitions={partitions}"),
            format!("--shards={shards}"),
            format!("--producers={producers}"),
            runtime::flag(),
        ];
        args.extend(close_after.map(|answers| format!("--close-after={answers}")));
        args.extend(only_open.then(|| "--only-open".to_owned()));
        args
    }

    /// Lives, saying everything on the standard output, until it is killed or has closed.
    pub fn run(&self) {
        Event::Opening.print();
        let engine = match open_after_crash(&small_engine(&self.data, self.shards)) {
            Ok(engine) => engine,
            Err(error) => {
                return Event::Broken(format!("the engine does not open: {error}")).print();
            }
        };
        if self.only_open {
            Event::Opened.print();
            sleep_for_ever();
        }
        for (topic, config) in topics(self.partitions) {
            if let Err(error) = create_topic(&engine.client(), STREAM, topic, config) {
                return Event::Broken(format!("topic {topic}: {error}")).print();
            }
        }
        let ids: Vec<_> = partitions(self.partitions).into_iter().map(|(id, _)| id).collect();
        for &partition in &ids {
            match engine.client().watermarks_blocking(partition) {
                Ok(marks) => Event::Recovered { partition, end: marks.appended() }.print(),
                Err(error) => return Event::Broken(format!("{partition}: {error}")).print(),
            }
        }
        let content = Content::new(self.seed);
        match look(&engine.client(), content) {
            Ok(found) => Event::Found(found).print(),
            Err(what) => return Event::Broken(what).print(),
        }
        Event::Opened.print();
        let stage = Arc::new(Stage {
            content,
            life: self.life,
            partitions: ids,
            offered_bytes: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            over: AtomicBool::new(false),
        });
        self.act(engine, &stage);
    }

    /// Starts the actors; then closes, or waits to be killed.
    fn act(&self, engine: Engine, stage: &Arc<Stage>) {
        let mut threads = Vec::new();
        for nth in 0..self.producers {
            let number = nth * 3;
            let (client, own) = (engine.client(), Arc::clone(stage));
            threads.push(thread::spawn(move || producer::blocking(number, &client, &own)));
            let (client, own) = (engine.client(), Arc::clone(stage));
            threads.push(thread::spawn(move || producer::pipelined(number + 1, &client, &own)));
            producer::start_on_shard(number + 2, &engine, Arc::clone(stage));
        }
        let (client, own) = (engine.client(), Arc::clone(stage));
        threads.push(thread::spawn(move || reader::read(&client, &own)));
        let (client, own) = (engine.client(), Arc::clone(stage));
        threads.push(thread::spawn(move || {
            let operator = Operator::new(&client, own.content, own.life, CHANGED_BYTES);
            if let Err(what) = operator.run(|| own.is_over()) {
                Event::Broken(what).print();
            }
        }));
        let Some(answers) = self.close_after else { sleep_for_ever() };
        while stage.answers.load(Ordering::Relaxed) < answers && stage.has_room() {
            thread::sleep(LOOK);
        }
        // The actors go on: what they ask meanwhile is served or refused, never forgotten.
        Event::Closing.print();
        match engine.close_blocking() {
            Ok(()) => Event::Closed.print(),
            Err(error) => Event::Broken(format!("the engine does not close: {error}")).print(),
        }
        stage.end();
        for thread in threads {
            thread.join().expect("actors do not panic");
        }
    }
}

/// Until it is killed; or whoever would do that is gone.
fn sleep_for_ever() -> ! {
    let parent = parent_id();
    while parent_id() == parent {
        thread::sleep(Duration::from_millis(100));
    }
    std::process::exit(1)
}

impl Stage {
    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_room(&self) -> bool {
        self.offered_bytes.load(Ordering::Relaxed) < BYTES
    }

    pub(super) fn note_answer(&self) {
        self.answers.fetch_add(1, Ordering::Relaxed);
    }

    /// The `nth` batch of a producer goes to some partition at some level: says so, and answers
    /// all that the call needs. `None` where the life has offered enough.
    pub(super) fn offer(&self, random: &mut Random, producer: u32, nth: u32) -> Option<Offer> {
        if self.is_over() || !self.has_room() {
            return None;
        }
        let partition = random.pick(&self.partitions);
        let level = random.pick(&[Ack::Appended, Ack::Written, Ack::Durable]);
        let key = BatchKey::new(producer, self.life, nth);
        let batch = self.content.batch(partition, key);
        self.offered_bytes.fetch_add(batch.len() as u64, Ordering::Relaxed);
        Event::Offered { partition, key, level }.print();
        Some(Offer { partition, key, level, batch })
    }
}

/// A batch on its way.
pub(super) struct Offer {
    pub(super) partition: PartitionId,
    pub(super) key: BatchKey,
    pub(super) level: Ack,
    pub(super) batch: bytes::Bytes,
}
