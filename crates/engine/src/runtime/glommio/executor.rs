//! An executor of glommio's: made, run, and left in the one order that is safe.

use std::future::Future;
use std::io;
use std::mem;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use corelog_io::{BLOCK, Spawn};
use glommio::io::{DmaFile, OpenOptions};
use glommio::{LocalExecutor, LocalExecutorBuilder, Placement, PoolPlacement};

use super::error::os_error;
use super::huge_pool;
use super::timers::Timers;
use super::watch::Heart;
use crate::runtime::handle::Adopter;
use crate::runtime::life::{Executor, Seat};
use crate::runtime::pages::{PoolPages, SmallBecause};
use crate::runtime::placement::Place;
use crate::runtime::spawn::RealSpawn;
use crate::runtime::start_error::StartError;

/// A task queue runs this long before the executor turns to I/O (stock: 100 ms, and a read waits
/// for two of them behind a busy task).
const PREEMPT_EVERY: Duration = Duration::from_micros(200);

/// A shard's executor of glommio's.
pub(in crate::runtime) struct Glommio {
    made: Made,
    pages: PoolPages,
    heart: Arc<Heart>,
}

/// An executor and what it is never without. Dropped from the top.
struct Made {
    /// None once the shard's files are made from it.
    template: Option<DmaFile>,
    executor: LocalExecutor,
    timers: Rc<Timers>,
}

impl Executor for Glommio {
    /// The executor, then the template file, which primes glommio's probe of the device. Huge pages
    /// last, while nothing is in flight.
    fn make(seat: &mut Seat) -> Result<Glommio, StartError> {
        let (made, address) = make(seat)?;
        let heart = Arc::clone(&seat.heart);
        if !seat.options.huge_pages {
            let pages = PoolPages::Small(SmallBecause::NotWanted);
            return Ok(Glommio { made, pages, heart });
        }
        match huge_pool::collapse(address, seat.options.io_memory) {
            Ok(pages) => Ok(Glommio { made, pages, heart }),
            Err(_) => {
                // The pool could not be registered again, but the executor relies on it: a new one.
                heart.leave();
                drop(made);
                let (made, _) = make(seat)?;
                let pages = PoolPages::Small(SmallBecause::NotRegistered);
                Ok(Glommio { made, pages, heart })
            }
        }
    }

    fn pages(&self) -> PoolPages {
        self.pages
    }

    fn adopter(&mut self) -> Adopter {
        Adopter::Glommio(self.made.template.take().expect("asked for once"))
    }

    fn run<T>(&self, main: impl Future<Output = T>) -> T {
        self.made.executor.run(main)
    }

    /// The executor is dropped before the timers that its rings read from.
    ///
    /// glommio leaks a task that still waits when its executor is dropped, with all that it holds: a
    /// buffer, and so the whole pool, or a partition, and so the shard.
    fn leave(self, adopter: Option<Adopter>, tasks: Option<&RealSpawn>) {
        let Glommio { made: Made { template: _, executor, timers }, heart, .. } = self;
        executor.run(async {
            if let Some(tasks) = tasks {
                tasks.end();
                timers.wake_all();
                tasks.yield_now().await;
            }
            close(adopter).await;
            timers.stop().await;
        });
        heart.leave();
        drop(executor);
    }

    fn lose(self) {
        self.heart.forget();
        mem::forget(self.made);
    }
}

/// An executor, and the address of one of its pool's buffers.
fn make(seat: &mut Seat) -> Result<(Made, usize), StartError> {
    let executor = match build(seat, seat.place) {
        // Topology files may be missing in a container; the shard runs unpinned then.
        Err(_) if seat.place != Place::Anywhere => {
            seat.place = Place::Anywhere;
            build(seat, Place::Anywhere)
        }
        other => other,
    }
    .map_err(StartError::Executor)?;
    let (path, heart) = (seat.template.clone(), Arc::clone(&seat.heart));
    let opened = executor.run(async move {
        let timers = Timers::start(heart)?;
        let template = OpenOptions::new().read(true).write(true).dma_open(path).await;
        let address = glommio::allocate_dma_buffer(BLOCK).as_ptr().addr();
        Ok((timers, template.map_err(os_error::<()>)?, address))
    });
    // The executor is dropped where it failed.
    let (timers, template, address) = opened.map_err(|error| {
        seat.heart.leave();
        StartError::Executor(error)
    })?;
    Ok((Made { template: Some(template), executor, timers }, address))
}

fn build(seat: &Seat, place: Place) -> io::Result<LocalExecutor> {
    let placement = match place {
        Place::Pinned(cpu) => Placement::Fixed(cpu),
        Place::Anywhere => Placement::Unbound,
    };
    LocalExecutorBuilder::new(placement)
        .name("corelog")
        .io_memory(seat.options.io_memory)
        .preempt_timer(PREEMPT_EVERY)
        .spin_before_park(seat.options.spin)
        .blocking_thread_pool_placement(PoolPlacement::Unbound(1))
        .make()
        .map_err(os_error)
}

/// Closes the template file. Dropping it leaves that to the executor, which may end first: then the
/// file stays open as long as the process, and its file system cannot be unmounted.
async fn close(adopter: Option<Adopter>) {
    if let Some(Adopter::Glommio(template)) = adopter {
        // It has no name and nothing in it; nobody can use the error.
        let _ = template.close().await;
    }
}
