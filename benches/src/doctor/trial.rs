//! The disk itself, tried: a raw ring's synced writes, and the engine's whole way of a batch.

use std::time::Duration;

use corelog::machine::Runtime;

use crate::ceiling::{Ceiling, CeilingError, Step};
use crate::content::{BatchId, Content, Outbox};
use crate::engine_load::Corelog;
use crate::interrupt::Interrupt;
use crate::outstanding::Outstanding;
use crate::place::Place;
use crate::subject::{Ack, Demand, Engine, EngineError, LogOptions, Opener, Topic};

/// Synced writes of the trial, by each method.
const WRITES: u32 = 50;
const BUDGET: Duration = Duration::from_secs(1);

/// How the trial ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Trial {
    pub(super) ring: Ring,
    /// The engine opened a directory, made a batch durable and read it back; else its words.
    pub(super) engine: Option<Result<(), String>>,
    /// The same on its other runtime.
    pub(super) on_ring: Option<Result<(), String>>,
}

/// What a raw ring could do.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Ring {
    #[default]
    NotTried,
    /// The file system refused O_DIRECT.
    NoDirectIo(String),
    /// Something else went wrong.
    Failed(String),
    /// It works, and a small write is durable in so many microseconds, by the better method.
    Works { synced_p50_us: f64, registered_buffers: bool },
}

impl Trial {
    /// Tries out the place. The engine is left out where the ring failed already: its error would
    /// be the same one in longer words.
    pub(super) fn run(place: &Place, interrupt: &Interrupt) -> Trial {
        let ring = match try_ring(place, interrupt) {
            Ok(works) => works,
            Err(error) if error.step == Step::OpenDirect => Ring::NoDirectIo(error.to_string()),
            Err(error) => Ring::Failed(error.to_string()),
        };
        let works = matches!(ring, Ring::Works { .. });
        let tried = |number, runtime| {
            let engine = || try_engine(place, number, runtime, interrupt);
            works.then(|| engine().map_err(|error| error.to_string()))
        };
        let (engine, on_ring) = (tried(0, Runtime::Glommio), tried(1, Runtime::Ring));
        Trial { ring, engine, on_ring }
    }
}

fn try_ring(place: &Place, interrupt: &Interrupt) -> Result<Ring, CeilingError> {
    use crate::ceiling::Shape;
    let failed = |error: crate::place::PlaceError| CeilingError {
        step: Step::OpenDirect,
        path: place.path().to_owned(),
        source: std::io::Error::other(error.to_string()),
    };
    let ceiling = Ceiling::new(place.ceiling_dir().map_err(failed)?, interrupt.clone());
    let synced = ceiling.synced_once(WRITES, BUDGET)?;
    let shape = Shape { block: 1 << 20, depth: 4, rings: 1 };
    let granted = ceiling.write_once(4 << 20, shape)?.granted;
    ceiling.remove_files(1)?;
    let synced_p50_us = synced.best().1.percentile_us(50.0);
    Ok(Ring::Works { synced_p50_us, registered_buffers: granted.registered_buffers })
}

fn try_engine(
    place: &Place,
    number: u32,
    runtime: Runtime,
    interrupt: &Interrupt,
) -> Result<(), EngineError> {
    let content = Content::new(1, 1, 100)?;
    let demand = Demand {
        runtime,
        shards: 1,
        partitions: 1,
        durable_partitions: 1,
        ack: Ack::Durable,
        log: LogOptions::default(),
        appends_in_flight: 1,
        bytes_in_flight: content.batch_len_max(),
        poll_bytes: 1 << 20,
        after_kill: false,
    };
    let engine = Corelog.open(&place.round_dir(number), demand, interrupt)?;
    let id = BatchId { round: 0, producer: 0, partition: 0, sequence: 0 };
    let batch = Outbox::new(&content).batch(id);
    let stopped = |_| EngineError::from("stopped");
    wait(interrupt, engine.append(Topic::Durable, 0, batch)).map_err(stopped)??;
    let records = wait(interrupt, engine.poll(Topic::Durable, 0, 0, 1 << 20, Duration::ZERO))
        .map_err(stopped)??;
    let bytes: usize = records.slices().iter().map(bytes::Bytes::len).sum();
    drop(records);
    engine.close()?;
    match bytes == content.batch_len_max() {
        true => Ok(()),
        false => Err(format!("{bytes} bytes of {} came back", content.batch_len_max()).into()),
    }
}

fn wait<F: Future>(
    interrupt: &Interrupt,
    future: F,
) -> Result<F::Output, crate::interrupt::Interrupted> {
    let mut outstanding = Outstanding::on_this_thread();
    if let Some((output, _)) = outstanding.push(std::time::Instant::now(), future) {
        return Ok(output);
    }
    Ok(outstanding.wait_any(interrupt)?.expect("one is in flight").0)
}
