//! One round: the steps of the workload on a data directory of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::preset::Step;
use super::{MANY_TIME, Outcome, Settings};
use crate::account::{Meter, Used};
use crate::ceiling::{BLOCK_BYTES, Ceiling, CeilingError, Layout, Many, Method};
use crate::content::Content;
use crate::crash::{Appender, Killed};
use crate::interrupt::Interrupt;
use crate::kept::Kept;
use crate::pairs::pair;
use crate::phases::files::{self, Written, topic_dir};
use crate::phases::follow::{self, Follow, From};
use crate::phases::moved::Moved;
use crate::phases::produce::{self, Go, Load, SendTimes};
use crate::phases::{Stage, durable, poll};
use crate::place::Place;
use crate::plan::{Plan, Sent};
use crate::results::{Figure, PhaseRound};
use crate::run_error::RunError;
use crate::stats::mb_per_s;
use crate::subject::{Demand, Engine, Opener, Topic};

/// Longest that the lone producer's durable appends of a round go on, and the synced writes beside
/// them.
const DURABLE_BUDGET: Duration = Duration::from_secs(1);

/// What all rounds share.
pub(super) struct Runner<'a, O> {
    pub(super) opener: &'a O,
    pub(super) settings: &'a Settings,
    pub(super) place: &'a Place,
    pub(super) interrupt: &'a Interrupt,
    pub(super) content: Content,
    /// The batches of durable appends.
    pub(super) small: Content,
    pub(super) plan: Plan,
    /// None in a closed loop.
    pub(super) batches_per_s: Option<f64>,
    pub(super) ceiling: Ceiling,
    /// Bytes that the ceiling moves beside the appends and the polls.
    pub(super) ceiling_bytes: u64,
    /// When the run began.
    pub(super) begun: Instant,
}

/// What the steps of a round hand on.
struct State<E> {
    number: u32,
    dir: PathBuf,
    /// None while it is closed.
    engine: Option<E>,
    sent: Sent,
}

/// A phase of the engine, and what it used.
type Measured = (Moved, Used);

impl<O: Opener> Runner<'_, O> {
    pub(super) fn round(&self, number: u32, outcome: &mut Outcome) -> Result<(), RunError> {
        let mut state = State {
            number,
            dir: self.place.round_dir(number),
            engine: None,
            sent: Sent::nothing(self.settings.producers, self.settings.partitions),
        };
        for step in &self.settings.steps {
            match step {
                Step::Append => self.append(&mut state, outcome)?,
                Step::Poll => self.poll(&mut state, outcome)?,
                Step::Durable => self.durable(&mut state, outcome)?,
                Step::DurableShared => self.durable_shared(&mut state, outcome)?,
                Step::DurableSpread => self.durable_spread(&mut state, outcome)?,
                Step::Opening => self.opening(&mut state, outcome)?,
                Step::Verify => self.verify(&mut state, outcome)?,
            }
            self.interrupt.check()?;
        }
        self.close(&mut state)?;
        self.ceiling.remove_files(self.settings.shape.rings)?;
        if self.place.keeps() && self.settings.has(Step::Append) {
            self.kept(number, state.sent).save(self.place)?;
        }
        Ok(self.place.remove_round(number)?)
    }

    /// What `verify` has to know of the files that stay.
    fn kept(&self, round: u32, sent: Sent) -> Kept {
        let Settings { seed, ref sizes, ref log, .. } = *self.settings;
        Kept { round, seed, sizes: sizes.clone(), is_retained: log.has_retention(), sent }
    }

    /// Producers, the consumers that follow them, and the ceiling of both.
    fn append(&self, state: &mut State<O::Engine>, outcome: &mut Outcome) -> Result<(), RunError> {
        let settings = self.settings;
        if settings.catch_up > 0 {
            // What is caught up with comes from the disk: written before, and the engine reopened.
            self.open(state)?;
            let load = Load { period: None, time: None, warm_up: Duration::ZERO, ..self.load() };
            let stage = self.stage(state.number, &self.content);
            let engine = state.engine.as_ref().expect("opened above");
            produce::run(engine, stage, load, &Go::new(&load), None, &mut state.sent)?;
            self.close(state)?;
            self.interrupt.check()?;
        }
        self.open(state)?;
        let shape = settings.shape;
        let (wrote, appended) = pair(
            self.place,
            state.number,
            || {
                uninterrupted(match settings.catch_up {
                    0 => self.ceiling.write_once(self.ceiling_bytes, shape).map(|one| (one, None)),
                    _ => {
                        let both = self.ceiling.mixed_once(self.ceiling_bytes, shape);
                        both.map(|(wrote, read)| (wrote, Some(read)))
                    }
                })
            },
            || self.produce_and_follow(state),
        )?;
        let Appended { append, tail, catch_up, used } = appended;
        if let Some((wrote, _)) = &wrote {
            outcome.granted = Some(wrote.granted);
        }
        let written = wrote.as_ref().map(|(wrote, _)| mb_per_s(wrote.bytes, wrote.elapsed));
        let read = wrote.and_then(|(_, read)| read).map(|read| mb_per_s(read.bytes, read.elapsed));
        let is_short = settings.duration.is_some_and(|time| append.elapsed() < time / 2);
        if is_short && !self.interrupt.is_raised() {
            outcome.notes.push(format!(
                "round {}: the disk had no more room, the appends ended after {:.1} s",
                state.number,
                append.elapsed().as_secs_f64()
            ));
        }
        self.add(outcome, "append", (append, used.clone()), written);
        for (name, moved, ceiling) in [("tail", tail, written), ("catch_up", catch_up, read)] {
            if let Some(moved) = moved {
                self.add(outcome, name, (moved, used.clone()), ceiling);
            }
        }
        Ok(())
    }

    fn produce_and_follow(&self, state: &mut State<O::Engine>) -> Result<Appended, RunError> {
        let State { number, engine, sent, .. } = state;
        let engine = engine.as_ref().expect("opened before");
        let stage = self.stage(*number, &self.content);
        let load = self.load();
        let (go, times, is_over) = (Go::new(&load), SendTimes::default(), AtomicBool::new(false));
        let before = sent.clone();
        let follow = |from, consumers| Follow {
            from,
            consumers,
            partitions: self.settings.partitions,
            before: &before,
            go: &go,
            times: &times,
            is_over: &is_over,
        };
        let (tail, catch_up) = (self.settings.tail, self.settings.catch_up);
        let meter = Meter::start(self.place.path());
        let (append, tail, catch_up) = thread::scope(|scope| {
            let followers = [(From::End, tail), (From::Start, catch_up)].map(|(from, count)| {
                let follow = follow(from, count);
                (count > 0).then(|| scope.spawn(move || follow::run(engine, stage, follow)))
            });
            let noted = (tail > 0).then_some(&times);
            let append = produce::run(engine, stage, load, &go, noted, sent);
            is_over.store(true, Ordering::Release);
            let [tail, catch_up] = followers.map(|one| match one {
                Some(thread) => thread.join().expect("a consumer panicked"),
                None => Ok(None),
            });
            Ok::<_, RunError>((append?, tail?, catch_up?))
        })?;
        Ok(Appended { append, tail, catch_up, used: meter.stop() })
    }

    /// Cold consumers: what was appended must come from the disk, not from the engine's memory.
    fn poll(&self, state: &mut State<O::Engine>, outcome: &mut Outcome) -> Result<(), RunError> {
        self.close(state)?;
        let settings = self.settings;
        let stage = self.stage(state.number, &self.content);
        self.open(state)?;
        let State { number, engine, sent, .. } = state;
        let engine = engine.as_ref().expect("opened before");
        let (read, polled) = pair(
            self.place,
            *number,
            || uninterrupted(self.ceiling.read_once(self.ceiling_bytes, settings.shape)),
            || {
                self.measured(|| {
                    let (partitions, consumers) = (settings.partitions, settings.consumers);
                    let is_retained = settings.log.has_retention();
                    poll::run(engine, stage, sent, partitions, consumers, is_retained)
                })
            },
        )?;
        let ceiling = read.map(|read| mb_per_s(read.bytes, read.elapsed));
        self.add(outcome, "poll", polled, ceiling);
        Ok(())
    }

    fn durable(&self, state: &mut State<O::Engine>, outcome: &mut Outcome) -> Result<(), RunError> {
        let samples = self.settings.durable_samples;
        let stage = self.stage(state.number, &self.small);
        let number = state.number;
        let engine = self.open(state)?;
        let (synced, durable) = pair(
            self.place,
            number,
            || uninterrupted(self.ceiling.synced_once(samples, DURABLE_BUDGET)),
            || self.measured(|| durable::run(engine, stage, samples, DURABLE_BUDGET)),
        )?;
        let ceiling = synced.as_ref().map(|synced| synced.best().1.percentile_us(50.0));
        self.add(outcome, "durable", durable, ceiling);
        outcome.synced.merge(&synced.unwrap_or_default());
        Ok(())
    }

    fn durable_shared(
        &self,
        state: &mut State<O::Engine>,
        outcome: &mut Outcome,
    ) -> Result<(), RunError> {
        let plan = Plan::new(self.settings.durable_producers, 1, 1).endless();
        self.durable_many(state, outcome, "durable_shared", 1, &plan, (1, &[Layout::Regions]))
    }

    fn durable_spread(
        &self,
        state: &mut State<O::Engine>,
        outcome: &mut Outcome,
    ) -> Result<(), RunError> {
        let producers = self.settings.durable_producers;
        let plan = Plan::new(producers, u32::from(producers), 1).endless();
        let ring = (usize::from(producers), &[Layout::Files, Layout::Regions][..]);
        self.durable_many(state, outcome, "durable_spread", 2, &plan, ring)
    }

    /// Many producers on partitions `first` and up, beside the better of the ring's layouts.
    fn durable_many(
        &self,
        state: &mut State<O::Engine>,
        outcome: &mut Outcome,
        name: &str,
        first: u32,
        plan: &Plan,
        (depth, layouts): (usize, &[Layout]),
    ) -> Result<(), RunError> {
        let stage = self.stage(state.number, &self.small);
        let number = state.number;
        let engine = self.open(state)?;
        let time = MANY_TIME / layouts.len() as u32;
        let ring = || {
            let rates = layouts.iter().map(|layout| {
                let (layout, method) = (*layout, Method::Dsync);
                let many = Many { layout, method, block: BLOCK_BYTES, depth };
                Ok(self.ceiling.synced_many(many, time)?.per_s)
            });
            let rates = rates.collect::<Result<Vec<f64>, CeilingError>>();
            uninterrupted(rates.map(|rates| rates.into_iter().fold(0.0, f64::max)))
        };
        let (ceiling, moved) = pair(self.place, number, ring, || {
            self.measured(|| durable::many(engine, stage, first, plan, MANY_TIME))
        })?;
        self.add(outcome, name, moved, ceiling);
        Ok(())
    }

    /// Opening after a clean close, then after a kill of another process that appended.
    fn opening(&self, state: &mut State<O::Engine>, outcome: &mut Outcome) -> Result<(), RunError> {
        self.close(state)?;
        self.open_timed(state, outcome, "open_clean", false)?;
        self.close(state)?;
        let appender = Appender {
            settings: self.settings,
            data: &state.dir,
            round: state.number,
            batches: self.plan.timed_batches(),
            // In the midst of its appends.
            kill_after: self.plan.timed_batches().div_ceil(4),
        };
        let Killed { acked } = appender.run_and_kill(&state.sent, self.interrupt)?;
        self.open_timed(state, outcome, "open_killed", true)?;
        let stage = self.stage(state.number, &self.content);
        let engine = state.engine.as_ref().expect("opened before");
        let found = crate::crash::check(engine, stage, &acked, self.settings.partitions)?;
        state.sent = found.sent;
        Ok(())
    }

    fn open_timed(
        &self,
        state: &mut State<O::Engine>,
        outcome: &mut Outcome,
        name: &str,
        after_kill: bool,
    ) -> Result<(), RunError> {
        self.place.settle()?;
        let read_before = bytes_read();
        let meter = Meter::start(self.place.path());
        let start = Instant::now();
        state.engine = Some(self.opened(&state.dir, after_kill)?);
        let mut moved = Moved::new(start);
        let bytes = bytes_read().saturating_sub(read_before);
        moved.record_whole(bytes, Instant::now());
        let used = meter.stop();
        self.place.settle()?;
        let bytes = bytes.max(4096);
        let shape = self.settings.shape;
        let ring = self.ceiling.write_once(bytes, shape).and_then(|_| {
            let read = self.ceiling.read_once(bytes, shape)?;
            Ok(read.elapsed.as_secs_f64() * 1e3)
        });
        self.add(outcome, name, (moved, used), uninterrupted(ring)?);
        Ok(())
    }

    /// The files read back without the engine.
    fn verify(&self, state: &mut State<O::Engine>, outcome: &mut Outcome) -> Result<(), RunError> {
        self.close(state)?;
        let settings = self.settings;
        let stage = self.stage(state.number, &self.content);
        let written = Written {
            dir: &topic_dir(&state.dir, 0, 0),
            partitions: settings.partitions,
            readers: settings.shape.rings as u32,
            sent: Some(&state.sent),
            producers: settings.producers,
            is_retained: settings.log.has_retention(),
        };
        let (read, verified) = pair(
            self.place,
            state.number,
            || uninterrupted(self.ceiling.read_once(self.ceiling_bytes, settings.shape)),
            || self.measured(|| files::run(stage, written)),
        )?;
        let ceiling = read.map(|read| mb_per_s(read.bytes, read.elapsed));
        self.add(outcome, "verify", verified, ceiling);
        Ok(())
    }

    fn load(&self) -> Load<'_> {
        let settings = self.settings;
        let per_producer = |batches_per_s: f64| {
            Duration::from_secs_f64(f64::from(settings.producers) / batches_per_s)
        };
        Load {
            topic: Topic::Written,
            first_partition: 0,
            plan: &self.plan,
            in_flight: self.in_flight(),
            period: self.batches_per_s.map(per_producer),
            time: settings.duration.map(|time| settings.warm_up + time),
            warm_up: settings.warm_up,
            on_answer: None,
        }
    }

    /// Appends that a producer may have outstanding. On a schedule as many as memory allows: the
    /// schedule decides, not the answers.
    fn in_flight(&self) -> usize {
        let given = usize::from(self.settings.in_flight);
        if self.batches_per_s.is_none() {
            return given;
        }
        let each = OPEN_BYTES / usize::from(self.settings.producers);
        (each / self.content.batch_len_max().max(1)).clamp(given, OPEN_APPENDS.max(given))
    }

    /// Runs a phase of the engine and counts what it uses.
    fn measured(
        &self,
        phase: impl FnOnce() -> Result<Moved, RunError>,
    ) -> Result<Measured, RunError> {
        let meter = Meter::start(self.place.path());
        let moved = phase()?;
        Ok((moved, meter.stop()))
    }

    fn stage<'b>(&'b self, round: u32, content: &'b Content) -> Stage<'b> {
        let poll_bytes = self.settings.poll_bytes;
        Stage { content, round, poll_bytes, interrupt: self.interrupt }
    }

    /// Opens the engine unless it is open.
    fn open<'b>(&self, state: &'b mut State<O::Engine>) -> Result<&'b O::Engine, RunError> {
        if state.engine.is_none() {
            state.engine = Some(self.opened(&state.dir, false)?);
        }
        Ok(state.engine.as_ref().expect("opened above"))
    }

    fn opened(&self, dir: &Path, after_kill: bool) -> Result<O::Engine, RunError> {
        let demand = Demand { after_kill, ..self.settings.demand(&self.content, self.in_flight()) };
        self.opener.open(dir, demand).map_err(|source| RunError::Engine {
            doing: format!("opening the engine in {}", dir.display()),
            source,
        })
    }

    /// Closes the engine if it is open.
    fn close(&self, state: &mut State<O::Engine>) -> Result<(), RunError> {
        let Some(engine) = state.engine.take() else { return Ok(()) };
        let doing = || "closing the engine".to_owned();
        engine.close().map_err(|source| RunError::Engine { doing: doing(), source })
    }

    /// Adds a phase of this round, unless the user stopped it before anything was answered.
    fn add(
        &self,
        outcome: &mut Outcome,
        name: &str,
        (moved, used): Measured,
        ceiling: Option<f64>,
    ) {
        let mut phases = outcome.phases.iter_mut();
        let phase = phases.find(|phase| phase.name == name).expect("the workload has the phase");
        if moved.service.count() == 0 {
            return;
        }
        let elapsed = moved.elapsed();
        let engine = match phase.figure {
            Figure::MbPerS => mb_per_s(moved.bytes, elapsed),
            Figure::OperationsPerS => moved.service.count() as f64 / elapsed.as_secs_f64(),
            Figure::P50Us => moved.service.percentile_us(50.0),
            Figure::Ms => elapsed.as_secs_f64() * 1e3,
        };
        let begun = moved.start().saturating_duration_since(self.begun);
        let Moved { bytes, messages, service, response, series, .. } = moved;
        phase.rounds.push(PhaseRound {
            begun,
            elapsed,
            bytes,
            messages,
            service,
            response,
            series,
            used,
            engine,
            ceiling,
        });
    }
}

/// Appends that a producer on a schedule has outstanding at most.
const OPEN_APPENDS: usize = 1024;

/// Bytes of them, of all producers together.
const OPEN_BYTES: usize = 256 << 20;

/// What the appends and those who followed them moved.
struct Appended {
    append: Moved,
    tail: Option<Moved>,
    catch_up: Option<Moved>,
    used: Used,
}

/// The ceiling's figure, or None when the user stopped it: what the engine did beside it counts.
fn uninterrupted<C>(measured: Result<C, CeilingError>) -> Result<Option<C>, RunError> {
    match measured.map_err(RunError::from) {
        Err(error) if error.is_interrupt() => Ok(None),
        measured => measured.map(Some),
    }
}

/// Bytes that this process has read from the device so far; 0 where the kernel does not count.
fn bytes_read() -> u64 {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}
