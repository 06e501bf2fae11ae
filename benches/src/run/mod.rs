//! The rounds of a run: each phase of the engine beside the same of the raw ring, in turns.
//!
//! A round's ratio compares neighbours in time (`pairs`); the run's ratio is the median of the
//! rounds', so that a device that drifts drifts out of it.

mod settings;

use std::path::Path;
use std::time::{Duration, Instant};

use crate::account::{Meter, Used};
use crate::ceiling::{Ceiling, Granted, Synced};
use crate::content::Content;
use crate::interrupt::Interrupt;
use crate::pairs::pair;
use crate::phases::moved::Moved;
use crate::phases::{Stage, append, durable, poll};
use crate::place::Place;
use crate::plan::Plan;
use crate::results::{Figure, Phase, PhaseRound};
use crate::run_error::RunError;
use crate::stats::mb_per_s;
use crate::subject::{Demand, Engine, Opener};

pub(crate) use settings::Settings;

/// Payload bytes of the one message in a durable append's batch.
pub(crate) const DURABLE_PAYLOAD_BYTES: usize = 100;

/// Longest that the durable appends of a round go on, and the synced writes beside them.
const DURABLE_BUDGET: Duration = Duration::from_secs(1);

/// Disk space beyond the data: what the engine allocates ahead, catalog, journal.
const SPACE_SLACK_BYTES: u64 = 1 << 30;

/// All that a run measured.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The workload's phases, in their order; one that was never reached has no rounds.
    pub(crate) phases: Vec<Phase>,
    pub(crate) synced: Synced,
    pub(crate) granted: Option<Granted>,
    pub(crate) batch_bytes: u64,
    /// Rounds that are whole.
    pub(crate) rounds: u32,
    pub(crate) ended: Ended,
}

/// Why there are no more rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All were done.
    Complete,
    /// The next one would have gone over the time limit.
    TimeLimit,
    /// The user stopped it; rounds that were whole count.
    Interrupted,
}

impl Outcome {
    /// The phase with this name; None when the workload does not have it.
    pub(crate) fn phase(&self, name: &str) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.name == name)
    }

    /// Whether anything at all was measured.
    pub(crate) fn is_empty(&self) -> bool {
        self.phases.iter().all(|phase| phase.rounds.is_empty())
    }
}

/// Runs all rounds. `note` is called as each begins, with its number from 0.
pub(crate) fn run<O: Opener>(
    opener: &O,
    settings: &Settings,
    place: &Place,
    interrupt: &Interrupt,
    note: &mut dyn FnMut(u32),
) -> Result<Outcome, RunError> {
    let content = Content::new(settings.seed, settings.batch_messages, settings.message_bytes)?;
    let small = Content::new(settings.seed, 1, DURABLE_PAYLOAD_BYTES)?;
    let batch_bytes = content.batch_len() as u64;
    let round_bytes = settings.total_bytes.div_ceil(u64::from(settings.rounds));
    let batches = round_bytes.div_ceil(batch_bytes);
    let plan = Plan::new(settings.producers, settings.partitions, batches);
    need_space(settings, place, plan.batches() * batch_bytes)?;
    let ceiling = Ceiling::new(place.ceiling_dir()?, interrupt.clone());
    let begun = Instant::now();
    let runner =
        Runner { opener, settings, place, interrupt, content, small, plan, ceiling, begun };
    let mut outcome = Outcome {
        phases: settings.phases(),
        synced: Synced::default(),
        granted: None,
        batch_bytes,
        rounds: 0,
        ended: Ended::Complete,
    };
    for number in 0..settings.rounds {
        let spent = begun.elapsed();
        let next_end = spent + spent / number.max(1);
        if number > 0 && settings.time_limit.is_some_and(|limit| next_end > limit) {
            outcome.ended = Ended::TimeLimit;
            break;
        }
        note(number);
        match runner.round(number, &mut outcome) {
            Ok(()) => outcome.rounds += 1,
            Err(error) if error.is_interrupt() => {
                outcome.ended = Ended::Interrupted;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(outcome)
}

fn need_space(settings: &Settings, place: &Place, round_bytes: u64) -> Result<(), RunError> {
    let kept_rounds = if place.keeps() { u64::from(settings.rounds) } else { 1 };
    // The engine's rounds, and the ceiling's file beside the last of them.
    let data = round_bytes.saturating_mul(kept_rounds.saturating_add(1));
    Ok(place.need_space(data.saturating_add(SPACE_SLACK_BYTES))?)
}

struct Runner<'a, O> {
    opener: &'a O,
    settings: &'a Settings,
    place: &'a Place,
    interrupt: &'a Interrupt,
    content: Content,
    small: Content,
    plan: Plan,
    ceiling: Ceiling,
    begun: Instant,
}

impl<O: Opener> Runner<'_, O> {
    fn round(&self, number: u32, outcome: &mut Outcome) -> Result<(), RunError> {
        let dir = self.place.round_dir(number);
        let shape = self.settings.shape;
        let bytes = self.plan.timed_batches() * self.content.batch_len() as u64;
        let stage = self.stage(number, &self.content);

        let engine = self.open(&dir)?;
        let (wrote, appended) = pair(
            self.place,
            number,
            || Ok(self.ceiling.write_once(bytes, shape)?),
            || self.measured(|| append::run(&engine, stage)),
        )?;
        outcome.granted = Some(wrote.granted);
        self.add(outcome, "append", appended, mb_per_s(wrote.bytes, wrote.elapsed));
        // What was appended must come from the disk now, not from the engine's memory.
        self.close(engine)?;
        let engine = self.open(&dir)?;
        let (read, polled) = pair(
            self.place,
            number,
            || Ok(self.ceiling.read_once(bytes, shape)?),
            || self.measured(|| poll::run(&engine, stage)),
        )?;
        self.add(outcome, "poll", polled, mb_per_s(read.bytes, read.elapsed));
        self.ceiling.remove_files(shape.rings)?;
        if self.settings.durable_samples > 0 {
            let samples = self.settings.durable_samples;
            let stage = self.stage(number, &self.small);
            let (synced, durable) = pair(
                self.place,
                number,
                || Ok(self.ceiling.synced_once(samples, DURABLE_BUDGET)?),
                || self.measured(|| durable::run(&engine, stage, samples, DURABLE_BUDGET)),
            )?;
            self.add(outcome, "durable", durable, synced.best().1.percentile_us(50.0));
            outcome.synced.merge(&synced);
        }
        self.close(engine)?;
        Ok(self.place.remove_round(number)?)
    }

    /// Runs a phase of the engine and counts what it uses.
    fn measured(
        &self,
        phase: impl FnOnce() -> Result<Moved, RunError>,
    ) -> Result<(Moved, Used), RunError> {
        let meter = Meter::start(self.place.path());
        let moved = phase()?;
        Ok((moved, meter.stop()))
    }

    fn add(&self, outcome: &mut Outcome, name: &str, (moved, used): (Moved, Used), ceiling: f64) {
        let mut phases = outcome.phases.iter_mut();
        let phase = phases.find(|phase| phase.name == name).expect("the workload has the phase");
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
            ceiling: Some(ceiling),
        });
    }

    fn stage<'b>(&'b self, round: u32, content: &'b Content) -> Stage<'b> {
        Stage {
            content,
            plan: &self.plan,
            round,
            in_flight: usize::from(self.settings.in_flight),
            poll_bytes: self.settings.poll_bytes,
            interrupt: self.interrupt,
        }
    }

    fn open(&self, dir: &Path) -> Result<O::Engine, RunError> {
        let settings = self.settings;
        let appends_in_flight = usize::from(settings.producers) * usize::from(settings.in_flight);
        let opened = self.opener.open(
            dir,
            Demand {
                shards: settings.shards,
                partitions: settings.partitions,
                appends_in_flight,
                bytes_in_flight: appends_in_flight.saturating_mul(self.content.batch_len()),
                poll_bytes: settings.poll_bytes,
            },
        );
        let doing = || format!("opening the engine in {}", dir.display());
        opened.map_err(|source| RunError::Engine { doing: doing(), source })
    }

    fn close(&self, engine: O::Engine) -> Result<(), RunError> {
        let doing = || "closing the engine".to_owned();
        engine.close().map_err(|source| RunError::Engine { doing: doing(), source })
    }
}

#[cfg(test)]
mod tests;
