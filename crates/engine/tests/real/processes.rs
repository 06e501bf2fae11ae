//! More than one process: who has a data directory, and what becomes of it when that one is killed.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use corelog::error::{LockError, OpenError};
use corelog::{Ack, TopicConfig};

use crate::support::{
    P, batch, builder, child, child_dir, fresh_dir, poll_all, reopened, with_topic,
};

/// What the other process appends.
const BATCHES: u64 = 20;

/// A process that is killed with its handle.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// In the other process: opens, appends, says so, and stays.
fn hold(dir: &Path) -> ! {
    let (_engine, client) = with_topic(dir, 1, TopicConfig::default());
    for tag in 0..BATCHES {
        client.append_blocking(P, batch(tag, 1, 5_000), Ack::Written).expect("it fits");
    }
    eprintln!("holding");
    loop {
        std::thread::park();
    }
}

/// The second is refused and told who has it; killed, the first keeps nobody out by what its lock
/// file still says, and what it had written is there.
#[test]
fn a_second_process_is_kept_out_until_the_first_is_gone() {
    if let Some(dir) = child_dir() {
        hold(&dir);
    }
    let dir = fresh_dir("two_processes");
    let name = "processes::a_second_process_is_kept_out_until_the_first_is_gone";
    let started = child(name, &[], &dir).stderr(Stdio::piped()).stdout(Stdio::null()).spawn();
    let mut holder = Killed(started.expect("it can be started"));
    let said = BufReader::new(holder.0.stderr.take().expect("it is piped"));
    assert!(said.lines().map_while(Result::ok).any(|line| line == "holding"), "it holds");
    let other = holder.0.id();
    let error = builder(&dir, 1).open().map(drop).expect_err("another process has it");
    assert!(
        matches!(&error, OpenError::Lock(LockError::Held { pid: Some(pid), .. }) if *pid == other),
        "{error}"
    );
    drop(holder);
    let stale = std::fs::read_to_string(dir.join("LOCK")).expect("nobody has removed it");
    assert_eq!(stale.trim(), other.to_string());
    let engine = builder(&dir, 1).open().expect("nobody has it any more");
    let stored = poll_all(&engine.client(), P, 0, 1 << 20);
    assert_eq!(stored.len() as u64, BATCHES, "all that was answered as written");
    engine.close_blocking().expect("nothing is wrong");
}

/// A program that the host starts gets none of the engine's descriptors, and keeps nobody out when
/// the engine is closed.
#[test]
fn a_program_that_was_started_inherits_nothing() {
    let dir = fresh_dir("inherited");
    let (engine, client) = with_topic(&dir, 2, TopicConfig::default());
    client.append_blocking(P, batch(1, 1, 5_000), Ack::Written).expect("it fits");
    let program = Killed(Command::new("sleep").arg("1000").spawn().expect("it can be started"));
    let numbers = std::fs::read_dir(format!("/proc/{}/fd", program.0.id())).expect("it runs");
    let targets = numbers.flatten().filter_map(|number| std::fs::read_link(number.path()).ok());
    let ours: Vec<_> = targets
        .filter(|target| target.starts_with(&dir) || target.to_string_lossy().contains("io_uring"))
        .collect();
    assert!(ours.is_empty(), "{ours:?}");
    engine.close_blocking().expect("nothing is wrong");
    reopened(&dir, 1).0.close_blocking().expect("nothing is wrong");
    drop(program);
}
