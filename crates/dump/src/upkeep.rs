//! The commands that check, repair, and say something about the program itself.

use clap_complete::Shell;

use crate::args::{IndexCommand, Output, RepairArgs, VerifyArgs, jobs};
use crate::discover::{self, Found};
use crate::failure::Failure;
use crate::job::announced;
use crate::session::Session;
use crate::{about, index_show, repair, verify};

/// One of them, ready to be done.
pub(crate) enum Upkeep {
    Verify { found: Found, how: verify::How },
    Index { found: Found, how: repair::How, rebuild: bool },
    IndexShow { found: Found, ndjson: bool },
    Repair { found: Found, how: repair::How },
    Schema(Output),
    Completions(Shell),
    Man(Vec<String>),
}

impl Upkeep {
    /// `verify` as it was typed.
    pub(crate) fn verify(args: VerifyArgs) -> Upkeep {
        let VerifyArgs { paths, json, level, jobs: asked } = args;
        let how = verify::How { json, level, jobs: jobs(asked) };
        Upkeep::Verify { found: discover::discover(&paths), how }
    }

    /// `index check`, `index rebuild` or `index show`.
    pub(crate) fn index(command: IndexCommand) -> Upkeep {
        let (paths, apply, json, rebuild) = match command {
            IndexCommand::Check(args) => (args.paths, false, args.json, false),
            IndexCommand::Rebuild(args) => (args.paths, args.apply, args.json, true),
            IndexCommand::Show(args) => {
                let found = discover::discover(&args.paths);
                return Upkeep::IndexShow { found, ndjson: args.ndjson };
            }
        };
        let how = repair::How { apply, json };
        Upkeep::Index { found: discover::discover(&paths), how, rebuild }
    }

    /// `repair`.
    pub(crate) fn repair(args: &RepairArgs) -> Upkeep {
        let how = repair::How { apply: args.apply, json: args.json };
        Upkeep::Repair { found: discover::discover(&args.paths), how }
    }

    /// Does it.
    pub(crate) fn run(self, session: &mut Session) -> Result<(), Failure> {
        match self {
            Upkeep::Verify { found, how } => {
                let partitions = announced(session, found)?;
                verify::run(session, &partitions, how)
            }
            Upkeep::Index { found, how, rebuild } => {
                let partitions = announced(session, found)?;
                repair::indexes(session, &partitions, how, rebuild)
            }
            Upkeep::IndexShow { found, ndjson } => {
                let partitions = announced(session, found)?;
                index_show::run(session, &partitions, ndjson)
            }
            Upkeep::Repair { found, how } => {
                let partitions = announced(session, found)?;
                repair::run(session, &partitions, how)
            }
            Upkeep::Schema(output) => about::schema(session, output),
            Upkeep::Completions(shell) => about::completions(session, shell),
            Upkeep::Man(command) => about::man(session, &command),
        }
    }
}
