//! What is demanded of an engine that nobody asks for anything: caches within their budgets, space
//! given back, and retention done.

use corelog_io::{BLOCK, Clock, Platform};

use crate::mischief;
use crate::opening::Engine;
use crate::probes::Probe;
use crate::world::World;

/// Longer than three passes of a shard's retention, and than any `flush_after`.
const IDLE_US: u64 = 3_000_000;
/// A pass that takes longer than this is late.
const PASS_US: u64 = 1_500_000;

/// Waits until everything has come to rest, and looks.
pub(crate) async fn judge(world: &World, engine: &Engine) {
    world.sleep_us(IDLE_US).await;
    memory(world, engine).await;
    for partition in 0..world.parts.len() {
        front(world, partition).await;
    }
    space(world).await;
}

async fn memory(world: &World, engine: &Engine) {
    let Some(cached) = engine.cached_bytes().await else { return };
    let (buffers, read) = (world.sim.disk().buffers(), world.sim.disk().read_bytes_held());
    let caches = world.params.limits.cache_bytes * (world.params.shards + 1);
    if cached > caches || read > caches {
        world.fail(format!("idle, but the caches of {caches} bytes hold {cached}, reads {read}"));
    }
    if buffers.peak() + BLOCK > world.params.pool_bytes {
        world.hit(Probe::PoolEmpty);
    }
}

/// What retention lets go has gone, and no file lies below the start.
async fn front(world: &World, partition: usize) {
    let Some(door) = world.door(partition) else { return };
    let part = &world.parts[partition];
    let rule = world.params.partition(partition).retention;
    let known = part.oracle.borrow().known_end();
    if !rule.keeps_all() {
        part.oracle.borrow_mut().start_rests();
    }
    let mut passes = 0;
    while let Some(result) = door.retain(rule).await
        && result.is_ok_and(|trimmed| trimmed.segments > 0)
        && passes < 100
    {
        part.oracle.borrow_mut().rule_is(rule);
        passes += 1;
    }
    let Some(marks) = door.watermarks().await else { return };
    if !world.judge_marks(partition, marks, known) {
        return;
    }
    let told = part.ruled.get() || passes > 0;
    let segments = mischief::segments(world, partition);
    // What lies behind the end is made ahead of need.
    let mut segments: Vec<_> =
        segments.into_iter().filter(|(first, _)| *first <= marks.appended()).collect();
    if !world.allowed.borrow().has_errors()
        && segments.first().is_some_and(|(first, _)| *first != marks.start())
    {
        world.fail(format!(
            "partition {partition} begins at {}, but its files are {segments:?}",
            marks.start()
        ));
    }
    // What could not be removed stays until the next opening.
    segments.retain(|(first, _)| *first >= marks.start());
    let now_us = world.platform().clock().now_us().saturating_sub(PASS_US);
    if told && let Some(first) = part.oracle.borrow().overdue(&segments, now_us) {
        world.fail(format!(
            "partition {partition}: segment {first} should have gone by {rule:?}, of {segments:?}"
        ));
    }
}

/// The disk keeps nothing that has no name: handles of what is gone are closed.
async fn space(world: &World) {
    let disk = world.sim.disk();
    let (used, named) = (disk.used(), disk.named_bytes());
    if used != named {
        world.fail(format!("idle, and {used} bytes are taken, but files have only {named}"));
    }
}
