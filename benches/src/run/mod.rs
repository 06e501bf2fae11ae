//! The rounds of a run: each phase of the engine beside the same of the raw ring, in turns.
//!
//! A round's ratio compares neighbours in time (`pairs`); the run's ratio is the median of the
//! rounds', so that a device that drifts drifts out of it. `preset` and `settings` say what a round
//! does, `round` does it.

pub(crate) mod preset;
mod round;
mod settings;

use std::time::{Duration, Instant};

use self::preset::Step;
use self::round::Runner;
pub(crate) use self::settings::{Rate, Settings};
use crate::ceiling::{Ceiling, Granted, Synced};
use crate::content::Content;
use crate::interrupt::Interrupt;
use crate::live::Live;
use crate::place::Place;
use crate::plan::Plan;
use crate::results::Phase;
use crate::run_error::RunError;
use crate::subject::Opener;

/// Payload bytes of the one message in a durable append's batch.
pub(crate) const DURABLE_PAYLOAD_BYTES: usize = 100;

/// How long the many producers of durable appends go on, and the synced writes beside them.
const MANY_TIME: Duration = Duration::from_secs(1);

/// Disk space beyond the data: what the engine allocates ahead, catalog, journal.
const SPACE_SLACK_BYTES: u64 = 1 << 30;

/// Beyond that, of each partition: what its file is allocated ahead, and its index.
const PARTITION_SLACK_BYTES: u64 = 128 << 10;

/// Bytes that the ceiling moves in a phase whose end is a time.
const CEILING_BYTES: u64 = 1_000_000_000;

/// All that a run measured.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The workload's phases, in their order; one that was never reached has no rounds.
    pub(crate) phases: Vec<Phase>,
    pub(crate) synced: Synced,
    pub(crate) granted: Option<Granted>,
    /// The mean of the batches.
    pub(crate) batch_bytes: u64,
    /// Rounds that are whole.
    pub(crate) rounds: u32,
    pub(crate) ended: Ended,
    /// What a reader of the figures has to know, a sentence each.
    pub(crate) notes: Vec<String>,
}

/// Why there are no more rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All were done.
    Complete,
    /// The next one would have gone over the time limit.
    TimeLimit,
    /// The user stopped it; what was measured until then counts.
    Interrupted,
}

impl Outcome {
    /// The phase with this name; None when the workload does not have it.
    pub(crate) fn phase(&self, name: &str) -> Option<&Phase> {
        self.phases.iter().find(|phase| phase.name == name)
    }

    /// Whether nothing at all was measured.
    pub(crate) fn is_empty(&self) -> bool {
        self.phases.iter().all(|phase| phase.rounds.is_empty())
    }
}

/// Runs all rounds. `live` is told of everything that moves; `note` is called as each of the steps
/// begins: the numbers of the round and of the step from 0, and the step's name.
pub(crate) fn run<O: Opener>(
    opener: &O,
    settings: &Settings,
    place: &Place,
    interrupt: &Interrupt,
    live: &Live,
    note: &mut dyn FnMut(u32, usize, &str),
) -> Result<Outcome, RunError> {
    let content = Content::of(settings.seed, &settings.sizes)?;
    let small = Content::new(settings.seed, 1, DURABLE_PAYLOAD_BYTES)?;
    let batches_per_s = settings.rate.map(|rate| rate.batches_per_s(&content));
    let Extent { plan, ceiling_bytes } = extent(settings, place, &content)?;
    let mut outcome = Outcome {
        phases: settings.phases(batches_per_s),
        synced: Synced::default(),
        granted: None,
        batch_bytes: content.batch_len_mean(),
        rounds: 0,
        ended: Ended::Complete,
        notes: Vec::new(),
    };
    let begun = Instant::now();
    let ceiling = Ceiling::new(place.ceiling_dir()?, interrupt.clone()).telling(live);
    let runner = Runner {
        opener,
        settings,
        place,
        interrupt,
        live,
        content,
        small,
        plan,
        batches_per_s,
        ceiling,
        ceiling_bytes,
        begun,
    };
    for number in 0..settings.rounds {
        let spent = begun.elapsed();
        let next_end = spent + spent / number.max(1);
        if number > 0 && settings.time_limit.is_some_and(|limit| next_end > limit) {
            outcome.ended = Ended::TimeLimit;
            break;
        }
        match runner.round(number, &mut outcome, &mut |step, name| note(number, step, name)) {
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

/// How much a round moves.
struct Extent {
    plan: Plan,
    ceiling_bytes: u64,
}

/// Decides how much a round moves, and refuses a disk that has no room for it.
fn extent(settings: &Settings, place: &Place, content: &Content) -> Result<Extent, RunError> {
    let batch_bytes = content.batch_len_mean();
    let slack = SPACE_SLACK_BYTES + settings.all_partitions() * PARTITION_SLACK_BYTES;
    let Settings { producers, partitions, seed, skew, .. } = *settings;
    let plan = |batches| match settings.shuffle {
        false => Plan::new(producers, partitions, batches),
        true => Plan::skewed(producers, partitions, batches, seed, skew),
    };
    if !settings.has(Step::Append) {
        place.need_space(slack, None)?;
        return Ok(Extent { plan: plan(1), ceiling_bytes: CEILING_BYTES });
    }
    let kept_rounds = if place.keeps() { u64::from(settings.rounds) } else { 1 };
    // What consumers catch up with is appended before, by the engine and by the ceiling.
    let times = if settings.catch_up > 0 { 2 } else { 1 };
    if settings.duration.is_some() {
        // As much as the disk has room for; old segments that are deleted make room themselves.
        let room = place.available()?.saturating_sub(slack + times * CEILING_BYTES);
        let batches = match settings.log.max_topic_size {
            Some(_) => u64::from(u32::MAX),
            None => room / (kept_rounds * times) / batch_bytes,
        };
        let plan = plan(batches);
        place.need_space(slack + times * CEILING_BYTES + plan.lane_count() * batch_bytes, None)?;
        return Ok(Extent { plan, ceiling_bytes: CEILING_BYTES });
    }
    let round_bytes = settings.total_bytes.div_ceil(u64::from(settings.rounds));
    let plan = plan(round_bytes.div_ceil(batch_bytes));
    let bytes = plan.batches() * batch_bytes;
    // The engine's rounds, and the ceiling's files beside the last of them.
    let data = bytes.saturating_mul(times).saturating_mul(kept_rounds.saturating_add(1));
    place.need_space(data.saturating_add(slack), Some("--total"))?;
    let ceiling_bytes = plan.timed_batches() * batch_bytes;
    Ok(Extent { plan, ceiling_bytes })
}

#[cfg(test)]
mod tests;
