//! `corelog-kill`: a process that appends is killed, again and again, and what it was answered is
//! looked for.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use corelog::machine::Runtime;
use corelog_crash::kill::{Campaign, Life};
use corelog_crash::runtime;

/// Kills a process that appends, at moments drawn from a seed, and holds what the engine shows
/// afterwards to what was answered.
///
/// Exit 0 when every promise was kept, 1 when one was broken (the directory is left as evidence:
/// `data` as the judge left it, `ledger` with all that was said), 2 when the rig could not work.
#[derive(Parser)]
#[command(name = "corelog-kill", version)]
struct Args {
    /// Where to work: on a file system with O_DIRECT. `data`, `killed` and `ledger` in it are ours.
    #[arg(long)]
    dir: PathBuf,
    /// Rounds at most. 100 unless minutes are given.
    #[arg(long)]
    rounds: Option<u64>,
    /// Minutes at most.
    #[arg(long)]
    minutes: Option<f64>,
    /// Seed of the first directory; each next one has the next seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Partitions of each of the three topics.
    #[arg(long, default_value_t = 2)]
    partitions: u32,
    /// Shards of the engine that is killed.
    #[arg(long, default_value_t = 2)]
    shards: usize,
    /// Producers of each of the three kinds.
    #[arg(long, default_value_t = 1)]
    producers: u32,
    /// What the engines run on: `glommio` or `ring`. The engine's default unless given.
    #[arg(long)]
    runtime: Option<Runtime>,
    /// Keep a copy of the data as the killed process left it, in `killed`.
    #[arg(long)]
    copies: bool,
}

/// One life, as the campaign starts it.
#[derive(Parser)]
#[command(name = "corelog-kill life")]
struct LifeArgs {
    #[command(flatten)]
    life: Life,
    /// What the engine runs on.
    #[arg(long)]
    runtime: Runtime,
}

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|word| word == "life") {
        let args = LifeArgs::parse_from(std::env::args_os().skip(1));
        runtime::choose(Some(args.runtime));
        args.life.run();
        return ExitCode::SUCCESS;
    }
    let args = Args::parse();
    runtime::choose(args.runtime);
    let begin = Instant::now();
    let exe = match std::env::current_exe() {
        Ok(exe) => exe,
        Err(error) => {
            eprintln!("corelog-kill: cannot find its own program: {error}");
            return ExitCode::from(2);
        }
    };
    let campaign = Campaign {
        exe,
        dir: args.dir,
        seed: args.seed,
        rounds: args.rounds.unwrap_or(if args.minutes.is_some() { u64::MAX } else { 100 }),
        until: args.minutes.map(|minutes| begin + Duration::from_secs_f64(minutes * 60.0)),
        partitions: args.partitions,
        shards: args.shards,
        producers: args.producers,
        copies: args.copies,
    };
    let (summary, result) = campaign.run();
    println!("{summary}");
    println!("  on {} in {:.0} s", runtime::chosen(), begin.elapsed().as_secs_f64());
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            println!("{failure}");
            println!("  evidence: {}", campaign.dir.display());
            ExitCode::from(if failure.is_broken_promise() { 1 } else { 2 })
        }
    }
}
