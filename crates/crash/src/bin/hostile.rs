//! `corelog-hostile`: an engine runs on a disk that misbehaves at random times.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use corelog::machine::Runtime;
use corelog_crash::hostile::Campaign;
use corelog_crash::runtime;

/// Runs an engine with producers and consumers on a FUSE disk that answers errors, short reads,
/// delays or nothing, drawn from a seed, and demands that nothing acknowledged is lost and that
/// everything goes on when the trouble ends. Only root can.
///
/// Exit 0 when every promise was kept, 1 when one was broken (the files are left in `backing`), 2
/// when the rig could not work, 101 when something hung.
#[derive(Parser)]
#[command(name = "corelog-hostile", version)]
struct Args {
    /// Where to work: `backing` and `point` in it are ours.
    #[arg(long)]
    dir: PathBuf,
    /// Rounds at most. 20 unless minutes are given.
    #[arg(long)]
    rounds: Option<u64>,
    /// Minutes at most.
    #[arg(long)]
    minutes: Option<f64>,
    /// Seed of the first round; each next one has the next seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// What the engine runs on: `glommio` or `ring`. The engine's default unless given.
    #[arg(long)]
    runtime: Option<Runtime>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    runtime::choose(args.runtime);
    let begin = Instant::now();
    let campaign = Campaign {
        dir: args.dir,
        seed: args.seed,
        rounds: args.rounds.unwrap_or(if args.minutes.is_some() { u64::MAX } else { 20 }),
        until: args.minutes.map(|minutes| begin + Duration::from_secs_f64(minutes * 60.0)),
    };
    let (summary, done) = campaign.run();
    println!("{summary}");
    let (seed, runtime) = (args.seed, runtime::chosen());
    println!("seeds from {seed} on, on {runtime}, {:.0} s", begin.elapsed().as_secs_f64());
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            println!("{failure}");
            ExitCode::from(if failure.is_broken_promise() { 1 } else { 2 })
        }
    }
}
