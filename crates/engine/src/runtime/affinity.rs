//! Where the kernel's io_uring workers of a thread may run.
#![allow(unsafe_code, reason = "the kernel's CPU mask is a C struct that only its bytes describe")]

use std::io;

use io_uring::IoUring;
use rustix::thread::CpuSet;

/// The CPUs this thread is allowed, in order.
pub(super) fn allowed() -> io::Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Keeps the calling thread on `cpu`.
pub(super) fn pin_to(cpu: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    set.set(cpu);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Keeps the io-wq workers of the calling thread on `cpus`. The kernel keeps workers and mask by
/// thread, not by ring: a small ring that is gone again sets it for the executor's.
pub(super) fn keep_workers_on(cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    // SAFETY: `cpu_set_t` is an array of integers; all zeros is its empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for cpu in cpus.iter().filter(|cpu| **cpu < CpuSet::MAX_CPU) {
        // SAFETY: the number was checked against the size of the set.
        unsafe { libc::CPU_SET(*cpu, &mut set) };
    }
    IoUring::new(2)?.submitter().register_iowq_aff(&set)
}
