//! Tests of the ring's executor.

mod io;
mod room;
mod tasks;
mod timers;
mod wakes;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use super::{Executor, Options};

fn executor() -> Executor {
    Executor::new(Options::default()).expect("the tests need io_uring")
}

/// An executor with a ring of the smallest size, a pool of `pool` bytes and one place for a file.
fn tiny(pool: usize) -> Executor {
    let options = Options { entries: 2, pool, files: 1, ..Options::default() };
    Executor::new(options).expect("the tests need io_uring")
}

/// Runs `main`, which is to end within a minute.
fn run<T>(main: impl Future<Output = T>) -> T {
    executor().run(in_time(main))
}

async fn in_time<T>(main: impl Future<Output = T>) -> T {
    let mut main = std::pin::pin!(main);
    let mut patience = std::pin::pin!(super::sleep(Duration::from_secs(60)));
    poll_fn(|cx| {
        assert!(patience.as_mut().poll(cx).is_pending(), "it takes more than a minute");
        main.as_mut().poll(cx)
    })
    .await
}

/// Ends when `count` has reached `wanted`; counts are looked at in each turn.
async fn reached(count: &Rc<Cell<usize>>, wanted: usize) {
    while count.get() < wanted {
        super::yield_now().await;
    }
}

/// Polls `future` once, and answers whether it has ended.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> bool {
    poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut *future).poll(cx).is_ready())).await
}

/// Until `until`, or for a while: whatever another thread is to do.
fn wait_until(until: impl Fn() -> bool) {
    let start = Instant::now();
    while !until() {
        assert!(start.elapsed() < Duration::from_secs(60), "it takes more than a minute");
        std::thread::yield_now();
    }
}
