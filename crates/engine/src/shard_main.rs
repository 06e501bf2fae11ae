//! What runs on a shard's thread: its partitions, the embedder's tasks, and their end in order.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use corelog_io::{Platform, Spawn};
use corelog_shard::{Seat, Shard, ShardThread};

use crate::context::{Lender, ShardContext};
use crate::control::Panics;
use crate::guests::{Door, Guests};
use crate::limits::Limits;
use crate::observe::Watcher;
use crate::runtime::{RealPlatform, ShardMain};

/// The main function of all shards: shard `n` takes seat `n` and the door `n`.
pub(crate) fn main(
    seats: Vec<Seat>,
    doors: Arc<[Door]>,
    limits: &Limits,
    panics: &Arc<Panics>,
) -> ShardMain {
    let seats: Vec<_> = seats.into_iter().map(|seat| Mutex::new(Some(seat))).collect();
    let (limits, panics) = (limits.clone(), Arc::clone(panics));
    Arc::new(move |index, platform| {
        let seat = seats[index].lock().unwrap_or_else(PoisonError::into_inner).take();
        let seat = seat.expect("the runtime calls main once for each shard");
        let (doors, panics) = (Arc::clone(&doors), Arc::clone(&panics));
        let life = live(index, seat, platform, doors, limits.clone(), panics);
        Box::pin(life) as Pin<Box<dyn Future<Output = ()>>>
    })
}

async fn live(
    index: usize,
    seat: Seat,
    platform: RealPlatform,
    doors: Arc<[Door]>,
    limits: Limits,
    panics: Arc<Panics>,
) {
    let _mark = ShardThread::enter();
    // However this ends, nobody waits at the door for ever.
    let _closed = CloseDoor { doors: Arc::clone(&doors), index };
    let lender = Lender { disk: platform.disk().clone() };
    let spawn = platform.spawn().clone();
    let watcher = Rc::new(Watcher::new(Rc::clone(platform.disk().meter()), panics));
    let shard = Shard::observed(seat, platform, lender, limits.shared(), watcher);
    let guests = Guests::default();
    let context = shard.context(&limits.client());
    let porter = {
        let (doors, guests) = (Arc::clone(&doors), guests.clone());
        async move {
            while let Some(job) = doors[index].next().await {
                let context = ShardContext::new(context.clone(), guests.clone());
                let host = context.clone();
                // The job makes its future inside of the task: a panic of either is the task's.
                host.spawn(async move { job(context).await });
            }
        }
    };
    spawn.spawn(guests.hosted(porter));
    shard.run().await;
    doors[index].close();
    guests.leave().await;
}

struct CloseDoor {
    doors: Arc<[Door]>,
    index: usize,
}

impl Drop for CloseDoor {
    fn drop(&mut self) {
        self.doors[self.index].close();
    }
}
