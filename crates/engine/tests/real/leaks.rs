//! What lives of the engine, and requests that nobody waits for, leave behind in the process.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll as Polled;
use std::time::{Duration, Instant};
use std::{fs, thread};

use corelog::consumers::{ConsumerKey, ConsumerKind};
use corelog::error::{ControlError, Unavailable};
use corelog::machine::Runtime;
use corelog::stats::EngineStats;
use corelog::{Ack, Client, Poll, TopicConfig};

use crate::callers::block_on;
use crate::chosen;
use crate::support::{
    P, batch, builder, create_topic, in_child, poll_all, small, small_segments, with_topic,
};

/// Open descriptors of this process.
fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("proc is mounted").count()
}

/// Memory of this process that is resident, KiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("proc is mounted");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it is told");
    line.split_whitespace().next().expect("a number").parse().expect("in kB")
}

/// A host opens and closes engines as it likes. Of each shard's life glommio 0.9 keeps one eventfd
/// (it never drops the reference that each of its tasks has to it) and some tasks; neither the
/// buffers nor anything of ours stays.
#[test]
fn a_hundred_lives_leave_one_descriptor_a_shard_and_little_memory() {
    let name = "leaks::a_hundred_lives_leave_one_descriptor_a_shard_and_little_memory";
    let Some(dir) = in_child(name, &["env"]) else { return };
    const SHARDS: usize = 2;
    const LIVES: usize = 100;
    const REGISTERED_KIB: usize = 4 << 10;
    /// Starts that a busy machine may sleep over: each costs its executor, which is left to itself
    /// with its buffers.
    const SLEPT_OVER: usize = 8;
    let live = |round: u64| {
        let limits = corelog::Limits { registered_bytes: REGISTERED_KIB << 10, ..small() };
        let engine = builder(&dir, SHARDS).limits(limits).open().expect("it opens");
        let client = engine.client();
        if round == 0 {
            create_topic(&client, TopicConfig { partitions: 4, ..TopicConfig::default() });
        }
        client.append_blocking(P, batch(round, 1, 1_000), Ack::Durable).expect("it fits");
        match round % 2 {
            0 => engine.close_blocking().expect("nothing is wrong"),
            _ => drop(engine),
        }
    };
    (0..10).for_each(live);
    let (open, memory) = (descriptors(), resident());
    (10..10 + LIVES as u64).for_each(live);
    let (open, memory) = (descriptors() - open, resident().saturating_sub(memory));
    println!("{open} descriptors and {memory} KiB in {LIVES} lives");
    let of_each = usize::from(chosen::runtime() == Runtime::Glommio);
    assert!(open <= of_each * SHARDS * LIVES + 20, "{open} descriptors");
    let bound = 100 * SHARDS * LIVES + SLEPT_OVER * REGISTERED_KIB;
    assert!(memory <= bound as u64, "{memory} KiB");
}

/// Waits until nothing is under way on the only shard, and nothing is lent.
fn quiet(client: &Client) -> EngineStats {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let stats = match client.stats_blocking() {
            Ok(stats) => stats,
            // So many that were dropped are under way still; asking at once takes their CPU.
            Err(ControlError::Unavailable(Unavailable::Busy)) if Instant::now() < end => {
                thread::sleep(Duration::from_millis(5));
                continue;
            }
            Err(error) => panic!("the shard lives: {error}"),
        };
        let shard = &stats.shards[0];
        let works = shard.appends_in_flight + shard.polls_in_flight + shard.tasks + shard.mailbox;
        if works == 0 && stats.memory[0].leases == 0 {
            return stats;
        }
        assert!(Instant::now() < end, "{stats:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Looks at `future` once, and drops it.
fn look_once(mut future: impl Future + Unpin) {
    block_on(poll_fn(|cx| {
        let _ = Pin::new(&mut future).poll(cx);
        Polled::Ready(())
    }));
}

/// A thousand rounds of every call there is, dropped at once or after one look.
fn give_up(client: &Client, from: u64) {
    let me = ConsumerKey { kind: ConsumerKind::Consumer, id: 7 };
    for number in from..from + 1_000 {
        let append = client.append(P, batch(number, 1, 4_000), Ack::Durable);
        let poll = client.poll(P, Poll::offset(number % 700).max_bytes(100_000));
        let waiting = client.poll(P, Poll::offset(u64::MAX - 1).max_wait(Duration::from_millis(5)));
        let store = client.store_offset(P, me, 0, Ack::Appended);
        match number % 2 {
            0 => drop((append, poll, waiting, store)),
            _ => {
                look_once(append);
                look_once(poll);
                look_once(waiting);
                look_once(store);
            }
        }
        drop((client.flush(P, Ack::Durable), client.watermarks(P), client.offset(P, me)));
        if number % 100 == 0 {
            drop((client.stats(), client.catalog().create_stream("again and again")));
        }
    }
}

/// Thousands of futures that nobody awaits: no request, task, buffer or view stays, what is counted
/// comes back to what it was, and the process does not grow.
#[test]
fn thousands_of_futures_that_nobody_awaits_leave_nothing() {
    let name = "leaks::thousands_of_futures_that_nobody_awaits_leave_nothing";
    let Some(dir) = in_child(name, &["env"]) else { return };
    let (engine, client) = with_topic(&dir, 1, small_segments());
    for tag in 0..700 {
        client.append_blocking(P, batch(tag, 1, 4_000), Ack::Appended).expect("it fits");
    }
    let round = |number: u64| {
        give_up(&client, number * 1_000);
        quiet(&client)
    };
    // What the allocator keeps of the most that is in flight is not what stays behind.
    (1..9).for_each(|number| drop(round(number)));
    let memory = resident();
    (9..28).for_each(|number| drop(round(number)));
    let after = round(28);
    assert_eq!(client.in_flight(), (0, 0), "all shares of the client's limits are back");
    let bounds = small().cache_bytes + (1 << 20);
    let buffers = after.memory[0];
    assert!(buffers.write_bytes + buffers.read_bytes <= 2 * bounds, "{buffers:?}");
    let grown = resident().saturating_sub(memory);
    assert!(grown < 16 << 10, "{grown} KiB for 20,000 rounds");
    // Dropped appends may be stored, each once; what was taken in is in order.
    let last = client.append_blocking(P, batch(0, 1, 10), Ack::Durable).expect("it fits");
    assert_eq!(poll_all(&client, P, 0, 1 << 20).len() as u64, last.base_offset + 1);
    engine.close_blocking().expect("nothing is wrong");
}
