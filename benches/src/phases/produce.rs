//! Producers append through the public API, each a thread with several appends outstanding.
//!
//! In a closed loop the next append is sent when an answer comes: a slow log is sent less, so
//! latencies are service times, not what an open stream of requests would feel. On a schedule each
//! append has an intended start that does not move when answers are late, and its response time runs
//! from there: what a stall holds up is counted for every append that it held up.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::{Barrier, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::set_current_timer_slack;

use super::moved::{Moved, Operation};
use super::schedule::{Schedule, Starts};
use super::{LOOK, PATIENCE, Stage};
use crate::content::{BatchId, Outbox};
use crate::outstanding::Outstanding;
use crate::plan::{Deal, Plan, Sent};
use crate::run_error::RunError;
use crate::subject::{Engine, EngineError, Topic};

/// What producers do, and until when.
#[derive(Clone, Copy)]
pub(crate) struct Load<'a> {
    pub(crate) topic: Topic,
    /// Partition 0 of the plan is this one of the topic.
    pub(crate) first_partition: u32,
    pub(crate) plan: &'a Plan,
    /// Appends a producer has outstanding at most.
    pub(crate) in_flight: usize,
    /// When appends are due; None in a closed loop.
    pub(crate) schedule: Option<Schedule>,
    /// Stops sending after this long, warm-up included; None: when the plan's batches are sent.
    pub(crate) time: Option<Duration>,
    /// What is answered so long after the start does not count.
    pub(crate) warm_up: Duration,
    /// Called once, when answers begin to count: for those who count something else beside.
    pub(crate) on_begin: Option<&'a (dyn Fn() + Sync)>,
    /// Told of every batch that is answered, before anybody else knows.
    pub(crate) on_answer: Option<&'a (dyn Fn(BatchId) + Sync)>,
}

/// When each batch was sent, for consumers that want to know how long it took to reach them.
#[derive(Debug, Default)]
pub(crate) struct SendTimes(Mutex<Sends>);

/// By producer, partition and sequence: intended and real start.
type Sends = HashMap<(u16, u32, u32), (Option<Instant>, Instant)>;

impl SendTimes {
    fn note(&self, id: BatchId, intended: Option<Instant>, sent: Instant) {
        self.times().insert((id.producer, id.partition, id.sequence), (intended, sent));
    }

    /// Intended and real start of a batch, which is forgotten then; None for one that was not
    /// noted.
    pub(super) fn take(&self, id: BatchId) -> Option<(Option<Instant>, Instant)> {
        self.times().remove(&(id.producer, id.partition, id.sequence))
    }

    fn times(&self) -> MutexGuard<'_, Sends> {
        self.0.lock().expect("nothing panics under this lock")
    }
}

/// The start that all threads of a phase share.
#[derive(Debug)]
pub(crate) struct Go {
    all_warm: Barrier,
    start: OnceLock<Instant>,
    warm_up: Duration,
}

impl Go {
    /// For the producers of a load.
    pub(crate) fn new(load: &Load<'_>) -> Go {
        let all_warm = Barrier::new(usize::from(load.plan.producers));
        Go { all_warm, start: OnceLock::new(), warm_up: load.warm_up }
    }

    /// From when on answers count; None while the producers send their first batches.
    pub(super) fn counted_from(&self) -> Option<Instant> {
        self.start.get().map(|start| *start + self.warm_up)
    }

    fn start(&self, load: &Load<'_>) -> Instant {
        // All producers pass, also one that failed: the others must not wait for ever.
        self.all_warm.wait();
        *self.start.get_or_init(|| {
            // All others wait meanwhile.
            if let Some(begin) = load.on_begin.filter(|_| self.warm_up.is_zero()) {
                begin();
            }
            Instant::now()
        })
    }
}

/// Appends as the load says, a lane's first batch before the clock starts. Adds what was sent to
/// `sent`, where sequences go on. `times` is told of every batch, where somebody wants to know.
pub(crate) fn run<E: Engine>(
    engine: &E,
    stage: Stage<'_>,
    load: Load<'_>,
    go: &Go,
    times: Option<&SendTimes>,
    sent: &mut Sent,
) -> Result<Moved, RunError> {
    let before = sent.clone();
    let producers: Vec<Result<(Moved, Sent), RunError>> = thread::scope(|scope| {
        let before = &before;
        let threads: Vec<_> = (0..load.plan.producers)
            .map(|number| {
                scope.spawn(move || {
                    let outstanding = Outstanding::on_this_thread();
                    let producer = Producer {
                        engine,
                        stage,
                        load,
                        number,
                        times,
                        sent: before.clone(),
                        outstanding,
                        begins: None,
                    };
                    producer.run(before, go)
                })
            })
            .collect();
        threads.into_iter().map(|one| one.join().expect("a producer panicked")).collect()
    });
    let mut all = Moved::new(go.counted_from().expect("the producers started"));
    for producer in producers {
        let (moved, its_sent) = producer?;
        all.merge(&moved);
        sent.join(&before, &its_sent);
    }
    Ok(all)
}

/// The answer of an append, with what was sent.
type PendingAppend<'a> = Pin<Box<dyn Future<Output = Answer> + Send + 'a>>;

/// An append that was answered.
type Answer = (BatchId, Operation, Result<(), EngineError>);

struct Producer<'a, E> {
    engine: &'a E,
    stage: Stage<'a>,
    load: Load<'a>,
    number: u16,
    times: Option<&'a SendTimes>,
    sent: Sent,
    outstanding: Outstanding<PendingAppend<'a>>,
    /// When this producer has to say that answers begin to count: one of them, behind a warm-up
    /// that is a time.
    begins: Option<Instant>,
}

impl<'a, E: Engine> Producer<'a, E> {
    fn run(mut self, before: &Sent, go: &Go) -> Result<(Moved, Sent), RunError> {
        if self.load.schedule.is_some() {
            // Wakes at the intended start and not up to 50 us later; a kernel may refuse.
            let _ = set_current_timer_slack(NonZeroU64::new(1));
        }
        let mut outbox = Outbox::new(self.stage.content);
        let mut deal = self.load.plan.deal(self.number, before);
        let warmed = self.warm_up(&mut outbox, &mut deal);
        let start = go.start(&self.load);
        warmed?;
        self.begins =
            (self.number == 0 && !go.warm_up.is_zero()).then_some(start + self.load.warm_up);
        let mut moved = Moved::new(start + self.load.warm_up);
        self.send_all(&mut outbox, &mut deal, start, &mut moved)?;
        self.drain(&mut moved)?;
        Ok((moved, self.sent))
    }

    fn warm_up(&mut self, outbox: &mut Outbox<'_>, deal: &mut Deal) -> Result<(), RunError> {
        let mut uncounted = Moved::new(Instant::now());
        for batch in deal.one_each() {
            if self.stage.interrupt.is_raised() {
                break;
            }
            self.send(outbox, batch, None, &mut uncounted)?;
            self.make_room(&mut uncounted)?;
        }
        self.drain(&mut uncounted)
    }

    fn send_all(
        &mut self,
        outbox: &mut Outbox<'_>,
        deal: &mut Deal,
        start: Instant,
        moved: &mut Moved,
    ) -> Result<(), RunError> {
        let end = self.load.time.map(|time| start + time);
        let producers = self.load.plan.producers;
        let mut starts =
            self.load.schedule.map(|schedule| schedule.starts(start, self.number, producers));
        let late = self.load.schedule.map_or(Duration::ZERO, |schedule| schedule.late);
        while let Some(batch) = deal.next() {
            let intended = starts.as_mut().map(Starts::next);
            let wanted = intended.unwrap_or_else(Instant::now);
            if end.is_some_and(|end| wanted >= end || Instant::now() >= end + late) {
                break;
            }
            self.wait_until(wanted, moved)?;
            if self.stage.interrupt.is_raised() {
                break;
            }
            self.send(outbox, batch, intended, moved)?;
            self.make_room(moved)?;
        }
        Ok(())
    }

    fn send(
        &mut self,
        outbox: &mut Outbox<'_>,
        (partition, sequence): (u32, u32),
        intended: Option<Instant>,
        moved: &mut Moved,
    ) -> Result<(), RunError> {
        let Stage { round, content, .. } = self.stage;
        let of_topic = self.load.first_partition + partition;
        let id = BatchId { round, producer: self.number, partition: of_topic, sequence };
        let batch = outbox.batch(id);
        let (bytes, messages) = (batch.len() as u64, u64::from(content.message_count(id)));
        let sent = Instant::now();
        if let Some(times) = self.times {
            times.note(id, intended, sent);
        }
        let operation = Operation { intended, sent, bytes, messages };
        // The call takes the place in the order; only the answer is awaited.
        let call = self.engine.append(self.load.topic, of_topic, batch);
        self.sent.add(self.number, partition);
        let answer: PendingAppend<'a> = Box::pin(async move { (id, operation, call.await) });
        match self.outstanding.push(sent, answer) {
            Some((answer, _)) => self.note(answer, moved),
            None => Ok(()),
        }
    }

    fn note(&self, (id, operation, result): Answer, moved: &mut Moved) -> Result<(), RunError> {
        result.map_err(|source| RunError::Engine { doing: "appending".to_owned(), source })?;
        self.stage.live.add(operation.bytes, operation.messages);
        moved.record(operation, Instant::now());
        if let Some(on_answer) = self.load.on_answer {
            on_answer(id);
        }
        Ok(())
    }

    /// Waits until another append may be sent.
    fn make_room(&mut self, moved: &mut Moved) -> Result<(), RunError> {
        while self.outstanding.in_flight() >= self.load.in_flight {
            match self.outstanding.wait_until(Instant::now() + LOOK) {
                Some((answer, _)) => self.note(answer, moved)?,
                None if self.stage.interrupt.is_raised() => break,
                None => {}
            }
        }
        Ok(())
    }

    /// Takes answers until `wanted` has come, or the user stops the run.
    fn wait_until(&mut self, wanted: Instant, moved: &mut Moved) -> Result<(), RunError> {
        while !self.stage.interrupt.is_raised() {
            self.begin_if_due();
            let now = Instant::now();
            let left = wanted.saturating_duration_since(now);
            if left.is_zero() {
                break;
            }
            let begins = self.begins.map(|begins| begins.saturating_duration_since(now));
            let left = left.min(LOOK).min(begins.unwrap_or(LOOK));
            match self.outstanding.wait_until(Instant::now() + left) {
                Some((answer, _)) => self.note(answer, moved)?,
                None if self.outstanding.in_flight() == 0 => thread::sleep(left),
                None => {}
            }
        }
        Ok(())
    }

    /// Says that answers begin to count, where this producer has to and the time has come.
    fn begin_if_due(&mut self) {
        if self.begins.take_if(|begins| *begins <= Instant::now()).is_some()
            && let Some(begin) = self.load.on_begin
        {
            begin();
        }
    }

    /// Takes the answers that are still out; where the user stopped the run, not for ever.
    fn drain(&mut self, moved: &mut Moved) -> Result<(), RunError> {
        let mut stopped = None;
        while self.outstanding.in_flight() > 0 {
            match self.outstanding.wait_until(Instant::now() + LOOK) {
                Some((answer, _)) => self.note(answer, moved)?,
                None if self.stage.interrupt.is_raised() => {
                    let since = *stopped.get_or_insert_with(Instant::now);
                    if since.elapsed() > PATIENCE {
                        return Err(RunError::Interrupted);
                    }
                }
                None => {}
            }
        }
        Ok(())
    }
}
