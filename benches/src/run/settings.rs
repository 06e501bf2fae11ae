//! Everything that decides a run, and the phases that follow from it.

use std::time::Duration;

use corelog::machine::Runtime;
use serde_json::{Value, json};

use super::DURABLE_PAYLOAD_BYTES;
use super::preset::{Preset, Step};
use crate::ceiling::Shape;
use crate::content::{Content, Sizes};
use crate::phases::schedule::Arrivals;
use crate::results::{Figure, Pacing, Phase};
use crate::size;
use crate::subject::{Ack, Demand, LogOptions};

/// Everything that decides a run, resolved.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) preset: Preset,
    pub(crate) runtime: Runtime,
    pub(crate) steps: Vec<Step>,
    pub(crate) shards: u16,
    pub(crate) partitions: u32,
    pub(crate) producers: u16,
    /// Appends a producer has outstanding at most.
    pub(crate) in_flight: u16,
    /// Consumers of the cold poll.
    pub(crate) consumers: u32,
    /// Consumers at the end of the log while producers append.
    pub(crate) tail: u32,
    /// Consumers that catch up from the disk while producers append.
    pub(crate) catch_up: u32,
    /// Every producer appends to every partition, in random order.
    pub(crate) shuffle: bool,
    /// How much hotter the first partitions are than the last ones: see `Plan::skewed`. 0 is even.
    pub(crate) skew: f64,
    pub(crate) sizes: Sizes,
    pub(crate) ack: Ack,
    pub(crate) log: LogOptions,
    /// None: saturating, a closed loop.
    pub(crate) rate: Option<Rate>,
    /// Of the schedule, where there is a rate.
    pub(crate) arrivals: Arrivals,
    /// Appends of a producer that are due at the same moment.
    pub(crate) burst: u32,
    /// Over all rounds; not what decides the end where a duration is given.
    pub(crate) total_bytes: u64,
    /// How long the appends of each round go on, behind the warm-up.
    pub(crate) duration: Option<Duration>,
    /// What is answered so long after the start of the appends does not count.
    pub(crate) warm_up: Duration,
    pub(crate) rounds: u32,
    /// No round is begun that would end after this; None without a limit.
    pub(crate) time_limit: Option<Duration>,
    pub(crate) poll_bytes: usize,
    /// Durable appends of the producer that is alone, and synced writes of the ceiling.
    pub(crate) durable_samples: u32,
    /// Producers of durable appends where they are many.
    pub(crate) durable_producers: u16,
    pub(crate) shape: Shape,
    pub(crate) seed: u64,
}

/// How much is sent a second, by all producers together, whatever the answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rate {
    /// Bytes of batches.
    Bytes(u64),
    /// Messages.
    Messages(u64),
}

impl Rate {
    /// Batches a second of this content.
    pub(crate) fn batches_per_s(self, content: &Content) -> f64 {
        match self {
            Rate::Bytes(bytes) => bytes as f64 / content.batch_len_mean() as f64,
            Rate::Messages(messages) => messages as f64 / content.messages_mean(),
        }
    }
}

impl Settings {
    /// Whether a round has this step.
    pub(super) fn has(&self, step: Step) -> bool {
        self.steps.contains(&step)
    }

    /// Where the partitions of producers that have their own begin: behind the lone producer's and
    /// the shared one.
    pub(super) fn first_spread_partition(&self) -> u32 {
        1 + u32::from(self.has(Step::DurableShared))
    }

    /// Partitions of the topic of durable appends.
    fn durable_partitions(&self) -> u32 {
        let spread = if self.has(Step::DurableSpread) { self.durable_producers } else { 0 };
        self.first_spread_partition() + u32::from(spread)
    }

    /// Partitions of both topics.
    pub(crate) fn all_partitions(&self) -> u64 {
        u64::from(self.partitions) + u64::from(self.durable_partitions())
    }

    /// When appends to the run's topic are answered.
    pub(crate) fn promise(&self) -> &'static str {
        if self.log.enforce_fsync { "durable (enforce_fsync)" } else { self.ack.name() }
    }

    /// What the engine has to be ready for, with `in_flight` appends of each producer outstanding.
    pub(crate) fn demand(&self, content: &Content, in_flight: usize) -> Demand {
        let appends = usize::from(self.producers) * in_flight;
        let followed = if self.tail + self.catch_up > 0 { 2 * self.partitions as usize } else { 0 };
        Demand {
            runtime: self.runtime,
            shards: self.shards,
            partitions: self.partitions,
            durable_partitions: self.durable_partitions(),
            ack: self.ack,
            log: self.log.clone(),
            appends_in_flight: appends.max(usize::from(self.durable_producers)) + followed,
            bytes_in_flight: appends.saturating_mul(content.batch_len_max()),
            poll_bytes: self.poll_bytes,
            after_kill: false,
        }
    }

    /// The phases of a round, none of them measured yet. `batches_per_s` is the schedule's rate;
    /// None in a closed loop.
    pub(crate) fn phases(&self, batches_per_s: Option<f64>) -> Vec<Phase> {
        self.steps.iter().flat_map(|step| self.phases_of(*step, batches_per_s)).collect()
    }

    fn phases_of(&self, step: Step, batches_per_s: Option<f64>) -> Vec<Phase> {
        let consumers = self.consumers.min(self.partitions) as usize;
        let read = |name, operation| Phase {
            answered_when: "",
            pacing: Pacing::Closed { outstanding: consumers },
            ..phase(name, operation, Figure::MbPerS, "sequential read")
        };
        let durable = |name, operation, figure, ceiling, outstanding| Phase {
            answered_when: "durable (enforce_fsync)",
            pacing: Pacing::Closed { outstanding },
            ..phase(name, operation, figure, ceiling)
        };
        let many = usize::from(self.durable_producers);
        match step {
            Step::Append => self.append_phases(batches_per_s),
            Step::Poll => vec![read("poll", "a poll; cold, every byte checked")],
            Step::Verify => vec![read(
                "verify",
                "a read of the files without the engine; page cache dropped and bypassed, every \
                 byte and both layers of checksums checked",
            )],
            Step::Durable => vec![durable(
                "durable",
                "an append of one small batch, alone, answered when durable (enforce_fsync)",
                Figure::P50Us,
                "synced write, one at a time",
                1,
            )],
            Step::DurableShared => vec![durable(
                "durable_shared",
                "an append of one small batch to the one partition of all producers, answered when \
                 durable (enforce_fsync)",
                Figure::OperationsPerS,
                "synced writes, one at a time; appends that share one go beyond",
                many,
            )],
            Step::DurableSpread => vec![durable(
                "durable_spread",
                "an append of one small batch to the producer's own partition, answered when \
                 durable (enforce_fsync)",
                Figure::OperationsPerS,
                "synced writes, as many at a time",
                many,
            )],
            Step::Opening => ["open_clean", "open_killed"].map(opening).into(),
        }
    }

    fn append_phases(&self, batches_per_s: Option<f64>) -> Vec<Phase> {
        let outstanding = usize::from(self.producers) * usize::from(self.in_flight);
        let pacing = match batches_per_s {
            None => Pacing::Closed { outstanding },
            Some(operations_per_s) => Pacing::Open { operations_per_s },
        };
        let (write, read) = match self.catch_up {
            0 => ("sequential write", "sequential read"),
            _ => ("sequential write beside a read", "sequential read beside a write"),
        };
        let operation = match (self.ack, self.log.enforce_fsync) {
            (Ack::Appended, false) => "a batch, answered when appended",
            (Ack::Written, false) => "a batch, answered when written",
            (Ack::Durable, false) => "a batch, answered when durable",
            (_, true) => "a batch, answered when durable (enforce_fsync)",
        };
        let append = Phase {
            answered_when: self.promise(),
            pacing,
            ..phase("append", operation, Figure::MbPerS, write)
        };
        let tail = Phase {
            pacing,
            ..phase(
                "tail",
                "a batch, from its append into a consumer's hands",
                Figure::MbPerS,
                write,
            )
        };
        let catch_up = Phase {
            pacing: Pacing::Closed { outstanding: self.partitions as usize },
            ..phase("catch_up", "a poll from the disk while appends go on", Figure::MbPerS, read)
        };
        let consumers = [(tail, self.tail), (catch_up, self.catch_up)];
        let consumers = consumers.into_iter().filter(|(_, count)| *count > 0);
        std::iter::once(append).chain(consumers.map(|(phase, _)| phase)).collect()
    }

    /// The settings for people, one line.
    pub(crate) fn line(&self, batch_bytes: u64) -> String {
        if !self.has(Step::Append) {
            return format!(
                "{}: shards {}, producers 1 and {} (closed loop), batches of 1 x {} B",
                self.preset.name(),
                self.shards,
                self.durable_producers,
                DURABLE_PAYLOAD_BYTES,
            );
        }
        let Sizes { messages, payload, headers, entropy_percent } = &self.sizes;
        let one = |start: u64, end: u64| match end - start {
            1 => start.to_string(),
            _ => format!("{start}..{end}"),
        };
        let schedule = match (self.arrivals, self.burst) {
            (Arrivals::Even, 1) => "open loop".to_owned(),
            (arrivals, 1) => format!("open loop, {} arrivals", arrivals.name()),
            (arrivals, burst) => format!("open loop, {} arrivals of {burst}", arrivals.name()),
        };
        let pacing = match self.rate {
            None => format!("with {} appends in flight each (closed loop)", self.in_flight),
            Some(Rate::Bytes(bytes)) => format!("at {}/s ({schedule})", size::human(bytes)),
            Some(Rate::Messages(messages)) => format!("at {messages} messages/s ({schedule})"),
        };
        let preset = match self.preset {
            Preset::Standard => String::new(),
            preset => format!("{}: ", preset.name()),
        };
        let headers = match headers {
            0 => String::new(),
            headers => format!(" with {headers} headers"),
        };
        let entropy = match entropy_percent {
            100 => String::new(),
            percent => format!(", {percent} % of them random"),
        };
        let skew = if self.skew == 0.0 { String::new() } else { format!(" (skew {})", self.skew) };
        format!(
            "{preset}shards {}, partitions {}{skew}, producers {} {pacing}, batches of {} x {} \
             B{headers}{entropy} ({})",
            self.shards,
            self.partitions,
            self.producers,
            one(messages.start.into(), messages.end.into()),
            one(payload.start as u64, payload.end as u64),
            size::human(batch_bytes),
        )
    }

    /// The settings for scripts. `batch_bytes` is the mean of the batches.
    pub(crate) fn to_json(&self, batch_bytes: u64) -> Value {
        let Sizes { messages, payload, headers, entropy_percent } = &self.sizes;
        let log = &self.log;
        json!({
            "preset": self.preset.name(),
            "runtime": self.runtime.name(),
            "shards": self.shards,
            "partitions": self.partitions,
            "producers": self.producers,
            "in_flight": self.in_flight,
            "consumers": self.consumers,
            "tail_consumers": self.tail,
            "catch_up_consumers": self.catch_up,
            "shuffle": self.shuffle,
            "skew": self.skew,
            "loop": if self.rate.is_some() { "open" } else { "closed" },
            "rate_bytes_per_s": match self.rate {
                Some(Rate::Bytes(bytes)) => Some(bytes),
                _ => None,
            },
            "rate_messages_per_s": match self.rate {
                Some(Rate::Messages(messages)) => Some(messages),
                _ => None,
            },
            "arrivals": self.rate.map(|_| self.arrivals.name()),
            "burst": self.rate.map(|_| self.burst),
            "batch_messages": if messages.len() == 1 { json!(messages.start) } else {
                json!([messages.start, messages.end])
            },
            "message_bytes": if payload.len() == 1 { json!(payload.start) } else {
                json!([payload.start, payload.end])
            },
            "user_headers": headers,
            "entropy_percent": entropy_percent,
            "batch_bytes": batch_bytes,
            "ack": self.ack.name(),
            "enforce_fsync": log.enforce_fsync,
            "segment_bytes": log.segment_bytes,
            "messages_required_to_save": log.messages_required_to_save,
            "size_of_messages_required_to_save": log.size_of_messages_required_to_save,
            "flush_after_us": log.flush_after.map(|after| after.as_micros() as u64),
            "preallocate_segments": log.preallocate_segments,
            "max_topic_size": log.max_topic_size,
            "message_expiry_us": log.message_expiry.map(|expiry| expiry.as_micros() as u64),
            "verify_reads": !log.trust_reads,
            "poll_bytes": self.poll_bytes,
            "total_bytes": self.total_bytes,
            "duration_s": self.duration.map(|time| time.as_secs_f64()),
            "warm_up_s": self.warm_up.as_secs_f64(),
            "rounds": self.rounds,
            "durable_samples": self.durable_samples,
            "durable_producers": self.durable_producers,
            "seed": self.seed,
        })
    }

    /// What the tests of reports tell about.
    #[cfg(test)]
    pub(crate) fn sample() -> Settings {
        Settings {
            preset: Preset::Standard,
            runtime: Runtime::default(),
            steps: Preset::Standard.workload().steps.to_vec(),
            shards: 1,
            partitions: 4,
            producers: 4,
            in_flight: 4,
            consumers: 4,
            tail: 0,
            catch_up: 0,
            shuffle: false,
            skew: 0.0,
            sizes: Sizes::fixed(1000, 1000),
            ack: Ack::Written,
            log: LogOptions::default(),
            rate: None,
            arrivals: Arrivals::default(),
            burst: 1,
            total_bytes: 3_000_000_000,
            duration: None,
            warm_up: Duration::ZERO,
            rounds: 3,
            time_limit: None,
            poll_bytes: 2 << 20,
            durable_samples: 300,
            durable_producers: 64,
            shape: Shape { block: 1 << 20, depth: 4, rings: 1 },
            seed: 1,
        }
    }
}

/// A phase in a closed loop of one, of which nothing was measured yet.
fn phase(
    name: &'static str,
    operation: &'static str,
    figure: Figure,
    ceiling: &'static str,
) -> Phase {
    Phase {
        name,
        operation,
        answered_when: "",
        pacing: Pacing::Closed { outstanding: 1 },
        figure,
        ceiling,
        rounds: Vec::new(),
    }
}

fn opening(name: &'static str) -> Phase {
    let operation = match name {
        "open_clean" => "opening after a clean close",
        _ => "opening after the process was killed; what was answered is there, every byte checked",
    };
    phase(name, operation, Figure::Ms, "a sequential read of as many bytes as opening reads")
}
