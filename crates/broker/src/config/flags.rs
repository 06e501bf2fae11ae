//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::ConfigError;
use super::options::{OPTIONS, defaults};
use crate::PASSWORD_VARIABLE;

const ABOUT: &str = "A single-node broker for Apache Iggy's clients, on the Corelog storage engine";

const LONG_ABOUT: &str = "\
A single-node broker for Apache Iggy's clients, on the Corelog storage engine.

The one user is \"iggy\". Its password comes from CORELOG_ROOT_PASSWORD and is kept as a hash in the \
data directory. Where none was ever given, one is made up and printed once, on standard error.

Every option is also a variable of the environment and a key of the file of --config: --log-level, \
CORELOG_LOG_LEVEL, log_level. The command line holds before the environment, that before the file.";

const EXAMPLE: &str = "\
Example: CORELOG_ROOT_PASSWORD=iggy corelog-broker --data /var/lib/corelog

SIGTERM and SIGINT stop it in order, a second one without waiting for connections. It ends with 0 \
then, with 1 where it could not start or not close everything, with 2 where it was told wrong \
things.";

/// What stands on the command line.
pub(super) struct Flags {
    matches: ArgMatches,
}

impl Flags {
    /// # Errors
    /// What is wrong with it; also where it asks for help.
    pub(super) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Flags, ConfigError> {
        let matches = command().try_get_matches_from(args);
        Ok(Flags { matches: matches.map_err(|error| ConfigError::Flags(Box::new(error)))? })
    }

    pub(super) fn option(&self, key: &str) -> Option<&String> {
        self.matches.get_one::<String>(key)
    }

    pub(super) fn config(&self) -> Option<PathBuf> {
        self.matches.get_one::<PathBuf>("config").cloned()
    }

    pub(super) fn print(&self) -> bool {
        self.matches.get_flag("print-config")
    }
}

fn command() -> Command {
    let defaults = defaults();
    let options = OPTIONS.iter().map(|option| {
        let arg = Arg::new(option.key).long(option.flag()).value_name(option.value);
        arg.help(option.long_help(&defaults))
    });
    let config = Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .help("File with options, in TOML [env: CORELOG_CONFIG]");
    let print = Arg::new("print-config")
        .long("print-config")
        .action(ArgAction::SetTrue)
        .help("Print what holds, and from where, as such a file; start nothing");
    debug_assert!(LONG_ABOUT.contains(PASSWORD_VARIABLE));
    Command::new("corelog-broker")
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .long_about(LONG_ABOUT)
        .after_help(EXAMPLE)
        .max_term_width(100)
        // The last one holds, so that a script can add to what another one says.
        .args_override_self(true)
        .arg(config)
        .arg(print)
        .args(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_sound() {
        command().debug_assert();
    }
}
