//! The flags of `run`.

use std::time::Duration;

use clap::Args;
use corelog_format::{BATCH_HEADER_LEN, FRAME_HEADER_LEN};

use super::{PlaceArgs, check_block};
use crate::ceiling::Shape;
use crate::run::Settings;
use crate::size::Size;

#[derive(Debug, Clone, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Shards of the engine, and rings of the ceiling [default: half of the CPUs, the producers
    /// have the others]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) shards: Option<u16>,

    /// Partitions of the topic, at most 1000
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) partitions: u32,

    /// Bytes to append, over all rounds: K, M, G = 1000; KiB, MiB, GiB = 1024 [default: 4500M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) total: Option<Size>,

    /// Messages in a batch
    #[arg(long, value_name = "N", default_value_t = 1000,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) batch_messages: u32,

    /// Payload bytes of a message
    #[arg(long, value_name = "SIZE", default_value = "1K")]
    pub(crate) message_size: Size,

    /// Producers, each a thread that appends to its own share of the partitions
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) producers: u16,

    /// Appends a producer has outstanding
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) in_flight: u16,

    /// Rounds, each all phases once; ratios are medians over them [default: 9, fewer on a disk so
    /// slow that they would take a minute; that holds for --total too]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: Option<u32>,

    /// Most bytes of a poll's reply
    #[arg(long, value_name = "SIZE", default_value = "2MiB")]
    pub(crate) poll_size: Size,

    /// Durable appends a round, and synced writes of the ceiling by each method; 0 leaves both out
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub(crate) durable_samples: u32,

    /// Bytes of one request of the ceiling
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    pub(crate) ceiling_block: Size,

    /// Requests in flight on each ring of the ceiling
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) ceiling_depth: u16,

    /// Seed of the messages' contents
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Rounds unless given: enough for an interval, few enough for a minute.
const ROUNDS: u32 = 9;

/// Bytes to append unless given.
const TOTAL: Size = Size(4_500_000_000);

/// Longest that a run goes on whose length the user did not say.
const TIME_LIMIT: Duration = Duration::from_secs(50);

impl RunArgs {
    /// The run that is asked for, on a machine of `cpus` CPUs; refuses what clap cannot see: sizes
    /// that contradict each other or the format.
    pub(crate) fn settings(&self, cpus: usize) -> Result<Settings, String> {
        let total = self.total.unwrap_or(TOTAL);
        if total.0 == 0 {
            return Err("--total must be more than 0".to_owned());
        }
        if self.poll_size.0 == 0 {
            return Err("--poll-size must be more than 0".to_owned());
        }
        let block = check_block("--ceiling-block", self.ceiling_block)?;
        let shards = self.shards(cpus);
        let is_default = self.total.is_none() && self.rounds.is_none();
        Ok(Settings {
            shards,
            partitions: self.partitions,
            producers: self.producers,
            in_flight: self.in_flight,
            batch_messages: self.batch_messages,
            message_bytes: self.message_bytes()?,
            total_bytes: total.0,
            rounds: self.rounds.unwrap_or(ROUNDS),
            time_limit: is_default.then_some(TIME_LIMIT),
            poll_bytes: usize::try_from(self.poll_size.0).unwrap_or(usize::MAX),
            durable_samples: self.durable_samples,
            shape: Shape {
                block,
                depth: usize::from(self.ceiling_depth),
                rings: usize::from(shards),
            },
            seed: self.seed,
        })
    }

    /// Payload bytes of a message, of which a batch can hold as many as are asked for.
    fn message_bytes(&self) -> Result<usize, String> {
        let limit = corelog_format::BATCH_BYTES_MAX;
        let frame = self.message_size.0.checked_add(FRAME_HEADER_LEN as u64);
        let frames = frame.and_then(|frame| frame.checked_mul(u64::from(self.batch_messages)));
        let batch = frames.and_then(|frames| frames.checked_add(BATCH_HEADER_LEN as u64));
        match batch {
            Some(batch) if batch <= limit => Ok(self.message_size.0 as usize),
            _ => Err(format!(
                "{} messages of {} bytes are more than a batch may hold ({limit} bytes); lower \
                 --batch-messages or --message-size",
                self.batch_messages, self.message_size.0
            )),
        }
    }

    fn shards(&self, cpus: usize) -> u16 {
        let half = u16::try_from(cpus / 2).unwrap_or(u16::MAX).clamp(1, 1024);
        self.shards.unwrap_or(half)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};

    fn run(flags: &str) -> Result<(RunArgs, Settings), String> {
        let words = format!("corelog-bench run {flags}");
        let cli =
            Cli::try_parse_from(words.split_whitespace()).map_err(|error| error.to_string())?;
        let Command::Run(args) = cli.command else { unreachable!("run was asked for") };
        let settings = args.settings(64)?;
        Ok((args, settings))
    }

    #[test]
    fn no_arguments_are_needed() {
        let (args, settings) = run("").unwrap();
        assert_eq!((args.place.dir.as_ref(), args.place.json.as_ref()), (None, None));
        assert!(!args.place.keep);
        assert_eq!((settings.partitions, settings.producers, settings.rounds), (4, 4, 9));
        assert_eq!(settings.total_bytes, 4_500_000_000);
        assert_eq!((settings.batch_messages, settings.message_bytes), (1000, 1000));
        assert!(settings.time_limit.is_some());
        let shards = |cpus| args.settings(cpus).unwrap().shards;
        assert_eq!((shards(1), shards(2), shards(64)), (1, 1, 32));
    }

    #[test]
    fn every_flag_that_scripts_rely_on() {
        let (args, settings) = run("--dir /x/y --keep --shards 3 --partitions 5 --total 64MiB \
                                    --batch-messages 10 --message-size 100 --producers 2 \
                                    --rounds 7 --json out.json")
        .unwrap();
        assert_eq!(args.place.dir, Some("/x/y".into()));
        assert!(args.place.keep);
        assert_eq!(args.place.json, Some("out.json".into()));
        assert_eq!((settings.shards, settings.partitions, settings.producers), (3, 5, 2));
        assert_eq!(settings.shape.rings, 3);
        assert_eq!((settings.total_bytes, settings.rounds), (64 << 20, 7));
        assert_eq!((settings.batch_messages, settings.message_bytes), (10, 100));
    }

    #[test]
    fn who_says_how_much_gets_all_of_it() {
        assert_eq!(run("--total 1G").unwrap().1.time_limit, None);
        assert_eq!(run("--rounds 2").unwrap().1.time_limit, None);
    }

    #[test]
    fn nonsense_is_refused_with_its_flag() {
        for (flags, word) in [
            ("--total 0", "--total"),
            ("--total 1X", "no unit"),
            ("--shards 0", "--shards"),
            ("--partitions 0", "--partitions"),
            ("--producers 0", "--producers"),
            ("--batch-messages 0", "--batch-messages"),
            ("--rounds 0", "--rounds"),
            ("--poll-size 0", "--poll-size"),
            ("--ceiling-block 1000", "--ceiling-block"),
            ("--ceiling-block 2GiB", "--ceiling-block"),
            ("--ceiling-block 0", "--ceiling-block"),
            ("--batch-messages 1000 --message-size 1MiB", "lower --batch-messages"),
            ("--message-size 18446744073709551615", "lower --batch-messages"),
            ("--nonsense", "--nonsense"),
        ] {
            let error = run(flags).unwrap_err();
            assert!(error.contains(word), "{flags}: {error}");
        }
    }

    #[test]
    fn the_largest_batch_is_allowed() {
        // One message that fills the 64 MiB to the byte, and one byte more.
        assert!(run("--batch-messages 1 --message-size 67108560").is_ok());
        assert!(run("--batch-messages 1 --message-size 67108561").is_err());
    }
}
