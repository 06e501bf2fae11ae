//! The broker as a program.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use corelog_broker::{Broker, Config, PASSWORD_VARIABLE, RootPassword};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The engine's buffers lie on huge pages from the start.
#[global_allocator]
static ALLOCATOR: corelog::machine::HugePageAlloc = corelog::machine::HugePageAlloc;

/// A single-node broker for Apache Iggy's clients, on the Corelog storage engine.
///
/// The one user is "iggy"; its password comes from CORELOG_ROOT_PASSWORD. Where that is not set, a
/// password is made up and printed once.
///
/// Example: CORELOG_ROOT_PASSWORD=iggy corelog-broker --data /var/lib/corelog
#[derive(Debug, Parser)]
#[command(name = "corelog-broker", version, max_term_width = 100)]
struct Args {
    /// Data directory; made where there is none.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Address to listen on.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8090")]
    listen: SocketAddr,
    /// Shards of the engine [default: one a CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    shards: Option<u16>,
}

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("corelog-broker: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> Result<(), Box<dyn std::error::Error>> {
    let password = password()?;
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let broker = Broker::start(Config {
        data: args.data,
        listen: args.listen,
        password,
        shards: args.shards.map(usize::from),
    })?;
    // On standard output, so that a script can wait for it and learn a port that the kernel chose.
    println!("listening on {}", broker.listen());
    signals.forever().next();
    eprintln!("corelog-broker: stopping");
    broker.stop()?;
    Ok(())
}

/// The root user's password.
fn password() -> Result<RootPassword, Box<dyn std::error::Error>> {
    match std::env::var(PASSWORD_VARIABLE) {
        Ok(password) => RootPassword::new(password)
            .map_err(|error| format!("{PASSWORD_VARIABLE}: {error}").into()),
        Err(std::env::VarError::NotPresent) => {
            let password = RootPassword::generated()?;
            eprintln!(
                "corelog-broker: {PASSWORD_VARIABLE} is not set; until the next start the password \
                 of user iggy is {}",
                password.reveal()
            );
            Ok(password)
        }
        Err(error) => Err(format!("{PASSWORD_VARIABLE}: {error}").into()),
    }
}
