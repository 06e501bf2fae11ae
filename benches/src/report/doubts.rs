//! What speaks against a run's own figures. A report that knows better must say so.

use std::time::Duration;

use super::Report;
use crate::account::Used;
use crate::results::{Figure, Pacing, Phase, Slot};
use crate::stats::{mb_per_s, median};

/// A phase that is shorter than this is start-up and noise.
const PHASE_MIN: Duration = Duration::from_millis(50);

/// How far half of the rounds' ceilings may lie from their median, as a share of it.
const CEILING_SPREAD: f64 = 0.3;

/// Rounds from which a spread is told.
const SPREAD_ROUNDS: usize = 4;

/// A round from this length on has a beginning and an end that can be told apart.
const STEADY_MIN: Duration = Duration::from_secs(3);

/// How far the last third of a steady round may lie from its first one, as a share of the larger.
const STEADY_SPREAD: f64 = 0.25;

/// Share of a schedule from which on it was kept.
const KEPT_RATE: f64 = 0.95;

impl Report<'_> {
    /// One sentence each, none when all is well.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        doubts.extend(self.too_short());
        doubts.extend(self.outcome.phases.iter().filter_map(unsteady_ceiling));
        doubts.extend(self.outcome.phases.iter().filter_map(unsteady_phase));
        let burst = f64::from(self.settings.burst);
        let behind = |phase| fallen_behind(phase, burst);
        doubts.extend(self.outcome.phases.iter().filter_map(behind));
        doubts.extend(self.nothing_flushed());
        doubts
    }

    fn too_short(&self) -> Option<String> {
        let throughput = self.outcome.phases.iter().filter(|phase| phase.figure == Figure::MbPerS);
        let rounds = throughput.flat_map(|phase| &phase.rounds);
        let shortest = rounds.map(|round| round.elapsed).min()?;
        (shortest < PHASE_MIN).then(|| {
            format!(
                "The phases took {:.1} ms: too short to trust MB/s. Raise --total or lower \
                 --rounds.",
                shortest.as_secs_f64() * 1e3,
            )
        })
    }

    /// Durable answers without a flush of a cache that needs one: something below lies.
    fn nothing_flushed(&self) -> Option<String> {
        let device = self.machine.device.as_ref()?;
        let needs_flush = device.write_cache.as_deref() == Some("write back")
            && device.fua.is_some_and(|fua| fua == 0);
        let phase = self.phase("durable").filter(|_| needs_flush)?;
        let used = Used::merged(phase.rounds.iter().map(|round| &round.used))?;
        let flushes = used.device?.flushes;
        (flushes == 0 && phase.messages() > 0).then(|| {
            format!(
                "The durable phase was answered without one flush of the device's write-back \
                 cache: what it measured was not durable. Look at the mount options ({}).",
                self.machine.file_system.as_ref().map_or("unknown", |mount| &mount.options),
            )
        })
    }
}

/// A figure over all of a phase that changes on its way is that of no time in it.
fn unsteady_phase(phase: &Phase) -> Option<String> {
    let longest = phase.rounds.iter().max_by_key(|round| round.elapsed)?;
    // In an open loop it is the schedule's throughput; see `fallen_behind`.
    let is_closed = matches!(phase.pacing, Pacing::Closed { .. });
    if !is_closed || phase.figure != Figure::MbPerS || longest.elapsed < STEADY_MIN {
        return None;
    }
    let third = longest.elapsed / 3;
    let slots: Vec<_> = longest.series.intervals(longest.elapsed).collect();
    let rate = |slots: &[(Duration, Duration, Slot)]| {
        let bytes = slots.iter().map(|(.., slot)| slot.bytes).sum();
        mb_per_s(bytes, slots.iter().map(|(_, len, _)| *len).sum())
    };
    let in_first = slots.partition_point(|(begin, ..)| *begin < third);
    let before_last = slots.partition_point(|(begin, ..)| *begin < 2 * third);
    let (first, last) = (rate(&slots[..in_first]), rate(&slots[before_last..]));
    ((first - last).abs() > STEADY_SPREAD * first.max(last)).then(|| {
        format!(
            "{} was not steady: {first:.0} MB/s in the first third of its longest round, {last:.0} in \
             the last. Leave the beginning out with --warm-up, or let it settle with a longer \
             --duration.",
            phase.name,
        )
    })
}

/// Where a schedule is not kept, latencies are as long as the run.
fn fallen_behind(phase: &Phase, burst: f64) -> Option<String> {
    let Pacing::Open { operations_per_s } = phase.pacing else { return None };
    let elapsed = phase.elapsed().as_secs_f64();
    if elapsed == 0.0 {
        return None;
    }
    let (due, count) = (operations_per_s * elapsed, phase.service().count() as f64);
    // Random arrivals scatter by the root of their number, and bursts are as many at once.
    let is_behind = count < KEPT_RATE * due - 3.0 * (due * burst).sqrt();
    let answered = count / elapsed;
    is_behind.then(|| {
        format!(
            "{} fell behind its schedule: {operations_per_s:.0} a second were due and {answered:.0} were \
             answered, so its latencies grow with the length of the run. Lower --rate.",
            phase.name,
        )
    })
}

/// A ratio to a ceiling that moves like this is hard to read.
fn unsteady_ceiling(phase: &Phase) -> Option<String> {
    let ceilings: Vec<f64> = phase.rounds.iter().filter_map(|round| round.ceiling).collect();
    if ceilings.len() < SPREAD_ROUNDS {
        return None;
    }
    let middle = median(&ceilings).filter(|middle| *middle > 0.0)?;
    let off: Vec<f64> = ceilings.iter().map(|one| (one / middle - 1.0).abs()).collect();
    let spread = median(&off)?;
    (spread > CEILING_SPREAD).then(|| {
        format!(
            "The ceiling of {} swung by {:.0} % between rounds ({}): the disk is shared or \
             throttled. Raise --rounds, or measure when it is quiet.",
            phase.name,
            spread * 100.0,
            phase.ceiling,
        )
    })
}
