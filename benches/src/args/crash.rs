//! The flags of `crash`.

use std::time::Duration;

use clap::Args;
use corelog::machine::Runtime;

use super::PlaceArgs;
use super::log::LogArgs;
use super::run::{default_shards, sizes};
use super::units::Span;
use crate::ceiling::Shape;
use crate::phases::schedule::Arrivals;
use crate::run::Settings;
use crate::run::preset::Preset;
use crate::subject::Ack;

#[derive(Debug, Clone, Args)]
pub(crate) struct CrashArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Processes that are killed, one after the other, on the same data
    #[arg(long, value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) lives: u32,

    /// Batches that a process appends if it lives so long; it is killed at a random one
    #[arg(long, value_name = "N", default_value_t = 2000,
          value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) batches: u64,

    /// What the engine runs on: glommio or ring
    #[arg(long, value_name = "NAME", default_value_t)]
    runtime: Runtime,

    /// Shards of the engine [default: half of the CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    shards: Option<u16>,

    /// Partitions of the topic
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    partitions: u32,

    /// Producers, each appends to every partition
    #[arg(long, value_name = "N", default_value_t = 2,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    producers: u16,

    /// Appends a producer has outstanding
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    in_flight: u16,

    /// Messages in a batch, or a range A..B of them
    #[arg(long, value_name = "N|A..B", default_value = "1..20")]
    batch_messages: Span<u32>,

    /// Payload bytes of a message, or a range A..B of them
    #[arg(long, value_name = "SIZE|A..B", default_value = "1..2000")]
    message_size: Span<u64>,

    /// User headers of a message
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u16).range(0..=100))]
    headers: u16,

    /// When an append is answered: appended promises nothing that a kill leaves
    #[arg(long, value_enum, default_value = "written")]
    ack: Ack,

    /// Seed of the contents, and of when each process is killed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    // Last: a heading is for all that follows.
    #[command(flatten)]
    log: LogArgs,
}

impl CrashArgs {
    /// What is asked for, on a machine of `cpus` CPUs.
    pub(crate) fn settings(&self, cpus: usize) -> Result<Settings, String> {
        let log = self.log.options();
        if self.ack == Ack::Appended && !log.enforce_fsync {
            return Err(
                "--ack appended promises nothing that a kill leaves; use written or durable"
                    .to_owned(),
            );
        }
        if log.has_retention() {
            return Err(
                "--retention-size and --retention-time delete what is to be checked".to_owned()
            );
        }
        let shards = self.shards.unwrap_or_else(|| default_shards(cpus));
        Ok(Settings {
            preset: Preset::Standard,
            runtime: self.runtime,
            steps: Vec::new(),
            shards,
            partitions: self.partitions,
            producers: self.producers,
            in_flight: self.in_flight,
            consumers: 1,
            tail: 0,
            catch_up: 0,
            shuffle: true,
            skew: 0.0,
            sizes: sizes(self.batch_messages.0.clone(), self.message_size.0.clone(), self.headers)?,
            ack: self.ack,
            log,
            rate: None,
            arrivals: Arrivals::default(),
            burst: 1,
            total_bytes: 0,
            duration: None,
            warm_up: Duration::ZERO,
            rounds: 1,
            time_limit: None,
            poll_bytes: 2 << 20,
            durable_samples: 0,
            durable_producers: 1,
            shape: Shape { block: 1 << 20, depth: 4, rings: 1 },
            seed: self.seed,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::{Cli, Command};

    fn settings(flags: &str) -> Result<u16, String> {
        let words = format!("corelog-bench crash {flags}");
        let cli =
            Cli::try_parse_from(words.split_whitespace()).map_err(|error| error.to_string())?;
        let Command::Crash(args) = cli.command else { unreachable!("crash was asked for") };
        Ok(args.settings(2)?.producers)
    }

    #[test]
    fn what_a_kill_may_take_is_not_checked_for() {
        assert_eq!(settings(""), Ok(2));
        assert_eq!(settings("--ack durable --producers 3"), Ok(3));
        assert_eq!(settings("--ack appended --enforce-fsync"), Ok(2));
        assert!(settings("--ack appended").unwrap_err().contains("--ack appended"));
        assert!(settings("--retention-size 1G").unwrap_err().contains("--retention-size"));
        assert!(settings("--lives 0").unwrap_err().contains("--lives"));
    }
}
