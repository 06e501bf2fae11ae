//! The process and the machine, as GET_STATS tells them. What cannot be found out is 0 or empty, as
//! the wire knows no "unknown".

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::answer::Stats;

/// The figures of this process and its machine; `data` stands on the disk that is told of.
pub(crate) fn stats(data: &Path, began: SystemTime) -> Stats {
    let status = Fields::read("/proc/self/status");
    let memory = Fields::read("/proc/meminfo");
    let io = Fields::read("/proc/self/io");
    let run_time = began.elapsed().unwrap_or_default();
    let uname = rustix::system::uname();
    let (free_disk, total_disk) = disk(data);
    let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    Stats {
        pid: std::process::id(),
        cpu: percent_of_a_cpu(run_time),
        total_cpu: percent_of_all(),
        memory: status.kib("VmRSS"),
        total_memory: memory.kib("MemTotal"),
        available_memory: memory.kib("MemAvailable"),
        run_time_us: run_time.as_micros() as u64,
        start_time_us: since_epoch(began).as_micros() as u64,
        read_bytes: io.number("read_bytes"),
        written_bytes: io.number("write_bytes"),
        hostname: text(uname.nodename()),
        os_name: quoted(&release, "NAME=").unwrap_or_else(|| text(uname.sysname())),
        os_version: quoted(&release, "VERSION_ID=").unwrap_or_default(),
        kernel: text(uname.release()),
        threads: status.number("Threads").try_into().unwrap_or(u32::MAX),
        free_disk,
        total_disk,
        ..Stats::default()
    }
}

/// What exporters tell of every process. What cannot be found out is 0.
pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    pub(crate) resident_bytes: u64,
    pub(crate) open_files: u64,
    pub(crate) open_files_max: u64,
    pub(crate) start_seconds: f64,
}

/// The figures of this process, which began at `began`.
pub(crate) fn usage(began: SystemTime) -> Usage {
    let files = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    Usage {
        cpu_seconds: f64::from(cpu_seconds()),
        resident_bytes: Fields::read("/proc/self/status").kib("VmRSS"),
        // Without the one that lists them.
        open_files: files.saturating_sub(1) as u64,
        open_files_max: limit.current.unwrap_or(u64::MAX),
        start_seconds: since_epoch(began).as_secs_f64(),
    }
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn disk(data: &Path) -> (u64, u64) {
    rustix::fs::statvfs(data)
        .map_or((0, 0), |fs| (fs.f_bavail * fs.f_frsize, fs.f_blocks * fs.f_frsize))
}

/// CPU time of this process, as percent of one CPU since it began.
fn percent_of_a_cpu(run_time: Duration) -> f32 {
    if run_time.is_zero() { 0.0 } else { 100.0 * cpu_seconds() / run_time.as_secs_f32() }
}

/// CPU time of this process.
fn cpu_seconds() -> f32 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 14 and 15; the second one may have spaces and ends with the last bracket.
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = behind_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|ticks| ticks.parse::<u64>().ok())
        .sum();
    ticks as f32 / rustix::param::clock_ticks_per_second() as f32
}

/// Time in which CPUs were busy, percent of all they had since the machine began.
fn percent_of_all() -> f32 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let times: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .filter_map(|ticks| ticks.parse().ok())
        .collect();
    let (all, idle) = (times.iter().sum::<u64>(), times.get(3).copied().unwrap_or(0));
    if all == 0 { 0.0 } else { 100.0 * (all - idle) as f32 / all as f32 }
}

/// The value of `KEY="value"` in a file of such lines.
fn quoted(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(line.trim_matches('"').to_owned())
}

/// A file of `key: number unit` lines.
struct Fields(String);

impl Fields {
    fn read(path: &str) -> Fields {
        Fields(fs::read_to_string(path).unwrap_or_default())
    }

    fn number(&self, key: &str) -> u64 {
        let line = self.0.lines().find(|line| line.split(':').next() == Some(key));
        let number = line.and_then(|line| line.split_whitespace().nth(1));
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// Of a value in KiB, bytes.
    fn kib(&self, key: &str) -> u64 {
        self.number(key).saturating_mul(1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_told() {
        let stats = stats(Path::new("/"), SystemTime::now() - Duration::from_secs(1));
        assert_eq!(stats.pid, std::process::id());
        assert!(stats.memory > 0 && stats.total_memory > stats.memory);
        assert!(stats.threads > 0 && stats.total_disk >= stats.free_disk && stats.total_disk > 0);
        assert!(!stats.hostname.is_empty() && !stats.kernel.is_empty());
        let usage = usage(SystemTime::now());
        assert!(usage.resident_bytes > 0 && usage.open_files > 0 && usage.open_files_max > 0);
        assert!((1_000_000..60_000_000).contains(&stats.run_time_us));
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let fields = Fields("Threads:\t7\nThreadsMax: 9\nVmRSS:  12 kB\n".to_owned());
        assert_eq!((fields.number("Threads"), fields.number("Thread")), (7, 0));
        assert_eq!(fields.kib("VmRSS"), 12 * 1024);
    }
}
