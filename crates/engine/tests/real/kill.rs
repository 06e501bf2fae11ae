//! A process that is killed while it appends loses nothing that it was told is written.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use corelog::{Ack, PartitionId, TopicConfig};

use crate::support::{P, batch, builder, create_topic, fresh_dir, poll_all};

const ROUNDS: u64 = 20;
const PARTITIONS: u32 = 3;
/// Set in the child, to the data directory.
const CHILD: &str = "CORELOG_TEST_KILL_DIR";
const ROUND: &str = "CORELOG_TEST_KILL_ROUND";

/// The child's batch `number` in `partition`: its size differs, so that blocks are shared in every
/// way.
fn nth(round: u64, partition: u32, number: u64) -> bytes::Bytes {
    let tag = round << 40 | u64::from(partition) << 32 | number;
    batch(tag, 1 + number as u32 % 4, 50 + (number as usize * 997) % 9_000)
}

/// Appends without end from a thread a partition, and prints every answer.
fn child(dir: &Path, round: u64) -> ! {
    let engine = builder(dir, 2).open().expect("what was killed opens");
    let client = engine.client();
    if round == 0 {
        let config = TopicConfig {
            partitions: PARTITIONS,
            segment_bytes: 1 << 20,
            ..TopicConfig::default()
        };
        create_topic(&client, config);
    }
    std::thread::scope(|scope| {
        for partition in 0..PARTITIONS {
            let client = client.clone();
            scope.spawn(move || {
                let id = PartitionId { partition, ..P };
                for number in 0.. {
                    let ack = if number % 16 == 7 { Ack::Durable } else { Ack::Written };
                    let appended = client.append_blocking(id, nth(round, partition, number), ack);
                    let offset = appended.expect("it fits").base_offset;
                    // One write: a line is in the pipe whole or not at all.
                    let line = format!("acked {partition} {number} {offset}\n");
                    std::io::stdout().write_all(line.as_bytes()).expect("the parent reads");
                }
            });
        }
    });
    unreachable!("the threads append without end");
}

/// Runs the child until some answers came, kills it and returns all that it printed.
fn killed(dir: &Path, round: u64) -> Vec<(u32, u64, u64)> {
    let mut child = Command::new(std::env::current_exe().expect("it runs"))
        .args(["kill::all_that_was_answered_is_there_after_a_kill", "--exact", "--nocapture"])
        .env(CHILD, dir)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this binary can be started");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let parse = |line: &str| {
        let mut words = line.split(' ').skip(1).map(|word| word.parse::<u64>().expect("a number"));
        let mut next = || words.next().expect("three numbers");
        (next() as u32, next(), next())
    };
    let mut acked = Vec::new();
    while acked.is_empty() {
        let line = lines.next().expect("the child appends").expect("it is text");
        if line.starts_with("acked") {
            acked.push(parse(&line));
        }
    }
    // Another moment each time: between two acks, in a roll, in the first write.
    std::thread::sleep(Duration::from_millis(round * 7 % 60));
    child.kill().expect("it runs");
    let rest = lines.map_while(Result::ok).filter(|line| line.starts_with("acked"));
    acked.extend(rest.map(|line| parse(&line)));
    child.wait().expect("it was killed");
    acked
}

#[test]
fn all_that_was_answered_is_there_after_a_kill() {
    if let Some(dir) = std::env::var_os(CHILD) {
        let round = std::env::var(ROUND).ok().and_then(|round| round.parse().ok());
        child(&PathBuf::from(dir), round.expect("the parent sets both"));
    }
    let dir = fresh_dir("killed");
    let mut total = 0;
    for round in 0..ROUNDS {
        let acked = killed(&dir, round);
        total += acked.len();
        let engine = builder(&dir, 1 + round as usize % 3).open().expect("what was killed opens");
        for (id, opened) in &engine.opened().not_clean {
            let report =
                opened.as_ref().unwrap_or_else(|error| panic!("round {round}, {id}: {error}"));
            assert!(report.damage.is_empty(), "round {round}, {id}: {report:?}");
        }
        let client = engine.client();
        for partition in 0..PARTITIONS {
            let id = PartitionId { partition, ..P };
            let mine: Vec<_> = acked.iter().filter(|(of, ..)| *of == partition).collect();
            let Some((_, _, first)) = mine.first() else { continue };
            let stored = poll_all(&client, id, *first, 1 << 20);
            for (_, number, offset) in mine {
                let want = nth(round, partition, *number);
                let found = stored.iter().find(|batch| batch[8..16] == offset.to_le_bytes());
                let found =
                    found.unwrap_or_else(|| panic!("round {round}, {id}: {offset} is lost"));
                assert!(found[256..] == want[256..], "round {round}, {id}: {offset} is another");
            }
        }
        engine.close_blocking().expect("nothing is wrong");
    }
    assert!(total > 200, "{total} answers in all rounds");
}
