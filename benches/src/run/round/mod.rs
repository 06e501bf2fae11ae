//! One round: the steps of the workload on a data directory of its own.

mod appends;
mod durables;
mod openings;

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::preset::Step;
use super::{Outcome, Settings};
use crate::account::{Meter, Used};
use crate::ceiling::{Ceiling, CeilingError};
use crate::content::Content;
use crate::interrupt::Interrupt;
use crate::kept::Kept;
use crate::pairs::pair;
use crate::phases::files::{self, Written, topic_dir};
use crate::phases::moved::Moved;
use crate::phases::{Stage, poll};
use crate::place::Place;
use crate::plan::{Plan, Sent};
use crate::results::{Figure, PhaseRound};
use crate::run_error::RunError;
use crate::stats::mb_per_s;
use crate::subject::{Demand, Engine, Opener};

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
    /// Runs a round. `note` is called as each step begins, with its number from 0 and its name.
    pub(super) fn round(
        &self,
        number: u32,
        outcome: &mut Outcome,
        note: &mut dyn FnMut(usize, &str),
    ) -> Result<(), RunError> {
        let mut state = State {
            number,
            dir: self.place.round_dir(number),
            engine: None,
            sent: Sent::nothing(self.settings.producers, self.settings.partitions),
        };
        for (place, step) in self.settings.steps.iter().enumerate() {
            note(place, step.name());
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
                self.measured(Some(engine), || {
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
            || self.measured(None, || files::run(stage, written)),
        )?;
        let ceiling = read.map(|read| mb_per_s(read.bytes, read.elapsed));
        self.add(outcome, "verify", verified, ceiling);
        Ok(())
    }

    /// Runs a phase and counts what it uses; `engine` is the one that works in it, if any.
    fn measured(
        &self,
        engine: Option<&O::Engine>,
        phase: impl FnOnce() -> Result<Moved, RunError>,
    ) -> Result<Measured, RunError> {
        let syncs = || engine.and_then(Engine::syncs);
        let before = syncs();
        let meter = Meter::start(self.place.path());
        let moved = phase()?;
        let used = meter.stop();
        Ok((moved, used.with_engine_syncs(before, syncs())))
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
        let Moved { bytes, messages, service, response, series, seconds, .. } = moved;
        phase.rounds.push(PhaseRound {
            begun,
            elapsed,
            bytes,
            messages,
            service,
            response,
            series,
            seconds,
            used,
            engine,
            ceiling,
        });
    }
}

/// The ceiling's figure, or None when the user stopped it: what the engine did beside it counts.
fn uninterrupted<C>(measured: Result<C, CeilingError>) -> Result<Option<C>, RunError> {
    match measured.map_err(RunError::from) {
        Err(error) if error.is_interrupt() => Ok(None),
        measured => measured.map(Some),
    }
}
