//! `corelog-sim`: one seed again, or many seeds for some minutes.

use std::num::NonZero;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use corelog_sim::{Campaign, Outcome};

/// Runs storage and shard in a simulated world that misbehaves, and holds them to their contract.
///
/// Exit 0 when every seed kept it, 1 when one did not.
#[derive(Parser)]
#[command(name = "corelog-sim", version)]
struct Args {
    /// Run this one seed.
    #[arg(long, conflicts_with_all = ["from", "count", "minutes"])]
    seed: Option<u64>,
    /// Run seeds from this one on.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// So many seeds at most.
    #[arg(long)]
    count: Option<u64>,
    /// For so many minutes at most.
    #[arg(long)]
    minutes: Option<f64>,
    /// Threads; one a CPU unless said.
    #[arg(long)]
    threads: Option<usize>,
    /// Events that are shown of a run that fails.
    #[arg(long, default_value_t = 60)]
    events: usize,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    let begin = Instant::now();
    let count = match (args.seed, args.minutes) {
        (Some(_), _) => 1,
        (None, Some(_)) => u64::MAX,
        (None, None) => 100,
    };
    let campaign = Campaign {
        from: args.seed.unwrap_or(args.from),
        count: args.count.unwrap_or(count),
        until: args.minutes.map(|minutes| begin + Duration::from_secs_f64(minutes * 60.0)),
        threads: args.threads.unwrap_or(cpus),
        events: args.events,
    };
    let Outcome { seeds, probes, failure } = campaign.run();
    print!("{probes}");
    let seconds = begin.elapsed().as_secs_f64();
    println!("{seeds} seeds in {seconds:.0} s, {:.1} a second", seeds as f64 / seconds);
    match failure {
        None => ExitCode::SUCCESS,
        Some(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}
