//! An answer that panics: nobody else's answer is lost, and the partition still comes to its end.

mod common;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use common::*;
use corelog_io::sim::{Fault, Sim};
use corelog_io::{Clock, IoOp, Platform, Spawn};
use corelog_storage::{Ack, AdmittedBatch, AppendError, Shared, SharedLimits};

async fn open_part(sim: &Sim) -> Part {
    let shared = Shared::new(sim.platform().clone(), SharedLimits::default());
    Part::open(shared, place(), small_segments()).await.expect("the partition opens").0
}

fn send(log: &Part, tag: u64, ack: Ack, slot: Slot) {
    log.append(AdmittedBatch::admit(batch(tag, &[100])).unwrap(), ack, slot);
}

fn send_plain(log: &Part, tag: u64, ack: Ack) -> Reply {
    let reply = Reply::default();
    send(log, tag, ack, Slot::Plain(reply.clone()));
    reply
}

/// One write answers four; the second answer panics in the write's task. What was due behind it is
/// given all the same, in order, and who waited for more is told of the fault.
#[test]
fn answers_behind_one_that_panics_are_given() {
    let sim = Sim::new(61);
    sim.run(async {
        let log = open_part(&sim).await;
        // The first write is on its way, and what comes meanwhile shares the second.
        send_plain(&log, 0, Ack::Written);
        let before = send_plain(&log, 1, Ack::Written);
        send(&log, 2, Ack::Written, Slot::Armed);
        let behind = [send_plain(&log, 3, Ack::Written), send_plain(&log, 4, Ack::Written)];
        let durable = send_plain(&log, 5, Ack::Durable);
        sim.clock().sleep(Duration::from_secs(1)).await;
        assert_eq!(sim.take_panics().len(), 1);
        assert!(before.ok().is_some());
        for reply in &behind {
            assert!(reply.ok().is_some(), "it was written: {:?}", reply.get());
        }
        assert!(matches!(durable.get(), Some(Err(AppendError::Poisoned(_)))));
        assert!(log.close().await.is_err());
    });
}

/// Where the panic comes out of `append` it is the caller's, and the partition goes on.
#[test]
fn a_panic_in_the_call_itself_is_the_callers() {
    let sim = Sim::new(62);
    sim.run(async {
        let log = open_part(&sim).await;
        send_plain(&log, 0, Ack::Appended);
        log.flush(Ack::Written).await.unwrap();
        let called = || send(&log, 1, Ack::Appended, Slot::Armed);
        assert!(catch_unwind(AssertUnwindSafe(called)).is_err(), "answered within the call");
        log.flush(Ack::Durable).await.unwrap();
        assert!(log.fault().is_none() && log.watermarks().durable() == 2);
        log.close().await.unwrap();
    });
}

/// The append that waited for the next segment panics where it is answered: no step of the roll
/// stays under way, for which a close would wait without end.
#[test]
fn a_panic_behind_a_roll_holds_up_no_close() {
    let sim = Sim::new(64);
    sim.run(async {
        let log = open_part(&sim).await;
        let full = AdmittedBatch::admit(batch(0, &[1 << 20])).unwrap();
        log.append(full, Ack::Written, Slot::Plain(Reply::default()));
        log.flush(Ack::Written).await.unwrap();
        send(&log, 1, Ack::Appended, Slot::Armed);
        sim.clock().sleep(Duration::from_secs(1)).await;
        assert_eq!(sim.take_panics().len(), 1);
        assert_eq!(logs(&sim).len(), 2, "it was behind the roll");
        assert!(log.fault().is_some());
        let (partition, closed) = (log.clone(), Rc::new(Cell::new(false)));
        let done = Rc::clone(&closed);
        sim.platform().spawn().spawn(async move { done.set(partition.close().await.is_err()) });
        sim.clock().sleep(Duration::from_secs(60)).await;
        assert!(closed.get());
    });
}

/// A thread that unwinds for a reason of its own drops its tasks with their writes on their way: no
/// answer is called from inside of that, where a second panic would end the process.
#[test]
fn nobody_is_called_from_inside_of_a_panic() {
    let sim = Sim::new(63);
    sim.run(async {
        let log = open_part(&sim).await;
        send_plain(&log, 0, Ack::Written);
        log.flush(Ack::Written).await.unwrap();
        sim.disk().inject(Fault::stall().of(IoOp::Write).times(1));
        send(&log, 1, Ack::Written, Slot::Armed);
        sim.clock().sleep(Duration::from_millis(1)).await;
    });
    let ended = catch_unwind(AssertUnwindSafe(move || {
        let _sim = sim;
        panic!("a bug of the host's");
    }));
    assert!(ended.is_err());
}
