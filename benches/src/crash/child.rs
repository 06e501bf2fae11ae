//! The process that is killed: appends, and says what was answered.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use corelog::machine::Runtime;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::content::{BatchId, Content, Sizes};
use crate::engine_load::Corelog;
use crate::interrupt::Interrupt;
use crate::live::Live;
use crate::phases::Stage;
use crate::phases::produce::{self, Go, Load};
use crate::plan::{Plan, Sent};
use crate::run_error::RunError;
use crate::subject::{Ack, Demand, LogOptions, Opener, Topic};

/// Bytes of a line of the child: producer, partition, sequence.
pub(super) const ANSWER_LEN: usize = 2 + 4 + 4;

/// What the child is told. How many batches are there already comes on its standard input.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub(crate) struct ChildArgs {
    #[arg(long)]
    pub(crate) data: PathBuf,
    #[arg(long)]
    pub(crate) seed: u64,
    #[arg(long)]
    pub(crate) round: u32,
    #[arg(long)]
    pub(crate) batches: u64,
    #[arg(long)]
    pub(crate) shards: u16,
    #[arg(long)]
    pub(crate) partitions: u32,
    #[arg(long)]
    pub(crate) producers: u16,
    #[arg(long)]
    pub(crate) in_flight: u16,
    #[arg(long)]
    pub(crate) messages_from: u32,
    #[arg(long)]
    pub(crate) messages_to: u32,
    #[arg(long)]
    pub(crate) payload_from: usize,
    #[arg(long)]
    pub(crate) payload_to: usize,
    #[arg(long)]
    pub(crate) headers: u16,
    #[arg(long)]
    pub(crate) entropy_percent: u8,
    #[arg(long)]
    pub(crate) ack: Ack,
    #[arg(long)]
    pub(crate) runtime: Runtime,
}

impl ChildArgs {
    /// The words that parse to these.
    pub(super) fn to_words(&self) -> Vec<String> {
        let mut words = vec![format!("--data={}", self.data.display())];
        let mut number = |name: &str, value: u64| words.push(format!("--{name}={value}"));
        number("seed", self.seed);
        number("round", self.round.into());
        number("batches", self.batches);
        number("shards", self.shards.into());
        number("partitions", self.partitions.into());
        number("producers", self.producers.into());
        number("in-flight", self.in_flight.into());
        number("messages-from", self.messages_from.into());
        number("messages-to", self.messages_to.into());
        number("payload-from", self.payload_from as u64);
        number("payload-to", self.payload_to as u64);
        number("headers", self.headers.into());
        number("entropy-percent", self.entropy_percent.into());
        words.push(format!("--ack={}", self.ack.name()));
        words.push(format!("--runtime={}", self.runtime));
        words
    }

    fn sizes(&self) -> Sizes {
        let messages: Range<u32> = self.messages_from..self.messages_to;
        let payload = self.payload_from..self.payload_to;
        Sizes { messages, payload, headers: self.headers, entropy_percent: self.entropy_percent }
    }
}

/// Appends what it is told, says what was answered, and waits for its end.
pub(crate) fn append_until_killed(args: &ChildArgs) -> Result<(), RunError> {
    // Whoever started this must not leave it behind.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let content = Content::of(args.seed, &args.sizes())?;
    let sent = read_sent(args, &mut io::stdin().lock()).map_err(talking)?;
    let in_flight = usize::from(args.producers) * usize::from(args.in_flight);
    let demand = Demand {
        runtime: args.runtime,
        shards: args.shards,
        partitions: args.partitions,
        durable_partitions: 1,
        ack: args.ack,
        // The topics are there; these decide nothing.
        log: LogOptions::default(),
        appends_in_flight: in_flight,
        bytes_in_flight: in_flight.saturating_mul(content.batch_len_max()),
        poll_bytes: 1 << 20,
        after_kill: false,
    };
    let interrupt = Interrupt::default();
    let engine = Corelog
        .open(&args.data, demand, &interrupt)
        .map_err(|source| RunError::opening(&args.data, source))?;
    let plan = Plan::shuffled(args.producers, args.partitions, args.batches, args.seed);
    let say = |id: BatchId| {
        let mut answer = [0; ANSWER_LEN];
        answer[..2].copy_from_slice(&id.producer.to_le_bytes());
        answer[2..6].copy_from_slice(&id.partition.to_le_bytes());
        answer[6..].copy_from_slice(&id.sequence.to_le_bytes());
        let mut out = io::stdout().lock();
        // Where nobody listens any more there is nobody to tell.
        let _ = out.write_all(&answer).and_then(|()| out.flush());
    };
    let load = Load {
        topic: Topic::Written,
        first_partition: 0,
        plan: &plan,
        in_flight: usize::from(args.in_flight),
        schedule: None,
        time: None,
        warm_up: Duration::ZERO,
        on_begin: None,
        on_answer: Some(&say),
    };
    let live = Live::default();
    let stage = Stage {
        content: &content,
        round: args.round,
        poll_bytes: 1,
        interrupt: &interrupt,
        live: &live,
    };
    produce::run(&engine, stage, load, &Go::new(&load), None, &mut sent.clone())?;
    loop {
        thread::park();
    }
}

fn talking(source: io::Error) -> RunError {
    let doing = "reading what was sent before".to_owned();
    RunError::Engine { doing, source: source.into() }
}

/// Batches that are there, by partition and producer.
fn read_sent(args: &ChildArgs, from: &mut impl Read) -> io::Result<Sent> {
    let mut sent = Sent::nothing(args.producers, args.partitions);
    for partition in 0..args.partitions {
        for producer in 0..args.producers {
            let mut batches = [0; 4];
            from.read_exact(&mut batches)?;
            sent.raise(producer, partition, u32::from_le_bytes(batches));
        }
    }
    Ok(sent)
}

/// The same, written.
pub(super) fn write_sent(sent: &Sent, partitions: u32, to: &mut impl Write) -> io::Result<()> {
    for partition in 0..partitions {
        for batches in sent.batches(partition) {
            to.write_all(&batches.to_le_bytes())?;
        }
    }
    to.flush()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: ChildArgs,
    }

    fn args() -> ChildArgs {
        ChildArgs {
            data: "/x y/z".into(),
            seed: u64::MAX,
            round: 1,
            batches: 2,
            shards: 3,
            partitions: 4,
            producers: 5,
            in_flight: 6,
            messages_from: 7,
            messages_to: 8,
            payload_from: 9,
            payload_to: 10,
            headers: 11,
            entropy_percent: 12,
            ack: Ack::Durable,
            runtime: Runtime::Ring,
        }
    }

    #[test]
    fn the_words_are_read_back() {
        let words = std::iter::once("child".to_owned()).chain(args().to_words());
        assert_eq!(Line::try_parse_from(words).unwrap().args, args());
    }

    #[test]
    fn what_was_sent_is_read_back() {
        let mut sent = Sent::nothing(5, 4);
        sent.raise(4, 0, 70_000);
        sent.raise(0, 3, 1);
        let mut bytes = Vec::new();
        write_sent(&sent, 4, &mut bytes).unwrap();
        assert_eq!(read_sent(&args(), &mut bytes.as_slice()).unwrap(), sent);
        assert!(read_sent(&args(), &mut &bytes[1..]).is_err());
    }
}
