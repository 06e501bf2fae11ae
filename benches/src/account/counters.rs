//! Hardware counters of this process, where the machine and the kernel allow them.
//!
//! Virtual machines and containers mostly do not: then every reading is None.
#![expect(unsafe_code, reason = "perf_event_open has no safe wrapper here; docs/unsafe.md")]

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const TYPE_HARDWARE: u32 = 0;
#[cfg(test)]
const TYPE_SOFTWARE: u32 = 1;
const CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;
#[cfg(test)]
const TASK_CLOCK: u64 = 1;

/// Threads that the process starts later are counted too.
const INHERIT: u64 = 1 << 1;
/// User code only: an unprivileged process may count no other.
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
/// Time enabled, time running: how much of the time the counter had the hardware.
const READ_TIMES: u64 = 3;

/// `struct perf_event_attr` in its first version (PERF_ATTR_SIZE_VER0), which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

/// The counters that could be had.
#[derive(Debug)]
pub(super) struct Counters {
    instructions: Option<File>,
    cycles: Option<File>,
}

impl Counters {
    pub(super) fn open() -> Counters {
        Counters {
            instructions: open(TYPE_HARDWARE, INSTRUCTIONS),
            cycles: open(TYPE_HARDWARE, CYCLES),
        }
    }

    /// Instructions of user code so far.
    pub(super) fn instructions(&self) -> Option<u64> {
        read(self.instructions.as_ref()?)
    }

    /// Cycles in user code so far.
    pub(super) fn cycles(&self) -> Option<u64> {
        read(self.cycles.as_ref()?)
    }
}

/// A counter of this thread and of all that it and they will start.
fn open(kind: u32, config: u64) -> Option<File> {
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config,
        read_format: READ_TIMES,
        flags: INHERIT | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
        ..Attributes::default()
    };
    let (this_process, any_cpu, no_group, close_on_exec) = (0, -1, -1, 8_u64);
    // SAFETY: `attributes` is a whole perf_event_attr of the size it names, and lives until the
    // call has returned; the kernel only reads it. The other arguments are numbers.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            this_process,
            any_cpu,
            no_group,
            close_on_exec,
        )
    };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
    // SAFETY: the kernel has just made this descriptor for us; nothing else knows it.
    let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
    debug_assert_eq!(file.as_raw_fd(), fd);
    Some(file)
}

/// The count, scaled up where the counter shared the hardware with others.
fn read(mut counter: &File) -> Option<u64> {
    let mut bytes = [0; 24];
    counter.read_exact(&mut bytes).ok()?;
    let word = |at: usize| {
        let bytes: [u8; 8] = bytes[at * 8..][..8].try_into().expect("eight bytes");
        u64::from_le_bytes(bytes)
    };
    let (count, enabled, running) = (word(0), word(1), word(2));
    (running > 0).then(|| (u128::from(count) * u128::from(enabled) / u128::from(running)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock of the process as a counter: every kernel that lets us count at all has it.
    #[test]
    fn a_counter_counts_this_process_and_threads_that_come_later() {
        let Some(clock) = open(TYPE_SOFTWARE, TASK_CLOCK) else {
            // Not allowed here: then nothing may be invented either.
            assert!(Counters::open().cycles().is_none());
            return;
        };
        let before = read(&clock).unwrap();
        let spin = || (0..20_000_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n));
        std::thread::spawn(spin).join().unwrap();
        let after = read(&clock).unwrap();
        assert!(after - before > 1_000_000, "{before} to {after} ns");
    }

    #[test]
    fn the_attributes_are_those_of_the_first_version() {
        assert_eq!(size_of::<Attributes>(), 64);
    }
}
