//! On what pages the buffer pools lie, and how that is told.

use std::fs;

/// On what pages a shard's buffer pool lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PoolPages {
    /// 2 MiB pages from the start: those of the ring runtime, or given by the host's allocator (such as
    /// [`crate::machine::HugePageAlloc`]) or its system-wide setting.
    Huge,
    /// 2 MiB pages, collapsed by us.
    Collapsed,
    /// Small pages, and why.
    Small(SmallBecause),
}

/// Why a pool stays on small pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SmallBecause {
    /// The options say so.
    NotWanted,
    /// The pool is smaller than a huge page or two.
    PoolSize,
    /// Transparent huge pages are switched off on this system.
    SwitchedOff,
    /// The pool is not registered (RLIMIT_MEMLOCK, usually), or the kernel does not tell where.
    NotRegistered,
    /// The kernel cannot collapse on request (before Linux 6.1).
    OldKernel,
    /// The kernel found no free huge pages.
    NoMemory,
}

/// Transparent huge pages are switched off on this system, or there are none.
pub(super) fn is_switched_off() -> bool {
    let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    setting.map_or(true, |text| text.contains("[never]"))
}

/// True where all of the range but `rest` bytes of it is on huge pages.
pub(super) fn is_huge_but_for(rest: usize, start: usize, len: usize) -> bool {
    let Ok(smaps) = fs::read_to_string("/proc/self/smaps") else { return false };
    huge_bytes(&smaps, start, len) + rest >= len
}

/// The bytes of huge pages in mappings that overlap the range, out of smaps. A mapping may be larger
/// than the range: the answer is an upper bound, cut to the range's length.
fn huge_bytes(smaps: &str, start: usize, len: usize) -> usize {
    let mut overlaps = false;
    let mut kib = 0_usize;
    for line in smaps.lines() {
        if let Some((from, to)) = mapping(line) {
            overlaps = from < start + len && start < to;
        } else if overlaps && let Some(value) = line.strip_prefix("AnonHugePages:") {
            kib += value.split_whitespace().next().and_then(|kb| kb.parse().ok()).unwrap_or(0);
        }
    }
    (kib * 1024).min(len)
}

/// The range of a mapping's first line in smaps.
fn mapping(line: &str) -> Option<(usize, usize)> {
    let (from, to) = line.split_once(' ')?.0.split_once('-')?;
    Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_huge_pages_of_overlapping_mappings_only() {
        let smaps = "1000000-1800000 rw-p 00000000 00:00 0 \nAnonHugePages:      6144 kB\n\
                     2000000-2200000 rw-p 00000000 00:00 0 \nAnonHugePages:      2048 kB\n";
        assert_eq!(huge_bytes(smaps, 0x100_0000, 8 << 20), 6 << 20);
        assert_eq!(huge_bytes(smaps, 0x120_0000, 2 << 20), 2 << 20, "cut to the range");
        assert_eq!(huge_bytes(smaps, 0x180_0000, 1 << 20), 0);
    }
}
