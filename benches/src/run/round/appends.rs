//! Producers, the consumers that follow them, and the ceiling of both.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::{Outcome, Runner, State, uninterrupted};
use crate::account::{Meter, Used};
use crate::pairs::pair;
use crate::phases::follow::{self, Follow, From};
use crate::phases::moved::Moved;
use crate::phases::produce::{self, Go, Load, SendTimes};
use crate::run_error::RunError;
use crate::stats::mb_per_s;
use crate::subject::{Engine, Opener, Topic};

/// Appends that a producer on a schedule has outstanding at most.
const OPEN_APPENDS: usize = 1024;

/// Bytes of them, of all producers together.
const OPEN_BYTES: usize = 256 << 20;

/// What the appends and those who followed them moved.
struct Appended {
    append: Moved,
    tail: Option<Moved>,
    catch_up: Option<Moved>,
    used: Used,
}

impl<O: Opener> Runner<'_, O> {
    /// Producers, the consumers that follow them, and the ceiling of both.
    pub(super) fn append(
        &self,
        state: &mut State<O::Engine>,
        outcome: &mut Outcome,
    ) -> Result<(), RunError> {
        let settings = self.settings;
        if settings.catch_up > 0 {
            // What is caught up with comes from the disk: written before, and the engine reopened.
            self.open(state)?;
            let load = Load { period: None, time: None, warm_up: Duration::ZERO, ..self.load() };
            let stage = self.stage(state.number, &self.content);
            let engine = state.engine.as_ref().expect("opened above");
            produce::run(engine, stage, load, &Go::new(&load), None, &mut state.sent)?;
            self.close(state)?;
            self.interrupt.check()?;
        }
        self.open(state)?;
        let shape = settings.shape;
        let (wrote, appended) = pair(
            self.place,
            state.number,
            || {
                uninterrupted(match settings.catch_up {
                    0 => self.ceiling.write_once(self.ceiling_bytes, shape).map(|one| (one, None)),
                    _ => {
                        let both = self.ceiling.mixed_once(self.ceiling_bytes, shape);
                        both.map(|(wrote, read)| (wrote, Some(read)))
                    }
                })
            },
            || self.produce_and_follow(state),
        )?;
        let Appended { append, tail, catch_up, used } = appended;
        if let Some((wrote, _)) = &wrote {
            outcome.granted = Some(wrote.granted);
        }
        let written = wrote.as_ref().map(|(wrote, _)| mb_per_s(wrote.bytes, wrote.elapsed));
        let read = wrote.and_then(|(_, read)| read).map(|read| mb_per_s(read.bytes, read.elapsed));
        let is_short = settings.duration.is_some_and(|time| append.elapsed() < time / 2);
        if is_short && !self.interrupt.is_raised() {
            outcome.notes.push(format!(
                "round {}: the disk had no more room, the appends ended after {:.1} s",
                state.number,
                append.elapsed().as_secs_f64()
            ));
        }
        self.add(outcome, "append", (append, used.clone()), written);
        for (name, moved, ceiling) in [("tail", tail, written), ("catch_up", catch_up, read)] {
            if let Some(moved) = moved {
                self.add(outcome, name, (moved, used.clone()), ceiling);
            }
        }
        Ok(())
    }

    fn produce_and_follow(&self, state: &mut State<O::Engine>) -> Result<Appended, RunError> {
        let State { number, engine, sent, .. } = state;
        let engine = engine.as_ref().expect("opened before");
        let stage = self.stage(*number, &self.content);
        let load = self.load();
        let (go, times, is_over) = (Go::new(&load), SendTimes::default(), AtomicBool::new(false));
        let before = sent.clone();
        let follow = |from, consumers| Follow {
            from,
            consumers,
            partitions: self.settings.partitions,
            before: &before,
            go: &go,
            times: &times,
            is_over: &is_over,
        };
        let (tail, catch_up) = (self.settings.tail, self.settings.catch_up);
        let syncs_before = engine.syncs();
        let meter = Meter::start(self.place.path());
        let (append, tail, catch_up) = thread::scope(|scope| {
            let followers = [(From::End, tail), (From::Start, catch_up)].map(|(from, count)| {
                let follow = follow(from, count);
                (count > 0).then(|| scope.spawn(move || follow::run(engine, stage, follow)))
            });
            let noted = (tail > 0).then_some(&times);
            let append = produce::run(engine, stage, load, &go, noted, sent);
            is_over.store(true, Ordering::Release);
            let [tail, catch_up] = followers.map(|one| match one {
                Some(thread) => thread.join().expect("a consumer panicked"),
                None => Ok(None),
            });
            Ok::<_, RunError>((append?, tail?, catch_up?))
        })?;
        let used = meter.stop().with_engine_syncs(syncs_before, engine.syncs());
        Ok(Appended { append, tail, catch_up, used })
    }

    fn load(&self) -> Load<'_> {
        let settings = self.settings;
        let per_producer = |batches_per_s: f64| {
            Duration::from_secs_f64(f64::from(settings.producers) / batches_per_s)
        };
        Load {
            topic: Topic::Written,
            first_partition: 0,
            plan: &self.plan,
            in_flight: self.in_flight(),
            period: self.batches_per_s.map(per_producer),
            time: settings.duration.map(|time| settings.warm_up + time),
            warm_up: settings.warm_up,
            on_answer: None,
        }
    }

    /// Appends that a producer may have outstanding. On a schedule as many as memory allows: the
    /// schedule decides, not the answers.
    pub(super) fn in_flight(&self) -> usize {
        let given = usize::from(self.settings.in_flight);
        if self.batches_per_s.is_none() {
            return given;
        }
        let each = OPEN_BYTES / usize::from(self.settings.producers);
        (each / self.content.batch_len_max().max(1)).clamp(given, OPEN_APPENDS.max(given))
    }
}
