//! An answer that panics: nobody else's answer is lost, and the partition still comes to its end.

mod common;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use common::*;
use corelog_io::sim::{Fault, Sim};
use corelog_io::{Clock, IoOp, Platform, Spawn};
use corelog_storage::{Ack, AdmittedBatch, AppendError, CloseError, Shared, SharedLimits};

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

/// An assertion of ours fails in the step behind `op`. Whoever waits is told, a close comes to its
/// end, and the next life has what was durable.
fn a_step_panics(what: &str, op: IoOp, nth: u64, work: impl FnOnce(&Part)) {
    let sim = Sim::new(65);
    sim.run(async {
        let log = open_part(&sim).await;
        send_plain(&log, 0, Ack::Durable);
        log.flush(Ack::Durable).await.unwrap();
        let fault = sim.disk().inject(Fault::panic().of(op).on(".log").from_nth(nth));
        work(&log);
        sim.clock().sleep(Duration::from_secs(1)).await;
        assert_eq!((sim.disk().hits(fault), sim.take_panics().len()), (1, 1), "{what}");
        assert!(log.fault().is_some(), "{what}");
        let late = send_plain(&log, 9, Ack::Appended).get().expect("answered at once");
        assert!(matches!(late, Err(AppendError::Poisoned(_))), "{what}: {late:?}");
        let (partition, closed) = (log.clone(), Rc::new(Cell::new(false)));
        let done = Rc::clone(&closed);
        sim.platform().spawn().spawn(async move {
            done.set(matches!(partition.close().await, Err(CloseError::Poisoned(_))));
        });
        sim.clock().sleep(Duration::from_secs(60)).await;
        assert!(closed.get(), "{what}: the close never ends");
        assert_eq!(sim.disk().open_files(), 0, "{what}");
        let again = open_part(&sim).await;
        assert!(again.watermarks().durable() >= 1, "{what}");
        again.close().await.unwrap();
    });
}

#[test]
fn a_panic_inside_of_a_step_holds_up_no_close() {
    let full = |log: &Part| {
        let full = AdmittedBatch::admit(batch(1, &[1 << 20])).unwrap();
        log.append(full, Ack::Written, Slot::Plain(Reply::default()));
    };
    a_step_panics("a sync", IoOp::Sync, 1, |log| drop(send_plain(log, 1, Ack::Durable)));
    a_step_panics("an allocation", IoOp::Allocate, 1, full);
    let roll = |log: &Part| {
        full(log);
        send_plain(log, 2, Ack::Written);
    };
    a_step_panics("the cut of a roll", IoOp::SetLen, 1, roll);
    a_step_panics("the sync of a roll", IoOp::Sync, 1, roll);
    a_step_panics("the next segment's file", IoOp::Open, 1, roll);
}

/// It fails inside of the close: that one is answered, and the files are let go.
#[test]
fn a_panic_inside_of_a_close_is_answered() {
    for op in [IoOp::SetLen, IoOp::Sync, IoOp::Close] {
        let sim = Sim::new(66);
        sim.run(async {
            let log = open_part(&sim).await;
            let kept = send_plain(&log, 0, Ack::Durable);
            log.flush(Ack::Durable).await.unwrap();
            assert!(kept.ok().is_some());
            sim.disk().inject(Fault::panic().of(op).on(".log"));
            let error = log.close().await.unwrap_err();
            assert!(matches!(error, CloseError::Poisoned(_)), "{op:?}: {error}");
            assert_eq!(sim.take_panics().len(), 1, "{op:?}");
            assert_eq!(sim.disk().open_files(), 0, "{op:?}: a lock would keep the next life out");
            assert!(matches!(log.close().await, Err(CloseError::Closed)));
            let (log, _) = log.reopen().await.unwrap();
            assert_eq!(log.watermarks().durable(), 1, "{op:?}");
            log.close().await.unwrap();
        });
    }
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
