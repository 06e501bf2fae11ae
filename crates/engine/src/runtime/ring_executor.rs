//! An executor of our own: see `ring`.

use std::future::Future;
use std::mem;

use super::affinity;
use super::handle::Adopter;
use super::life::{Executor, Seat};
use super::pages::{PoolPages, SmallBecause};
use super::placement::Place;
use super::ring;
use super::spawn::RealSpawn;
use super::start_error::StartError;

/// A shard's executor of the ring runtime.
pub(super) struct Ring {
    executor: ring::Executor,
}

impl Executor for Ring {
    fn make(seat: &mut Seat) -> Result<Ring, StartError> {
        if let Place::Pinned(cpu) = seat.place
            && affinity::pin_to(cpu).is_err()
        {
            // The CPU may have gone; the shard runs unpinned then.
            seat.place = Place::Anywhere;
        }
        // As on glommio: who shares its CPU with others does not keep it from them.
        let is_alone = seat.place != Place::Anywhere;
        let spin = seat.options.spin;
        let options = ring::Options {
            pool: seat.options.io_memory,
            huge_pages: seat.options.huge_pages,
            spin: (is_alone && !spin.is_zero()).then_some(spin),
            anticipate: is_alone && spin.is_zero() && seat.options.anticipate,
            ..ring::Options::default()
        };
        let executor = ring::Executor::new(options).map_err(StartError::Executor)?;
        Ok(Ring { executor })
    }

    fn pages(&self) -> PoolPages {
        match self.executor.unregistered() {
            Some(_) => PoolPages::Small(SmallBecause::NotRegistered),
            None => self.executor.pages(),
        }
    }

    fn adopter(&mut self) -> Adopter {
        Adopter::Ring
    }

    fn run<T>(&self, main: impl Future<Output = T>) -> T {
        self.executor.run(main)
    }

    fn leave(self, _adopter: Option<Adopter>, tasks: Option<&RealSpawn>) {
        if let Some(tasks) = tasks {
            tasks.end();
        }
        // Its tasks are dropped with it, whatever they wait for.
        drop(self.executor);
    }

    fn lose(self) {
        mem::forget(self.executor);
    }
}
