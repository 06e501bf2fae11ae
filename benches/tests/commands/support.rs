//! The binary, run in a directory of the test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::schema;

/// An empty directory on the build's disk.
pub(crate) fn dir(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli").join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// The binary, started in `working_dir`.
pub(crate) fn bench(working_dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corelog-bench"));
    command.current_dir(working_dir);
    command
}

/// Runs it with these words; the exit status is `code`. What it printed.
pub(crate) fn ran(working_dir: &Path, words: &str, code: i32) -> String {
    let output = bench(working_dir).args(words.split_whitespace()).output().unwrap();
    assert_eq!(output.status.code(), Some(code), "`{words}`: {}", text(&output));
    format!(
        "{}{}",
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap()
    )
}

/// The binary at work; it ends with this value at the latest, also where a test fails.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Running {
        Running(command.spawn().unwrap())
    }

    /// Sends SIGINT and waits for the end: the exit status.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.0), Signal::INT).unwrap();
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asserts that a document is as the schema says that the program prints for `command`.
pub(crate) fn as_its_schema_says(command: &str, document: &Value) {
    let printed = bench(Path::new(".")).args(["schema", command]).output().unwrap().stdout;
    let schema: Value = serde_json::from_slice(&printed).unwrap();
    let found = schema::violations(&schema, &schema, document, command);
    assert_eq!(found, [""; 0]);
}

/// Status and everything that was printed.
pub(crate) fn text(output: &Output) -> String {
    format!(
        "{:?}\n{}{}",
        output.status.code(),
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// The names in a directory.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// All segment files below a directory; one that goes meanwhile is left out.
pub(crate) fn logs_below(dir: &Path) -> Vec<PathBuf> {
    let mut logs = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            logs.extend(logs_below(&path));
        } else if path.extension().is_some_and(|extension| extension == "log") {
            logs.push(path);
        }
    }
    logs
}

/// The JSON in a file.
pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}
