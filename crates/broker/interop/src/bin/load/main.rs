//! The SDK as a load: producers and consumers in the shapes that the reference server is measured
//! with, against a broker process of its own. Beside each, in the same run: an echo of the same
//! bytes in the same frames over the same loopback, and the same clients against a server that does
//! nothing, which is all that these clients can do here.
//!
//! | file | what it is |
//! | --- | --- |
//! | `shape` | what is measured, and the messages, whose content follows from their offset |
//! | `clients` | the SDK's clients, and the checks of what they get |
//! | `window` | warm-up, the time that counts, and what both sides used in it |
//! | `peer` | the echo and the server that does nothing, each a process of its own |
//! | `report` | medians of the rounds, as a table and as JSON |

mod clients;
mod peer;
mod report;
mod shape;
mod window;

use std::time::Duration;

use report::Row;
use shape::{SHAPES, Shape};

const USAGE: &str = "\
Usage: load [OPTIONS], with CORELOG_BROKER as scripts/load.sh sets it
  --rounds N     rounds, each of all shapes; the table has their medians [3]
  --gigabytes N  what a shape moves at most in a round, behind its warm-up [1]
  --seconds N    and how long it goes on at most [4]
  --shape NAME   only this one; may be repeated
  --shards N     shards of the broker [2]
  --broker-only  without the echo and the server that does nothing
  --json FILE    every round";

/// What was asked for.
struct Args {
    rounds: usize,
    limit: window::Limit,
    shapes: Vec<String>,
    shards: usize,
    is_broker_only: bool,
    json: Option<String>,
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.first().is_some_and(|word| word == peer::SERVE) {
        return peer::serve(&words[1..]);
    }
    let args = parse(words).unwrap_or_else(|why| {
        eprintln!("load: {why}\n{USAGE}");
        std::process::exit(2);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(run(&args));
}

async fn run(args: &Args) {
    let asked = |shape: &&Shape| {
        args.shapes.is_empty() || args.shapes.iter().any(|name| name == shape.name)
    };
    let shapes: Vec<&Shape> = SHAPES.iter().filter(asked).collect();
    let mut rows: Vec<Row> = shapes.iter().map(|shape| Row::new(shape)).collect();
    for round in 0..args.rounds {
        for (shape, row) in shapes.iter().zip(&mut rows) {
            eprintln!("round {} of {}: {}", round + 1, args.rounds, shape.name);
            // What stands beside each other is measured in turns, the first one changing.
            for turn in 0..3 {
                match (turn + round) % 3 {
                    0 => row.broker.push(clients::against_broker(shape, args).await),
                    _ if args.is_broker_only => {}
                    1 => row.echo.push(peer::echo(shape, &args.limit).await),
                    _ => row.nothing.push(clients::against_nothing(shape, args).await),
                }
            }
        }
    }
    report::print(&rows);
    if let Some(path) = &args.json {
        std::fs::write(path, report::json(&rows)).unwrap();
    }
}

fn parse(words: Vec<String>) -> Result<Args, String> {
    let mut args = Args {
        rounds: 3,
        limit: window::Limit { bytes: 1_000_000_000, time: Duration::from_secs(4) },
        shapes: Vec::new(),
        shards: 2,
        is_broker_only: false,
        json: None,
    };
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if word == "--broker-only" {
            args.is_broker_only = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word}: unknown, or without a value"))?;
        let number = || value.parse::<f64>().map_err(|error| format!("{word} {value}: {error}"));
        match &*word {
            "--rounds" => args.rounds = number()? as usize,
            "--gigabytes" => args.limit.bytes = (number()? * 1e9) as u64,
            "--seconds" => args.limit.time = Duration::from_secs_f64(number()?),
            "--shards" => args.shards = number()? as usize,
            "--shape" => args.shapes.push(value),
            "--json" => args.json = Some(value),
            _ => return Err(format!("{word}: unknown")),
        }
    }
    Ok(args)
}
