//! What this process holds and uses: memory, descriptors, CPU; and its limit of descriptors.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::ClockId;

use super::Failed;
use super::cpu;

/// Resident memory of this process, bytes.
pub fn resident_bytes() -> Result<u64, Failed> {
    let status = fs::read_to_string("/proc/self/status")?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = kib.and_then(|rest| rest.trim().strip_suffix("kB"));
    let kib: u64 = kib.ok_or("no VmRSS in /proc/self/status")?.trim().parse()?;
    Ok(kib << 10)
}

/// Descriptors that this process has open, the one that counts them left out.
pub fn open_descriptors() -> io::Result<usize> {
    Ok(fs::read_dir("/proc/self/fd")?.count() - 1)
}

/// CPU time of all threads of this process, the kernel's work for it included.
pub fn cpu_time() -> Duration {
    cpu::read(ClockId::ProcessCPUTime)
}

/// Lets this process open `descriptors` files and not more.
pub fn limit_descriptors(descriptors: u64) -> Result<(), Failed> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(descriptors), maximum })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_and_a_mebibyte_are_noticed() {
        let before = open_descriptors().unwrap();
        let file = fs::File::open("/proc/self/status").unwrap();
        assert!(open_descriptors().unwrap() > before);
        drop(file);
        let before = resident_bytes().unwrap();
        let memory = vec![7_u8; 16 << 20];
        assert!(resident_bytes().unwrap() >= before + (8 << 20));
        drop(memory);
    }
}
