//! Producers, the consumers that follow them, and the ceiling of both.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::{Begin, Outcome, Runner, State, ring_rate, uninterrupted};
use crate::phases::follow::{self, Follow, From};
use crate::phases::moved::Moved;
use crate::phases::produce::{self, Go, Load, SendTimes};
use crate::phases::schedule::Schedule;
use crate::plan::Sent;
use crate::run_error::RunError;
use crate::stats::mb_per_s;
use crate::subject::{Opener, Topic};

/// How long after the end of a timed phase what was due in it is still sent.
const LATE: Duration = Duration::from_secs(10);

/// Appends that a producer on a schedule has outstanding at most.
const OPEN_APPENDS: usize = 1024;

/// Bytes of them, of all producers together.
const OPEN_BYTES: usize = 256 << 20;

/// What the appends and those who followed them moved.
struct Appended {
    append: Moved,
    tail: Option<Moved>,
    catch_up: Option<Moved>,
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
            let load = Load { schedule: None, time: None, warm_up: Duration::ZERO, ..self.load() };
            let stage = self.stage(state.number, &self.content);
            let engine = state.engine.as_ref().expect("opened above");
            produce::run(engine, stage, load, &Go::new(&load), None, &mut state.sent)?;
            self.close(state)?;
            self.interrupt.check()?;
        }
        self.open(state)?;
        let shape = settings.shape;
        let (wrote, appended) = self.beside(
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
            || {
                let State { number, engine, sent, .. } = state;
                let engine = engine.as_ref().expect("opened before");
                self.measured(Some(engine), |begin| {
                    self.produce_and_follow(engine, *number, sent, begin)
                })
            },
        )?;
        let (Appended { append, tail, catch_up }, used) = appended;
        if let Some((wrote, _)) = wrote.first() {
            outcome.granted = Some(wrote.granted);
        }
        let written: Vec<_> =
            wrote.iter().map(|(one, _)| mb_per_s(one.bytes, one.elapsed)).collect();
        let reads = wrote.iter().filter_map(|(_, read)| read.as_ref());
        let read: Vec<_> = reads.map(|one| mb_per_s(one.bytes, one.elapsed)).collect();
        let written = ring_rate("append", &written, &mut outcome.notes);
        let read = ring_rate("catch_up", &read, &mut outcome.notes);
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

    fn produce_and_follow(
        &self,
        engine: &O::Engine,
        round: u32,
        sent: &mut Sent,
        begin: Begin<'_>,
    ) -> Result<Appended, RunError> {
        let stage = self.stage(round, &self.content);
        let load = Load { on_begin: Some(begin), ..self.load() };
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
        thread::scope(|scope| {
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
            Ok(Appended { append: append?, tail: tail?, catch_up: catch_up? })
        })
    }

    fn load(&self) -> Load<'_> {
        let settings = self.settings;
        let schedule = |per_s| Schedule {
            per_s,
            arrivals: settings.arrivals,
            burst: settings.burst,
            seed: settings.seed,
            late: LATE,
        };
        Load {
            topic: Topic::Written,
            first_partition: 0,
            plan: &self.plan,
            in_flight: self.in_flight(),
            schedule: self.batches_per_s.map(schedule),
            time: settings.duration.map(|time| settings.warm_up + time),
            warm_up: settings.warm_up,
            on_begin: None,
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
