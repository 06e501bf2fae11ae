//! A ring that is full: what waits for room, and who must not wait for those that do.

use std::cell::Cell;
use std::fs;
use std::future::poll_fn;
use std::io::Write;
use std::mem;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::mpsc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use super::{executor, in_time, reached, tiny};
use crate::runtime::ring::{
    Buffer, Executor, File, Options, local, readable, sleep, spawn, turn_to_io, yield_now,
};

fn pipe() -> (OwnedFd, fs::File) {
    let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
    (reader, writer.into())
}

/// Whether no descriptor of the pipe's other end is left.
fn is_alone(mut writer: &fs::File) -> bool {
    writer.write(&[1]).is_err_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Pends until another thread has woken it, which is when the loop sleeps or is about to.
async fn woken_from_elsewhere() {
    let (give, waker) = mpsc::channel::<Waker>();
    let thread = thread::spawn(move || {
        let waker = waker.recv().expect("it is given");
        thread::sleep(Duration::from_millis(50));
        waker.wake();
    });
    let mut was_polled = false;
    poll_fn(|cx| {
        if mem::replace(&mut was_polled, true) {
            return Poll::Ready(());
        }
        give.send(cx.waker().clone()).expect("the thread waits");
        Poll::Pending
    })
    .await;
    thread.join().expect("no panic");
}

#[test]
fn a_wake_from_elsewhere_arrives_when_the_first_turn_fills_the_ring() {
    // 2 entries, and no other way to be woken than the event.
    let options = Options { entries: 2, messages: false, ..Options::default() };
    let executor = Executor::new(options).expect("a ring");
    executor.run(in_time(async {
        let (reader, _writer) = pipe();
        let waits = [(); 2].map(|()| Box::pin(readable(reader.as_fd()).expect("it waits")));
        woken_from_elsewhere().await;
        drop(waits);
    }));
}

#[test]
fn no_operation_stays_behind_when_the_loop_sleeps() {
    tiny(0).run(async {
        let (silent, _writer) = pipe();
        let (ready, mut writer) = pipe();
        writer.write_all(&[1]).expect("it takes a byte");
        // Far more than the queue takes at once; none of the first ever ends.
        let waits: Vec<_> = (0..20).map(|_| readable(silent.as_fd()).expect("it waits")).collect();
        in_time(readable(ready.as_fd()).expect("it waits")).await;
        drop(waits);
    });
}

#[test]
fn waits_without_end_leave_room_for_others_and_can_be_given_up() {
    // The kernel gets 56 operations at a time.
    let executor = tiny(0);
    executor.run(in_time(async {
        let (silent, writer) = pipe();
        let mut waits: Vec<_> =
            (0..300).map(|_| readable(silent.as_fd()).expect("it waits")).collect();
        drop(silent);
        turn_to_io().await;
        let zeros = File::adopt(fs::File::open("/dev/zero").expect("it opens").into());
        let zeros = zeros.expect("adopted");
        for _ in 0..100 {
            let (count, _) = zeros.read_at(Buffer::alloc(4096), 0, 4096).await;
            assert_eq!(count.expect("it reads"), 4096);
        }
        // Their numbers go round, and no wait ends another.
        let (ready, mut ready_writer) = pipe();
        for _ in 0..10 {
            waits.truncate(150);
            waits.extend((0..150).map(|_| readable(ready.as_fd()).expect("it waits")));
            turn_to_io().await;
        }
        assert!(!is_alone(&writer), "150 of them wait");
        let left = waits.split_off(150);
        let ended = Rc::new(Cell::new(0));
        for wait in left {
            let ended = Rc::clone(&ended);
            spawn(async move {
                wait.await;
                ended.set(ended.get() + 1);
            });
        }
        for _ in 0..10 {
            turn_to_io().await;
        }
        assert_eq!(ended.get(), 0, "nothing was written");
        ready_writer.write_all(&[1]).expect("it takes a byte");
        reached(&ended, 150).await;
    }));
}

#[test]
fn waits_that_are_dropped_beyond_the_ring_keep_no_descriptor() {
    tiny(0).run(in_time(async {
        let (silent, writer) = pipe();
        let waits: Vec<_> = (0..300).map(|_| readable(silent.as_fd()).expect("it waits")).collect();
        drop(silent);
        turn_to_io().await;
        drop(waits);
        while !is_alone(&writer) {
            yield_now().await;
        }
    }));
}

#[test]
fn an_end_waits_for_no_wait() {
    let executor = executor();
    let (reader, writer) = pipe();
    executor.run(async {
        spawn(async move { readable(reader.as_fd()).expect("it waits").await });
        turn_to_io().await;
    });
    let begun = Instant::now();
    local::expect().drain(Duration::from_secs(60));
    assert!(begun.elapsed() < Duration::from_secs(30), "it has waited for what never comes");
    drop(executor);
    assert!(is_alone(&writer));
}

#[test]
fn who_sleeps_for_ages_costs_nothing() {
    let executor = executor();
    let before = executor.enters();
    executor.run(async {
        spawn(sleep(Duration::from_millis(u64::MAX)));
        woken_from_elsewhere().await;
    });
    let calls = executor.enters() - before;
    assert!(calls < 10, "{calls} calls while everybody slept");
}
