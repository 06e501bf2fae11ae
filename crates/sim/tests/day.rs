//! A day in the life of a partition, simulated: little is appended, old segments go, the clock is set
//! forward and back, consumers wait; and nothing grows, drifts or is forgotten. Takes seconds.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use corelog_format::{BatchBuilder, Message};
use corelog_io::sim::{Rng, Sim};
use corelog_io::{Clock, Platform, Spawn};
use corelog_shard::{
    Client, ClientLimits, CopyOut, Follow, PartitionId, Shard, ShardLimits, Shards,
};
use corelog_storage::{Ack, From, LogConfig, Place, PollQuery, Retention, SharedLimits};

const HOURS: u64 = 24;
const HOUR: Duration = Duration::from_secs(3600);
/// How long messages are kept.
const EXPIRY: Duration = Duration::from_secs(20 * 60);
/// A pass of retention begins this long after the end of the one before (`shard/retention`).
const PASS: Duration = Duration::from_millis(900);
/// What the simulated disk and a busy thread may add to any time.
const SLACK: Duration = Duration::from_millis(60);
const FLUSH_AFTER: Duration = Duration::from_millis(250);
const MAX_WAIT: Duration = Duration::from_secs(7);
const ID: PartitionId = PartitionId::new(1, 2, 3);
const DIR: &str = "/day/1/2/3";

/// What the actors know together.
struct Day {
    sim: Sim,
    shards: Shards,
    client: Client,
    over: Cell<bool>,
    /// Base time of each batch of one message, by offset, as it was answered.
    stamps: RefCell<Vec<u64>>,
    /// The highest time that the wall clock has shown.
    latest_us: Cell<u64>,
    timed_out: Cell<u64>,
    woken: Cell<u64>,
    at_rest: Cell<u64>,
}

#[test]
fn a_day_passes_and_nothing_grows() {
    let sim = Sim::new(24);
    let (shards, seats) = Shards::new(1, &ShardLimits::default());
    let seat = seats.into_iter().next().expect("one shard has one seat");
    let limits = SharedLimits { cache_bytes: 1 << 20, open_files: 4, ..SharedLimits::default() };
    let shard = Shard::new(seat, sim.platform().clone(), CopyOut, limits);
    sim.platform().spawn().spawn(shard.run());
    let client = shards.client(&ClientLimits::default());
    let day = Rc::new(Day {
        sim,
        shards,
        client,
        over: Cell::default(),
        stamps: RefCell::default(),
        latest_us: Cell::default(),
        timed_out: Cell::default(),
        woken: Cell::default(),
        at_rest: Cell::default(),
    });
    day.sim.run(pass(&day));
    assert_eq!(day.sim.disk().open_files(), 0, "closed");
}

async fn pass(day: &Rc<Day>) {
    let config =
        LogConfig { segment_bytes: 1 << 20, flush_after: FLUSH_AFTER, ..LogConfig::default() };
    let place =
        Place { root: PathBuf::from("/"), dir: DIR.into(), partition_id: 3, incarnation: 1 };
    day.shards.open(ID, place, config).await.unwrap();
    let retention = Retention { expiry: Some(EXPIRY), sealed_bytes: None };
    day.shards.follow(ID, Follow { retention, ..Follow::default() }).unwrap();
    let actors = Rc::new(());
    let spawn = day.sim.platform().spawn().harness();
    spawn.spawn(present(&actors, produce(Rc::clone(day))));
    for number in 0..3 {
        spawn.spawn(present(&actors, consume(Rc::clone(day), number)));
    }
    let mut rng = Rng::new(5);
    let (mut flat, mut set) = (Flat::default(), 0);
    for hour in 0..HOURS {
        // Set forward, and the next hour back again, by up to 20 minutes; not in the hours that are
        // the measure.
        if hour > 1 {
            let by = if set > 0 { -set } else { rng.below(EXPIRY.as_micros() as u64) as i64 };
            day.sim.clock().step(by);
            set += by;
        }
        for _ in 0..12 {
            sleep(day, HOUR / 12).await;
            look(day).await;
            flat.look(day, hour).await;
        }
    }
    day.over.set(true);
    while Rc::strong_count(&actors) > 1 {
        sleep(day, MAX_WAIT).await;
    }
    let report = day.shards.close_all(0).await.unwrap();
    assert_eq!((report.closed, report.failed.len()), (1, 0));
    let (all, looked) = (day.stamps.borrow().len(), day.at_rest.get());
    assert!(all > 10_000 && looked > 50, "{all} batches, {looked} looks at the timer of flushes");
    let (timed_out, woken) = (day.timed_out.get(), day.woken.get());
    assert!(timed_out > 1_000 && woken > 10_000, "{timed_out} waits in vain, {woken} not");
}

/// `actor`, counted by `actors` until it ends.
fn present(
    actors: &Rc<()>,
    actor: impl Future<Output = ()> + 'static,
) -> impl Future<Output = ()> + 'static {
    let here = Rc::clone(actors);
    async move {
        actor.await;
        drop(here);
    }
}

async fn sleep(day: &Day, time: Duration) {
    day.sim.clock().sleep(time).await;
    day.latest_us.set(day.latest_us.get().max(day.sim.clock().now_us()));
}

fn batch(number: u64) -> Bytes {
    let mut rng = Rng::new(number);
    let len = rng.between(1_000, 9_000) as usize;
    let mut payload = number.to_le_bytes().to_vec();
    payload.resize(len, number as u8);
    let mut builder = BatchBuilder::new();
    builder.push(Message::new(&payload).id(number.into())).unwrap();
    builder.finish().unwrap().into()
}

/// One message every few seconds, and now and then none for a while.
async fn produce(day: Rc<Day>) {
    let mut rng = Rng::new(1);
    for number in 0.. {
        if day.over.get() {
            return;
        }
        let pause = match rng.below(40) {
            0 => Duration::from_secs(rng.between(8, 60)),
            _ => Duration::from_millis(rng.between(100, 9_000)),
        };
        sleep(&day, pause).await;
        let ack = [Ack::Appended, Ack::Written, Ack::Durable][rng.index(3)];
        let appended = day.client.append(ID, batch(number), ack).await.unwrap();
        assert_eq!(appended.base_offset, number, "offsets are dense");
        let before = day.stamps.borrow().last().copied().unwrap_or(0);
        assert!(appended.base_timestamp > before, "time went back: {appended:?} after {before}");
        day.stamps.borrow_mut().push(appended.base_timestamp);
        if ack == Ack::Appended && rng.below(20) == 0 {
            // Nobody waits for it, and it goes out in its time all the same.
            sleep(&day, FLUSH_AFTER + SLACK).await;
            let marks = day.client.watermarks(ID).await.unwrap();
            assert!(marks.written() > number, "{marks:?}: {number} is still in memory");
            day.at_rest.set(day.at_rest.get() + 1);
        }
    }
}

/// Waits for the next message, and the next.
async fn consume(day: Rc<Day>, number: u64) {
    let mut next = 0;
    while !day.over.get() {
        let begun = day.sim.clock().elapsed();
        let query = PollQuery::new(From::Offset(next), u32::MAX, 64 << 10);
        let query = PollQuery { max_wait: MAX_WAIT + Duration::from_millis(number), ..query };
        let records = day.client.poll(ID, query).await.unwrap();
        let took = day.sim.clock().elapsed() - begun;
        if records.is_empty() {
            let wait = query.max_wait;
            assert!((wait..wait + SLACK).contains(&took), "waited {took:?} instead of {wait:?}");
            day.timed_out.set(day.timed_out.get() + 1);
            continue;
        }
        assert!(took < MAX_WAIT + SLACK, "served after {took:?}");
        // It keeps up, so nothing that it wants is deleted before it comes.
        assert_eq!(records.first_offset(), Some(next), "without a gap");
        next = records.next_offset();
        day.woken.set(day.woken.get() + 1);
    }
}

/// First offsets of the segments that are there.
fn segments(day: &Day) -> Vec<u64> {
    let files = day.sim.disk().files();
    let names = files.iter().filter_map(|path| path.file_name()?.to_str());
    names.filter_map(|name| name.strip_suffix(".log")?.parse().ok()).collect()
}

/// What is kept is young enough, what went was old enough.
async fn look(day: &Day) {
    // A pass is over since the clock was set.
    sleep(day, 2 * PASS + SLACK).await;
    let now = day.sim.clock().now_us();
    let segments = segments(day);
    check_ages(day, &segments, now);
    let start = day.client.watermarks(ID).await.unwrap().start();
    assert_eq!(start, segments[0], "the log begins with its oldest file");
}

/// What lies in sealed segments is not older than it may be, what went before was old enough.
fn check_ages(day: &Day, segments: &[u64], now: u64) {
    let expiry = EXPIRY.as_micros() as u64;
    let passes_ago = now - (2 * PASS + SLACK).as_micros() as u64;
    let stamps = day.stamps.borrow();
    for pair in segments.windows(2) {
        // A segment ends where the next begins.
        let last = stamps[pair[1] as usize - 1];
        assert!(last + expiry > passes_ago, "{pair:?} is {} us old", now.saturating_sub(last));
    }
    if let Some(gone) = segments[0].checked_sub(1) {
        let last = stamps[gone as usize];
        assert!(last + expiry <= day.latest_us.get(), "{gone} was deleted too early");
    }
}

/// The most that was seen in the second hour; no later hour may hold more.
#[derive(Default)]
struct Flat {
    tasks: usize,
    files: usize,
    disk_bytes: u64,
}

impl Flat {
    async fn look(&mut self, day: &Day, hour: u64) {
        let stats = day.shards.stats(0).await.unwrap();
        let disk = day.sim.disk();
        assert!(stats.cached_bytes <= 1 << 20, "the cache holds {}", stats.cached_bytes);
        assert!(stats.open_handles <= 4, "{} handles for reading", stats.open_handles);
        assert!(stats.polls_in_flight <= 3 && stats.appends_in_flight <= 1, "{stats:?}");
        // The tail's window, one write, and what is cached.
        let used = disk.buffers().used() + disk.read_bytes_held();
        assert!(used <= 2 << 20, "{used} bytes of buffers");
        let files = disk.open_files() - stats.open_handles;
        if hour < 2 {
            self.tasks = self.tasks.max(stats.tasks);
            self.files = self.files.max(files);
            self.disk_bytes = self.disk_bytes.max(disk.used());
            return;
        }
        assert!(stats.tasks <= self.tasks, "{} tasks after {hour} hours", stats.tasks);
        assert!(files <= self.files, "{files} open files after {hour} hours");
        // A clock that is set back keeps messages for longer: by as much as it goes back.
        let most = 2 * self.disk_bytes + (2 << 20);
        assert!(disk.used() <= most, "{} bytes after {hour} hours, {most} at most", disk.used());
    }
}
