//! One log, once: opened, appended to by all producers, synced, closed, and read back.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde_json::json;

use crate::Fault;
use crate::args::ChildArgs;
use crate::cost::{Counters, allocated, peak_memory};
use crate::logs::{self, Log};
use crate::work::{Checker, RECORD_BYTES, Work, fill};

/// What one producer saw.
struct Appended {
    begun: Instant,
    ended: Instant,
    nanos: Histogram<u64>,
}

/// Runs the child and prints what it measured.
pub(crate) fn run(args: &ChildArgs) -> Result<(), Fault> {
    // Whoever started this must not leave it behind.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let work = args.class.work(args.scale);
    std::fs::create_dir_all(&args.dir)?;
    let log = logs::open(args.log, args.class, work, &args.dir)?;
    let before = Counters::now(&args.dir);
    let producers = append_all(log.as_ref(), work)?;
    let used = before.until(Counters::now(&args.dir));
    let begun = producers.iter().map(|one| one.begun).min().expect("at least one producer");
    let ended = producers.iter().map(|one| one.ended).max().expect("at least one producer");
    let elapsed = ended - begun;
    let synced = Instant::now();
    let has_sync = log.sync()?;
    let until_durable = has_sync.then(|| elapsed + synced.elapsed());
    let device = before.until(Counters::now(&args.dir)).device_written;
    let peak = peak_memory();
    log.close()?;
    let on_disk = allocated(&args.dir);
    let compared = match args.append_only {
        true => None,
        false => logs::read(args.log, args.class, work, &args.dir, Checker::new(work))?,
    };
    let mut nanos = histogram();
    for producer in &producers {
        nanos.add(&producer.nanos)?;
    }
    let us = |percent| nanos.value_at_quantile(percent) as f64 / 1e3;
    let payload = work.payload_bytes() as f64;
    let rate = |time: Duration| work.timed_bytes() as f64 / 1e6 / time.as_secs_f64();
    println!(
        "{}",
        json!({
            "log": args.log.name(),
            "class": args.class.to_string(),
            "payload_bytes": work.payload_bytes(),
            "batches": work.batches * u64::from(work.producers),
            "compared_bytes": compared,
            "mb_per_s": rate(elapsed),
            "mb_per_s_until_durable": until_durable.map(rate),
            "p50_us": us(0.5),
            "p99_us": us(0.99),
            "disk_bytes_a_payload_byte": on_disk as f64 / payload,
            "device_bytes_a_payload_byte": device.map(|bytes| bytes as f64 / payload),
            "cpu_s_per_gb": used.cpu_s / (payload / 1e9),
            "peak_memory_bytes": peak,
        })
    );
    Ok(())
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("3 digits are within the crate's limits")
}

/// All producers at once, each a thread with one batch at a time; the first one of each is not
/// timed.
fn append_all(log: &dyn Log, work: Work) -> Result<Vec<Appended>, Fault> {
    let warm = Barrier::new(work.producers as usize);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..work.producers)
            .map(|producer| {
                let warm = &warm;
                scope.spawn(move || append(log, work, producer, warm))
            })
            .collect();
        threads.into_iter().map(|one| one.join().expect("a producer panicked")).collect()
    })
}

fn append(log: &dyn Log, work: Work, producer: u32, warm: &Barrier) -> Result<Appended, Fault> {
    let mut bytes = vec![0; RECORD_BYTES * work.records as usize];
    let mut nanos = histogram();
    let mut begun = Instant::now();
    let mut failed = None;
    for batch in 0..work.batches {
        for (at, record) in (0..).zip(bytes.chunks_mut(RECORD_BYTES)) {
            fill(record, producer, batch * work.records + at);
        }
        let records: Vec<&[u8]> = bytes.chunks(RECORD_BYTES).collect();
        let start = Instant::now();
        let answer = log.append(producer, batch * work.records, &records);
        if batch > 0 {
            nanos.record(start.elapsed().as_nanos() as u64)?;
        }
        failed = answer.err();
        if batch == 0 {
            // All pass, also one that failed: the others must not wait for ever.
            warm.wait();
            begun = Instant::now();
        }
        if failed.is_some() {
            break;
        }
    }
    match failed {
        Some(fault) => Err(fault),
        None => Ok(Appended { begun, ended: Instant::now(), nanos }),
    }
}
