//! Waits for descriptors that are none of the engine's files.

use std::os::fd::{AsFd, OwnedFd};
use std::task::Poll;
use std::time::Instant;

use corelog_io::Clock;
use rustix::event::{PollFd, PollFlags};
use rustix::pipe::pipe;

use super::*;

async fn is_pending(wait: &mut (impl Future<Output = ()> + Unpin)) -> bool {
    std::future::poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut *wait).poll(cx).is_pending()))
        .await
}

/// Whether no descriptor of the pipe's other end is left.
fn is_alone(write: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(write, PollFlags::OUT)];
    rustix::event::poll(&mut fds, Some(&Default::default())).unwrap();
    fds[0].revents().contains(PollFlags::ERR)
}

#[test]
fn a_wait_ends_when_there_is_something_to_read_and_not_before() {
    on_shard("readable", |platform, _| async move {
        let (read, write) = pipe().unwrap();
        let mut wait = Box::pin(platform.spawn().readable(read.as_fd()).unwrap());
        for _ in 0..10 {
            assert!(is_pending(&mut wait).await);
            platform.clock().sleep(Duration::from_millis(1)).await;
        }
        let writer = std::thread::spawn(move || {
            rustix::io::write(&write, b"x").unwrap();
            write
        });
        wait.await;
        // What is there already ends it as well, and so does the end of the pipe.
        platform.spawn().readable(read.as_fd()).unwrap().await;
        drop(writer.join().unwrap());
        assert_eq!(rustix::io::read(&read, &mut [0; 8]).unwrap(), 1);
        platform.spawn().readable(read.as_fd()).unwrap().await;
    });
}

#[test]
fn waits_that_are_dropped_keep_no_descriptor() {
    on_shard("readable_dropped", |platform, _| async move {
        let (read, write) = pipe().unwrap();
        let mut waits = Vec::new();
        for number in 0..300 {
            waits.push(Box::pin(platform.spawn().readable(read.as_fd()).unwrap()));
            if number % 2 == 0 {
                assert!(is_pending(&mut waits[number]).await);
            }
        }
        platform.clock().sleep(Duration::from_millis(1)).await;
        drop(read);
        assert!(!is_alone(&write), "the waits have descriptors of their own");
        waits.truncate(150);
        drop(waits);
        let begun = Instant::now();
        while !is_alone(&write) {
            assert!(begun.elapsed() < Duration::from_secs(60), "a descriptor is kept");
            platform.clock().sleep(Duration::from_millis(1)).await;
        }
    });
}
