//! Cases of buffers, [`Clock`] and [`Spawn`].

use std::future::poll_fn;
use std::pin::pin;

use super::*;

pub(super) async fn buffers_are_aligned_and_apart<P: Platform>(case: Case<P>) {
    let mut held = Vec::new();
    for blocks in [1, 2, 3, 16, 64, 1, 5] {
        let buf = case.buffer(blocks);
        assert_eq!(buf.as_ref().len(), blocks * BLOCK);
        let address = buf.as_ref().as_ptr().addr();
        assert!(address.is_multiple_of(BLOCK), "{blocks} blocks at {address:#x}");
        held.push(buf);
    }
    for (i, buf) in held.iter_mut().enumerate() {
        buf.as_mut().fill(i as u8);
    }
    for (i, buf) in held.iter().enumerate() {
        assert!(buf.as_ref().iter().all(|b| *b == i as u8), "buffer {i} shares memory");
    }
    let file = case.file("a", 2, 1).await;
    let read = file.read_at(0, 2 * BLOCK).await.expect("read");
    assert!(read.as_ref().as_ptr().addr().is_multiple_of(BLOCK), "what was read is aligned, too");
    file.close().await.expect("close");
}

pub(super) async fn freeze_keeps_exactly_that_many<P: Platform>(case: Case<P>) {
    for kept in [0, 1, 3, 4] {
        let mut buf = case.buffer(4);
        for (i, block) in buf.as_mut().chunks_exact_mut(BLOCK).enumerate() {
            block.fill(i as u8 + 1);
        }
        let address = buf.as_ref().as_ptr().addr();
        let bytes = buf.freeze(kept * BLOCK);
        assert_eq!(bytes.as_ref().len(), kept * BLOCK);
        let clone = bytes.clone();
        drop(bytes);
        for (i, block) in clone.as_ref().chunks_exact(BLOCK).enumerate() {
            assert_eq!(block, [i as u8 + 1; BLOCK]);
        }
        if kept != 0 {
            assert_eq!(clone.as_ref().as_ptr().addr(), address, "frozen, not copied");
        }
    }
    // A frozen buffer can be written more than once, and read while it is written.
    let file = case.create("a").await;
    let bytes = case.filled(2, 9);
    file.write_at(bytes.clone(), 0).await.expect("write");
    file.write_at(bytes.clone(), 2 * BLOCK as u64).await.expect("write again");
    assert_eq!(file.read_at(0, 4 * BLOCK).await.expect("read").as_ref(), [9; 4 * BLOCK]);
    assert_eq!(bytes.as_ref(), [9; 2 * BLOCK]);
    file.close().await.expect("close");
}

pub(super) async fn sleep_takes_its_time<P: Platform>(case: Case<P>) {
    let clock = case.platform.clock();
    // 2020-01-01: microseconds since the Unix epoch, and no other unit or epoch.
    assert!(clock.now_us() > 1_577_836_800_000_000, "{} us", clock.now_us());
    assert!(clock.now_us() < 4_102_444_800_000_000, "{} us is beyond 2100", clock.now_us());
    for duration in [Duration::ZERO, Duration::from_micros(300), Duration::from_millis(20)] {
        let began = clock.now_us();
        clock.sleep(duration).await;
        let slept = clock.now_us().saturating_sub(began);
        assert!(slept >= duration.as_micros() as u64, "{duration:?}: slept {slept} us");
        let late = SOON.as_micros() as u64;
        assert!(slept < late, "{duration:?}: slept {slept} us");
    }
    // A long timer holds no short one up, and may be dropped, begun or not.
    drop(clock.sleep(Duration::from_secs(3600)));
    let began = clock.now_us();
    let mut long = pin!(clock.sleep(Duration::from_secs(3600)));
    let over = poll_fn(|cx| Poll::Ready(long.as_mut().poll(cx).is_ready())).await;
    assert!(!over, "an hour in no time");
    clock.sleep(Duration::from_millis(1)).await;
    assert!(clock.now_us() - began < SOON.as_micros() as u64);
}

pub(super) async fn the_ceiling_never_falls<P: Platform>(case: Case<P>) {
    let clock = case.platform.clock();
    let mut last = clock.ceiling_us();
    for _ in 0..20 {
        clock.sleep(Duration::from_millis(2)).await;
        let ceiling = clock.ceiling_us();
        assert!(ceiling >= last, "{ceiling} after {last}");
        last = ceiling;
    }
}

pub(super) async fn spawned_tasks_run_detached<P: Platform>(case: Case<P>) {
    let ran = Rc::new(Cell::new(0));
    let (outer, spawn) = (Rc::clone(&ran), case.platform.spawn().clone());
    case.platform.spawn().spawn(async move {
        let inner = Rc::clone(&outer);
        spawn.spawn(async move { inner.set(inner.get() + 1) });
        spawn.yield_now().await;
        outer.set(outer.get() + 1);
    });
    case.soon("a task and the task it spawned", || ran.get() == 2).await;
    case.soon("what a task holds goes with it", || Rc::strong_count(&ran) == 1).await;
}

pub(super) async fn a_panic_ends_its_task_alone<P: Platform>(case: Case<P>) {
    let held = Rc::new(());
    let in_task = Rc::clone(&held);
    let clock = case.platform.clock().clone();
    case.platform.spawn().spawn(async move {
        clock.sleep(Duration::from_millis(1)).await;
        let _held = in_task;
        panic!("the contract suite panics in a task on purpose");
    });
    case.soon("the task's destructors", || Rc::strong_count(&held) == 1).await;
    // The thread lives: I/O, timers and new tasks as before.
    let file = case.file("a", 1, 1).await;
    assert_eq!(file.read_at(0, BLOCK).await.expect("read").as_ref(), [1; BLOCK]);
    file.close().await.expect("close");
    let answers = case.all(vec![async { 7 }]).await;
    assert_eq!(answers, [7]);
}

pub(super) async fn yielding_lets_tasks_and_io_run<P: Platform>(case: Case<P>) {
    let file = case.create("a").await;
    let bytes = case.filled(1, 1);
    let done = Rc::new(Cell::new(None));
    let told = Rc::clone(&done);
    case.platform.spawn().spawn(async move { told.set(Some(file.write_at(bytes, 0).await)) });
    let (clock, spawn) = (case.platform.clock(), case.platform.spawn());
    let began = clock.now_us();
    let answer = loop {
        // No sleep here: the loop is always ready to run, and must not starve the write.
        spawn.yield_now().await;
        if let Some(answer) = done.take() {
            break answer;
        }
        assert!(clock.now_us() - began < SOON.as_micros() as u64, "the write never ended");
    };
    answer.expect("write");
}
