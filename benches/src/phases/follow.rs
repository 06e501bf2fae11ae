//! Consumers of what is being appended, while it is: at the end of the log, or catching up with it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::moved::{Moved, Operation};
use super::produce::{Go, SendTimes};
use super::{LOOK, Stage};
use crate::check::Checker;
use crate::content::BatchId;
use crate::outstanding::Outstanding;
use crate::plan::Sent;
use crate::run_error::RunError;
use crate::subject::{Engine, EngineError, Records, Topic};

/// How long a poll waits for messages where there are none.
const WAIT: Duration = Duration::from_millis(20);

/// Where consumers begin, and what they measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// Behind what was sent before the phase. An operation is a batch: from its append until it is
    /// in the consumer's hands.
    End,
    /// At the first message, which is on the disk, until they have read what was sent before the
    /// phase. An operation is a poll.
    Start,
}

/// What the consumers of a phase share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Follow<'a> {
    pub(crate) from: From,
    pub(crate) consumers: u32,
    pub(crate) partitions: u32,
    /// What was sent before the phase.
    pub(crate) before: &'a Sent,
    pub(crate) go: &'a Go,
    pub(crate) times: &'a SendTimes,
    /// Raised when the producers have all their answers.
    pub(crate) is_over: &'a AtomicBool,
}

/// Consumers, each a thread with its share of the partitions; every byte is checked. None when the
/// producers never started.
pub(crate) fn run<E: Engine>(
    engine: &E,
    stage: Stage<'_>,
    follow: Follow<'_>,
) -> Result<Option<Moved>, RunError> {
    let consumers: Vec<Result<Option<Moved>, RunError>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..follow.consumers)
            .map(|number| scope.spawn(move || Follower::new(engine, stage, follow, number).run()))
            .collect();
        threads.into_iter().map(|one| one.join().expect("a consumer panicked")).collect()
    });
    let mut all: Option<Moved> = None;
    for one in consumers {
        match (&mut all, one?) {
            (Some(all), Some(moved)) => all.merge(&moved),
            (None, moved) => all = moved,
            (Some(_), None) => {}
        }
    }
    Ok(all)
}

/// One partition of a consumer.
struct Place<'a> {
    partition: u32,
    checker: Checker<'a>,
    /// Where catching up ends.
    until: u64,
}

struct Follower<'a, E: Engine> {
    engine: &'a E,
    stage: Stage<'a>,
    follow: Follow<'a>,
    places: Vec<Place<'a>>,
}

/// A poll that was answered: of which place, sent when, whether nothing more could be appended
/// then, and its reply.
type Answer<R> = (usize, Instant, bool, Result<R, EngineError>);
type Pending<'a, R> = std::pin::Pin<Box<dyn Future<Output = Answer<R>> + Send + 'a>>;

impl<'a, E: Engine> Follower<'a, E> {
    fn new(engine: &'a E, stage: Stage<'a>, follow: Follow<'a>, number: u32) -> Self {
        let Stage { content, round, .. } = stage;
        let place = |partition| {
            let batches = follow.before.batches(partition);
            let end = follow.before.end(partition, content, round);
            let producers = u16::try_from(batches.len()).expect("producers are counted by u16");
            let checker = match follow.from {
                From::Start => Checker::new(content, round, partition, producers),
                From::End => Checker::resumed(content, round, partition, end, batches),
            };
            Place { partition, checker: checker.noting(), until: end }
        };
        let mine = (number..follow.partitions).step_by(follow.consumers.max(1) as usize);
        Follower { engine, stage, follow, places: mine.map(place).collect() }
    }

    fn run(mut self) -> Result<Option<Moved>, RunError> {
        let start = loop {
            match self.follow.go.counted_from() {
                Some(start) => break start,
                None if self.is_over() => return Ok(None),
                None => thread::sleep(Duration::from_millis(1)),
            }
        };
        let mut moved = Moved::new(start);
        let mut outstanding = Outstanding::on_this_thread();
        let mut answers = Vec::new();
        for number in 0..self.places.len() {
            answers.extend(outstanding.push(start, self.poll(number)).map(|ended| ended.0));
        }
        while !self.stage.interrupt.is_raised() {
            let answer = match answers.pop() {
                Some(answer) => answer,
                None if outstanding.in_flight() == 0 => break,
                None => match outstanding.wait_until(Instant::now() + LOOK) {
                    Some((answer, _)) => answer,
                    None => continue,
                },
            };
            if let Some(number) = self.take(answer, &mut moved)? {
                answers.extend(outstanding.push(start, self.poll(number)).map(|ended| ended.0));
            }
        }
        Ok(Some(moved))
    }

    fn is_over(&self) -> bool {
        self.follow.is_over.load(Ordering::Acquire)
    }

    fn poll(&self, number: usize) -> Pending<'a, E::Records> {
        let place = &self.places[number];
        let is_last = self.is_over();
        let wait = if is_last { Duration::ZERO } else { WAIT };
        let (offset, bytes) = (place.checker.next_offset(), self.stage.poll_bytes);
        let call = self.engine.poll(Topic::Written, place.partition, offset, bytes, wait);
        let sent = Instant::now();
        Box::pin(async move { (number, sent, is_last, call.await) })
    }

    /// Checks a reply and counts it; the place, unless it is done.
    fn take(
        &mut self,
        (number, sent, is_last, records): Answer<E::Records>,
        moved: &mut Moved,
    ) -> Result<Option<usize>, RunError> {
        let answered = Instant::now();
        let Place { partition, checker, until } = &mut self.places[number];
        let before = checker.next_offset();
        let records = records.map_err(|source| RunError::Engine {
            doing: format!("polling partition {partition} at {before} while it is appended to"),
            source,
        })?;
        let mut bytes = 0;
        for slice in records.slices() {
            checker.feed(slice)?;
            bytes += slice.len() as u64;
        }
        if bytes == 0 {
            return Ok((!is_last).then_some(number));
        }
        checker.end_reply(records.next_offset())?;
        let messages = checker.next_offset() - before;
        match self.follow.from {
            From::Start => {
                moved.record(Operation { intended: None, sent, bytes, messages }, answered);
                let is_done = checker.next_offset() >= *until || self.is_over();
                Ok((!is_done).then_some(number))
            }
            From::End => {
                for id in checker.take_whole() {
                    self.count(id, answered, moved);
                }
                Ok(Some(number))
            }
        }
    }

    /// Counts a batch that reached its consumer.
    fn count(&self, id: BatchId, answered: Instant, moved: &mut Moved) {
        let Some((intended, sent)) = self.follow.times.take(id) else { return };
        // Warm-up.
        if sent < moved.start() {
            return;
        }
        let content = self.stage.content;
        let bytes = content.batch_len(id) as u64;
        let messages = u64::from(content.message_count(id));
        moved.record(Operation { intended, sent, bytes, messages }, answered);
    }
}
