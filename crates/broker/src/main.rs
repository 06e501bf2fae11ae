//! The broker as a program.

use std::process::ExitCode;

use corelog_broker::config::{self, ConfigError, Settings};
use corelog_broker::{Broker, PASSWORD_VARIABLE, log_to_stderr};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The engine's buffers lie on huge pages from the start.
#[global_allocator]
static ALLOCATOR: corelog::machine::HugePageAlloc = corelog::machine::HugePageAlloc;

/// What it was told cannot be.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    let settings = match config::read(std::env::args_os(), |name| std::env::var_os(name)) {
        Ok(settings) => settings,
        // It also says what help there is, on standard output and with 0.
        Err(ConfigError::Flags(error)) => error.exit(),
        Err(error) => return told(&error, USAGE),
    };
    if settings.print {
        print!("{}", settings.printed());
        return ExitCode::SUCCESS;
    }
    match run(settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => told(&*error, 1),
    }
}

fn told(error: &dyn std::error::Error, code: u8) -> ExitCode {
    eprintln!("corelog-broker: {error}");
    ExitCode::from(code)
}

fn run(settings: Settings) -> Result<(), Box<dyn std::error::Error>> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let log = log_to_stderr(settings.log_level, settings.log_format)?;
    let ended = serve(settings, &mut signals);
    log.finish();
    ended
}

/// Until a signal comes, and then in order: see [`Broker::drain`].
fn serve(settings: Settings, signals: &mut Signals) -> Result<(), Box<dyn std::error::Error>> {
    let mut broker = Broker::start(settings.broker)?;
    if let Some(password) = broker.made_password() {
        eprintln!(
            "corelog-broker: {PASSWORD_VARIABLE} is not set and no password is stored; from now on \
             the password of user iggy is {}",
            password.reveal()
        );
    }
    // On standard output, so that a script can wait for it and learn ports that the kernel chose.
    if let Some(address) = broker.metrics() {
        println!("metrics on {address}");
    }
    println!("listening on {}", broker.listen());
    signals.forever().next();
    broker.drain(settings.stop_timeout, || signals.pending().next().is_some());
    broker.stop()?;
    Ok(())
}
