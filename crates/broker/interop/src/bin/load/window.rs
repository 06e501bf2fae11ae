//! Warm-up, the time that counts, and what both sides used in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use corelog_interop::{Memory, cpu_seconds, memory};
use hdrhistogram::Histogram;
use tokio::time::{sleep, timeout};

/// Time before the one that counts.
const WARM_UP: Duration = Duration::from_millis(700);

/// Between two looks at how far the clients are.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Time after which a request that is not answered is none any more: it hangs.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// How long the time that counts goes on: until one of the two is reached.
pub struct Limit {
    pub bytes: u64,
    pub time: Duration,
}

/// What makes requests, one after the other.
pub trait Requests: Send + 'static {
    /// Makes one and ends when it is answered.
    fn request(&mut self) -> impl Future<Output = ()> + Send;
}

/// What came of a shape in one round.
pub struct Outcome {
    pub requests: u64,
    /// Payload, bytes.
    pub bytes: u64,
    pub seconds: f64,
    /// CPU time of the other process, and of this one.
    pub server_cpu: f64,
    pub client_cpu: f64,
    /// Of the other process at the end.
    pub memory: Memory,
    pub latencies_us: Histogram<u64>,
}

/// What clients and their watcher tell each other.
#[derive(Default)]
struct Progress {
    requests: AtomicU64,
    counts: AtomicBool,
    ends: AtomicBool,
}

/// Lets `clients` make requests of `payload` bytes to process `pid` until the limit is reached, and
/// gives them back.
///
/// # Panics
/// When a request is not answered.
pub async fn measure<C: Requests>(
    limit: &Limit,
    pid: u32,
    payload: u64,
    clients: Vec<C>,
) -> (Outcome, Vec<C>) {
    let progress = Arc::new(Progress::default());
    let tasks: Vec<_> =
        clients.into_iter().map(|client| tokio::spawn(drive(client, progress.clone()))).collect();
    sleep(WARM_UP).await;
    let requests = || progress.requests.load(Ordering::Relaxed);
    progress.counts.store(true, Ordering::Relaxed);
    let cpu = || (cpu_seconds(pid), cpu_seconds(std::process::id()));
    let (begin, before, cpu_before) = (Instant::now(), requests(), cpu());
    while begin.elapsed() < limit.time && (requests() - before) * payload < limit.bytes {
        sleep(LOOK_EVERY).await;
    }
    progress.counts.store(false, Ordering::Relaxed);
    let (seconds, requests, cpu_after) =
        (begin.elapsed().as_secs_f64(), requests() - before, cpu());
    progress.ends.store(true, Ordering::Relaxed);
    let mut outcome = Outcome {
        requests,
        bytes: requests * payload,
        seconds,
        server_cpu: cpu_after.0 - cpu_before.0,
        client_cpu: cpu_after.1 - cpu_before.1,
        memory: memory(pid),
        latencies_us: Histogram::new(3).unwrap(),
    };
    let mut clients = Vec::new();
    for task in tasks {
        let (client, latencies) =
            timeout(ANSWER_MAX, task).await.expect("a request hangs").unwrap();
        outcome.latencies_us.add(latencies).unwrap();
        clients.push(client);
    }
    (outcome, clients)
}

async fn drive<C: Requests>(mut client: C, progress: Arc<Progress>) -> (C, Histogram<u64>) {
    let mut latencies = Histogram::new(3).unwrap();
    while !progress.ends.load(Ordering::Relaxed) {
        let asked = Instant::now();
        client.request().await;
        progress.requests.fetch_add(1, Ordering::Relaxed);
        if progress.counts.load(Ordering::Relaxed) {
            latencies.record(asked.elapsed().as_micros() as u64).unwrap();
        }
    }
    (client, latencies)
}
