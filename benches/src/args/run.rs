//! The flags of `run`: a workload by name, and what it is made of.

use std::time::Duration;

use clap::Args;
use corelog::machine::Runtime;
use corelog_format::{BATCH_HEADER_LEN, FRAME_HEADER_LEN};

use super::log::LogArgs;
use super::units::{Span, Time};
use super::{OutputArgs, Percentiles, PlaceArgs, check_block};
use crate::ceiling::Shape;
use crate::content::Sizes;
use crate::phases::schedule::Arrivals;
use crate::run::preset::{Preset, Step};
use crate::run::{Rate, Settings};
use crate::size::Size;
use crate::subject::Ack;

/// Bytes of a user header: two kinds, two lengths, a key like `key-10`, and a number.
const USER_HEADER_BYTES: u64 = 2 * 5 + 9 + 8;

#[derive(Debug, Clone, Args)]
pub(crate) struct RunArgs {
    /// Workload; the flags below change it
    #[arg(value_enum, default_value_t, value_name = "PRESET")]
    pub(crate) preset: Preset,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs,

    /// Percentiles of the latencies in the text, each from 0 to below 100, the smallest first; the
    /// maximum stands behind them [default: 50,99,99.9]
    #[arg(long, value_name = "P,P,..", help_heading = "Results")]
    pub(crate) percentiles: Option<Percentiles>,

    /// Read the files back without the engine at the end of each round, page cache dropped, and
    /// compare every byte and both layers of checksums
    #[arg(long)]
    pub(crate) verify: bool,

    /// What the engine runs on: glommio or ring
    #[arg(long, value_name = "NAME", default_value_t)]
    pub(crate) runtime: Runtime,

    /// Shards of the engine, and rings of the ceiling [default: half of the CPUs, the producers
    /// have the others]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) shards: Option<u16>,

    /// Partitions of the topic, at most 10000 [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) partitions: Option<u32>,

    /// Bytes to append, over all rounds: K, M, G = 1000; KiB, MiB, GiB = 1024 [default: 4500M]
    #[arg(long, value_name = "SIZE", conflicts_with = "duration")]
    pub(crate) total: Option<Size>,

    /// Append for so long in each round instead, or until the disk is full: 10s, 2m
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Time>,

    /// What is answered in so much time after the start of the appends does not count
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub(crate) warm_up: Time,

    /// Send so much a second, whatever the answers (an open loop; latencies run from the intended
    /// start): 200M bytes, or 50000msg [default: as fast as answers come, a closed loop]
    #[arg(long, value_name = "RATE")]
    pub(crate) rate: Option<Rate>,

    /// How the starts of --rate lie in time
    #[arg(long, value_enum, default_value = "even", requires = "rate")]
    pub(crate) arrivals: Arrivals,

    /// Appends of a producer that --rate has due at the same moment
    #[arg(long, value_name = "N", default_value_t = 1, requires = "rate",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) burst: u32,

    /// Messages in a batch, or a range A..B of them, drawn for each batch [default: 1000]
    #[arg(long, value_name = "N|A..B")]
    pub(crate) batch_messages: Option<Span<u32>>,

    /// Payload bytes of a message, or a range A..B of them, drawn for each message [default: 1K]
    #[arg(long, value_name = "SIZE|A..B")]
    pub(crate) message_size: Option<Span<u64>>,

    /// User headers of a message
    #[arg(long, value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u16).range(0..=100))]
    pub(crate) headers: u16,

    /// How much of a payload is random, in percent; the rest is zeros, for disks and file systems
    /// that compress
    #[arg(long, value_name = "PERCENT", default_value_t = 100,
          value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) entropy: u8,

    /// When an append is answered
    #[arg(long, value_enum, default_value = "written")]
    pub(crate) ack: Ack,

    /// Producers, each a thread that appends to its own share of the partitions [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) producers: Option<u16>,

    /// Every producer appends to every partition, in random order
    #[arg(long)]
    pub(crate) shuffle: bool,

    /// As --shuffle, and partitions are not alike: number K gets in proportion to (K+1)^-S (Zipf;
    /// 0.99 is what YCSB has)
    #[arg(long, value_name = "S", value_parser = skew)]
    pub(crate) skew: Option<f64>,

    /// Appends a producer has outstanding [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) in_flight: Option<u16>,

    /// Consumers that read everything back, from the disk [default: as many as producers]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) consumers: Option<u32>,

    /// Consumers that wait at the end of the log while producers append [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) tail: Option<u32>,

    /// Consumers that catch up, from the disk, with as much as is appended meanwhile [default: 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(crate) catch_up: Option<u32>,

    /// Rounds, each all phases once; ratios are medians over them [default: 9, fewer on a disk so
    /// slow that they would take a minute; that holds for --total too; 1 with --duration]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: Option<u32>,

    /// Most bytes of a poll's reply
    #[arg(long, value_name = "SIZE", default_value = "2MiB")]
    pub(crate) poll_size: Size,

    /// Durable appends a round, and synced writes of the ceiling by each method; 0 leaves both out
    #[arg(long, value_name = "N", default_value_t = 300)]
    pub(crate) durable_samples: u32,

    /// Producers of the preset fsync, where they are many
    #[arg(long, value_name = "N", default_value_t = 64,
          value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) durable_producers: u16,

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

    // Last: a heading is for all that follows.
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// Rounds unless given: enough for an interval, few enough for a minute.
const ROUNDS: u32 = 9;

/// Shards share a CPU in tests; hundreds of them do not even start in time.
const SHARDS_A_CPU: usize = 16;

/// Partitions that consumers beside producers have at most: with 5,000 of them their waits took the
/// CPU, and the appends came to 1 MB/s.
const FOLLOWED_MAX: u32 = 1000;

/// Counts of four bytes that the producers keep together at most: 1 GB of them.
const COUNTS_MAX: u64 = 250_000_000;

/// Longest that a run goes on whose length the user did not say.
const TIME_LIMIT: Duration = Duration::from_secs(50);

impl RunArgs {
    /// The run that is asked for, on a machine of `cpus` CPUs; refuses what clap cannot see: sizes
    /// that contradict each other or the format.
    pub(crate) fn settings(&self, cpus: usize) -> Result<Settings, String> {
        let workload = self.preset.workload();
        let total = self.total.map_or(workload.total_bytes, |total| total.0);
        if total == 0 {
            return Err("--total must be more than 0".to_owned());
        }
        if self.poll_size.0 == 0 {
            return Err("--poll-size must be more than 0".to_owned());
        }
        let block = check_block("--ceiling-block", self.ceiling_block)?;
        let shards = self.shards.unwrap_or_else(|| default_shards(cpus));
        if usize::from(shards) > SHARDS_A_CPU * cpus {
            return Err(format!(
                "--shards {shards}: this machine has {cpus} CPUs, and more than {SHARDS_A_CPU} \
                 shards a CPU only wait for each other; lower --shards"
            ));
        }
        let producers = self.producers.unwrap_or(workload.producers);
        let is_default = self.total.is_none() && self.rounds.is_none() && self.duration.is_none();
        let rounds = if self.duration.is_some() { 1 } else { ROUNDS };
        let settings = Settings {
            preset: self.preset,
            runtime: self.runtime,
            steps: self.steps(workload.steps),
            shards,
            partitions: self.partitions.unwrap_or(workload.partitions),
            producers,
            in_flight: self.in_flight.unwrap_or(workload.in_flight),
            consumers: self.consumers.unwrap_or_else(|| producers.into()),
            tail: self.tail.unwrap_or(workload.tail),
            catch_up: self.catch_up.unwrap_or(workload.catch_up),
            shuffle: self.shuffle || self.skew.is_some() || workload.shuffle,
            skew: self.skew.unwrap_or(0.0),
            sizes: self.sizes()?,
            ack: self.ack,
            log: self.log.options(),
            rate: self.rate,
            arrivals: self.arrivals,
            burst: self.burst,
            total_bytes: total,
            duration: self.duration.map(|time| time.0),
            warm_up: self.warm_up.0,
            rounds: self.rounds.unwrap_or(rounds),
            time_limit: is_default.then_some(TIME_LIMIT),
            poll_bytes: usize::try_from(self.poll_size.0).unwrap_or(usize::MAX),
            durable_samples: self.durable_samples,
            durable_producers: self.durable_producers,
            shape: Shape {
                block,
                depth: usize::from(self.ceiling_depth),
                rings: usize::from(shards),
            },
            seed: self.seed,
        };
        check_together(&settings)?;
        Ok(settings)
    }

    fn steps(&self, of_preset: &[Step]) -> Vec<Step> {
        let mut steps = of_preset.to_vec();
        if self.durable_samples == 0 {
            steps.retain(|step| *step != Step::Durable);
        }
        // The engine is closed then: at the end.
        if self.verify && steps.contains(&Step::Append) && !steps.contains(&Step::Verify) {
            steps.push(Step::Verify);
        }
        steps
    }

    /// Sizes of batches and messages; a batch can hold as many as are asked for.
    fn sizes(&self) -> Result<Sizes, String> {
        let workload = self.preset.workload();
        let messages = self.batch_messages.clone().map_or(workload.batch_messages, |span| span.0);
        let payload = self.message_size.clone().map_or(workload.message_bytes, |span| span.0);
        Ok(Sizes { entropy_percent: self.entropy, ..sizes(messages, payload, self.headers)? })
    }
}

fn skew(text: &str) -> Result<f64, String> {
    let exponent = text.parse::<f64>().ok().filter(|exponent| (0.0..=10.0).contains(exponent));
    exponent.ok_or_else(|| "a number from 0 to 10".to_owned())
}

/// Sizes that a batch can have; refuses others.
pub(super) fn sizes(
    messages: std::ops::Range<u32>,
    payload: std::ops::Range<u64>,
    headers: u16,
) -> Result<Sizes, String> {
    if messages.start == 0 {
        return Err("--batch-messages: a batch has at least one message".to_owned());
    }
    let limit = corelog_format::BATCH_BYTES_MAX;
    let (count, bytes) = (messages.end - 1, payload.end - 1);
    let of_headers = u64::from(headers) * USER_HEADER_BYTES;
    let frame = bytes.checked_add(FRAME_HEADER_LEN as u64 + of_headers);
    let frames = frame.and_then(|frame| frame.checked_mul(u64::from(count)));
    let batch = frames.and_then(|frames| frames.checked_add(BATCH_HEADER_LEN as u64));
    match batch {
        Some(batch) if batch <= limit => {
            let payload = payload.start as usize..payload.end as usize;
            Ok(Sizes { messages, payload, headers, entropy_percent: 100 })
        }
        _ => Err(format!(
            "{count} messages of {bytes} bytes are more than a batch may hold ({limit} bytes); \
             lower --batch-messages or --message-size"
        )),
    }
}

/// Half of the CPUs: the producers have the others.
pub(super) fn default_shards(cpus: usize) -> u16 {
    u16::try_from(cpus / 2).unwrap_or(u16::MAX).clamp(1, 1024)
}

/// Refuses what contradicts itself.
fn check_together(settings: &Settings) -> Result<(), String> {
    let Settings { preset, steps, log, ack, .. } = settings;
    if steps.is_empty() {
        return Err("nothing is left to measure; raise --durable-samples".to_owned());
    }
    let appends = steps.contains(&Step::Append);
    if !appends && (settings.duration.is_some() || settings.rate.is_some()) {
        let preset = preset.name();
        return Err(format!("--duration and --rate are for appends, which {preset} does not have"));
    }
    if log.has_retention() && settings.tail + settings.catch_up > 0 {
        return Err("--retention-size and --retention-time delete what --tail and --catch-up \
                    read; leave one of them out"
            .to_owned());
    }
    if steps.contains(&Step::Opening) && *ack == Ack::Appended && !log.enforce_fsync {
        return Err(
            "--ack appended promises nothing that survives a kill, which recovery checks; \
                    use written or durable"
                .to_owned(),
        );
    }
    let (producers, partitions) = (settings.producers, settings.partitions);
    if settings.tail + settings.catch_up > 0 && partitions > FOLLOWED_MAX {
        return Err(format!(
            "--partitions {partitions} with --tail or --catch-up: their consumers wait at every \
             partition, and beyond {FOLLOWED_MAX} that is all that would be measured"
        ));
    }
    if u64::from(producers).pow(2) * u64::from(partitions) > COUNTS_MAX {
        return Err(format!(
            "--producers {producers} and --partitions {partitions}: each producer counts what all \
             of them sent to each partition, and that would take gigabytes; lower one of them"
        ));
    }
    if settings.rate.is_some() && settings.duration.is_none() && settings.time_limit.is_some() {
        return Err(
            "--rate needs --duration or --total: at a low rate the default would take long"
                .to_owned(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Cli, Command};
    use crate::subject::LogOptions;

    fn run(flags: &str) -> Result<(RunArgs, Settings), String> {
        let words = format!("corelog-bench run {flags}");
        let cli =
            Cli::try_parse_from(words.split_whitespace()).map_err(|error| error.to_string())?;
        let Command::Run(args) = cli.command else { unreachable!("run was asked for") };
        let settings = args.settings(64)?;
        Ok((*args, settings))
    }

    #[test]
    fn no_arguments_are_needed() {
        let (args, settings) = run("").unwrap();
        assert_eq!((args.place.dir.as_ref(), args.place.json.as_ref()), (None, None));
        assert!(!args.place.keep);
        assert_eq!((settings.partitions, settings.producers, settings.rounds), (4, 4, 9));
        assert_eq!(settings.total_bytes, 4_500_000_000);
        assert_eq!(settings.sizes, Sizes::fixed(1000, 1000));
        assert_eq!(
            (settings.rate, settings.duration, settings.warm_up),
            (None, None, Duration::ZERO)
        );
        assert_eq!((settings.ack, settings.log), (Ack::Written, LogOptions::default()));
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
        assert_eq!(settings.sizes, Sizes::fixed(10, 100));
    }

    #[test]
    fn who_says_how_much_gets_all_of_it() {
        assert_eq!(run("--total 1G").unwrap().1.time_limit, None);
        assert_eq!(run("--rounds 2").unwrap().1.time_limit, None);
    }

    #[test]
    fn a_preset_decides_what_the_user_does_not_say() {
        let of = |flags: &str| run(flags).unwrap().1;
        let many = of("many-partitions");
        assert_eq!((many.partitions, many.sizes), (1000, Sizes::fixed(10, 1000)));
        let fewer = of("many-partitions --partitions 10 --batch-messages 2..5");
        assert_eq!((fewer.partitions, fewer.sizes.messages), (10, 2..5));
        assert_eq!(of("fsync").steps, [Step::Durable, Step::DurableShared, Step::DurableSpread]);
        assert!(of("verify").steps.contains(&Step::Verify));
        assert!(of("--verify").steps.contains(&Step::Verify));
        assert_eq!(of("--durable-samples 0").steps, [Step::Append, Step::Poll]);
        let mixed = of("mixed --tail 5");
        assert_eq!((mixed.tail, mixed.catch_up), (5, 2));
        assert!(of("shuffle").shuffle && of("--shuffle").shuffle && !of("").shuffle);
        let skewed = of("--skew 0.99 --entropy 25");
        assert_eq!((skewed.shuffle, skewed.skew, skewed.sizes.entropy_percent), (true, 0.99, 25));
        let random = of("--total 1G --rate 10M --arrivals poisson --burst 8");
        assert_eq!((random.arrivals, random.burst), (Arrivals::Poisson, 8));
        let timed = of("--duration 30s --rate 10M --warm-up 2s");
        assert_eq!((timed.rounds, timed.duration), (1, Some(Duration::from_secs(30))));
        assert_eq!(
            (timed.rate, timed.warm_up),
            (Some(Rate::Bytes(10_000_000)), Duration::from_secs(2))
        );
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
            ("--message-size 18446744073709551615", "too large"),
            ("--nonsense", "--nonsense"),
            ("nonsense", "nonsense"),
            ("--batch-messages 3..3", "is empty"),
            ("--message-size 1..80MiB", "lower --batch-messages"),
            ("--headers 100 --message-size 67000", "lower --batch-messages"),
            ("--total 1G --duration 1s", "--duration"),
            ("--rate 10M", "--rate needs"),
            ("fsync --duration 5s", "fsync"),
            ("fsync --rate 5M --total 1G", "fsync"),
            ("mixed --retention-size 2G", "--retention-size"),
            ("recovery --ack appended", "recovery"),
            ("--segment-size 1000", "--segment-size"),
            ("--burst 5", "--rate"),
            ("--arrivals poisson", "--rate"),
            ("--entropy 101", "--entropy"),
            ("--partitions 10001", "--partitions"),
            ("--producers 200 --partitions 10000", "lower one of them"),
            ("mixed --partitions 1001", "wait at every partition"),
            ("--percentiles 99,50", "smallest first"),
            ("--skew=-1", "--skew"),
            ("--skew NaN", "--skew"),
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

    #[test]
    fn shards_have_cpus_to_run_on() {
        let (args, _) = run("--shards 33").unwrap();
        let error = args.settings(2).unwrap_err();
        assert!(error.contains("2 CPUs") && error.contains("lower --shards"), "{error}");
        assert!(run("--shards 32").unwrap().0.settings(2).is_ok());
    }
}
