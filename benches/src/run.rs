//! The rounds of a run: each phase of the engine beside the same of the raw ring, in turns.
//!
//! A round's ratio compares neighbours in time (`pairs`); the run's ratio is the median of the
//! rounds', so that a device that drifts drifts out of it.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::ceiling::{Ceiling, Granted, Measured, Shape, Synced};
use crate::content::Content;
use crate::interrupt::Interrupt;
use crate::latency::Latency;
use crate::pairs::pair;
use crate::phases::Stage;
use crate::phases::append::{self, Appended};
use crate::phases::durable::{self, Durable};
use crate::phases::poll::{self, Polled};
use crate::place::Place;
use crate::plan::Plan;
use crate::run_error::RunError;
use crate::stats::mb_per_s;
use crate::subject::{Demand, Engine, Opener};

/// Payload bytes of the one message in a durable append's batch.
pub(crate) const DURABLE_PAYLOAD_BYTES: usize = 100;

/// Longest that the durable appends of a round go on, and the synced writes beside them.
const DURABLE_BUDGET: Duration = Duration::from_secs(1);

/// Disk space beyond the data: what the engine allocates ahead, catalog, journal.
const SPACE_SLACK_BYTES: u64 = 1 << 30;

/// Everything that decides a run, resolved.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) shards: u16,
    pub(crate) partitions: u32,
    pub(crate) producers: u16,
    pub(crate) in_flight: u16,
    pub(crate) batch_messages: u32,
    pub(crate) message_bytes: usize,
    pub(crate) total_bytes: u64,
    pub(crate) rounds: u32,
    /// No round is begun that would end after this; None without a limit.
    pub(crate) time_limit: Option<Duration>,
    pub(crate) poll_bytes: usize,
    /// 0 leaves the durable phases out.
    pub(crate) durable_samples: u32,
    pub(crate) shape: Shape,
    pub(crate) seed: u64,
}

/// One round's figures; a pair is (engine, ceiling).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Round {
    pub(crate) append_mb_per_s: (f64, f64),
    pub(crate) poll_mb_per_s: (f64, f64),
    /// None when the durable phases are left out.
    pub(crate) durable_p50_us: Option<(f64, f64)>,
}

/// All that a run measured.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) rounds: Vec<Round>,
    pub(crate) append: Sum,
    pub(crate) poll: Sum,
    pub(crate) durable: Sum,
    pub(crate) synced: Synced,
    pub(crate) granted: Option<Granted>,
    pub(crate) batch_bytes: u64,
    pub(crate) ended: Ended,
}

/// One phase over all rounds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sum {
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
    pub(crate) elapsed: Duration,
    pub(crate) latency: Latency,
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
    let runner = Runner { opener, settings, place, interrupt, content, small, plan, ceiling };
    let mut outcome = Outcome {
        rounds: Vec::new(),
        append: Sum::default(),
        poll: Sum::default(),
        durable: Sum::default(),
        synced: Synced::default(),
        granted: None,
        batch_bytes,
        ended: Ended::Complete,
    };
    let begun = Instant::now();
    for number in 0..settings.rounds {
        let spent = begun.elapsed();
        let next_end = spent + spent / number.max(1);
        if number > 0 && settings.time_limit.is_some_and(|limit| next_end > limit) {
            outcome.ended = Ended::TimeLimit;
            break;
        }
        note(number);
        match runner.round(number, &mut outcome) {
            Ok(()) => {}
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
            || append::run(&engine, stage),
        )?;
        // What was appended must come from the disk now, not from the engine's memory.
        self.close(engine)?;
        let engine = self.open(&dir)?;
        let (read, polled) = pair(
            self.place,
            number,
            || Ok(self.ceiling.read_once(bytes, shape)?),
            || poll::run(&engine, stage),
        )?;
        self.ceiling.remove_files(shape.rings)?;
        let durable = match self.settings.durable_samples {
            0 => None,
            samples => Some(pair(
                self.place,
                number,
                || Ok(self.ceiling.synced_once(samples, DURABLE_BUDGET)?),
                || {
                    let stage = self.stage(number, &self.small);
                    durable::run(&engine, stage, samples, DURABLE_BUDGET)
                },
            )?),
        };
        self.close(engine)?;
        self.place.remove_round(number)?;
        outcome.add((wrote, appended), (read, polled), durable);
        Ok(())
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

impl Outcome {
    fn add(
        &mut self,
        (wrote, appended): (Measured, Appended),
        (read, polled): (Measured, Polled),
        durable: Option<(Synced, Durable)>,
    ) {
        self.granted = Some(wrote.granted);
        self.rounds.push(Round {
            append_mb_per_s: (
                mb_per_s(appended.bytes, appended.elapsed),
                mb_per_s(wrote.bytes, wrote.elapsed),
            ),
            poll_mb_per_s: (
                mb_per_s(polled.bytes, polled.elapsed),
                mb_per_s(read.bytes, read.elapsed),
            ),
            durable_p50_us: durable.as_ref().map(|(synced, durable)| {
                (durable.latency.percentile_us(50.0), synced.best().1.percentile_us(50.0))
            }),
        });
        let Appended { bytes, messages, elapsed, latency } = appended;
        self.append.add(&Sum { bytes, messages, elapsed, latency });
        let Polled { bytes, messages, elapsed, latency } = polled;
        self.poll.add(&Sum { bytes, messages, elapsed, latency });
        if let Some((synced, Durable { appends, elapsed, latency })) = durable {
            self.synced.merge(&synced);
            self.durable.add(&Sum { bytes: 0, messages: appends, elapsed, latency });
        }
    }
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        self.bytes += other.bytes;
        self.messages += other.messages;
        self.elapsed += other.elapsed;
        self.latency.merge(&other.latency);
    }

    /// Messages a second, over all rounds' measured time; 0 when nothing ran.
    pub(crate) fn messages_per_s(&self) -> f64 {
        if self.elapsed.is_zero() { 0.0 } else { self.messages as f64 / self.elapsed.as_secs_f64() }
    }
}

#[cfg(test)]
mod tests;
