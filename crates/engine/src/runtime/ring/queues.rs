//! The two queues shared with the kernel: entries go in, completions come out, one call for both.
#![allow(unsafe_code, reason = "hands memory to the kernel; contracts in docs/unsafe.md")]

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};

/// Completions that are of no operation carry these numbers; operations count from 0.
const OF_EVENT: u64 = u64::MAX;
const OF_CANCEL: u64 = u64::MAX - 1;
const OF_MESSAGE: u64 = u64::MAX - 2;
const OF_CANCEL_ONE: u64 = u64::MAX - 3;

/// Room that is kept in the completion queue for entries that are of no operation.
const SPARE: usize = 8;

/// A ring, and what did not fit into it.
pub(super) struct Queues {
    ring: IoUring,
    /// Entries that wait for room: the kernel is never given more than its completion queue holds.
    backlog: VecDeque<squeue::Entry>,
    /// Entries of operations that the kernel has, or finds in the queue.
    in_flight: usize,
    in_flight_max: usize,
    /// The descriptor by which other threads wake the loop.
    event: RawFd,
    /// Whether the kernel watches it.
    watching: bool,
    /// Free places of the table of registered files.
    places: Vec<u32>,
    /// Calls of io_uring_enter.
    enters: u64,
}

/// An operation has ended.
#[derive(Clone, Copy)]
pub(super) struct Ended {
    pub(super) key: u64,
    /// As the kernel says it: a count, or an error's number below zero.
    pub(super) result: i32,
}

/// How long to wait for a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    No,
    AtMost(Duration),
    Ever,
}

impl Queues {
    /// A ring with `entries` entries that watches `event`, and `files` places for files where the
    /// kernel gives them.
    pub(super) fn new(entries: u32, files: u32, event: RawFd) -> io::Result<Queues> {
        let ring = build(entries)?;
        if !ring.params().is_feature_ext_arg() || !ring.params().is_feature_nodrop() {
            let text = "the kernel's io_uring is too old for the ring runtime: Linux 5.11 or newer \
                        is needed";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        // Without a table every operation names its descriptor: slower, not wrong.
        let places = match files {
            0 => Vec::new(),
            files => match ring.submitter().register_files_sparse(files) {
                Ok(()) => (0..files).rev().collect(),
                Err(_) => Vec::new(),
            },
        };
        let in_flight_max = (ring.params().cq_entries() as usize).saturating_sub(SPARE).max(1);
        Ok(Queues {
            ring,
            backlog: VecDeque::new(),
            in_flight: 0,
            in_flight_max,
            event,
            watching: false,
            places,
            enters: 0,
        })
    }

    /// A second descriptor of the ring, to send messages to, where the kernel can do that.
    pub(super) fn messages(&self) -> Option<OwnedFd> {
        // SAFETY: the number is of the ring, which is open.
        let ring = unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) };
        let ring = ring.try_clone_to_owned().ok()?;
        // The first one is to us.
        send_message(ring.as_fd()).is_ok().then_some(ring)
    }

    /// Registers memory. What is registered stays where it is until the ring has gone.
    pub(super) fn register_memory(&self, pieces: &[libc::iovec]) -> io::Result<()> {
        // SAFETY: the pieces are a pool's, which the executor keeps longer than the ring; the
        // kernel pins the pages itself, so that even memory that was unmapped would not be
        // another's.
        unsafe { self.ring.submitter().register_buffers(pieces) }
    }

    /// A place in the table of registered files for `fd`, where there is one.
    pub(super) fn register_file(&mut self, fd: RawFd) -> Option<u32> {
        let place = self.places.pop()?;
        match self.ring.submitter().register_files_update(place, &[fd]) {
            Ok(_) => Some(place),
            Err(_) => {
                self.places.push(place);
                None
            }
        }
    }

    /// Gives back a place. The kernel lets go of the file when no operation on it is under way.
    pub(super) fn forget_file(&mut self, place: u32) {
        // A place that cannot be emptied is not used again.
        if self.ring.submitter().register_files_update(place, &[-1]).is_ok() {
            self.places.push(place);
        }
    }

    /// Queues an operation.
    ///
    /// # Safety
    ///
    /// Memory and file that the entry names stay as they are until [`Queues::take`] has brought the
    /// completion with its key, or for ever.
    pub(super) unsafe fn push(&mut self, entry: squeue::Entry) {
        if self.backlog.is_empty() && self.has_room() {
            self.push_now(&entry);
        } else {
            self.backlog.push_back(entry);
        }
    }

    fn has_room(&mut self) -> bool {
        self.in_flight < self.in_flight_max && !self.ring.submission().is_full()
    }

    /// Puts an entry for which there is room into the kernel's queue.
    fn push_now(&mut self, entry: &squeue::Entry) {
        // SAFETY: by the contract of `push`.
        if unsafe { self.ring.submission().push(entry) }.is_ok() {
            self.in_flight += 1;
        } else {
            self.backlog.push_front(entry.clone());
        }
    }

    /// Moves what waits into the kernel's queue as far as there is room.
    fn fill(&mut self) {
        if !self.watching && !self.ring.submission().is_full() {
            let watch = opcode::PollAdd::new(Fd(self.event), libc::POLLIN as u32).multi(true);
            let watch = watch.build().user_data(OF_EVENT);
            // SAFETY: the entry names no memory, and a descriptor that outlives the ring.
            self.watching = unsafe { self.ring.submission().push(&watch) }.is_ok();
        }
        while self.has_room() {
            let Some(entry) = self.backlog.pop_front() else { return };
            self.push_now(&entry);
        }
    }

    /// Operations that have not ended.
    pub(super) fn under_way(&self) -> usize {
        self.in_flight + self.backlog.len()
    }

    /// Whether the kernel has something for us: a completion, or work that ends in one.
    pub(super) fn has_news(&mut self) -> bool {
        let asks = {
            let entries = self.ring.submission();
            entries.taskrun() || entries.cq_overflow()
        };
        asks || !self.ring.completion().is_empty()
    }

    /// Hands to the kernel what is queued, has it do what it has put off, and waits for a
    /// completion. Without anything to do, and without a wait, it is no call.
    pub(super) fn enter(&mut self, wait: Wait) -> io::Result<()> {
        self.fill();
        let (queued, asks) = {
            let entries = self.ring.submission();
            (entries.len(), entries.taskrun() || entries.cq_overflow())
        };
        if wait == Wait::No && queued == 0 && !asks {
            return Ok(());
        }
        self.enters += 1;
        let submitter = self.ring.submitter();
        let entered = match wait {
            Wait::No => {
                let flags = if asks { EnterFlags::GETEVENTS } else { EnterFlags::empty() };
                // SAFETY: no argument is given, and the entries are as `push` was promised.
                unsafe { submitter.enter::<libc::sigset_t>(queued as u32, 0, flags.bits(), None) }
            }
            Wait::Ever => submitter.submit_and_wait(1),
            Wait::AtMost(time) => {
                let time = Timespec::from(time);
                submitter.submit_with_args(1, &SubmitArgs::new().timespec(&time))
            }
        };
        match entered {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                // A signal; the time is over; or the kernel is short of memory or room, and what it
                // did not take is still queued.
                Some(libc::EINTR | libc::ETIME | libc::EBUSY) => Ok(()),
                Some(libc::EAGAIN) => {
                    std::thread::yield_now();
                    Ok(())
                }
                _ => Err(error),
            },
        }
    }

    /// Fills `into` with operations that have ended, and answers how many those are: fewer than it
    /// has room for only where there are no more.
    pub(super) fn take(&mut self, into: &mut [Ended]) -> usize {
        let mut count = 0;
        let mut completions = self.ring.completion();
        while count < into.len() {
            let Some(completion) = completions.next() else { break };
            match completion.user_data() {
                OF_EVENT => self.watching = cqueue::more(completion.flags()),
                OF_CANCEL | OF_MESSAGE => {}
                OF_CANCEL_ONE => self.in_flight -= 1,
                key => {
                    into[count] = Ended { key, result: completion.result() };
                    count += 1;
                }
            }
        }
        self.in_flight -= count;
        count
    }

    /// Asks the kernel to end the operation with `key`, which has not ended: its completion comes all the
    /// same. The request stands behind it in every queue, and in front of what gets the number next.
    pub(super) fn cancel(&mut self, key: u64) {
        let cancel = opcode::AsyncCancel::new(key).build().user_data(OF_CANCEL_ONE);
        // SAFETY: the entry names neither memory nor a file.
        unsafe { self.push(cancel) };
    }

    /// Asks the kernel to end whatever is under way and can be ended.
    pub(super) fn cancel_all(&mut self) {
        let cancel = opcode::AsyncCancel2::new(CancelBuilder::any()).build().user_data(OF_CANCEL);
        // SAFETY: the entry names neither memory nor a file. Where there is no room, it is asked
        // again.
        let _ = unsafe { self.ring.submission().push(&cancel) };
    }

    /// Calls of io_uring_enter so far.
    #[cfg(test)]
    pub(super) fn enters(&self) -> u64 {
        self.enters
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        // The ring may stay open a while, by those that could still send messages to it; files and
        // memory do not stay with it. An error means that there were none.
        let _ = self.ring.submitter().unregister_files();
        let _ = self.ring.submitter().unregister_buffers();
    }
}

/// Sends a message to a ring, by a call of this thread's: it ends the wait of the thread that has
/// it.
pub(super) fn send_message(ring: BorrowedFd<'_>) -> io::Result<()> {
    /// Since Linux 6.13; the io-uring crate does not have it yet.
    const REGISTER_SEND_MSG_RING: libc::c_uint = 31;
    let message = opcode::MsgRingData::new(Fd(ring.as_raw_fd()), 0, OF_MESSAGE, None).build();
    let (call, no_ring, count) = (libc::SYS_io_uring_register, -1, 1);
    // SAFETY: the kernel copies one entry, which names no memory, and a descriptor that is open.
    let sent = unsafe {
        libc::syscall(call, no_ring, REGISTER_SEND_MSG_RING, ptr::from_ref(&message), count)
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A ring by one thread for itself, whose completions are made when the thread asks for them: it is
/// not interrupted at its work. Older kernels get what they know of that.
fn build(entries: u32) -> io::Result<IoUring> {
    let completions = entries.saturating_mul(8).max(64);
    let base = || {
        let mut builder = IoUring::builder();
        builder.setup_clamp().setup_cqsize(completions).dontfork();
        builder
    };
    let mut newest = base();
    // Linux 6.1.
    newest.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all();
    let mut newer = base();
    // Linux 5.19.
    newer.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
    for builder in [newest, newer] {
        match builder.build(entries) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            other => return other,
        }
    }
    base().build(entries)
}
