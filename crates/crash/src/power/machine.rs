//! What the rig needs of the machine, and words for what it does not get.

use std::fmt;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Set in the program that runs in its own mount namespace.
const APART: &str = "CORELOG_POWERCUT_APART";

/// The machine did not do what the rig needs: nothing is said about the engine.
#[derive(Debug)]
pub struct Trouble {
    /// What was tried.
    pub doing: String,
    /// What came of it, and what to do where that is known.
    pub what: String,
}

impl Trouble {
    /// `error` came when `verb` was done to `path`.
    pub fn new(verb: &str, path: &Path, error: &dyn fmt::Display) -> Trouble {
        Trouble { doing: format!("{verb} {}", path.display()), what: error.to_string() }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the rig could not {}: {}", self.doing, self.what)
    }
}

impl std::error::Error for Trouble {}

/// Runs `command` to its end and returns what it wrote to its standard output.
///
/// # Errors
/// It could not be started, or failed: with what it wrote to its standard error.
pub fn run(command: &mut Command) -> Result<String, Trouble> {
    let doing = format!("run {command:?}");
    match command.output() {
        Err(error) => Err(Trouble { doing, what: error.to_string() }),
        Ok(done) if done.status.success() => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
        Ok(done) => {
            let said = String::from_utf8_lossy(&done.stderr);
            Err(Trouble { doing, what: format!("{}: {}", done.status, said.trim()) })
        }
    }
}

/// Checks that power cuts can be made here, with `programs` beside those that are always needed.
///
/// # Errors
/// What is missing, and what to do.
pub fn check(programs: &[&str]) -> Result<(), Trouble> {
    let trouble = |what: &str| {
        Err(Trouble {
            doing: "cut the power of a real file system".to_owned(),
            what: what.to_owned(),
        })
    };
    if !rustix::process::geteuid().is_root() {
        return trouble(
            "it mounts file systems and attaches loop devices, and only root may; run it as root, \
             in a container with CAP_SYS_ADMIN, /dev/fuse and /dev/loop-control",
        );
    }
    for (device, module) in [("/dev/fuse", "fuse"), ("/dev/loop-control", "loop")] {
        if !Path::new(device).exists() {
            return trouble(&format!("there is no {device}: `modprobe {module}`, or pass it in"));
        }
    }
    for program in ["losetup", "mount", "unshare"].iter().chain(programs) {
        if Command::new(program).arg("-V").output().is_err() {
            return trouble(&format!(
                "there is no {program}: install util-linux, e2fsprogs and xfsprogs"
            ));
        }
    }
    Ok(())
}

/// Begins this program anew in a mount namespace of its own, unless it is in one: whatever becomes
/// of it, its mounts end with it and its children, and nobody else sees them.
///
/// # Errors
/// It cannot be done here.
pub fn apart() -> Result<(), Trouble> {
    if std::env::var_os(APART).is_some() {
        return Ok(());
    }
    let program = std::env::current_exe();
    let trouble = |error: io::Error| Trouble {
        doing: "begin in a mount namespace of its own".to_owned(),
        what: error.to_string(),
    };
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "--"]).arg(program.map_err(trouble)?);
    Err(trouble(unshare.args(std::env::args_os().skip(1)).env(APART, "1").exec()))
}
