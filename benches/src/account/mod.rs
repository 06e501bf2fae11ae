//! What a phase cost: CPU, system calls, context switches, bytes on the device, memory.
//!
//! Read from the kernel before and after. All of it is about the whole process or the whole device:
//! the producers and the kernel's workers are in it, and so is what other programs do to the disk
//! meanwhile. What the kernel does not tell here is None, in reports null.

mod counters;
mod kernel;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use counters::Counters;
use kernel::{Device, Io, Rusage};

/// Hardware counters count the threads that are started after them: see [`arm`].
static COUNTERS: OnceLock<Counters> = OnceLock::new();

/// Opens the hardware counters, so that all threads of the run are in them. Call it before the
/// first is started; without it the first phase does.
pub(crate) fn arm() {
    COUNTERS.get_or_init(Counters::open);
}

/// Counts from `start` to `stop`.
#[derive(Debug)]
pub(crate) struct Meter {
    /// The `stat` file of the block device below the directory.
    device_stat: Option<PathBuf>,
    began: Instant,
    seen: Seen,
    /// The peak of memory was set back, so what is read at the end is the phase's own.
    peak_is_ours: bool,
}

/// All counters at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    rusage: Option<Rusage>,
    io: Option<Io>,
    device: Option<Device>,
    page_cache_bytes: Option<u64>,
    instructions: Option<u64>,
    cycles: Option<u64>,
}

/// What one phase cost, or several together.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Used {
    pub(crate) wall: Duration,
    pub(crate) cpu_user: Option<Duration>,
    pub(crate) cpu_system: Option<Duration>,
    pub(crate) switches_voluntary: Option<u64>,
    pub(crate) switches_involuntary: Option<u64>,
    pub(crate) faults_minor: Option<u64>,
    pub(crate) faults_major: Option<u64>,
    /// `syscr` and `syscw` of `/proc/self/io`: calls like read and write. What goes through
    /// io_uring is not in them.
    pub(crate) read_calls: Option<u64>,
    pub(crate) write_calls: Option<u64>,
    /// What this process had the storage layer read and write.
    pub(crate) process_read_bytes: Option<u64>,
    pub(crate) process_written_bytes: Option<u64>,
    /// What the device was asked for, by anybody.
    pub(crate) device: Option<Device>,
    /// Highest resident memory during the phase.
    pub(crate) peak_rss_bytes: Option<u64>,
    /// Of the whole machine; less than 0 when it shrank.
    pub(crate) page_cache_growth_bytes: Option<i64>,
    /// Syncs of log files that the engine began; None in phases without it. Where a topic enforces
    /// syncs, its writes are synced themselves and are not in it.
    pub(crate) engine_syncs: Option<u64>,
    /// Of user code. Hardware counters, where the machine has them.
    pub(crate) instructions: Option<u64>,
    pub(crate) cycles: Option<u64>,
}

impl Meter {
    /// Begins; the phase works in `dir`.
    pub(crate) fn start(dir: &Path) -> Meter {
        let device_stat = crate::machine::device_dir(dir).map(|device| device.join("stat"));
        // 5 sets the peak back to what is resident now (proc(5), clear_refs).
        let peak_is_ours = fs::write("/proc/self/clear_refs", "5").is_ok();
        let seen = Seen::now(device_stat.as_deref());
        Meter { device_stat, began: Instant::now(), seen, peak_is_ours }
    }

    /// What was used since.
    pub(crate) fn stop(&self) -> Used {
        let wall = self.began.elapsed();
        let mut used = between(&self.seen, &Seen::now(self.device_stat.as_deref()), wall);
        used.peak_rss_bytes = self.peak_is_ours.then(kernel::peak_rss_bytes).flatten();
        used
    }
}

impl Seen {
    fn now(device_stat: Option<&Path>) -> Seen {
        let counters = COUNTERS.get_or_init(Counters::open);
        Seen {
            rusage: Rusage::now(),
            io: Io::now(),
            device: device_stat.and_then(Device::now),
            page_cache_bytes: kernel::page_cache_bytes(),
            instructions: counters.instructions(),
            cycles: counters.cycles(),
        }
    }
}

fn between(begin: &Seen, end: &Seen, wall: Duration) -> Used {
    let time = |of: fn(&Rusage) -> Duration| {
        Some(of(end.rusage.as_ref()?).saturating_sub(of(begin.rusage.as_ref()?)))
    };
    let count = |of: fn(&Rusage) -> u64| {
        Some(of(end.rusage.as_ref()?).saturating_sub(of(begin.rusage.as_ref()?)))
    };
    let io = |of: fn(&Io) -> u64| Some(of(end.io.as_ref()?).saturating_sub(of(begin.io.as_ref()?)));
    let hardware = |end: Option<u64>, begin: Option<u64>| Some(end?.saturating_sub(begin?));
    Used {
        wall,
        cpu_user: time(|used| used.user),
        cpu_system: time(|used| used.system),
        switches_voluntary: count(|used| used.switches_voluntary),
        switches_involuntary: count(|used| used.switches_involuntary),
        faults_minor: count(|used| used.faults_minor),
        faults_major: count(|used| used.faults_major),
        read_calls: io(|io| io.read_calls),
        write_calls: io(|io| io.write_calls),
        process_read_bytes: io(|io| io.read_bytes),
        process_written_bytes: io(|io| io.written_bytes),
        device: end.device.zip(begin.device).map(|(end, begin)| end.since(begin)),
        peak_rss_bytes: None,
        page_cache_growth_bytes: end
            .page_cache_bytes
            .zip(begin.page_cache_bytes)
            .map(|(end, begin)| end.cast_signed().wrapping_sub(begin.cast_signed())),
        engine_syncs: None,
        instructions: hardware(end.instructions, begin.instructions),
        cycles: hardware(end.cycles, begin.cycles),
    }
}

impl Used {
    /// Several phases as one: sums, and the highest peak. One of them that is unknown makes the sum
    /// unknown. None without any.
    pub(crate) fn merged<'a>(all: impl IntoIterator<Item = &'a Used>) -> Option<Used> {
        all.into_iter().cloned().reduce(|a, b| a.and(&b))
    }

    fn and(&self, other: &Used) -> Used {
        fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
            Some(a?.saturating_add(b?))
        }
        fn time(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
            Some(a?.saturating_add(b?))
        }
        Used {
            wall: self.wall + other.wall,
            cpu_user: time(self.cpu_user, other.cpu_user),
            cpu_system: time(self.cpu_system, other.cpu_system),
            switches_voluntary: sum(self.switches_voluntary, other.switches_voluntary),
            switches_involuntary: sum(self.switches_involuntary, other.switches_involuntary),
            faults_minor: sum(self.faults_minor, other.faults_minor),
            faults_major: sum(self.faults_major, other.faults_major),
            read_calls: sum(self.read_calls, other.read_calls),
            write_calls: sum(self.write_calls, other.write_calls),
            process_read_bytes: sum(self.process_read_bytes, other.process_read_bytes),
            process_written_bytes: sum(self.process_written_bytes, other.process_written_bytes),
            device: self.device.zip(other.device).map(|(a, b)| a.and(b)),
            peak_rss_bytes: self.peak_rss_bytes.zip(other.peak_rss_bytes).map(|(a, b)| a.max(b)),
            page_cache_growth_bytes: self
                .page_cache_growth_bytes
                .zip(other.page_cache_growth_bytes)
                .map(|(a, b)| a.saturating_add(b)),
            engine_syncs: sum(self.engine_syncs, other.engine_syncs),
            instructions: sum(self.instructions, other.instructions),
            cycles: sum(self.cycles, other.cycles),
        }
    }

    /// A phase of a second and a half that wrote `bytes` to the device, for tests of reports.
    #[cfg(test)]
    pub(crate) fn sample(bytes: u64) -> Used {
        let device = Device { read_bytes: 4096, written_bytes: bytes, writes: 90, flushes: 3 };
        Used {
            wall: Duration::from_millis(1500),
            cpu_user: Some(Duration::from_millis(600)),
            cpu_system: Some(Duration::from_millis(300)),
            switches_voluntary: Some(1000),
            switches_involuntary: Some(10),
            faults_minor: Some(77),
            faults_major: Some(0),
            read_calls: Some(5),
            write_calls: Some(6),
            process_read_bytes: Some(4096),
            process_written_bytes: Some(bytes),
            device: Some(device),
            peak_rss_bytes: Some(200_000_000),
            page_cache_growth_bytes: Some(-4096),
            engine_syncs: Some(2),
            instructions: None,
            cycles: None,
        }
    }

    /// The same with the engine's count of syncs before and after; None where it tells none.
    pub(crate) fn with_engine_syncs(self, before: Option<u64>, after: Option<u64>) -> Used {
        let engine_syncs = after.zip(before).map(|(after, before)| after.saturating_sub(before));
        Used { engine_syncs, ..self }
    }

    /// User and system time together.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        Some(self.cpu_user? + self.cpu_system?)
    }

    /// Of one core, in percent, over the phase's time; more than 100 with more than one core.
    pub(crate) fn cpu_percent(&self) -> Option<f64> {
        let wall = self.wall.as_secs_f64();
        (wall > 0.0).then_some(self.cpu()?.as_secs_f64() / wall * 100.0)
    }

    /// Seconds of CPU for each 10^9 bytes; None where no bytes were counted.
    pub(crate) fn cpu_s_per_gb(&self, bytes: u64) -> Option<f64> {
        (bytes > 0).then_some(self.cpu()?.as_secs_f64() / (bytes as f64 / 1e9))
    }

    /// Bytes written to the device for each byte appended; None where none was.
    pub(crate) fn write_amplification(&self, appended: u64) -> Option<f64> {
        (appended > 0).then_some(self.device?.written_bytes as f64 / appended as f64)
    }

    /// For reports; `appended` is the payload of a phase that appends, `moved` what any phase
    /// appended or read.
    pub(crate) fn to_json(&self, moved: u64, appended: Option<u64>) -> Value {
        let seconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64());
        json!({
            "wall_s": self.wall.as_secs_f64(),
            "cpu_user_s": seconds(self.cpu_user),
            "cpu_system_s": seconds(self.cpu_system),
            "cpu_percent": self.cpu_percent(),
            "cpu_s_per_gb": self.cpu_s_per_gb(moved),
            "context_switches_voluntary": self.switches_voluntary,
            "context_switches_involuntary": self.switches_involuntary,
            "page_faults_minor": self.faults_minor,
            "page_faults_major": self.faults_major,
            "read_syscalls_without_io_uring": self.read_calls,
            "write_syscalls_without_io_uring": self.write_calls,
            // The kernel counts them nowhere for a process.
            "io_uring_enters": null,
            "process_read_bytes": self.process_read_bytes,
            "process_written_bytes": self.process_written_bytes,
            "device_read_bytes": self.device.map(|device| device.read_bytes),
            "device_written_bytes": self.device.map(|device| device.written_bytes),
            "device_writes": self.device.map(|device| device.writes),
            "device_flushes": self.device.map(|device| device.flushes),
            "device_bytes_per_appended_byte":
                appended.and_then(|appended| self.write_amplification(appended)),
            "peak_rss_bytes": self.peak_rss_bytes,
            "page_cache_growth_bytes": self.page_cache_growth_bytes,
            "engine_syncs": self.engine_syncs,
            "instructions": self.instructions,
            "cycles": self.cycles,
        })
    }
}

#[cfg(test)]
mod tests;
