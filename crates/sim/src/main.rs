//! `corelog-sim`: one seed again, or many seeds for some minutes.

use std::process::ExitCode;

use clap::Parser;

/// Runs the simulator.
#[derive(Parser)]
struct Args {
    /// Run this one seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Run seeds from this one on.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// So many of them.
    #[arg(long, default_value_t = 100)]
    count: u64,
    /// Events before a failure that are shown.
    #[arg(long, default_value_t = 60)]
    events: usize,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let seeds = match args.seed {
        Some(seed) => seed..seed + 1,
        None => args.from..args.from + args.count,
    };
    let mut probes = corelog_sim::Probes::default();
    let begin = std::time::Instant::now();
    for seed in seeds {
        match corelog_sim::run(seed, args.events) {
            Ok(report) => probes.add(&report.probes),
            Err(failure) => {
                println!("{failure}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{probes}{:?}", begin.elapsed());
    ExitCode::SUCCESS
}
