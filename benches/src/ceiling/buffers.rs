//! The probe's memory: slots of equal size on 2 MiB pages, so that a request is few segments.
//!
//! With 4 KiB pages a 1 MiB request is 256 descriptors for the device and the result a lottery;
//! on 2 MiB pages it is one or two. Reserved huge pages (`MAP_HUGETLB`) are taken where the machine
//! has them, transparent ones are asked for otherwise, and what was got is said in the report.
#![expect(unsafe_code, reason = "maps memory and lends it by slot; contracts in docs/unsafe.md")]

use std::fs;
use std::io;
use std::ptr;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Length of a huge page on x86-64, in bytes.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Alignment that O_DIRECT asks of memory, positions and lengths here, in bytes.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// What kind of pages the slots stand on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pages {
    /// Reserved 2 MiB pages.
    Reserved,
    /// Transparent 2 MiB pages, as the kernel says for the whole region.
    Transparent,
    /// 4 KiB pages, at least in part: the kernel had no 2 MiB page to give.
    Small,
}

impl Pages {
    /// The word for it in reports.
    pub fn name(self) -> &'static str {
        match self {
            Pages::Reserved => "2 MiB reserved",
            Pages::Transparent => "2 MiB transparent",
            Pages::Small => "4 KiB",
        }
    }
}

/// `count` slots of `slot_bytes` each, mapped once, touched, and unmapped on drop.
///
/// A slot's bytes are reached through `unsafe` only: the kernel reads and writes them while a
/// request is in flight, and only the owner (`Ring`) knows which slots those are.
#[derive(Debug)]
pub(crate) struct Slots {
    map: *mut u8,
    map_bytes: usize,
    base: *mut u8,
    slot_bytes: usize,
    count: usize,
    pages: Pages,
}

impl Slots {
    /// Maps and touches the slots.
    ///
    /// `slot_bytes` is a positive multiple of [`BLOCK_BYTES`] and `count` at least 1 (asserted).
    pub(crate) fn new(count: usize, slot_bytes: usize) -> io::Result<Slots> {
        assert!(count > 0 && slot_bytes > 0 && slot_bytes.is_multiple_of(BLOCK_BYTES));
        let bytes = count
            .checked_mul(slot_bytes)
            .and_then(|bytes| bytes.checked_next_multiple_of(HUGE_PAGE_BYTES))
            .filter(|bytes| *bytes <= isize::MAX as usize - HUGE_PAGE_BYTES)
            .ok_or(io::ErrorKind::OutOfMemory)?;
        if let Ok(map) = map(bytes, MapFlags::HUGETLB | MapFlags::HUGE_2MB)
            && populate(map, bytes).is_ok()
        {
            let pages = Pages::Reserved;
            return Ok(Slots { map, map_bytes: bytes, base: map, slot_bytes, count, pages });
        }

        // One page more than needed, so that an aligned start lies inside.
        let map_bytes = bytes + HUGE_PAGE_BYTES;
        let map = map(map_bytes, MapFlags::empty())?;
        let skip = map.align_offset(HUGE_PAGE_BYTES);
        // SAFETY: `skip < HUGE_PAGE_BYTES`, and the map is that much longer than `bytes`.
        let base = unsafe { map.add(skip) };
        let mut slots =
            Slots { map, map_bytes, base, slot_bytes, count, pages: Pages::Transparent };
        // SAFETY: the range is inside of the map, which nobody else knows yet.
        // Advice is only that: a kernel without huge pages refuses it, and `huge_bytes` tells.
        let _ = unsafe { madvise(base.cast(), bytes, Advice::LinuxHugepage) };
        populate(base, bytes)?;
        if huge_bytes(base as usize).is_none_or(|huge| huge < bytes) {
            slots.pages = Pages::Small;
        }
        Ok(slots)
    }

    /// How many slots there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of one slot.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// What the slots stand on.
    pub(crate) fn pages(&self) -> Pages {
        self.pages
    }

    /// Start and length in bytes of all slots together.
    pub(crate) fn region(&self) -> (*mut u8, usize) {
        (self.base, self.count * self.slot_bytes)
    }

    /// Where slot `slot` starts; it is aligned to [`BLOCK_BYTES`] and stays where it is.
    pub(crate) fn pointer(&self, slot: usize) -> *mut u8 {
        assert!(slot < self.count, "slot {slot} of {}", self.count);
        // SAFETY: slot < count, so the result is inside of the mapped region.
        unsafe { self.base.add(slot * self.slot_bytes) }
    }

    /// The bytes of a slot.
    ///
    /// # Safety
    /// No request at all on this slot's memory is in flight.
    pub(crate) unsafe fn bytes_mut(&mut self, slot: usize) -> &mut [u8] {
        // SAFETY: mapped, touched (so initialised: anonymous memory is zero), by the caller's word
        // not the kernel's, and `&mut self` rules out other references.
        unsafe { std::slice::from_raw_parts_mut(self.pointer(slot), self.slot_bytes) }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: ours since `new`, unmapped once. The owner has drained its requests, or forgets
        // the slots instead of dropping them. An error could only mean a wrong range: leaked then.
        let _ = unsafe { munmap(self.map.cast(), self.map_bytes) };
    }
}

fn map(bytes: usize, flags: MapFlags) -> io::Result<*mut u8> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private anonymous mapping at an address of the kernel's choice.
    let map = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::PRIVATE | flags) }?;
    Ok(map.cast())
}

/// Faults every page in, so that no measurement pays for it.
fn populate(base: *mut u8, bytes: usize) -> io::Result<()> {
    // SAFETY: the range is one mapping of ours; populating does not change contents.
    match unsafe { madvise(base.cast(), bytes, Advice::LinuxPopulateWrite) } {
        Ok(()) => return Ok(()),
        // Before Linux 5.14 there is no such advice; touch the pages by hand.
        Err(rustix::io::Errno::INVAL) => {}
        Err(error) => return Err(error.into()),
    }
    for at in (0..bytes).step_by(BLOCK_BYTES) {
        // SAFETY: inside of the mapping; nobody else knows it yet.
        unsafe { base.add(at).write_volatile(0) };
    }
    Ok(())
}

/// Bytes on transparent huge pages in the mapping that holds `address`; None when unknown.
fn huge_bytes(address: usize) -> Option<usize> {
    huge_bytes_in(&fs::read_to_string("/proc/self/smaps").ok()?, address)
}

/// The same, from the text of an `smaps` file.
fn huge_bytes_in(smaps: &str, address: usize) -> Option<usize> {
    let mut inside = false;
    for line in smaps.lines() {
        let first = line.split_whitespace().next()?;
        if let Some((from, to)) = first.split_once('-') {
            let from = usize::from_str_radix(from, 16).ok()?;
            let to = usize::from_str_radix(to, 16).ok()?;
            inside = (from..to).contains(&address);
        } else if inside && first == "AnonHugePages:" {
            let kib: usize = line.split_whitespace().nth(1)?.parse().ok()?;
            return Some(kib * 1024);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_aligned_apart_and_writable() {
        let mut slots = Slots::new(3, 3 * BLOCK_BYTES).unwrap();
        for slot in 0..3 {
            assert_eq!(slots.pointer(slot) as usize % BLOCK_BYTES, 0);
            // SAFETY: no request was ever made.
            unsafe { slots.bytes_mut(slot) }.fill(slot as u8 + 1);
        }
        for slot in 0..3 {
            // SAFETY: as above.
            let bytes = unsafe { slots.bytes_mut(slot) };
            assert_eq!(bytes.len(), 3 * BLOCK_BYTES);
            assert!(bytes.iter().all(|byte| *byte == slot as u8 + 1));
        }
        assert_eq!(slots.region().1, 9 * BLOCK_BYTES);
        assert_eq!(slots.region().0 as usize % HUGE_PAGE_BYTES, 0);
    }

    #[test]
    #[should_panic(expected = "slot 2 of 2")]
    fn a_slot_out_of_range_is_a_bug() {
        Slots::new(2, BLOCK_BYTES).unwrap().pointer(2);
    }

    #[test]
    fn more_memory_than_there_is_is_an_error() {
        assert!(Slots::new(usize::MAX / BLOCK_BYTES, BLOCK_BYTES).is_err());
        assert!(Slots::new(1 << 40, BLOCK_BYTES).is_err());
    }

    #[test]
    fn smaps_names_the_mapping_of_an_address() {
        let smaps = "1000-3000 rw-p 00000000 00:00 0\nRss: 4 kB\nAnonHugePages: 0 kB\n\
                     7f0000200000-7f0000600000 rw-p 00000000 00:00 0\nAnonHugePages:  4096 kB\n";
        assert_eq!(huge_bytes_in(smaps, 0x2fff), Some(0));
        assert_eq!(huge_bytes_in(smaps, 0x7f00_0030_0000), Some(4 << 20));
        assert_eq!(huge_bytes_in(smaps, 0x3000), None);
    }
}
