//! What a log says that it holds is what it holds.

mod common;

use common::*;
use corelog_io::sim::Sim;
use corelog_storage::{Ack, Figures};

/// The figures that follow from the batches from number `first` on, and from the files.
fn wanted(sim: &Sim, model: &Model, first: usize) -> (usize, u64, u64, Option<u64>) {
    let kept = &model.batches[first..];
    let bytes = kept.iter().map(|(bytes, _)| bytes.len() as u64).sum();
    let messages = kept.iter().map(|(_, appended)| u64::from(appended.message_count)).sum();
    (logs(sim).len(), bytes, messages, model.end().checked_sub(1))
}

fn told(figures: Figures) -> (usize, u64, u64, Option<u64>) {
    let Figures { segments, bytes, messages, last_offset, .. } = figures;
    (segments, bytes, messages, last_offset)
}

#[test]
fn figures_follow_appends_rolls_trims_and_reopenings() {
    let sim = Sim::new(1);
    sim.run(async {
        let log = open(sim.platform(), small_segments()).await;
        let mut model = Model::default();
        assert_eq!(told(log.figures().await), (1, 0, 0, None));
        for _ in 0..45 {
            let bytes = batch(model.end(), &[30_000, 30_000]);
            let appended = append_wait(&log, &bytes, Ack::Appended).await;
            model.push(bytes, appended);
            // Rolls are under way at times: a segment more or less.
            let (_, bytes, messages, last) = told(log.figures().await);
            let (_, want_bytes, want_messages, want_last) = wanted(&sim, &model, 0);
            assert_eq!((bytes, messages, last), (want_bytes, want_messages, want_last));
        }
        log.flush(Ack::Durable).await.unwrap();
        assert_eq!(told(log.figures().await), wanted(&sim, &model, 0));
        log.close().await.unwrap();

        let log = open(sim.platform(), small_segments()).await;
        assert_eq!(told(log.figures().await), wanted(&sim, &model, 0));
        let segments = logs(&sim);
        assert_eq!(segments.len(), 3);
        let trimmed = log.trim(segments[1]).await.unwrap();
        let first = model.batches.iter().position(|(_, a)| a.base_offset == trimmed.start);
        assert_eq!(told(log.figures().await), wanted(&sim, &model, first.unwrap()));
        assert_eq!(logs(&sim), segments[1..]);
        log.close().await.unwrap();
    });
}

/// Polls end at what is durable there, and so does what is counted.
#[test]
fn what_polls_do_not_see_does_not_count() {
    let sim = Sim::new(2);
    sim.run(async {
        let config = corelog_storage::LogConfig { enforce_fsync: true, ..small_segments() };
        let log = open(sim.platform(), config).await;
        let bytes = batch(0, &[100, 100]);
        append_wait(&log, &bytes, Ack::Appended).await;
        let second = append(&log, &bytes, Ack::Appended);
        let marks = log.watermarks();
        assert_eq!((marks.durable(), marks.appended()), (2, 4));
        let len = 2 * bytes.len() as u64;
        assert_eq!(told(log.figures().await), (1, len, 2, Some(1)));
        log.flush(Ack::Durable).await.unwrap();
        assert!(second.ok().is_some());
        assert_eq!(told(log.figures().await), (1, len, 4, Some(3)));
        log.close().await.unwrap();
    });
}
