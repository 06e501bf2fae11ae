//! A life in which everything happens that replaces or removes files - rolls, indexes made again, a
//! trim, a close - ends at each of its operations: nothing that was answered is missing.

mod common;

use std::cell::{Cell, RefCell};
use std::time::Duration;

use common::*;
use corelog_io::Clock;
use corelog_io::sim::{Fault, Image, Rng, Sim};
use corelog_storage::{Ack, From, LogConfig, SharedLimits};

fn config(preallocate_segments: bool) -> LogConfig {
    LogConfig { index_step: 16 << 10, preallocate_segments, ..small_segments() }
}

/// Three sealed segments and a part of a fourth, closed, one of the indexes lost.
fn before() -> (Image, Model) {
    let sim = Sim::new(1);
    let model = sim.run(filled(sim.platform(), config(false), &[300_000; 14]));
    sim.disk().delete(index_file(logs(&sim)[1])).unwrap();
    (sim.disk().image_of_power_cut(1), model)
}

/// The life. `start` is what trims have answered.
async fn live(sim: &Sim, preallocate: bool, model: &RefCell<Model>, start: &Cell<u64>) {
    let limits = SharedLimits { cache_bytes: 0, ..SharedLimits::default() };
    let opened = open_limited(sim.platform(), config(preallocate), limits).await;
    let (log, _) = opened.unwrap();
    let segments = logs(sim);
    // Nothing leads there: the index is made again beside what follows.
    poll(&log, From::Offset(segments[2] - 1), 1, 1).await.unwrap();
    for tag in 100..108 {
        let bytes = batch(tag, &[300_000]);
        let appended = append_wait(&log, &bytes, Ack::Durable).await;
        model.borrow_mut().push(bytes, appended);
    }
    start.set(log.trim(segments[1]).await.unwrap().start);
    sim.clock().sleep(Duration::from_secs(2)).await;
    log.close().await.unwrap();
}

#[test]
fn nothing_that_was_answered_is_missing_wherever_the_life_ends() {
    let (image, old) = before();
    for preallocate in [false, true] {
        let mut moved = [false; 2];
        for step in 1.. {
            let mut is_over = true;
            for power in [false, true] {
                let what = format!("step {step}, power {power}, preallocate {preallocate}");
                let sim = Sim::from_image(step, &image);
                let (model, start) = (RefCell::new(old.clone()), Cell::new(0));
                let halt = sim.disk().inject(Fault::halt().from_nth(step));
                let life = live(&sim, preallocate, &model, &start);
                is_over &= sim.run_until_halt(u64::MAX >> 1, life).is_some();
                sim.disk().lift(halt);
                match power {
                    true => sim.disk().power_cut(step),
                    false => sim.disk().process_kill(step),
                }
                let model = model.into_inner();
                let now = check(&sim, model, start.get(), &what);
                moved[usize::from(now > 0)] = true;
            }
            if is_over {
                assert!(step > 60, "{step} operations");
                break;
            }
        }
        assert_eq!(moved, [true, true], "the trim was undone and done");
    }
}

/// Everything from the start on is there, once and in order, and appends go on; gives the start.
fn check(sim: &Sim, mut model: Model, start: u64, what: &str) -> u64 {
    let mut first = 0;
    for round in 0..2 {
        sim.run(async {
            let (log, report) = try_open(sim.platform(), config(false)).await.unwrap();
            assert_eq!(report.damage, [], "{what}");
            first = log.watermarks().start();
            assert!(first >= start, "{what}: an answered trim is not taken back");
            model.batches.retain(|(_, appended)| appended.base_offset >= first);
            assert_eq!(model.batches[0].1.base_offset, first, "{what}");
            let end = log.watermarks().appended();
            assert!((model.end()..=model.end() + 1).contains(&end), "{what}: {end}");
            model.take_in(&log).await;
            model.check_all(&log, &mut Rng::new(round)).await;
            let bytes = batch(900 + round, &[70]);
            model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Durable).await);
            model.check_all(&log, &mut Rng::new(round)).await;
            log.close().await.unwrap();
        });
        let temporary = sim.disk().files().into_iter().filter(|path| name(path).ends_with("tmp"));
        assert_eq!(temporary.count(), 0, "{what}: nothing half made is left");
    }
    first
}
