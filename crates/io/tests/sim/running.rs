//! The executor: virtual time, seeded order, deadlocks, panics, lives.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use corelog_io::sim::{self, Fault, Sim, errno};
use corelog_io::{BLOCK, Clock, Disk, File, IoOp, Platform, Spawn};

use super::{create, durable_file, filled, poll_once};

/// The text of the panic that `body` must end with.
fn panic_of(body: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(body)).expect_err("no panic");
    payload.downcast_ref::<String>().expect("a text").clone()
}

#[test]
fn a_day_is_simulated_not_slept() {
    let began = Instant::now();
    sim::run(1, async |platform: sim::SimPlatform| {
        let before = platform.clock().now_us();
        for _ in 0..24 {
            platform.clock().sleep(Duration::from_secs(3600)).await;
        }
        let slept = platform.clock().now_us() - before;
        assert!((86_400_000_000..86_400_001_000).contains(&slept), "{slept} us");
    });
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn the_order_of_tasks_and_completions_is_seeded() {
    let order = |seed: u64| {
        sim::run(seed, async |platform: sim::SimPlatform| {
            let seen = Rc::new(RefCell::new(Vec::new()));
            let file = Rc::new(create(platform.disk(), "/a").await);
            for at in 0..6u8 {
                let (seen, file, disk) =
                    (Rc::clone(&seen), Rc::clone(&file), platform.disk().clone());
                platform.spawn().spawn(async move {
                    let at_byte = u64::from(at) * BLOCK as u64;
                    file.write_at(filled(&disk, 1, at), at_byte).await.expect("write");
                    seen.borrow_mut().push(at);
                });
            }
            while seen.borrow().len() < 6 {
                // A loop of yields must not starve the completions it waits for.
                platform.spawn().yield_now().await;
            }
            seen.take()
        })
    };
    let orders: BTreeSet<Vec<u8>> = (0..20).map(order).collect();
    assert!(orders.len() > 10, "20 seeds gave {} orders", orders.len());
    assert_eq!(order(5), order(5));
}

#[test]
fn which_ready_task_goes_next_is_seeded() {
    let order = |seed: u64| {
        sim::run(seed, async |platform: sim::SimPlatform| {
            let seen = Rc::new(RefCell::new(Vec::new()));
            for task in 0..5u8 {
                let (seen, spawn) = (Rc::clone(&seen), platform.spawn().clone());
                platform.spawn().spawn(async move {
                    spawn.yield_now().await;
                    seen.borrow_mut().push(task);
                });
            }
            while seen.borrow().len() < 5 {
                platform.spawn().yield_now().await;
            }
            seen.take()
        })
    };
    let orders: BTreeSet<Vec<u8>> = (0..20).map(order).collect();
    assert!(orders.len() > 10, "20 seeds gave {} orders", orders.len());
}

#[test]
fn a_deadlock_is_found_and_lists_what_waits() {
    let said = panic_of(|| {
        sim::run(9, async |platform: sim::SimPlatform| {
            platform.spawn().spawn(pending());
            let file = create(platform.disk(), "/stuck.log").await;
            platform.disk().inject(Fault::stall().of(IoOp::Sync));
            let _ = file.sync().await;
        });
    });
    assert!(said.contains("seed 9: deadlock"), "{said}");
    assert!(said.contains("running.rs"), "names the place of the spawn: {said}");
    assert!(said.contains("Sync of /stuck.log, stalled by a fault"), "{said}");
}

#[test]
fn a_dropped_timer_does_not_move_time() {
    let said = panic_of(|| {
        sim::run(1, async |platform: sim::SimPlatform| {
            {
                let mut day = pin!(platform.clock().sleep(Duration::from_secs(86_400)));
                assert!(poll_once(day.as_mut()).await.is_none());
            }
            pending::<()>().await;
        });
    });
    assert!(said.contains("virtual time 1 us, 1 polls, 0 timers"), "{said}");
}

#[test]
fn an_endless_run_is_halted_and_says_so() {
    let sim = Sim::new(1);
    let ended = sim.run_until_halt(1000, async {
        loop {
            sim.platform().spawn().yield_now().await;
        }
    });
    let none: Option<()> = ended;
    assert!(none.is_none());
    assert_eq!(sim.steps(), 1000);
    assert_eq!(sim.run_until_halt(1000, async { 7 }), Some(7));
}

#[test]
fn a_panic_of_a_task_is_reported_and_ends_nothing_else() {
    let sim = Sim::new(1);
    let other_ran = Rc::new(Cell::new(false));
    let ran = Rc::clone(&other_ran);
    let said = panic_of(|| {
        sim.run(async {
            sim.platform().spawn().spawn(async { panic!("as the test wants") });
            sim.platform().clock().sleep(Duration::from_millis(1)).await;
            sim.platform().spawn().spawn(async move { ran.set(true) });
            sim.platform().clock().sleep(Duration::from_millis(1)).await;
        });
    });
    assert!(other_ran.get());
    assert!(said.contains("running.rs") && said.contains("panicked: as the test wants"), "{said}");
    // Told once, or taken by who provoked it.
    sim.run(async {
        sim.platform().spawn().spawn(async { panic!("again") });
        sim.platform().spawn().yield_now().await;
        sim.platform().clock().sleep(Duration::from_millis(1)).await;
        assert_eq!(sim.take_panics()[0].message, "again");
    });
}

#[test]
fn a_caught_breach_of_contract_is_reported_all_the_same() {
    let said = panic_of(|| {
        sim::run(1, async |platform: sim::SimPlatform| {
            let _ = catch_unwind(AssertUnwindSafe(|| platform.disk().alloc(1)));
        });
    });
    assert!(said.contains("alloc(1)"), "{said}");
}

#[test]
fn tasks_end_with_their_life_and_the_harness_goes_on() {
    for power in [true, false] {
        let sim = Sim::new(2);
        let (program, harness) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let count = |counter: &Rc<Cell<u32>>| {
            let (counter, clock) = (Rc::clone(counter), sim.clock().clone());
            async move {
                loop {
                    clock.sleep(Duration::from_millis(1)).await;
                    counter.set(counter.get() + 1);
                }
            }
        };
        sim.run(async {
            let spawn = sim.platform().spawn();
            spawn.spawn(count(&program));
            spawn.harness().spawn(count(&harness));
            sim.clock().sleep(Duration::from_millis(10)).await;
            let before = program.get();
            assert!(before > 5);
            match power {
                true => sim.disk().power_cut(1),
                false => sim.disk().process_kill(1),
            }
            assert_eq!(Rc::strong_count(&program), 1, "the task was dropped");
            sim.clock().sleep(Duration::from_millis(10)).await;
            assert_eq!(program.get(), before);
            assert!(harness.get() > before + 5);
        });
    }
}

#[test]
fn a_task_that_cuts_the_power_is_dropped_by_it() {
    let sim = Sim::new(2);
    let reached = Rc::new(Cell::new(0));
    sim.run(async {
        let (disk, spawn, seen) =
            (sim.disk().clone(), sim.platform().spawn().clone(), Rc::clone(&reached));
        sim.platform().spawn().spawn(async move {
            disk.power_cut(1);
            seen.set(1);
            spawn.yield_now().await;
            seen.set(2);
        });
        sim.clock().sleep(Duration::from_millis(1)).await;
    });
    assert_eq!((reached.get(), Rc::strong_count(&reached)), (1, 1));
}

#[test]
fn a_halt_stops_at_the_operation_and_the_next_life_sees_its_traces() {
    let sim = Sim::new(4);
    for nth in 1..=3 {
        sim.disk().inject(Fault::halt().of(IoOp::Write).from_nth(nth));
        let path = format!("/{nth}");
        let ended = sim.run_until_halt(u64::MAX, async {
            let file = durable_file(sim.disk(), &path, 1, 1).await;
            for at in 1..5 {
                file.write_at(filled(sim.disk(), 1, 1), at * BLOCK as u64).await.expect("write");
                file.sync().await.expect("sync");
            }
        });
        assert!(ended.is_none());
        sim.disk().power_cut(nth);
        let whole = sim.disk().contents(&path).map_or(0, |bytes| bytes.len() / BLOCK) as u64;
        assert!(whole == nth - 1 || whole == nth, "halted at write {nth}, {whole} blocks");
    }
}

#[test]
fn the_clock_steps_and_the_next_life_begins_at_the_ceiling() {
    let sim = Sim::new(1);
    let clock = sim.clock();
    let before = clock.now_us();
    clock.step(-5_000_000);
    assert_eq!(clock.now_us(), before - 5_000_000);
    let ceiling = clock.ceiling_us();
    assert!(ceiling > clock.now_us());
    clock.hold_ceiling(true);
    clock.step(60_000_000);
    assert_eq!(clock.ceiling_us(), ceiling, "held");
    clock.hold_ceiling(false);
    let ceiling = clock.ceiling_us();
    assert!(ceiling > clock.now_us(), "raised again");
    sim.disk().power_cut(1);
    assert!(clock.now_us() >= ceiling, "no time below the promise");
    clock.step(-600_000_000);
    assert!(clock.now_us() >= ceiling, "not even when the clock is set back");
}

#[test]
fn two_runs_of_one_seed_are_the_same_run() {
    let trace = |seed| {
        let sim = Sim::new(seed);
        sim.disk().inject(Fault::fail(errno::EIO).of(IoOp::Write).from_nth(7));
        sim.run(async {
            let file = Rc::new(create(sim.disk(), "/a").await);
            for at in 0..10u64 {
                let (file, disk) = (Rc::clone(&file), sim.disk().clone());
                sim.platform().spawn().spawn(async move {
                    let _ = file.write_at(filled(&disk, 2, 1), at * 2 * BLOCK as u64).await;
                    let _ = file.sync().await;
                });
            }
            sim.clock().sleep(Duration::from_secs(1)).await;
        });
        (sim.disk().trace(), sim.steps(), sim.disk().contents("/a").expect("there"))
    };
    assert!(trace(11) == trace(11));
    assert!(trace(11) != trace(12));
}
