//! A raw ring over its files: what the kernel can do when nothing stands in between.
//!
//! Registered files, one registered region of slots, one thread. Slots take the files in turns. A
//! slot has at most one request in flight, and its bytes are lent only while it has none: that is
//! the whole safety argument.
#![expect(unsafe_code, reason = "hands memory to the kernel; contracts in docs/unsafe.md")]

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;

use io_uring::squeue::{Entry, Flags};
use io_uring::{IoUring, opcode, types};

use super::buffers::{Pages, Slots};

/// Set in `user_data` for the sync half of a linked pair; the rest is the slot.
const SYNC_BIT: u64 = 1 << 32;

/// How a write becomes durable, if at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    /// Not: written only.
    No,
    /// RWF_DSYNC on the write itself.
    Dsync,
    /// A second request, linked: fdatasync of the file after the write.
    LinkedFdatasync,
}

/// What this kernel granted, for the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    /// SINGLE_ISSUER and DEFER_TASKRUN (Linux 6.1).
    pub deferred_taskrun: bool,
    /// The slots are registered; false when the memlock limit forbids it.
    pub registered_buffers: bool,
    /// What the slots stand on.
    pub pages: Pages,
}

/// A request that ended.
#[derive(Debug)]
pub(crate) struct Done {
    /// The slot it was about.
    pub(crate) slot: usize,
    /// True for the sync half of a linked pair.
    pub(crate) is_sync: bool,
    /// Bytes moved (0 for a sync), or the kernel's error.
    pub(crate) result: io::Result<u32>,
}

/// A ring, its file and its slots; stays on the thread that made it.
pub(crate) struct Ring {
    ring: IoUring,
    files: Vec<File>,
    slots: ManuallyDrop<Slots>,
    busy: Vec<bool>,
    in_flight: usize,
    granted: Granted,
    _stays_on_its_thread: PhantomData<*const ()>,
}

impl Ring {
    /// A ring over `file` with these slots. Errors say which step the kernel refused.
    pub(crate) fn new(file: File, slots: Slots) -> io::Result<Ring> {
        Ring::over(vec![file], slots, true)
    }

    /// The same over several files (at least one): slot `n` belongs to file `n` modulo their count.
    pub(crate) fn over_files(files: Vec<File>, slots: Slots) -> io::Result<Ring> {
        Ring::over(files, slots, true)
    }

    /// The same; without `register_buffers` as under a memlock limit that forbids it.
    fn over(files: Vec<File>, slots: Slots, register_buffers: bool) -> io::Result<Ring> {
        // Twice the slots: a linked pair is two entries.
        let entries = (slots.count() * 2).next_power_of_two() as u32;
        let (ring, deferred_taskrun) = build(entries)?;
        let fds: Vec<_> = files.iter().map(AsRawFd::as_raw_fd).collect();
        ring.submitter()
            .register_files(&fds)
            .map_err(|error| told("registering files with io_uring", &error))?;
        let (base, bytes) = slots.region();
        let region = [libc::iovec { iov_base: base.cast(), iov_len: bytes }];
        // SAFETY: the region stays mapped as long as the ring: `Ring` owns both, and unmaps only
        // after every request has ended (`Drop`). The kernel pins the pages on top of that.
        let registered_buffers =
            register_buffers && unsafe { ring.submitter().register_buffers(&region) }.is_ok();
        let granted = Granted { deferred_taskrun, registered_buffers, pages: slots.pages() };
        Ok(Ring {
            ring,
            files,
            busy: vec![false; slots.count()],
            slots: ManuallyDrop::new(slots),
            in_flight: 0,
            granted,
            _stays_on_its_thread: PhantomData,
        })
    }

    /// What the kernel granted.
    pub(crate) fn granted(&self) -> Granted {
        self.granted
    }

    /// The files beneath.
    pub(crate) fn files(&self) -> &[File] {
        &self.files
    }

    /// How many slots there are: as many requests can be in flight.
    pub(crate) fn slots(&self) -> usize {
        self.slots.count()
    }

    /// Requests that have not ended yet.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// The bytes of an idle slot (asserted), to read or change.
    pub(crate) fn idle_slot(&mut self, slot: usize) -> &mut [u8] {
        assert!(!self.busy[slot], "slot {slot} is the kernel's while a request is in flight");
        // SAFETY: no request on this slot is in flight: `busy` is set by every push below and
        // cleared only when its last completion was seen.
        unsafe { self.slots.bytes_mut(slot) }
    }

    /// Queues a write of the whole slot to `position`, a multiple of 4096. Sent by `submit`.
    pub(crate) fn write(&mut self, slot: usize, position: u64, sync: Sync) {
        let (pointer, len) = self.take(slot);
        let flags = if sync == Sync::Dsync { libc::RWF_DSYNC } else { 0 };
        let file = self.file_of(slot);
        let entry = if self.granted.registered_buffers {
            opcode::WriteFixed::new(file, pointer, len, 0).offset(position).rw_flags(flags).build()
        } else {
            opcode::Write::new(file, pointer, len).offset(position).rw_flags(flags).build()
        };
        if sync != Sync::LinkedFdatasync {
            return self.push(entry.user_data(slot as u64));
        }
        self.push(entry.flags(Flags::IO_LINK).user_data(slot as u64));
        let fdatasync = opcode::Fsync::new(file).flags(types::FsyncFlags::DATASYNC).build();
        self.push(fdatasync.user_data(slot as u64 | SYNC_BIT));
    }

    /// Queues a read of a whole slot from `position`, a multiple of 4096. Sent by `submit`.
    pub(crate) fn read(&mut self, slot: usize, position: u64) {
        let (pointer, len) = self.take(slot);
        let file = self.file_of(slot);
        let entry = if self.granted.registered_buffers {
            opcode::ReadFixed::new(file, pointer, len, 0).offset(position).build()
        } else {
            opcode::Read::new(file, pointer, len).offset(position).build()
        };
        self.push(entry.user_data(slot as u64));
    }

    /// Sends what is queued and waits until at least `ended` requests have ended.
    pub(crate) fn submit(&mut self, ended: usize) -> io::Result<()> {
        loop {
            match self.ring.submit_and_wait(ended) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The next request that has ended, if one has. Its slot is idle again once both halves of a
    /// linked pair were seen (the write's completion comes first).
    pub(crate) fn ended(&mut self) -> Option<Done> {
        let completion = self.ring.completion().next()?;
        let user_data = completion.user_data();
        let slot = (user_data & !SYNC_BIT) as usize;
        let is_sync = user_data & SYNC_BIT != 0;
        // Counted before anything can panic: `Drop` waits until none is left.
        self.in_flight = self.in_flight.checked_sub(1).expect("a completion of no request");
        // The sync half does not touch the slot, so the data half alone sets it free.
        if !is_sync {
            assert!(self.busy[slot], "a completion for slot {slot}, which has no request");
            self.busy[slot] = false;
        }
        let result = u32::try_from(completion.result())
            .map_err(|_| io::Error::from_raw_os_error(-completion.result()));
        Some(Done { slot, is_sync, result })
    }

    fn file_of(&self, slot: usize) -> types::Fixed {
        types::Fixed(u32::try_from(slot % self.files.len()).expect("files are few"))
    }

    fn take(&mut self, slot: usize) -> (*mut u8, u32) {
        assert!(!self.busy[slot], "slot {slot} already has a request in flight");
        self.busy[slot] = true;
        let len = u32::try_from(self.slots.slot_bytes()).expect("a slot is at most 1 GiB");
        (self.slots.pointer(slot), len)
    }

    fn push(&mut self, entry: Entry) {
        // SAFETY: the entry's memory is a slot that `take` marked busy (or none, for a sync); it
        // stays mapped and untouched until its completion. The files stay open: `Ring` owns them.
        unsafe { self.ring.submission().push(&entry) }
            .expect("the ring has two entries a slot and a slot one request");
        self.in_flight += 1;
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.in_flight > 0 {
            if self.submit(1).is_err() {
                // The kernel may still write to the slots: leak them rather than unmap them.
                return;
            }
            while self.ended().is_some() {}
        }
        // SAFETY: dropped once, here; no request is in flight.
        unsafe { ManuallyDrop::drop(&mut self.slots) };
    }
}

/// A ring with the cheapest completion path this kernel has, and whether it is that.
fn build(entries: u32) -> io::Result<(IoUring, bool)> {
    let deferred = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries);
    match deferred {
        Ok(ring) => Ok((ring, true)),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            let plain = IoUring::builder().build(entries);
            plain.map(|ring| (ring, false)).map_err(|error| told("setting up io_uring", &error))
        }
        Err(error) => Err(told("setting up io_uring", &error)),
    }
}

fn told(step: &str, error: &io::Error) -> io::Error {
    let hint = match error.raw_os_error() {
        Some(libc::EPERM | libc::ENOSYS) => {
            "; io_uring is blocked here (seccomp, sysctl kernel.io_uring_disabled, or the kernel)"
        }
        Some(libc::ENOMEM) => "; raise the memlock limit (ulimit -l)",
        _ => "",
    };
    io::Error::new(error.kind(), format!("{step}: {error}{hint}"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::ceiling::BLOCK_BYTES;
    use crate::ceiling::file;
    use crate::place::tests::test_dir;

    /// A ring of two slots over a fresh file of 16 blocks, and the place that holds the file.
    fn ring(name: &str, register_buffers: bool) -> (Ring, crate::place::Place) {
        let place = test_dir(name);
        let path = place.ceiling_dir().unwrap().join("file");
        let file = file::create(&path, 16 * BLOCK_BYTES as u64).unwrap();
        let slots = Slots::new(2, BLOCK_BYTES).unwrap();
        (Ring::over(vec![file], slots, register_buffers).unwrap(), place)
    }

    fn end_all(ring: &mut Ring) {
        while ring.in_flight() > 0 {
            ring.submit(1).unwrap();
            while let Some(done) = ring.ended() {
                let moved = if done.is_sync { 0 } else { BLOCK_BYTES as u32 };
                assert_eq!(done.result.unwrap(), moved, "slot {}", done.slot);
            }
        }
    }

    #[test]
    fn bytes_go_and_come_back_registered_or_not_in_every_way_of_syncing() {
        for register_buffers in [true, false] {
            let (mut ring, _place) = ring(&format!("ring-{register_buffers}"), register_buffers);
            assert_eq!(ring.granted().registered_buffers, register_buffers);
            for (number, sync) in [Sync::No, Sync::Dsync, Sync::LinkedFdatasync].iter().enumerate()
            {
                let position = (number * BLOCK_BYTES) as u64;
                ring.idle_slot(0).fill(number as u8 + 1);
                ring.write(0, position, *sync);
                end_all(&mut ring);
                ring.read(1, position);
                end_all(&mut ring);
                assert!(ring.idle_slot(1).iter().all(|byte| *byte == number as u8 + 1));
            }
        }
    }

    #[test]
    #[should_panic(expected = "slot 1 is the kernel's")]
    fn a_slot_in_flight_is_not_lent() {
        let (mut ring, _place) = ring("ring-busy", true);
        ring.write(1, 0, Sync::No);
        ring.idle_slot(1);
    }

    #[test]
    #[should_panic(expected = "slot 1 already has a request")]
    fn a_slot_has_one_request_at_a_time() {
        let (mut ring, _place) = ring("ring-twice", true);
        ring.write(1, 0, Sync::No);
        ring.read(1, 0);
    }

    #[test]
    fn dropping_waits_for_what_is_in_flight_or_still_queued() {
        let (mut ring, place) = ring("ring-drop", true);
        ring.idle_slot(0).fill(7);
        ring.idle_slot(1).fill(8);
        ring.write(0, 0, Sync::LinkedFdatasync);
        ring.submit(0).unwrap();
        ring.write(1, BLOCK_BYTES as u64, Sync::No);
        drop(ring);
        let bytes = fs::read(place.ceiling_dir().unwrap().join("file")).unwrap();
        assert_eq!(bytes[..BLOCK_BYTES], [7; BLOCK_BYTES]);
        assert_eq!(bytes[BLOCK_BYTES..2 * BLOCK_BYTES], [8; BLOCK_BYTES]);
    }

    #[test]
    fn an_error_of_the_kernel_comes_with_its_slot() {
        let (mut ring, _place) = ring("ring-error", true);
        // Not aligned: O_DIRECT refuses it.
        ring.write(1, 1, Sync::LinkedFdatasync);
        ring.submit(2).unwrap();
        let write = ring.ended().unwrap();
        assert_eq!((write.slot, write.is_sync), (1, false));
        assert_eq!(write.result.unwrap_err().raw_os_error(), Some(libc::EINVAL));
        let sync = ring.ended().unwrap();
        assert!(sync.is_sync);
        assert_eq!(sync.result.unwrap_err().raw_os_error(), Some(libc::ECANCELED));
    }
}
