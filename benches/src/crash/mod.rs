//! Another process appends and is killed: what it was answered for must be there.
//!
//! The child (`child`) says on its standard output which batches were answered; this process kills
//! it (`appender`), opens what it left, and reads every byte of it (`check`). Contents come from the
//! seed, so the child need not say what it sent. A kill takes what was in memory; it does not take
//! what the device was given, so this is about `written`. Power cuts are `corelog-powercut`'s.

mod appender;
mod check;
mod child;
mod report;

use std::path::Path;
use std::time::Instant;

use crate::content::Content;
use crate::engine_load::Corelog;
use crate::interrupt::Interrupt;
use crate::latency::Latency;
use crate::live::Live;
use crate::phases::Stage;
use crate::place::Place;
use crate::plan::Sent;
use crate::rng::Rng;
use crate::run::{Ended, Settings};
use crate::run_error::RunError;
use crate::subject::{Demand, Engine, Opener};

pub(crate) use self::appender::{Appender, Killed};
pub(crate) use self::check::check;
pub(crate) use self::child::{ChildArgs, append_until_killed};

/// Disk space beyond the data.
const SPACE_SLACK_BYTES: u64 = 256 << 20;

/// What the killed processes left.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Processes that were killed and whose data was checked.
    pub(crate) lives: u32,
    /// Batches that were answered, of all of them.
    pub(crate) acked: u64,
    /// Batches that are there and were not answered: they may be.
    pub(crate) beyond: u64,
    /// All that was read and compared.
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// Opening after each kill.
    pub(crate) opening: Latency,
    pub(crate) ended: Ended,
}

/// Kills `lives` processes that append up to `batches` batches each, and checks after each kill.
/// `note` is called as each begins, with its number from 0.
pub(crate) fn run(
    settings: &Settings,
    lives: u32,
    batches: u64,
    place: &Place,
    interrupt: &Interrupt,
    note: &mut dyn FnMut(u32),
) -> Result<Outcome, RunError> {
    let content = Content::of(settings.seed, &settings.sizes)?;
    let data = batches.saturating_mul(content.batch_len_mean()).saturating_mul(u64::from(lives));
    let lower = Some("--lives, --batches");
    place.need_space(data.saturating_add(SPACE_SLACK_BYTES), lower)?;
    let dir = place.round_dir(0);
    let demand = settings.demand(&content, usize::from(settings.in_flight));
    // Creates the topics; the child finds them.
    open(&dir, demand.clone(), interrupt)?.close().map_err(closing)?;
    let mut outcome = Outcome {
        lives: 0,
        acked: 0,
        beyond: 0,
        messages: 0,
        bytes: 0,
        opening: Latency::default(),
        ended: Ended::Complete,
    };
    let mut rng = Rng::new(settings.seed);
    let mut sent = Sent::nothing(settings.producers, settings.partitions);
    let (poll_bytes, unwatched) = (settings.poll_bytes, Live::default());
    let stage = Stage { content: &content, round: 0, poll_bytes, interrupt, live: &unwatched };
    for life in 0..lives {
        note(life);
        let after = rng.draw_in(1, batches.max(1) + 1);
        let appender = Appender { settings, data: &dir, round: 0, batches, kill_after: after };
        match live(&appender, &demand, stage, &sent, &mut outcome) {
            // What was checked until then counts.
            Err(error) if error.is_interrupt() => {
                outcome.ended = Ended::Interrupted;
                break;
            }
            found => sent = found?,
        }
    }
    Ok(outcome)
}

/// One process: runs it behind what was `sent`, kills it, and reads what it left. What is there now.
fn live(
    appender: &Appender<'_>,
    demand: &Demand,
    stage: Stage<'_>,
    sent: &Sent,
    outcome: &mut Outcome,
) -> Result<Sent, RunError> {
    let Killed { acked } = appender.run_and_kill(sent, stage.interrupt)?;
    let start = Instant::now();
    let demand = Demand { after_kill: true, ..demand.clone() };
    let engine = open(appender.data, demand, stage.interrupt)?;
    let opening = start.elapsed();
    let found = check(&engine, stage, &acked, appender.settings.partitions)?;
    engine.close().map_err(closing)?;
    outcome.lives += 1;
    outcome.opening.record(opening);
    outcome.acked += acked.total() - sent.total();
    outcome.beyond += found.sent.total() - acked.total();
    outcome.messages += found.messages;
    outcome.bytes += found.bytes;
    Ok(found.sent)
}

fn open(
    dir: &Path,
    demand: Demand,
    interrupt: &Interrupt,
) -> Result<<Corelog as Opener>::Engine, RunError> {
    Corelog.open(dir, demand, interrupt).map_err(|source| RunError::opening(dir, source))
}

fn closing(source: crate::subject::EngineError) -> RunError {
    RunError::Engine { doing: "closing the engine".to_owned(), source }
}
