//! Those who do things in a life, each a task of its own with a generator of its own: producers,
//! readers, consumers that store offsets, an operator a partition, and one who makes things go wrong.

mod consumer;
mod operator;
mod producer;
mod reader;
mod wrongdoer;

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use corelog_io::sim::Rng;
use corelog_io::{Platform, Spawn};

use crate::opening::Engine;
use crate::world::World;

pub(crate) use consumer::key;
pub(crate) use operator::reopen;
pub(crate) use producer::settle;
pub(crate) use reader::read_all;
pub(crate) use wrongdoer::{right_again, spoil_opening};

/// The actors of one life that are not done.
#[derive(Clone, Default)]
pub(crate) struct Cast {
    acting: Rc<Cell<usize>>,
}

impl Cast {
    /// Begins all actors of a life.
    pub(crate) fn begin(world: &Rc<World>, engine: &Rc<Engine>, rng: &mut Rng) -> Self {
        let cast = Cast::default();
        for partition in 0..world.parts.len() {
            let params = world.params.partition(partition);
            for number in 0..params.producers {
                let (of, rng) = (Rc::clone(world), rng.fork());
                cast.act(world, producer::produce(of, partition, number, cast.clone(), rng));
            }
            for _ in 0..params.readers {
                cast.act(world, reader::read(Rc::clone(world), partition, rng.fork()));
            }
            for number in 0..params.consumers {
                let of = Rc::clone(world);
                cast.act(world, consumer::consume(of, partition, number, rng.fork()));
            }
            let (of, engine) = (Rc::clone(world), Rc::clone(engine));
            cast.act(world, operator::operate(of, engine, partition, rng.fork()));
        }
        cast.act(world, wrongdoer::do_wrong(Rc::clone(world), rng.fork()));
        cast
    }

    /// Spawns a task that the end of the life waits for.
    pub(crate) fn act(&self, world: &World, actor: impl Future<Output = ()> + 'static) {
        self.acting.set(self.acting.get() + 1);
        let acting = Rc::clone(&self.acting);
        world.platform().spawn().spawn(async move {
            actor.await;
            acting.set(acting.get() - 1);
        });
    }

    /// How many are not done.
    pub(crate) fn acting(&self) -> usize {
        self.acting.get()
    }
}
