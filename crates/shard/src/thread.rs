//! What a thread is to the crossing: a shard's own, where nothing may block, or anyone's.

use std::cell::Cell;
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

thread_local! {
    static SHARDS: Cell<usize> = const { Cell::new(0) };
    static UNPARK: Waker = Waker::from(Arc::new(Unpark(thread::current())));
}

/// While it lives, its thread counts as a shard's own: blocking calls on it answer `OnShard`
/// instead of waiting for the shard that they keep from running.
///
/// [`crate::Shard::run`] holds one; a runtime takes one before it starts the shard, so that start
/// and shutdown are covered too.
#[derive(Debug)]
pub struct ShardThread {
    /// Counts on the thread that made it, so it must be dropped there.
    _local: PhantomData<*const ()>,
}

impl ShardThread {
    /// Marks the calling thread.
    #[must_use = "the mark ends when this is dropped"]
    pub fn enter() -> Self {
        SHARDS.with(|shards| shards.set(shards.get() + 1));
        ShardThread { _local: PhantomData }
    }

    /// True on a shard's own thread.
    pub fn is_current() -> bool {
        SHARDS.with(|shards| shards.get() > 0)
    }
}

impl Drop for ShardThread {
    fn drop(&mut self) {
        SHARDS.with(|shards| shards.set(shards.get() - 1));
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for `future` on this thread. The waker is made once a thread.
pub(crate) fn block_on<F: Future + Unpin>(mut future: F) -> F::Output {
    let waker = UNPARK.with(Waker::clone);
    let mut cx = Context::from_waker(&waker);
    loop {
        match std::pin::Pin::new(&mut future).poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_a_shards_own_while_a_mark_lives() {
        assert!(!ShardThread::is_current());
        let outer = ShardThread::enter();
        let inner = ShardThread::enter();
        drop(outer);
        assert!(ShardThread::is_current());
        thread::spawn(|| assert!(!ShardThread::is_current())).join().unwrap();
        drop(inner);
        assert!(!ShardThread::is_current());
    }
}
