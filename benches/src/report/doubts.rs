//! What speaks against a run's own figures. A report that knows better must say so.

use std::time::Duration;

use super::Report;
use crate::account::Used;
use crate::results::{Figure, Phase};
use crate::stats::median;

/// A phase that is shorter than this is start-up and noise.
const PHASE_MIN: Duration = Duration::from_millis(50);

/// How far half of the rounds' ceilings may lie from their median, as a share of it.
const CEILING_SPREAD: f64 = 0.3;

/// Rounds from which a spread is told.
const SPREAD_ROUNDS: usize = 4;

impl Report<'_> {
    /// One sentence each, none when all is well.
    pub(crate) fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        doubts.extend(self.too_short());
        doubts.extend(self.outcome.phases.iter().filter_map(unsteady_ceiling));
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
