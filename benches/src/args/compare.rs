//! The flags of `compare`, `doctor`, `report` and `schema`: what works on results and machines.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use crate::compare::Gate;
use crate::report::schema::Document;

/// Two sides, and what must not have changed.
#[derive(Debug, Clone, Args)]
pub(crate) struct CompareArgs {
    /// Result of `run --json` before the change; several of one side with commas
    #[arg(value_name = "A")]
    pub(crate) a: Files,

    /// The same after it
    #[arg(value_name = "B")]
    pub(crate) b: Files,

    /// Exit with 1 when this holds, as `append.mb_per_s<-5%` or `durable.p99>10%`; may be repeated
    ///
    /// A percentage is of A, a plain number is in the figure's own unit. A change that may be noise
    /// is none.
    #[arg(long, value_name = "EXPR")]
    pub(crate) fail_if: Vec<Gate>,

    /// Confidence of the intervals, in percent
    #[arg(long, value_name = "PERCENT", default_value = "99", value_parser = confidence)]
    pub(crate) confidence: f64,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Results of the benchmarks in benches/micro, before and after.
#[derive(Debug, Clone, Args)]
pub(crate) struct MovedArgs {
    /// Results of `--json` before the change: a file, several with commas, or a directory of them
    #[arg(value_name = "A")]
    pub(crate) a: Files,

    /// The same after it
    #[arg(value_name = "B")]
    pub(crate) b: Files,

    /// Confidence of the intervals, in percent; with a hundred rows, one of 99 is always wrong
    #[arg(long, value_name = "PERCENT", default_value = "99.9", value_parser = confidence)]
    pub(crate) confidence: f64,

    /// Changes below this are none, however sure they are, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub(crate) least: f64,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Names of files with commas in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Files(pub(crate) Vec<PathBuf>);

impl FromStr for Files {
    type Err = String;

    fn from_str(text: &str) -> Result<Files, String> {
        let files: Vec<PathBuf> = text.split(',').map(PathBuf::from).collect();
        match files.iter().all(|file| !file.as_os_str().is_empty()) {
            true => Ok(Files(files)),
            false => Err("a name is empty".to_owned()),
        }
    }
}

/// Where to look.
#[derive(Debug, Clone, Args)]
pub(crate) struct DoctorArgs {
    /// Directory on the disk in question; it must exist, and is left as it was
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,

    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A result made into a page.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReportArgs {
    /// Result of `run --json`
    #[arg(value_name = "RESULT")]
    pub(crate) result: PathBuf,

    /// Where the page goes
    #[arg(long, value_name = "FILE")]
    pub(crate) html: PathBuf,
}

/// Which schema.
#[derive(Debug, Clone, Args)]
pub(crate) struct SchemaArgs {
    /// The command
    #[arg(value_enum, value_name = "COMMAND", default_value = "run")]
    pub(crate) of: Document,
}

fn confidence(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (50.0..100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("a percentage from 50 up to, but not, 100".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::{Cli, Command};

    #[test]
    fn sides_conditions_and_confidence() {
        let parse = |flags: &str| {
            let words = format!("corelog-bench compare {flags}");
            Cli::try_parse_from(words.split_whitespace()).map_err(|error| error.to_string())
        };
        let Command::Compare(args) =
            parse("a,b c --fail-if p99>5% --fail-if x<1 --confidence 95").unwrap().command
        else {
            unreachable!("compare was asked for")
        };
        assert_eq!((args.a.0.len(), args.b.0.len(), args.fail_if.len()), (2, 1, 2));
        assert_eq!((args.confidence, args.json), (0.95, false));
        for (flags, word) in [
            ("a", "<B>"),
            ("a, b", "a name is empty"),
            ("a b --confidence 100", "a percentage"),
            ("a b --confidence NaN", "a percentage"),
            ("a b --fail-if p99", "write it as"),
        ] {
            let error = parse(flags).unwrap_err();
            assert!(error.contains(word), "{flags}: {error}");
        }
    }
}
