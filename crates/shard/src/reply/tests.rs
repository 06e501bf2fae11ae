//! Each way a slot can go, and that its share of the limits always comes back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::thread;

use super::*;
use crate::PollError;

type Table = Replies<u32, PollError>;

/// Counts wakes.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn begin(table: &Arc<Table>) -> (Call<u32, PollError>, Reply<u32, PollError>) {
    table.begin(table.permit(None, 10).unwrap()).unwrap()
}

fn poll(call: &mut Call<u32, PollError>, waker: &Waker) -> Poll<Result<u32, PollError>> {
    Pin::new(call).poll(&mut Context::from_waker(waker))
}

/// The next slot taken; tells whether the one before came back.
fn next_slot(table: &Arc<Table>) -> u32 {
    let slot = table.slab.take().unwrap();
    table.slab.give(slot);
    slot
}

#[test]
fn an_answer_wakes_the_last_waker_once_and_frees_the_slot() {
    let table = Table::new(4, 100);
    let (mut call, reply) = begin(&table);
    let (first, last) = (Arc::new(Wakes::default()), Arc::new(Wakes::default()));
    assert!(poll(&mut call, &Waker::from(Arc::clone(&first))).is_pending());
    assert!(poll(&mut call, &Waker::from(Arc::clone(&last))).is_pending());
    assert_eq!(table.budget().in_flight(), (1, 10));
    reply.send(Ok(7));
    let wakes = |wakes: &Wakes| wakes.0.load(Ordering::Relaxed);
    assert_eq!((wakes(&first), wakes(&last)), (0, 1));
    assert_eq!(table.budget().in_flight(), (0, 0), "answered is not in flight, read or not");
    assert_eq!(next_slot(&table), 1, "not free before it was read");
    assert!(matches!(poll(&mut call, Waker::noop()), Poll::Ready(Ok(7))));
    assert_eq!(next_slot(&table), 0);
    assert_eq!(Arc::strong_count(&first), 1, "the waker that was replaced is dropped");
}

#[test]
fn a_dropped_call_keeps_its_slot_until_the_shard_is_done() {
    let table = Table::new(4, 100);
    let (call, reply) = begin(&table);
    drop(call);
    assert_eq!(table.budget().in_flight(), (1, 10), "the shard still works on it");
    assert_eq!(next_slot(&table), 1);
    reply.send(Ok(1));
    assert_eq!(table.budget().in_flight(), (0, 0));
    assert_eq!(next_slot(&table), 0);
}

/// Dropped before the answer, behind it, or with the request: thousands take the same few slots.
#[test]
fn dropped_calls_use_the_same_slots_again() {
    let table = Table::new(4, 100);
    let slots = table.slab.iter().count();
    for number in 0..9_000 {
        let (mut call, reply) = begin(&table);
        match number % 3 {
            0 => {
                let _ = poll(&mut call, Waker::noop());
                drop(call);
                reply.send(Ok(1));
            }
            1 => {
                reply.send(Ok(1));
                drop(call);
            }
            _ => drop((reply, call)),
        }
    }
    assert_eq!(table.slab.iter().count(), slots, "none was made anew");
    assert_eq!(table.budget().in_flight(), (0, 0));
}

#[test]
fn an_unread_answer_is_dropped_with_its_call() {
    let table: Arc<Replies<Arc<()>, PollError>> = Replies::new(4, 100);
    let (call, reply) = table.begin(table.permit(None, 0).unwrap()).unwrap();
    let value = Arc::new(());
    reply.send(Ok(Arc::clone(&value)));
    assert_eq!(Arc::strong_count(&value), 2);
    drop(call);
    assert_eq!(Arc::strong_count(&value), 1);
    assert_eq!(table.slab.take(), Some(0));
}

#[test]
fn a_reply_that_is_dropped_answers_closed() {
    let table = Table::new(4, 100);
    let (call, reply) = begin(&table);
    drop(reply);
    assert!(matches!(call.wait(), Err(PollError::Closed)));
}

#[test]
fn fail_all_answers_everyone_and_nobody_comes_after() {
    let table = Table::new(4, 100);
    let (mut read, late) = begin(&table);
    let (unread, never) = begin(&table);
    let (abandoned, _kept) = begin(&table);
    let permit = table.permit(None, 10).unwrap();
    drop(abandoned);
    let wakes = Arc::new(Wakes::default());
    assert!(poll(&mut read, &Waker::from(Arc::clone(&wakes))).is_pending());
    table.fail_all();
    table.fail_all();
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert_eq!(table.budget().in_flight(), (1, 10), "only the permit that has no slot yet");
    assert!(matches!(table.begin(permit), Err(Unavailable::Closed)));
    assert!(matches!(table.permit(None, 10), Err(Unavailable::Closed)));
    assert_eq!(table.budget().in_flight(), (0, 0));
    assert!(matches!(poll(&mut read, Waker::noop()), Poll::Ready(Err(PollError::Closed))));
    drop(read);
    late.send(Ok(1));
    assert!(matches!(unread.wait(), Err(PollError::Closed)));
    // What a leaked executor holds is never dropped; the answer has been given all the same.
    mem::forget(never);
}

#[test]
fn requests_over_the_limit_are_busy_until_answers_come() {
    let table = Table::new(2, 100);
    let (first, first_reply) = begin(&table);
    let (_second, _second_reply) = begin(&table);
    assert!(matches!(table.permit(None, 0), Err(Unavailable::Busy)));
    first_reply.send(Ok(1));
    assert!(table.permit(None, 0).is_ok(), "an answer that waits to be read blocks nobody");
    assert!(matches!(first.wait(), Ok(1)));
}

#[test]
fn a_refused_call_answers_at_once() {
    let call: Call<u32, PollError> = Call::refused(PollError::Busy);
    assert!(matches!(call.refusal(), Some(PollError::Busy)));
    assert!(matches!(call.wait(), Err(PollError::Busy)));
}

#[test]
fn waiting_on_a_shards_thread_is_an_error_not_a_deadlock() {
    let table = Table::new(2, 100);
    let (call, reply) = begin(&table);
    let mark = ShardThread::enter();
    assert!(matches!(call.wait(), Err(PollError::OnShard)));
    drop(mark);
    reply.send(Ok(1));
    assert_eq!(table.budget().in_flight(), (0, 0));
}

/// Threads answer, wait and drop at once: every answer arrives, every slot comes back.
#[test]
fn threads_cross_by_the_hundred_thousand() {
    let table = Table::new(64, 1 << 20);
    let (send, receive) = crossbeam_channel::bounded::<Reply<u32, PollError>>(16);
    thread::scope(|scope| {
        for _ in 0..2 {
            let receive = receive.clone();
            scope.spawn(move || {
                for reply in receive {
                    let slot = reply.slot;
                    reply.send(Ok(slot));
                }
            });
        }
        for client in 0..3 {
            let (table, send) = (&table, send.clone());
            scope.spawn(move || {
                for n in 0..40_000 {
                    let (call, reply) = begin(table);
                    let slot = reply.slot;
                    send.send(reply).unwrap();
                    match (n + client) % 4 {
                        0 => drop(call),
                        _ => assert_eq!(call.wait().unwrap(), slot, "someone else's answer"),
                    }
                }
            });
        }
        drop(send);
    });
    assert_eq!(table.budget().in_flight(), (0, 0));
    assert_eq!(table.slab.iter().count(), 64, "the table did not grow");
}
