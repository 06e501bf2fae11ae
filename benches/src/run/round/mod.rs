//! One round: the steps of the workload on a data directory of its own.

mod appends;
mod durables;
mod openings;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Instant;

use super::preset::Step;
use super::{Outcome, Settings};
use crate::account::{Meter, Used};
use crate::ceiling::{Ceiling, CeilingError};
use crate::content::Content;
use crate::interrupt::Interrupt;
use crate::kept::Kept;
use crate::live::Live;
use crate::pairs::{self, pair};
use crate::phases::files::{self, Written, topic_dir};
use crate::phases::moved::Moved;
use crate::phases::{Stage, poll};
use crate::place::Place;
use crate::plan::{Plan, Sent};
use crate::results::{Figure, PhaseRound};
use crate::run_error::RunError;
use crate::stats::{mb_per_s, overall_rate};
use crate::subject::{Demand, Engine, Opener};

/// How far the ring's figures before and after a phase may differ untold, as a share of the larger.
const RING_CHANGED: f64 = 0.3;

/// What all rounds share.
pub(super) struct Runner<'a, O> {
    pub(super) opener: &'a O,
    pub(super) settings: &'a Settings,
    pub(super) place: &'a Place,
    pub(super) interrupt: &'a Interrupt,
    pub(super) live: &'a Live,
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

/// A phase calls it once, when what it does begins to count.
type Begin<'a> = &'a (dyn Fn() + Sync);

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
        let (read, polled) = self.beside(
            *number,
            || self.read_ring(),
            || {
                self.measured(Some(engine), |begin| {
                    begin();
                    let (partitions, consumers) = (settings.partitions, settings.consumers);
                    let is_retained = settings.log.has_retention();
                    poll::run(engine, stage, sent, partitions, consumers, is_retained)
                })
            },
        )?;
        let ceiling = ring_rate("poll", &read, &mut outcome.notes);
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
        let (read, verified) = self.beside(
            state.number,
            || self.read_ring(),
            || {
                self.measured(None, |begin| {
                    begin();
                    files::run(stage, written)
                })
            },
        )?;
        let ceiling = ring_rate("verify", &read, &mut outcome.notes);
        self.add(outcome, "verify", verified, ceiling);
        Ok(())
    }

    /// A throughput phase of the engine beside the ring's, in turns. Where the appends end by a time
    /// the ring cannot do as much as the engine: it works before the phase and after it then, so that
    /// a disk that tires or is throttled meanwhile lowers both. The ring's figures, none when the user
    /// stopped it.
    fn beside<C, E>(
        &self,
        round: u32,
        ring: impl Fn() -> Result<Option<C>, RunError>,
        engine: impl FnOnce() -> Result<E, RunError>,
    ) -> Result<(Vec<C>, E), RunError> {
        let (figures, measured) = match self.settings.duration {
            None => {
                let (one, measured) = pair(self.place, round, ring, engine)?;
                ([one, None], measured)
            }
            Some(_) => pairs::around(self.place, ring, engine)?,
        };
        Ok((figures.into_iter().flatten().collect(), measured))
    }

    /// What the ring reads of the files that it has written.
    fn read_ring(&self) -> Result<Option<f64>, RunError> {
        let read = uninterrupted(self.ceiling.read_once(self.ceiling_bytes, self.settings.shape))?;
        Ok(read.map(|read| mb_per_s(read.bytes, read.elapsed)))
    }

    /// Runs a phase, and counts what it uses from the moment on at which it begins to count: what a
    /// warm-up costs is as little on the account as its bytes. `engine` works in it, if any.
    fn measured<T>(
        &self,
        engine: Option<&O::Engine>,
        phase: impl FnOnce(Begin<'_>) -> Result<T, RunError>,
    ) -> Result<(T, Used), RunError> {
        let (begun, dir) = (OnceLock::new(), self.place.path());
        let syncs = || engine.and_then(Engine::syncs);
        let begin = || {
            begun.get_or_init(|| (syncs(), Meter::start(dir)));
        };
        let measured = phase(&begin)?;
        let used = begun.get().map(|(before, meter): &(_, Meter)| {
            let used = meter.stop();
            used.with_engine_syncs(*before, syncs())
        });
        Ok((measured, used.unwrap_or_default()))
    }

    fn stage<'b>(&'b self, round: u32, content: &'b Content) -> Stage<'b> {
        let poll_bytes = self.settings.poll_bytes;
        Stage { content, round, poll_bytes, interrupt: self.interrupt, live: self.live }
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
        self.opener
            .open(dir, demand, self.interrupt)
            .map_err(|source| RunError::opening(dir, source))
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
        (moved, used): (Moved, Used),
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

/// The ceiling of a phase from what the ring did before it and after it; where these differ, a
/// reader is told.
fn ring_rate(phase: &str, rates: &[f64], notes: &mut Vec<String>) -> Option<f64> {
    if let [before, after] = rates
        && (before - after).abs() > RING_CHANGED * before.max(*after)
    {
        notes.push(format!(
            "The ring did {before:.0} MB/s before {phase} and {after:.0} MB/s after it: the disk changed \
             meanwhile, and so the share of the ceiling holds for no moment of it."
        ));
    }
    overall_rate(rates)
}

/// The ceiling's figure, or None when the user stopped it: what the engine did beside it counts.
fn uninterrupted<C>(measured: Result<C, CeilingError>) -> Result<Option<C>, RunError> {
    match measured.map_err(RunError::from) {
        Err(error) if error.is_interrupt() => Ok(None),
        measured => measured.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_before_and_after_is_one_ceiling_and_its_change_is_told() {
        let mut notes = Vec::new();
        assert_eq!(ring_rate("append", &[], &mut notes), None);
        assert_eq!(ring_rate("append", &[500.0], &mut notes), Some(500.0));
        assert_eq!(ring_rate("append", &[900.0, 900.0], &mut notes), Some(900.0));
        assert!(notes.is_empty());
        // A gigabyte each: 1 s and 9 s.
        let rate = ring_rate("append", &[1000.0, 1000.0 / 9.0], &mut notes).unwrap();
        assert!((rate - 200.0).abs() < 1e-9, "{rate}");
        assert!(notes[0].contains("1000 MB/s before append and 111 MB/s after"), "{notes:?}");
    }
}
