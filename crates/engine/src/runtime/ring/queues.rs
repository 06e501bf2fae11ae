//! The two queues shared with the kernel: entries go in, completions come out, one call for both.
#![allow(unsafe_code, reason = "hands memory to the kernel; contracts in docs/unsafe.md")]

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};

/// Marks the number of a wait, which may never end: it takes no room from the others.
const WAITS: u64 = 1 << 62;

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
    /// Entries that wait for room: the kernel is never given more than its completion queue holds,
    /// but for waits. Should many of those end at once, it keeps their completions elsewhere.
    backlog: VecDeque<squeue::Entry>,
    /// Entries of operations that the kernel has, or finds in the queue.
    in_flight: usize,
    /// As many of these are waits, or cancel some.
    waits: usize,
    /// The others, at most.
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
            waits: 0,
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

    /// Queues the operation with the number `key`.
    ///
    /// # Safety
    ///
    /// Memory and file that the entry names stay as they are until [`Queues::take`] has brought the
    /// completion with its key, or for ever.
    pub(super) unsafe fn push(&mut self, entry: squeue::Entry, key: u64) {
        self.queue(entry.user_data(key));
    }

    /// As [`Queues::push`], for an operation that may never end. However many there are of them,
    /// they keep no other from the kernel.
    ///
    /// # Safety
    ///
    /// As for [`Queues::push`].
    pub(super) unsafe fn push_wait(&mut self, entry: squeue::Entry, key: u64) {
        self.queue(entry.user_data(key | WAITS));
    }

    fn queue(&mut self, entry: squeue::Entry) {
        if self.backlog.is_empty() && self.has_room(&entry) {
            self.push_now(&entry);
        } else {
            self.backlog.push_back(entry);
        }
    }

    fn has_room(&mut self, entry: &squeue::Entry) -> bool {
        let is_given = is_wait(entry.get_user_data()) || self.bounded() < self.in_flight_max;
        is_given && !self.ring.submission().is_full()
    }

    /// Operations in flight that are no waits.
    fn bounded(&self) -> usize {
        self.in_flight - self.waits
    }

    /// Puts an entry for which there is room into the kernel's queue.
    fn push_now(&mut self, entry: &squeue::Entry) {
        // SAFETY: by the contract of `push`.
        if unsafe { self.ring.submission().push(entry) }.is_ok() {
            self.in_flight += 1;
            self.waits += usize::from(is_wait(entry.get_user_data()));
        } else {
            self.backlog.push_front(entry.clone());
        }
    }

    /// Moves what waits into the kernel's queue as far as there is room. True where it is only the
    /// queue that has too little.
    fn fill(&mut self) -> bool {
        if !self.watching && !self.ring.submission().is_full() {
            let watch = opcode::PollAdd::new(Fd(self.event), libc::POLLIN as u32).multi(true);
            let watch = watch.build().user_data(OF_EVENT);
            // SAFETY: the entry names no memory, and a descriptor that outlives the ring.
            self.watching = unsafe { self.ring.submission().push(&watch) }.is_ok();
        }
        while let Some(entry) = self.backlog.pop_front() {
            if !self.has_room(&entry) {
                self.backlog.push_front(entry);
                return self.ring.submission().is_full();
            }
            self.push_now(&entry);
        }
        !self.watching
    }

    /// Operations that have not ended.
    pub(super) fn under_way(&self) -> usize {
        self.in_flight + self.backlog.len()
    }

    /// Of these, all but the waits that the kernel has.
    pub(super) fn ending(&self) -> usize {
        self.bounded() + self.backlog.len()
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
        // Nothing may sleep here that has room there: what the kernel has by now may never end.
        while self.fill() {
            self.call(Wait::No)?;
            if self.ring.submission().is_full() {
                // It is short of something, and took nothing: the loop comes again.
                return Ok(());
            }
        }
        self.call(wait)
    }

    fn call(&mut self, wait: Wait) -> io::Result<()> {
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
                OF_CANCEL_ONE => {
                    self.in_flight -= 1;
                    self.waits -= 1;
                }
                number => {
                    self.waits -= usize::from(is_wait(number));
                    into[count] = Ended { key: number & !WAITS, result: completion.result() };
                    count += 1;
                }
            }
        }
        self.in_flight -= count;
        count
    }

    /// Asks the kernel to end the wait with the number `key`, which has not ended: its completion
    /// comes all the same. The request stands behind it in every queue, and in front of what gets the
    /// number next. It takes no room either.
    pub(super) fn cancel_wait(&mut self, key: u64) {
        self.queue(opcode::AsyncCancel::new(key | WAITS).build().user_data(OF_CANCEL_ONE));
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

    /// From here on the kernel refuses every call: the ring's number is that of another file.
    #[cfg(test)]
    pub(super) fn refuse(&self) {
        let other = std::fs::File::open("/dev/null").expect("it opens");
        // SAFETY: both numbers are of open files. What the kernel has of the ring it keeps, until a
        // second descriptor of it is closed or it has answered.
        assert!(unsafe { libc::dup2(other.as_raw_fd(), self.ring.as_raw_fd()) } >= 0);
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

/// Whether the number is of a wait, or of a request to end one.
fn is_wait(number: u64) -> bool {
    number & WAITS != 0
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
