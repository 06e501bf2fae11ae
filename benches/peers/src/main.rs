//! Other embedded logs and Corelog: the same bytes, the same promise, in turns, a process each.
//!
//! `peers run` starts a child for each log in each round (`rounds`), the child appends, reads all of
//! it back and compares it (`child`), and the medians become one table a class (`table`). Classes
//! (`work`) are never mixed: what an answer promised decides what it cost.

mod args;
mod child;
mod cost;
mod logs;
mod rounds;
mod table;
#[cfg(test)]
mod tests;
mod work;

use std::process::ExitCode;

use clap::Parser;

/// Any failure; printed, never matched.
type Fault = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    let done = match args::Cli::parse().command {
        args::Command::Run(args) => rounds::run(&args),
        args::Command::Child(args) => child::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::FAILURE
        }
    }
}
