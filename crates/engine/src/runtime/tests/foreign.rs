//! Tasks that other threads wake: such a thread may let go of the waker while the task ends.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Instant;

use corelog_io::{File, Open, Spawn};

use super::super::glommio::spawn::apart;
use super::*;

/// Tasks in a row. The moment that matters is a few instructions long: only the script
/// `scripts/foreign-wakes.sh`, which makes it longer, meets it for certain.
const TASKS: usize = 5_000;
/// The waking thread lets go so many turns of a spin after the task's last poll, at most.
const LATER: usize = 2048;

/// Every task is woken from outside and ends while that thread lets go of its waker, a little
/// earlier or later each time. A task that is freed twice shows as an abort of the test.
#[test]
fn a_task_ends_while_another_thread_lets_go_of_it() {
    on_shard("foreign_wakes", |platform, _| async move {
        let (hand, wakers) = mpsc::channel::<Waker>();
        // The number of the task that is being polled for the last time.
        let ending = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&ending);
        let gone = Arc::new(AtomicUsize::new(0));
        let let_go = Arc::clone(&gone);
        let outside = thread::spawn(move || {
            for (at, waker) in (1..).zip(wakers) {
                waker.wake_by_ref();
                while seen.load(Ordering::Acquire) < at {
                    thread::yield_now();
                }
                (0..at % LATER).for_each(|turn| _ = std::hint::black_box(turn));
                drop(waker);
                let_go.store(at, Ordering::Release);
            }
        });
        for at in 1..=TASKS {
            let (hand, ending) = (hand.clone(), Arc::clone(&ending));
            let mut handed = false;
            let task = poll_fn(move |cx| {
                if handed {
                    ending.store(at, Ordering::Release);
                    return Poll::Ready(at);
                }
                handed = true;
                hand.send(cx.waker().clone()).expect("the thread is there");
                Poll::Pending
            });
            assert_eq!(apart(task).await.expect("it ends"), at);
            // The next task would lie where this one lay, and hide what happens to it.
            while gone.load(Ordering::Acquire) < at {
                platform.spawn().yield_now().await;
            }
            platform.spawn().yield_now().await;
        }
        drop(hand);
        outside.join().expect("it ends with the last sender");
    });
}

/// The same by the operations of files that end on a file thread.
#[test]
fn file_operations_end_while_their_thread_lets_go_of_them() {
    const CREATE: Open =
        Open { write: true, create_new: true, dsync: false, lock: true, short: false };
    on_shard("foreign_files", |platform, dir| async move {
        for number in 0..50 {
            let path = dir.join(format!("file-{number}"));
            let file = platform.disk().open(&path, CREATE).await.expect("create");
            for _ in 0..20 {
                assert_eq!(file.len().await.expect("length"), 0);
                pause(&platform).await;
            }
            file.close().await.expect("close");
            pause(&platform).await;
        }
    });
}

/// Time for the file thread to let go, before the next task takes the same place.
async fn pause(platform: &RealPlatform) {
    let until = Instant::now() + Duration::from_micros(300);
    while Instant::now() < until {
        platform.spawn().yield_now().await;
    }
}
