//! What tests do to the simulated disk: end its life, put faults and limits in force, look at what
//! it was asked.

use std::ops::RangeInclusive;
use std::task::Waker;

use super::Rng;
use super::disk::SimDisk;
use super::fault::{Fault, FaultId};
use super::state::Harm;
use super::trace::Event;
use crate::{BufPool, IoOp};

impl SimDisk {
    /// Cuts the power: keeps what was synced and a part of the rest that is a function of the state
    /// and `seed`. Ends every task of the program under test, every handle and everything in
    /// flight; what waits for an answer gets ESTALE. The disk can be used again at once.
    pub fn power_cut(&self, seed: u64) {
        self.end_life(true, seed);
    }

    /// Kills the process: like [`SimDisk::power_cut`], but everything that returned stays (and
    /// stays un-synced, should a power cut follow), and of the writes in flight a seeded part.
    pub fn process_kill(&self, seed: u64) {
        self.end_life(false, seed);
    }

    fn end_life(&self, power: bool, seed: u64) {
        let (wakers, events) = self.inner.state.borrow_mut().end_life(power, &mut Rng::new(seed));
        for key in events {
            self.inner.executor.cancel(key);
        }
        self.inner.clock.end_life();
        self.inner.executor.end_life();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Puts a fault in force. Faults outlive power cuts and kills.
    pub fn inject(&self, fault: Fault) -> FaultId {
        self.inner.state.borrow_mut().faults.inject(fault)
    }

    /// Ends a fault; operations it stalled go on.
    pub fn lift(&self, fault: FaultId) {
        self.inner.state.borrow_mut().faults.lift(fault);
        self.resume(|by| by == fault);
    }

    /// Ends all faults.
    pub fn lift_all(&self) {
        self.inner.state.borrow_mut().faults.lift_all();
        self.resume(|_| true);
    }

    /// How many operations a fault has met.
    pub fn hits(&self, fault: FaultId) -> u64 {
        self.inner.state.borrow().faults.hits(fault)
    }

    /// Limits the bytes that files may take; beyond it ENOSPC. `u64::MAX` is no limit.
    pub fn set_capacity(&self, bytes: u64) {
        self.inner.state.borrow_mut().limits.capacity = bytes;
    }

    /// Bytes that files take now, reserved ones included.
    pub fn used(&self) -> u64 {
        self.inner.state.borrow().used
    }

    /// Bytes of the files that have a name. [`SimDisk::used`] is more while an unlinked file is open.
    pub fn named_bytes(&self) -> u64 {
        self.inner.state.borrow().named_bytes()
    }

    /// Limits the files open at a time; beyond it EMFILE.
    pub fn set_open_files_max(&self, files: usize) {
        self.inner.state.borrow_mut().limits.open_files = files;
    }

    /// Files open now (dropped ones with operations in flight included).
    pub fn open_files(&self) -> usize {
        self.inner.state.borrow().handles.len()
    }

    /// The least and the most virtual time of an operation, in microseconds; one in 16 takes eight
    /// times as long. 10 to 400 unless set.
    pub fn set_delay_us(&self, delay: RangeInclusive<u64>) {
        self.inner.state.borrow_mut().limits.delay_us = delay.into_inner();
    }

    /// Buffers of [`Disk::alloc`](crate::Disk::alloc): set its limit to make `alloc` answer `None`.
    pub fn buffers(&self) -> &BufPool {
        &self.inner.buffers
    }

    /// Bytes of reads that are still held by who read them. Reads are never refused.
    pub fn read_bytes_held(&self) -> usize {
        self.inner.reads.used()
    }

    /// How many operations of this kind began.
    pub fn count(&self, op: IoOp) -> u64 {
        self.inner.state.borrow().trace.begun(op)
    }

    /// How many operations of this kind answered with an error.
    pub fn failures(&self, op: IoOp) -> u64 {
        self.inner.state.borrow().trace.failed(op)
    }

    /// Bytes asked for by operations of this kind.
    pub fn bytes(&self, op: IoOp) -> u64 {
        self.inner.state.borrow().trace.bytes(op)
    }

    /// The operations since the trace was last cleared (the last 65,536 of them), oldest first.
    pub fn trace(&self) -> Vec<Event> {
        self.inner.state.borrow().trace.events()
    }

    /// Forgets the trace; counts go on.
    pub fn clear_trace(&self) {
        self.inner.state.borrow_mut().trace.clear();
    }

    /// What writes that were made to lie ([`Fault::lose_write`], [`Fault::misdirect_write`]) have
    /// left behind since the last call: for oracles that must know what may be missing.
    pub fn take_harm(&self) -> Vec<Harm> {
        std::mem::take(&mut self.inner.state.borrow_mut().harm)
    }

    /// Breaches of the caller's contract so far, and forgets them: for tests that provoke one.
    pub fn take_violations(&self) -> Vec<String> {
        std::mem::take(&mut self.inner.state.borrow_mut().violations)
    }

    pub(super) fn describe(&self) -> String {
        self.inner.state.borrow().describe()
    }
}
