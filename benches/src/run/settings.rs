//! Everything that decides a run, and the phases that follow from it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::ceiling::Shape;
use crate::results::{Figure, Pacing, Phase};
use crate::size;

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

impl Settings {
    /// The phases of a round, none of them measured yet.
    pub(crate) fn phases(&self) -> Vec<Phase> {
        let outstanding = usize::from(self.producers) * usize::from(self.in_flight);
        let consumers = self.partitions.min(u32::from(self.producers)) as usize;
        let mut phases = vec![
            Phase {
                name: "append",
                operation: "a batch, answered when written",
                answered_when: "written",
                pacing: Pacing::Closed { outstanding },
                figure: Figure::MbPerS,
                ceiling: "sequential write",
                rounds: Vec::new(),
            },
            Phase {
                name: "poll",
                operation: "a poll; cold, every byte checked",
                answered_when: "",
                pacing: Pacing::Closed { outstanding: consumers },
                figure: Figure::MbPerS,
                ceiling: "sequential read",
                rounds: Vec::new(),
            },
        ];
        if self.durable_samples > 0 {
            phases.push(Phase {
                name: "durable",
                operation: "an append of one small batch, alone, answered when durable \
                            (enforce_fsync)",
                answered_when: "durable (enforce_fsync)",
                pacing: Pacing::Closed { outstanding: 1 },
                figure: Figure::P50Us,
                ceiling: "synced write, one at a time",
                rounds: Vec::new(),
            });
        }
        phases
    }

    /// The settings for people, one line.
    pub(crate) fn line(&self, batch_bytes: u64) -> String {
        format!(
            "shards {}, partitions {}, producers {} with {} appends in flight each (closed loop), \
             batches of {} x {} B ({})",
            self.shards,
            self.partitions,
            self.producers,
            self.in_flight,
            self.batch_messages,
            self.message_bytes,
            size::human(batch_bytes),
        )
    }

    /// The settings for scripts.
    pub(crate) fn to_json(&self, batch_bytes: u64) -> Value {
        json!({
            "shards": self.shards,
            "partitions": self.partitions,
            "producers": self.producers,
            "in_flight": self.in_flight,
            "loop": "closed",
            "batch_messages": self.batch_messages,
            "message_bytes": self.message_bytes,
            "batch_bytes": batch_bytes,
            "poll_bytes": self.poll_bytes,
            "total_bytes": self.total_bytes,
            "rounds": self.rounds,
            "durable_samples": self.durable_samples,
            "seed": self.seed,
        })
    }

    /// What the tests of reports tell about.
    #[cfg(test)]
    pub(crate) fn sample() -> Settings {
        Settings {
            shards: 1,
            partitions: 4,
            producers: 4,
            in_flight: 4,
            batch_messages: 1000,
            message_bytes: 1000,
            total_bytes: 3_000_000_000,
            rounds: 3,
            time_limit: None,
            poll_bytes: 2 << 20,
            durable_samples: 300,
            shape: Shape { block: 1 << 20, depth: 4, rings: 1 },
            seed: 1,
        }
    }
}
