//! Where results go: text or JSON on stdout, and files, which are checked before a run and written
//! after it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::args::OutputArgs;
use crate::report::{Report, html};

/// As the name of a file: standard output.
const STDOUT: &str = "-";

/// The files that a command was asked for.
#[derive(Debug)]
pub(crate) struct Outputs {
    json: Option<PathBuf>,
    hdr: Option<PathBuf>,
    csv: Option<PathBuf>,
    html: Option<PathBuf>,
}

impl Outputs {
    /// Makes sure that they can be written: said before the run, not after it.
    pub(crate) fn check(json: Option<&Path>, others: &OutputArgs) -> Result<Outputs, String> {
        let OutputArgs { hdr, csv, html } = others.clone();
        let outputs = Outputs { json: json.map(Path::to_owned), hdr, csv, html };
        let files = [&outputs.hdr, &outputs.csv, &outputs.html];
        if files.into_iter().flatten().any(|path| path.as_os_str() == STDOUT) {
            return Err("only --json may go to standard output (-)".to_owned());
        }
        let json = outputs.json.as_ref().filter(|_| !outputs.json_to_stdout());
        let mut all: Vec<&PathBuf> = json.into_iter().chain(files.into_iter().flatten()).collect();
        all.iter().try_for_each(|path| {
            let opened = File::options().append(true).create(true).open(path);
            opened.map(drop).map_err(|error| cannot_write(path, &error))
        })?;
        all.sort();
        match all.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(format!("two results cannot both go to {}", pair[0].display())),
            None => Ok(outputs),
        }
    }

    /// Whether stdout is the JSON's: then nothing else may be printed there.
    pub(crate) fn json_to_stdout(&self) -> bool {
        self.json.as_ref().is_some_and(|path| path.as_os_str() == STDOUT)
    }

    /// Writes the JSON.
    pub(crate) fn write_json(&self, value: &Value) -> Result<(), String> {
        let Some(path) = &self.json else { return Ok(()) };
        if self.json_to_stdout() {
            return print(|out| writeln!(out, "{value:#}"))
                .map_err(|error| format!("cannot write to standard output: {error}"));
        }
        write(path, |out| writeln!(out, "{value:#}"))
    }

    /// Writes everything that a run was asked for, JSON first: it has all the others need.
    pub(crate) fn write(&self, report: &Report<'_>) -> Result<(), String> {
        let json = report.to_json();
        self.write_json(&json)?;
        if let Some(path) = &self.hdr {
            write(path, |out| report.write_hdr(out))?;
        }
        if let Some(path) = &self.csv {
            write(path, |out| report.write_csv(out))?;
        }
        if let Some(path) = &self.html {
            write(path, |out| out.write_all(html::page(&json).as_bytes()))?;
        }
        Ok(())
    }
}

/// Prints to stdout; a reader that went away is no error.
pub(crate) fn print(tell: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    match tell(&mut io::stdout().lock()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        told => told,
    }
}

/// Writes a whole file.
pub(crate) fn write(
    path: &Path,
    tell: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), String> {
    let written = File::create(path).and_then(|file| {
        let mut out = BufWriter::new(file);
        tell(&mut out)?;
        out.flush()
    });
    written.map_err(|error| cannot_write(path, &error))
}

/// Reads a result that was written by `--json`.
pub(crate) fn read_json(path: &Path) -> Result<Value, String> {
    let bytes =
        fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|error| format!("{} is no JSON: {error}", path.display()))?;
    let schema = u64::from(crate::report::SCHEMA);
    match value["schema"].as_u64() {
        Some(found) if found == schema => Ok(value),
        Some(found) => Err(format!(
            "{} has schema {found}, this program reads {schema}; use the program that wrote it",
            path.display()
        )),
        None => Err(format!("{} is no result of corelog-bench: no schema", path.display())),
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_checked_before_the_run() {
        let place = crate::place::tests::test_dir("outputs");
        let path = |name: &str| Some(place.path().join(name));
        let with = |csv, html| OutputArgs { csv, html, ..OutputArgs::default() };
        let fit = Outputs::check(path("a").as_deref(), &with(path("b"), path("c"))).unwrap();
        assert!(!fit.json_to_stdout());
        let stdout = Outputs::check(Some(Path::new("-")), &with(None, None)).unwrap();
        assert!(stdout.json_to_stdout());
        for (json, others, word) in [
            (path("a"), with(path("b"), path("a")), "both go to"),
            (path("none/a"), with(None, None), "cannot write"),
            (None, with(path("none/a"), None), "cannot write"),
            (None, with(Some("-".into()), None), "only --json"),
        ] {
            let error = Outputs::check(json.as_deref(), &others).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
        for name in ["a", "b", "c"] {
            fs::remove_file(place.path().join(name)).unwrap();
        }
    }

    #[test]
    fn only_results_of_this_schema_are_read() {
        let place = crate::place::tests::test_dir("outputs-read");
        let path = place.path().join("result");
        for (text, word) in [
            ("{", "no JSON"),
            ("[]", "no schema"),
            ("{\"schema\": 2}", "has schema 2"),
            ("{\"schema\": \"1\"}", "no schema"),
        ] {
            fs::write(&path, text).unwrap();
            let error = read_json(&path).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
        fs::write(&path, "{\"schema\": 1, \"x\": 2}").unwrap();
        assert_eq!(read_json(&path).unwrap()["x"], 2);
        fs::remove_file(&path).unwrap();
        assert!(read_json(&path).unwrap_err().contains("cannot read"));
    }
}
