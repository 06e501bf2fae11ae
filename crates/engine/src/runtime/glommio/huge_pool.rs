//! An executor's buffer pool, moved onto 2 MiB pages after the fact.
//!
//! glommio allocates its pool in `make()`, through the host's allocator, and registers it with its
//! three rings, which pins every page where it is. Pinned pages cannot be collapsed into huge ones.
//! So the registration is undone, the pool is collapsed (the kernel copies it into huge pages, the
//! addresses stay), and the same memory is registered again under the same index: glommio, which
//! only knows "registered, index 0", sees no difference. All this happens before the executor's
//! first I/O. Unregistered memory on huge pages is no way out: it was measured at half the speed of
//! registered small pages.
#![allow(unsafe_code, reason = "the rings and the pool are glommio's; both are named by number")]

use std::fs;
use std::io;
use std::os::fd::RawFd;

use crate::runtime::huge_alloc::HUGE;
use crate::runtime::pages::{PoolPages, SmallBecause, is_huge_but_for, is_switched_off};

/// A pool as the kernel has it registered.
#[derive(Debug, PartialEq, Eq)]
struct Pool {
    start: usize,
    len: usize,
    rings: Vec<RawFd>,
}

/// Puts the pool that holds `address` onto huge pages, if it is not there already. Call it with the
/// address of a pool buffer, on the executor's thread, with no I/O in flight. After an error the
/// executor must not be used: its pool may no longer be registered.
pub(in crate::runtime) fn collapse(address: usize, pool_len: usize) -> io::Result<PoolPages> {
    if pool_len < 2 * HUGE {
        return Ok(PoolPages::Small(SmallBecause::PoolSize));
    }
    let Some(pool) = find(address) else {
        return Ok(PoolPages::Small(SmallBecause::NotRegistered));
    };
    if pool.is_mostly_huge() {
        return Ok(PoolPages::Huge);
    }
    if is_switched_off() {
        return Ok(PoolPages::Small(SmallBecause::SwitchedOff));
    }
    // While the pages are pinned this must fail. A kernel that does not know the request says so,
    // and is left alone: it would wait for ever to undo a registration.
    if pool.request_collapse().is_err_and(|e| e.raw_os_error() == Some(libc::EINVAL)) {
        return Ok(PoolPages::Small(SmallBecause::OldKernel));
    }
    for ring in &pool.rings {
        register(*ring, None)?;
    }
    let collapsed = pool.request_collapse();
    for ring in &pool.rings {
        register(*ring, Some(&pool))?;
    }
    // The request stops at the first page it cannot do; what counts is what there is.
    if collapsed.is_ok() || pool.is_mostly_huge() {
        Ok(PoolPages::Collapsed)
    } else {
        Ok(PoolPages::Small(SmallBecause::NoMemory))
    }
}

/// The rings of this process that have memory at `address` registered.
fn find(address: usize) -> Option<Pool> {
    let mut found: Option<Pool> = None;
    for entry in fs::read_dir("/proc/self/fdinfo").ok()?.flatten() {
        let Some(number) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(text) = fs::read_to_string(entry.path()) else { continue };
        let Some((start, len)) = registered(&text, address) else { continue };
        match &mut found {
            Some(pool) if (pool.start, pool.len) == (start, len) => pool.rings.push(number),
            Some(_) => return None,
            None => found = Some(Pool { start, len, rings: vec![number] }),
        }
    }
    found
}

/// Start and length of the registered buffer 0 that holds `address`, out of a ring's fdinfo:
///
/// ```text
/// UserBufs:       1
///     0: 0x7ffb93e00000/67108864
/// ```
fn registered(fdinfo: &str, address: usize) -> Option<(usize, usize)> {
    let mut lines = fdinfo.lines().skip_while(|line| !line.starts_with("UserBufs:"));
    let count = lines.next()?.split_whitespace().nth(1)?;
    // More than one buffer would not be put back as it was.
    if count != "1" {
        return None;
    }
    let range = lines.next()?.trim().strip_prefix("0: 0x")?;
    let (start, len) = range.split_once('/')?;
    let start = usize::from_str_radix(start, 16).ok()?;
    let len = len.trim().parse().ok()?;
    (start..start.checked_add(len)?).contains(&address).then_some((start, len))
}

impl Pool {
    fn is_mostly_huge(&self) -> bool {
        // Its two ends may share their huge page with others.
        is_huge_but_for(2 * HUGE, self.start, self.len)
    }

    /// Asks the kernel to move the pool onto huge pages, now.
    fn request_collapse(&self) -> io::Result<()> {
        /// Since Linux 6.1; the libc crate does not have it yet.
        const MADV_COLLAPSE: libc::c_int = 25;
        let first = self.start.next_multiple_of(HUGE);
        let end = (self.start + self.len) / HUGE * HUGE;
        for request in [libc::MADV_HUGEPAGE, MADV_COLLAPSE] {
            let range = std::ptr::with_exposed_provenance_mut(first);
            // SAFETY: the range lies within the pool, which the executor keeps alive. Both requests
            // change where the bytes are in physical memory, not what they are.
            if unsafe { libc::madvise(range, end - first, request) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }
}

/// Registers `pool` as buffer 0 of `ring`, or with None undoes what is registered.
fn register(ring: RawFd, pool: Option<&Pool>) -> io::Result<()> {
    const REGISTER_BUFFERS: u32 = 0;
    const UNREGISTER_BUFFERS: u32 = 1;
    let buffer = pool.map(|pool| libc::iovec {
        iov_base: std::ptr::with_exposed_provenance_mut(pool.start),
        iov_len: pool.len,
    });
    let (op, count) = match &buffer {
        Some(_) => (REGISTER_BUFFERS, 1_u32),
        None => (UNREGISTER_BUFFERS, 0),
    };
    let argument = buffer.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `ring` was found to be a ring that holds this very pool; no other call of this process
    // is on it (its executor has not started, and this is its thread). The kernel copies the
    // argument. The memory registered is the one that was registered before.
    let answer = unsafe { libc::syscall(libc::SYS_io_uring_register, ring, op, argument, count) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FDINFO: &str = "SqThread:\t-1\nUserFiles:\t0\nUserBufs:\t1\n    0: 0x7ffb93e00000/67108864\n\
                          PollList:\n  op=6, task_works=0\n";

    #[test]
    fn finds_the_pool_in_fdinfo() {
        let start = 0x7ffb_93e0_0000;
        assert_eq!(registered(FDINFO, start), Some((start, 64 << 20)));
        assert_eq!(registered(FDINFO, start + (64 << 20) - 1), Some((start, 64 << 20)));
        assert_eq!(registered(FDINFO, start + (64 << 20)), None);
        assert_eq!(registered(FDINFO, start - 1), None);
        assert_eq!(registered("UserBufs:\t0\nPollList:\n", start), None);
        assert_eq!(registered("UserBufs:\t2\n    0: 0x1000/9\n    1: 0x9000/9\n", 0x1000), None);
        assert_eq!(registered("pos:\t0\nflags:\t02\n", start), None);
    }
}
