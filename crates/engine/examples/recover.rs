//! Opens what a process left that was killed, or whose disk was damaged: says what the opening found,
//! reads everything that can be read, and steps over what cannot.
//!
//! ```text
//! cargo run --release -p corelog --example recover -- DIR
//! cargo run --release -p corelog --example recover
//! ```
//!
//! Without a directory it makes one below the working directory, and kills a process that writes to
//! it.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;

use corelog::error::{PollError, storage};
use corelog::{Ack, BatchBuilder, Client, Engine, Message, PartitionId, Poll, TopicConfig};

pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// Set for the process that is killed.
const VICTIM: &str = "CORELOG_EXAMPLE_VICTIM";

fn main() -> Result<(), Failure> {
    let temporary = tempfile::Builder::new().prefix(".recover-").tempdir_in(".")?;
    let given = std::env::args_os().nth(1).map(PathBuf::from);
    let dir = given.clone().unwrap_or_else(|| temporary.path().into());
    if std::env::var_os(VICTIM).is_some() {
        return write_and_die(&dir);
    }
    if given.is_none() {
        let mut victim = Command::new(std::env::current_exe()?);
        let died = victim.arg(&dir).env(VICTIM, "1").status()?;
        println!("the writer has ended: {died}");
    }
    let found = run(&dir)?;
    println!("{} messages, {} places stepped over", found.messages, found.damaged.len());
    Ok(())
}

/// Appends, and dies with much on its way.
fn write_and_die(dir: &Path) -> Result<(), Failure> {
    let engine = Engine::builder(dir).shards(1).open()?;
    let client = engine.client();
    client.catalog().create_stream("shop").wait()?;
    client.catalog().create_topic("shop", "orders", TopicConfig::default()).wait()?;
    let mut batch = BatchBuilder::new();
    for number in 0_u64..1_000 {
        batch.push(Message::new(&[number as u8; 10_000]))?;
        drop(client.append(PartitionId::new(0, 0, 0), batch.finish()?, Ack::Appended));
    }
    client.flush_blocking(PartitionId::new(0, 0, 0), Ack::Written)?;
    std::process::abort()
}

/// What could be read, and where it could not.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) messages: u64,
    pub(crate) damaged: Vec<(PartitionId, PollError)>,
}

/// Opens `dir`, tells what it finds, reads all of it.
pub(crate) fn run(dir: &Path) -> Result<Found, Failure> {
    let engine = Engine::builder(dir)
        .on_progress(|progress| {
            println!("{} of {} partitions are open", progress.done, progress.partitions);
            ControlFlow::Continue(())
        })
        .open()?;
    for (partition, opened) in &engine.opened().not_clean {
        match opened {
            Ok(report) => {
                println!("{partition}: {} ({})", report.row, report.why);
                println!("  {} batches were above the mark", report.recovered_batches);
                println!("  {} bytes were cut off", report.cut_bytes);
                report.quarantined.iter().for_each(|copy| println!("  kept: {}", copy.display()));
                report.damage.iter().for_each(|damage| println!("  damaged: {damage:?}"));
            }
            Err(error) => println!("{partition} is not served: {error}"),
        }
    }
    let mut found = Found::default();
    let catalog = engine.client().catalog();
    for stream in catalog.streams() {
        for topic in catalog.topics(stream.id).unwrap_or_default() {
            for number in 0..topic.partitions.len() as u32 {
                let partition = PartitionId::new(stream.id, topic.id, number);
                read(&engine.client(), partition, &mut found)?;
            }
        }
    }
    engine.close_blocking()?;
    Ok(found)
}

/// Reads a partition from its first message to its last, over every damage in it.
fn read(client: &Client, partition: PartitionId, found: &mut Found) -> Result<(), Failure> {
    let mut poll = Poll::first();
    loop {
        match client.poll_blocking(partition, poll) {
            Ok(records) if records.is_empty() => return Ok(()),
            Ok(records) => {
                found.messages += u64::from(records.messages());
                poll = Poll::offset(records.next_offset());
            }
            Err(error) => {
                let resume = match &error {
                    PollError::Storage(storage::PollError::Corrupt { resume_offset, .. }) => {
                        *resume_offset
                    }
                    // Not served at all: the others are.
                    PollError::PartitionFailed(_) => None,
                    // The disk did not answer. That says nothing about the data.
                    _ => return Err(error.into()),
                };
                println!("{partition}: {error}");
                found.damaged.push((partition, error));
                match resume {
                    Some(offset) => poll = Poll::offset(offset),
                    None => return Ok(()),
                }
            }
        }
    }
}
