//! Producers and consumers that go on whatever the disk does: a pair for each partition, which
//! judges every answer and counts them, so that a test can wait for what it expects.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use corelog::calls::Call;
use corelog::error::{AppendError, PollError, storage};
use corelog::{Ack, Appended, Client, PartitionId, Poll};

use crate::content::{BatchKey, Content};
use crate::history::{Broken, Crash, History};
use crate::ledger::Event;

/// Appends of a producer that are not answered yet.
const DEPTH: usize = 3;
const LEVELS: [Ack; 3] = [Ack::Appended, Ack::Written, Ack::Durable];
/// After a refusal, or an answer that there is nothing more to read.
const PAUSE: Duration = Duration::from_millis(2);

/// What a pair has seen, counted.
#[derive(Debug, Default)]
pub struct Seen {
    acked: [AtomicU64; 3],
    refused: AtomicU64,
    poisoned: AtomicU64,
    reopened: AtomicU64,
    polls: AtomicU64,
    poll_errors: AtomicU64,
    messages: Mutex<Vec<String>>,
}

/// The counts of a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Appends that were acknowledged, by level.
    pub acked: [u64; 3],
    /// Appends that were refused: nothing was stored.
    pub refused: u64,
    /// Appends that were answered `Poisoned`.
    pub poisoned: u64,
    /// Times the partition was reopened and everything was read again.
    pub reopened: u64,
    /// Polls that served something.
    pub polls: u64,
    /// Polls that were answered with an error of the device.
    pub poll_errors: u64,
}

impl Counts {
    /// What was seen since `then`.
    #[must_use]
    pub fn since(&self, then: &Counts) -> Counts {
        Counts {
            acked: [0, 1, 2].map(|level: usize| self.acked[level] - then.acked[level]),
            refused: self.refused - then.refused,
            poisoned: self.poisoned - then.poisoned,
            reopened: self.reopened - then.reopened,
            polls: self.polls - then.polls,
            poll_errors: self.poll_errors - then.poll_errors,
        }
    }

    /// Appends of all levels went on, so many times at least, and polls.
    #[must_use]
    pub fn is_unhurt(&self, times: u64) -> bool {
        self.acked.iter().all(|acked| *acked >= times) && self.polls >= times
    }
}

impl Seen {
    /// The counts now.
    pub fn counts(&self) -> Counts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            acked: [0, 1, 2].map(|level: usize| of(&self.acked[level])),
            refused: of(&self.refused),
            poisoned: of(&self.poisoned),
            reopened: of(&self.reopened),
            polls: of(&self.polls),
            poll_errors: of(&self.poll_errors),
        }
    }

    /// The message of each kind of error, once for each text without its numbers.
    pub fn messages(&self) -> Vec<String> {
        locked(&self.messages).clone()
    }

    fn message(&self, text: String) {
        let mut messages = locked(&self.messages);
        let kind = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
        if messages.len() < 16 && messages.iter().all(|known| kind(known) != kind(&text)) {
            messages.push(text);
        }
    }
}

fn count(one: &AtomicU64) {
    one.fetch_add(1, Ordering::Relaxed);
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a pair shares.
struct Pair {
    client: Client,
    id: PartitionId,
    content: Content,
    seen: Arc<Seen>,
    history: Mutex<History>,
    /// A poisoned partition may be reopened now.
    reopen: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
}

/// A producer and a consumer of each partition, running.
pub struct Traffic {
    pairs: Vec<Arc<Pair>>,
    threads: Vec<JoinHandle<Result<(), Broken>>>,
    reopen: Arc<AtomicBool>,
    over: Arc<AtomicBool>,
}

impl Traffic {
    /// Starts on `histories`, one for each partition, as far as they have come; `life` is new.
    #[must_use]
    pub fn start(client: &Client, life: u32, histories: Vec<(PartitionId, History)>) -> Traffic {
        let reopen = Arc::new(AtomicBool::new(true));
        let over = Arc::new(AtomicBool::new(false));
        let pair = |(id, history): (PartitionId, History)| {
            Arc::new(Pair {
                client: client.clone(),
                id,
                content: history.content(),
                seen: Arc::default(),
                history: Mutex::new(history),
                reopen: Arc::clone(&reopen),
                over: Arc::clone(&over),
            })
        };
        let pairs: Vec<_> = histories.into_iter().map(pair).collect();
        let mut threads = Vec::new();
        for pair in &pairs {
            let (producer, consumer) = (Arc::clone(pair), Arc::clone(pair));
            threads.push(thread::spawn(move || producer.produce(life)));
            threads.push(thread::spawn(move || consumer.consume()));
        }
        Traffic { pairs, threads, reopen, over }
    }

    /// What each pair has seen.
    #[must_use]
    pub fn seen(&self) -> Vec<(PartitionId, Arc<Seen>)> {
        self.pairs.iter().map(|pair| (pair.id, Arc::clone(&pair.seen))).collect()
    }

    /// Whether producers reopen what is poisoned, or leave it so.
    pub fn may_reopen(&self, may: bool) {
        self.reopen.store(may, Ordering::Relaxed);
    }

    /// True as long as nobody has ended by a broken promise.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.threads.iter().all(|thread| !thread.is_finished())
    }

    /// Ends it: everything that was asked is answered when this returns.
    ///
    /// # Errors
    /// The first broken promise.
    pub fn stop(mut self) -> Result<Vec<(PartitionId, History)>, Broken> {
        self.over.store(true, Ordering::Relaxed);
        let ended: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        for one in ended {
            one.expect("actors do not panic")?;
        }
        let history = |pair: &Arc<Pair>| (pair.id, locked(&pair.history).clone());
        Ok(self.pairs.iter().map(history).collect())
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// An append on its way.
struct Asked {
    key: BatchKey,
    level: usize,
    call: Call<Appended, AppendError>,
}

impl Pair {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn note(&self, event: &Event) -> Result<(), Broken> {
        locked(&self.history).note(event)
    }

    fn broken(&self, expected: &str, found: impl std::fmt::Display) -> Broken {
        let broken = locked(&self.history).broken(expected, found);
        Broken { partition: Some(self.id), ..broken }
    }

    fn produce(&self, life: u32) -> Result<(), Broken> {
        let (mut asked, mut poisoned, mut nth) = (VecDeque::new(), false, 0);
        loop {
            if !self.is_over() && !poisoned && asked.len() < DEPTH {
                asked.push_back(self.offer(life, nth)?);
                nth += 1;
            } else if let Some(next) = asked.pop_front() {
                poisoned |= self.answered(next)?;
            } else if poisoned && !self.is_over() && self.reopen.load(Ordering::Relaxed) {
                poisoned = !self.reopened()?;
            } else if poisoned && !self.is_over() {
                thread::sleep(PAUSE);
            } else {
                return Ok(());
            }
        }
    }

    fn offer(&self, life: u32, nth: u32) -> Result<Asked, Broken> {
        let key = BatchKey::new(0, life, nth);
        let level = nth as usize % LEVELS.len();
        self.note(&Event::Offered { partition: self.id, key, level: LEVELS[level] })?;
        let batch = self.content.batch(self.id, key);
        Ok(Asked { key, level, call: self.client.append(self.id, batch, LEVELS[level]) })
    }

    /// Takes an answer. True: the partition takes no more appends.
    fn answered(&self, asked: Asked) -> Result<bool, Broken> {
        let (partition, key, seen) = (self.id, asked.key, &self.seen);
        let error = match asked.call.wait() {
            Ok(appended) => {
                let level = LEVELS[asked.level];
                self.note(&Event::Acked { partition, key, level, appended })?;
                count(&seen.acked[asked.level]);
                return Ok(false);
            }
            Err(error) => error,
        };
        seen.message(error.to_string());
        match error {
            AppendError::Busy
            | AppendError::Storage(
                storage::AppendError::StorageFull(_)
                | storage::AppendError::NoSegment(_)
                | storage::AppendError::NoFile(_)
                | storage::AppendError::Offsets(_),
            ) => {
                self.note(&Event::Refused { partition, key })?;
                count(&seen.refused);
                thread::sleep(PAUSE);
                Ok(false)
            }
            AppendError::Storage(storage::AppendError::Poisoned(_)) => {
                self.note(&Event::Failed { partition, key })?;
                count(&seen.poisoned);
                Ok(true)
            }
            other => Err(self.broken("an answer of the right kind", other)),
        }
    }

    /// Tries to bring the partition back; true where it is, and everything promised is there.
    fn reopened(&self) -> Result<bool, Broken> {
        match self.client.reopen_partition_blocking(self.id) {
            Ok(report) if report.damage.is_empty() => {
                let mut history = locked(&self.history);
                history.crashed(Crash::Kill);
                read_all(&mut history, &self.client, self.id)?;
                count(&self.seen.reopened);
                Ok(true)
            }
            Ok(report) => {
                Err(self.broken("no damage by a fault that has passed", format!("{report:?}")))
            }
            Err(error) => {
                self.seen.message(error.to_string());
                thread::sleep(PAUSE);
                Ok(false)
            }
        }
    }

    /// Reads what comes, over and over from the front.
    fn consume(&self) -> Result<(), Broken> {
        let mut next = 0;
        while !self.is_over() {
            match self.client.poll_blocking(self.id, Poll::offset(next).max_bytes(256 << 10)) {
                Ok(records) if records.is_empty() => {
                    next = 0;
                    thread::sleep(PAUSE);
                }
                Ok(records) => {
                    for batch in records.batches() {
                        let batch = batch.map_err(|error| self.broken("whole batches", error))?;
                        let stored = self.content.identify(self.id, batch.bytes());
                        let stored = stored
                            .map_err(|unlike| self.broken(&unlike.expected, &unlike.found))?;
                        if stored.header.base_offset != next {
                            let found = format!("{stored:?}");
                            return Err(self.broken(&format!("offset {next}"), found));
                        }
                        next += u64::from(stored.header.message_count);
                    }
                    self.note(&Event::Served { partition: self.id, end: next })?;
                    count(&self.seen.polls);
                }
                Err(
                    error @ PollError::Storage(
                        storage::PollError::Io(_) | storage::PollError::Unreadable { .. },
                    ),
                ) => {
                    self.seen.message(error.to_string());
                    count(&self.seen.poll_errors);
                    thread::sleep(PAUSE);
                }
                // Being reopened, perhaps in vain.
                Err(
                    PollError::PartitionFailed(_)
                    | PollError::Busy
                    | PollError::Storage(storage::PollError::Closed),
                ) => thread::sleep(PAUSE),
                Err(error) => return Err(self.broken("polls that are served", error)),
            }
        }
        Ok(())
    }
}

/// Reads the whole partition after an opening, and holds it against `history`.
///
/// # Errors
/// The first broken promise.
pub fn read_all(history: &mut History, client: &Client, id: PartitionId) -> Result<(), Broken> {
    let template = Broken { partition: Some(id), ..history.broken("everything served", "") };
    let unserved =
        |error: &dyn std::fmt::Display| Broken { found: error.to_string(), ..template.clone() };
    let marks = client.watermarks_blocking(id).map_err(|error| unserved(&error))?;
    if marks.durable() != marks.appended() {
        return Err(unserved(&format!("not all of it durable: {marks:?}")));
    }
    let mut reading = history.reading(id, marks.start())?;
    loop {
        let next = reading.next_offset();
        let polled = client.poll_blocking(id, Poll::offset(next).max_bytes(1 << 20));
        let records = polled.map_err(|error| unserved(&error))?;
        if records.is_empty() {
            return reading.finish(marks.appended()).map(drop);
        }
        for batch in records.batches() {
            let batch = batch.map_err(|error| unserved(&error))?;
            reading.batch(batch.bytes())?;
        }
    }
}
