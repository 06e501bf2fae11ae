//! Directories, segments that can be damaged on purpose, and runs of the binary.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use corelog_format::{
    BatchBuilder, IndexEntry, Manifest, Mark, Message, admit, index_file_name, segment_file_name,
};
use serde_json::Value;

/// A directory of one test, removed with it.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("dump-{}-{number}", std::process::id());
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&dir).expect("a directory for the test");
        Scratch(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file, and the directories above it.
    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
        fs::write(&path, bytes).expect("written");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a run of the binary left.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Standard output as one JSON value.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Standard output as one JSON value on each line.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let parse = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        self.out.lines().map(parse).collect()
    }

    /// That the run ended with `code` and told people so in words, not in a panic.
    pub(crate) fn expect(self, code: i32) -> Ran {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
        self
    }
}

/// The binary under test.
pub(crate) fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_corelog-dump"))
}

/// Arguments and then a path.
pub(crate) fn with_path<'a>(args: &[&'a str], path: &'a Path) -> Vec<&'a OsStr> {
    args.iter().map(|arg| OsStr::new(*arg)).chain([path.as_os_str()]).collect()
}

/// Runs the binary without input.
pub(crate) fn dump<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Ran {
    dump_with_input(args, b"")
}

/// Runs the binary with bytes on standard input.
pub(crate) fn dump_with_input<A: AsRef<OsStr>>(
    args: impl IntoIterator<Item = A>,
    input: &[u8],
) -> Ran {
    let mut child = binary()
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    // Beside the reading of the answers: both pipes are short.
    let feeder = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("it ends");
    let _ = feeder.join().expect("the feeder ends");
    Ran {
        code: output.status.code(),
        // Only raw batches are no text.
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Waits until a running program has a log open with O_DIRECT; false where it does not come to that.
pub(crate) fn reads_around_the_cache(child: &Child) -> bool {
    const O_DIRECT: u32 = 0o40000;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(5) {
        if log_flags(child).iter().any(|flags| flags & O_DIRECT != 0) {
            return true;
        }
    }
    false
}

/// The flags of the logs that a running program has open.
pub(crate) fn log_flags(child: &Child) -> Vec<u32> {
    let proc = PathBuf::from(format!("/proc/{}", child.id()));
    let mut all = Vec::new();
    for fd in fs::read_dir(proc.join("fd")).into_iter().flatten().flatten() {
        let is_log = |path: PathBuf| path.extension().is_some_and(|e| e == "log");
        let info = fs::read_to_string(proc.join("fdinfo").join(fd.file_name()));
        if let (true, Ok(info)) = (fs::read_link(fd.path()).is_ok_and(is_log), info) {
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
            let flags = flags.expect("flags").trim();
            all.push(u32::from_str_radix(flags, 8).expect("octal"));
        }
    }
    all
}

/// Runs `verify --json` on a path, mapped and with pread, and gives both runs' one answer.
pub(crate) fn verify(path: &Path, code: i32) -> Vec<Value> {
    let path = path.as_os_str();
    let mapped = dump([OsStr::new("verify"), OsStr::new("--json"), path]).expect(code);
    let read = dump(["verify", "--json", "--no-mmap"].map(OsStr::new).into_iter().chain([path]));
    assert_eq!(mapped.out, read.out);
    let document = mapped.json();
    assert_eq!(document["schema"], 1);
    document["files"].as_array().expect("a list").clone()
}

/// `verify` of one file: its report.
pub(crate) fn verify_one(path: &Path, code: i32) -> Value {
    let mut files = verify(path, code);
    assert_eq!(files.len(), 1, "{files:?}");
    files.remove(0)
}

/// A segment as the engine writes it, and where its batches are.
#[derive(Clone)]
pub(crate) struct Segment {
    pub(crate) first_offset: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) batches: Vec<Range<usize>>,
    pub(crate) index: Vec<IndexEntry>,
    pub(crate) next_offset: u64,
    pub(crate) last_timestamp: u64,
}

impl Segment {
    /// Batches of these numbers of messages, from `first_offset` on.
    pub(crate) fn new(partition_id: u64, first_offset: u64, batches: &[u32]) -> Segment {
        let mut segment = Segment {
            first_offset,
            bytes: Vec::new(),
            batches: Vec::new(),
            index: Vec::new(),
            next_offset: first_offset,
            // Segments of one partition are made in order of offset: their times ascend as well.
            last_timestamp: 1_700_000_000_000_000 + first_offset % (1 << 40),
        };
        for count in batches {
            let payloads: Vec<Vec<u8>> = (0..*count).map(|i| payload(i, *count)).collect();
            segment.push(partition_id, &payloads);
        }
        segment
    }

    /// Appends one batch with these payloads, and an index entry for it.
    pub(crate) fn push(&mut self, partition_id: u64, payloads: &[Vec<u8>]) {
        let timestamp = self.last_timestamp + 1;
        let batch = batch(partition_id, self.next_offset, timestamp, payloads);
        let position = self.bytes.len();
        self.index.push(IndexEntry {
            base_offset: self.next_offset,
            base_timestamp: timestamp,
            position: position as u64,
        });
        self.bytes.extend_from_slice(&batch);
        self.batches.push(position..self.bytes.len());
        self.next_offset += payloads.len() as u64;
        self.last_timestamp = timestamp;
    }

    /// The index file's bytes.
    pub(crate) fn index_bytes(&self) -> Vec<u8> {
        self.index.iter().flat_map(IndexEntry::encode).collect()
    }

    /// Writes log and index into `dir` (relative to the scratch directory); gives the log's path.
    pub(crate) fn write(&self, scratch: &Scratch, dir: &str) -> PathBuf {
        let name = |file: String| format!("{dir}/{file}");
        scratch.file(&name(index_file_name(self.first_offset)), &self.index_bytes());
        scratch.file(&name(segment_file_name(self.first_offset)), &self.bytes)
    }

    /// A manifest whose mark stands at `position` of this segment.
    pub(crate) fn manifest_at(&self, position: usize) -> Vec<u8> {
        let mark = Mark {
            segment: self.first_offset,
            position: position as u64,
            next_offset: self.next_offset,
            last_timestamp: self.last_timestamp,
        };
        let manifest =
            Manifest { sequence: 1, incarnation: 1, first_offset: 0, adopted_end: 0, mark };
        [manifest.encode(), [0; 4096]].concat()
    }
}

/// A stamped batch.
pub(crate) fn batch(
    partition_id: u64,
    base_offset: u64,
    base_timestamp: u64,
    payloads: &[Vec<u8>],
) -> Vec<u8> {
    let mut builder = BatchBuilder::new();
    for (i, payload) in payloads.iter().enumerate() {
        let message = Message::new(payload)
            .id(u128::from(base_offset) + i as u128)
            .origin_timestamp(1_600_000_000_000_000 + i as u64);
        builder.push(message).expect("a message that fits");
    }
    let mut bytes = builder.finish().expect("a batch");
    let header =
        admit(&bytes).expect("our own batch").stamp(partition_id, base_offset, base_timestamp);
    bytes[..header.len()].copy_from_slice(&header);
    bytes
}

/// A payload without runs of zeros, of a length that differs from message to message.
fn payload(i: u32, count: u32) -> Vec<u8> {
    let len = 40 + (i * 37 + count * 11) % 300;
    (0..len).map(|b| (b.wrapping_mul(2_654_435_761).wrapping_add(i) >> 13) as u8 | 1).collect()
}

/// The recorded segment of the reference server.
pub(crate) fn real_partition() -> PathBuf {
    vectors().join("iggy-0.11/partition-0")
}

/// The bytes of its log.
pub(crate) fn real_log() -> Vec<u8> {
    fs::read(real_partition().join(segment_file_name(0))).expect("the recorded segment")
}

/// The vectors that this repository carries.
pub(crate) fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../format/tests/vectors")
}
