//! The mailbox under real threads: nothing lost, nothing reordered, no sleep without a wake.

use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use super::{Refused, mailbox};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs `future` on this thread, parking between polls.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

/// Messages a test sends; a soak run asks for more.
fn messages() -> u64 {
    std::env::var("CORELOG_MAILBOX_MESSAGES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000)
}

#[test]
fn a_full_mailbox_gives_the_message_back() {
    let (sender, receiver) = mailbox(2);
    sender.try_send(1).unwrap();
    assert!(!sender.is_full());
    sender.try_send(2).unwrap();
    assert!(sender.is_full());
    assert!(matches!(sender.try_send(3), Err(Refused::Full(3))));
    assert_eq!(receiver.pop(), Some(1));
    sender.try_send(4).unwrap();
    assert_eq!((receiver.pop(), receiver.pop(), receiver.pop()), (Some(2), Some(4), None));
}

#[test]
fn a_mailbox_without_its_shard_is_closed() {
    let (sender, receiver) = mailbox(4);
    sender.try_send(1).unwrap();
    drop(receiver);
    assert!(matches!(sender.try_send(2), Err(Refused::Closed(2))));
}

/// One message at a time, there and back: every message meets a receiver that is about to park,
/// which is where a wake gets lost. A lost one hangs this test.
#[test]
fn ping_pong_by_the_million_loses_no_wake() {
    let rounds = messages() / 4;
    let (ping, pings) = mailbox(1);
    let (pong, pongs) = mailbox(1);
    let echo = thread::spawn(move || {
        block_on(async move {
            for _ in 0..rounds {
                pings.ready_or(|| false).await;
                pong.try_send(pings.pop().unwrap()).unwrap();
            }
        });
    });
    block_on(async move {
        for n in 0..rounds {
            ping.try_send(n).unwrap();
            pongs.ready_or(|| false).await;
            assert_eq!(pongs.pop(), Some(n));
        }
    });
    echo.join().unwrap();
}

/// Bursts from several threads into a small mailbox: each thread's messages arrive in its order.
#[test]
fn bursts_by_the_million_keep_each_senders_order() {
    const SENDERS: u64 = 3;
    let each = messages() / SENDERS;
    let (sender, receiver) = mailbox(64);
    let sender = Arc::new(sender);
    let threads: Vec<_> = (0..SENDERS)
        .map(|who| {
            let sender = Arc::clone(&sender);
            thread::spawn(move || {
                for n in 0..each {
                    let mut message = (who, n);
                    while let Err(Refused::Full(back)) = sender.try_send(message) {
                        message = back;
                        thread::yield_now();
                    }
                }
            })
        })
        .collect();
    let mut next = [0; SENDERS as usize];
    block_on(async {
        for _ in 0..each * SENDERS {
            receiver.ready_or(|| false).await;
            let (who, n) = receiver.pop().expect("ready promised a message");
            assert_eq!(n, next[who as usize], "sender {who} was reordered");
            next[who as usize] += 1;
        }
    });
    assert_eq!(receiver.pop(), None);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(next, [each; SENDERS as usize]);
}
