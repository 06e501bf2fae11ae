//! The sockets of a shard: one epoll set, and a task that wakes whoever waits for one of them.
//!
//! The set is asked without waiting as long as there is something, and between the answers whoever
//! was woken has his turn. Only when there is nothing the shard's reactor waits for the set as a
//! whole: a busy shard pays one system call for all its sockets that are ready, and none for each.
//!
//! The kernel tells of a change once. What it has told is remembered until a call has found the
//! socket empty, or full.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::task::{Poll, Waker};

use corelog::ShardContext;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

/// Changes that are asked for at once.
const CHANGES_MAX: usize = 256;

/// Rounds in a row without the reactor, which has the disk's answers.
const ROUNDS_MAX: u32 = 8;

/// The sockets of one shard. Local to its thread.
pub(crate) struct Sockets {
    epoll: OwnedFd,
    table: RefCell<Table>,
}

/// Sockets by the number that the kernel tells of them. A number is used again: who has it then
/// looks once for nothing.
#[derive(Default)]
struct Table {
    places: Vec<Option<Rc<Place>>>,
    free: Vec<usize>,
}

/// What is known of one socket.
struct Place {
    reads: Side,
    writes: Side,
    /// The other side has ended: whatever is left has been told of for the last time.
    is_ended: Cell<bool>,
}

/// One direction.
struct Side {
    /// As long as nobody has found out that it is not.
    is_ready: Cell<bool>,
    waits: RefCell<Option<Waker>>,
}

/// A socket in the set, until this is dropped.
pub(crate) struct Watched {
    sockets: Rc<Sockets>,
    number: usize,
    place: Rc<Place>,
}

impl Sockets {
    /// An empty set that nobody looks into.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub(crate) fn new() -> io::Result<Rc<Sockets>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Rc::new(Sockets { epoll, table: RefCell::default() }))
    }

    /// An empty set; `shard` wakes who waits for its sockets, until the engine closes.
    ///
    /// # Errors
    /// There is no descriptor left.
    pub(crate) fn start(shard: &ShardContext) -> io::Result<Rc<Sockets>> {
        let sockets = Sockets::new()?;
        let (context, watched) = (shard.clone(), Rc::clone(&sockets));
        shard.spawn(async move { watched.watch(&context).await });
        Ok(sockets)
    }

    /// Adds `socket`, which does not block. It leaves the set when it is closed.
    ///
    /// # Errors
    /// The kernel's: no memory, or too many in all sets.
    pub(crate) fn add(self: &Rc<Self>, socket: BorrowedFd<'_>) -> io::Result<Watched> {
        use epoll::EventFlags;
        let side = || Side { is_ready: Cell::new(true), waits: RefCell::default() };
        let place = Rc::new(Place { reads: side(), writes: side(), is_ended: Cell::new(false) });
        let number = self.table.borrow_mut().enter(Rc::clone(&place));
        let watched = Watched { sockets: Rc::clone(self), number, place };
        let changes = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(number as u64), changes)?;
        Ok(watched)
    }

    async fn watch(&self, shard: &ShardContext) {
        let mut changes = Vec::with_capacity(CHANGES_MAX);
        let mut rounds = 0;
        loop {
            self.look(&mut changes);
            rounds += 1;
            if changes.is_empty() || rounds == ROUNDS_MAX {
                self.wait(shard).await;
                rounds = 0;
            } else {
                shard.yield_now().await;
            }
        }
    }

    /// Asks what has changed, into `changes`, and wakes who waits for it.
    pub(crate) fn look(&self, changes: &mut Vec<epoll::Event>) {
        changes.clear();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let asked = epoll::wait(&self.epoll, spare_capacity(changes), Some(&now));
        assert!(matches!(asked, Ok(_) | Err(Errno::INTR)), "the set is ours: {asked:?}");
        changes.iter().for_each(|change| self.tell(change));
    }

    /// Lets the reactor wait for the set.
    async fn wait(&self, shard: &ShardContext) {
        match shard.readable(self.epoll.as_fd()) {
            Ok(readable) => readable.await,
            // Without a descriptor for it: others end, and give theirs back.
            Err(_) => shard.sleep(std::time::Duration::from_millis(1)).await,
        }
    }

    fn tell(&self, change: &epoll::Event) {
        use epoll::EventFlags;
        let place = self.table.borrow().places.get(change.data.u64() as usize).cloned().flatten();
        let Some(place) = place else { return };
        let flags = change.flags;
        let ended = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if flags.intersects(ended) {
            place.is_ended.set(true);
        }
        if flags.intersects(ended | EventFlags::IN) {
            place.reads.wake();
        }
        if flags.intersects(ended | EventFlags::OUT) {
            place.writes.wake();
        }
    }
}

impl Table {
    fn enter(&mut self, place: Rc<Place>) -> usize {
        match self.free.pop() {
            Some(number) => {
                self.places[number] = Some(place);
                number
            }
            None => {
                self.places.push(Some(place));
                self.places.len() - 1
            }
        }
    }
}

impl Side {
    fn wake(&self) {
        self.is_ready.set(true);
        if let Some(waker) = self.waits.take() {
            waker.wake();
        }
    }

    async fn ready(&self) {
        poll_fn(|cx| {
            if self.is_ready.get() {
                return Poll::Ready(());
            }
            self.waits.replace(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

impl Watched {
    /// True where nobody knows that there is nothing to receive.
    pub(crate) fn is_readable(&self) -> bool {
        self.place.reads.is_ready.get()
    }

    /// Waits until there may be something to receive. One task at a time may wait.
    pub(crate) async fn readable(&self) {
        self.place.reads.ready().await;
    }

    /// Waits until there may be room to send. One task at a time may wait.
    pub(crate) async fn writable(&self) {
        self.place.writes.ready().await;
    }

    /// A call has found nothing to receive, or less than it had room for.
    pub(crate) fn was_emptied(&self) {
        // After the end there is no further word of anything.
        self.place.reads.is_ready.set(self.place.is_ended.get());
    }

    /// A call has found no room to send, or less than it wanted.
    pub(crate) fn was_filled(&self) {
        self.place.writes.is_ready.set(self.place.is_ended.get());
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut table = self.sockets.table.borrow_mut();
        table.places[self.number] = None;
        table.free.push(self.number);
    }
}
