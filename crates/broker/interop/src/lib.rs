//! Real clients of Apache Iggy against `corelog-broker`: a broker process for each test.
//!
//! `scripts/interop.sh` builds the broker and the command-line client and says where they are:
//! `CORELOG_BROKER` and `CORELOG_IGGY_CLI`.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use iggy::prelude::*;
use tempfile::TempDir;

/// User and password of every broker here.
pub const USER: &str = "iggy";
/// See [`USER`].
pub const PASSWORD: &str = "a-password";

/// A broker process on a directory of its own; both go when this is dropped.
pub struct Broker {
    process: Child,
    /// Kept open: a process that cannot write there would end.
    _output: BufReader<ChildStdout>,
    address: String,
    directory: TempDir,
    args: Vec<String>,
}

impl Broker {
    /// Starts one and waits until it listens.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start() -> Broker {
        Broker::start_with(&["--shards", "2"])
    }

    /// As [`Broker::start`], with other arguments than its directory and its address.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start_with(args: &[&str]) -> Broker {
        // Files past the page cache want a real file system.
        let directory = tempfile::tempdir_in(directory_for_data()).unwrap();
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let (process, output, address) = spawn(directory.path(), &args);
        Broker { process, _output: output, address, directory, args }
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Kills it, so that it can finish nothing, and starts another one on the same directory.
    ///
    /// # Panics
    /// When the other one cannot be started.
    pub fn kill_and_restart(&mut self) {
        self.end();
        let (process, output, address) = spawn(self.directory.path(), &self.args);
        (self.process, self._output, self.address) = (process, output, address);
    }

    /// A client that has connected and logged in.
    ///
    /// # Panics
    /// When it is not let in.
    pub async fn client(&self) -> IggyClient {
        login(&self.address).await
    }

    fn end(&mut self) {
        // Dead already is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.end();
    }
}

/// A client that has connected to `address` and logged in.
///
/// # Panics
/// When it is not let in.
pub async fn login(address: &str) -> IggyClient {
    let client =
        IggyClient::builder().with_tcp().with_server_address(address.to_owned()).build().unwrap();
    client.connect().await.unwrap();
    client.login_user(USER, PASSWORD).await.unwrap();
    client
}

fn spawn(directory: &Path, args: &[String]) -> (Child, BufReader<ChildStdout>, String) {
    let broker =
        std::env::var("CORELOG_BROKER").expect("CORELOG_BROKER is not set: run scripts/interop.sh");
    let mut process = Command::new(broker)
        .arg("--data")
        .arg(directory.join("data"))
        .args(["--listen", "127.0.0.1:0"])
        .args(args)
        .env("CORELOG_ROOT_PASSWORD", PASSWORD)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").expect("the broker did not start");
    (process, output, address.to_owned())
}

/// The identifier of something by name.
///
/// # Panics
/// When it is no name.
pub fn id(name: &str) -> Identifier {
    Identifier::named(name).unwrap()
}

/// Messages with these payloads.
///
/// # Panics
/// When one of them is empty, which clients refuse.
pub fn messages(payloads: &[&str]) -> Vec<IggyMessage> {
    let message = |payload: &&str| {
        IggyMessage::builder().payload(payload.as_bytes().to_vec().into()).build().unwrap()
    };
    payloads.iter().map(message).collect()
}

/// Offsets and payloads of what was polled.
///
/// # Panics
/// When a payload is no text.
pub fn texts(polled: &PolledMessages) -> Vec<(u64, String)> {
    let text = |message: &IggyMessage| {
        (message.header.offset, String::from_utf8(message.payload.to_vec()).unwrap())
    };
    polled.messages.iter().map(text).collect()
}

/// CPU time that a process has used, seconds.
///
/// # Panics
/// When there is no such process.
pub fn cpu_seconds(pid: u32) -> f64 {
    /// Of the kernel's figures, on every machine of today.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let behind_name = stat.rsplit(')').next().unwrap();
    let ticks: u64 =
        behind_name.split_whitespace().skip(11).take(2).map(|t| t.parse::<u64>().unwrap()).sum();
    ticks as f64 / TICKS_PER_SECOND
}

/// Memory of a process, bytes.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// Resident now.
    pub resident: u64,
    /// And at most so far.
    pub most: u64,
}

/// What memory a process has.
///
/// # Panics
/// When there is no such process.
pub fn memory(pid: u32) -> Memory {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let of = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    Memory { resident: of("VmRSS:"), most: of("VmHWM:") }
}

/// Below the crate's target, which is on a real file system where the repository is.
fn directory_for_data() -> std::path::PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/data");
    std::fs::create_dir_all(&path).unwrap();
    path
}
