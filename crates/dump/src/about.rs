//! What the program says about itself: schemas of its outputs, completions, manual pages.

use std::io::Write;
use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::args::{Args, Output};
use crate::failure::Failure;
use crate::session::Session;

/// The JSON Schema of an output.
pub(crate) const fn schema_of(output: Output) -> &'static str {
    match output {
        Output::Verify => include_str!("../schemas/verify.json"),
        Output::Repair => include_str!("../schemas/repair.json"),
        Output::Index => include_str!("../schemas/index.json"),
        Output::IndexEntry => include_str!("../schemas/index-entry.json"),
        Output::Ls => include_str!("../schemas/ls.json"),
        Output::Stats => include_str!("../schemas/stats.json"),
        Output::Hex => include_str!("../schemas/hex.json"),
        Output::Diff => include_str!("../schemas/diff.json"),
        Output::ShowBatch | Output::FollowBatch => include_str!("../schemas/show-batch.json"),
        // Who prints messages prints the same lines.
        Output::ShowMessage | Output::FollowMessage | Output::Extract => {
            include_str!("../schemas/show-message.json")
        }
        Output::Decode => include_str!("../schemas/decode.json"),
    }
}

/// Prints a schema.
pub(crate) fn schema(session: &mut Session, output: Output) -> Result<(), Failure> {
    Ok(session.out.write_all(schema_of(output).as_bytes())?)
}

/// Prints a completion script.
pub(crate) fn completions(session: &mut Session, shell: Shell) -> Result<(), Failure> {
    // It panics where it cannot write, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "corelog-dump", &mut script);
    Ok(session.out.write_all(&script)?)
}

/// Prints the manual page of the program, or of the command that these words name.
pub(crate) fn man(session: &mut Session, words: &[String]) -> Result<(), Failure> {
    let mut command = Args::command();
    command.build();
    for word in words {
        command = match command.find_subcommand(word) {
            Some(found) => found.clone(),
            None => {
                let why = "no such command; corelog-dump --help lists them";
                return Err(Failure::not_ours(Path::new(word), why));
            }
        };
    }
    Ok(clap_mangen::Man::new(command).render(&mut session.out)?)
}
