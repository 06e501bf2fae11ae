//! Opening and closing partitions, by whichever way, and telling the oracle.

use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

use corelog_io::{Clock, IoOp, Platform, Spawn, align_down};
use corelog_shard::{Client, CopyOut, PartitionId, Shard, ShardContext, Shards};
use corelog_storage::{OpenDamage, OpenReport, Place, Shared};

use crate::door::{Cause, Control, Door, Log, not_closed, not_opened, not_reopened, refused};
use crate::mischief;
use crate::params::Way;
use crate::probes::Probe;
use crate::purge::move_away;
use crate::world::World;

/// What one life's partitions stand on.
pub(crate) struct Engine {
    /// For the partitions without a shard.
    shared: Shared<corelog_io::sim::SimPlatform>,
    shards: Shards,
    client: Client,
    contexts: Vec<ShardContext<corelog_io::sim::SimPlatform, CopyOut>>,
}

/// A partition is being opened, until this is dropped.
struct Opening<'a>(&'a Cell<bool>);

impl<'a> Opening<'a> {
    fn begin(world: &'a World, partition: usize) -> Self {
        let opening = &world.parts[partition].opening;
        opening.set(true);
        Opening(opening)
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// Where a partition lives.
pub(crate) fn dir_of(partition: usize) -> PathBuf {
    PathBuf::from(format!("/streams/0/topics/{partition}/partitions/{partition}"))
}

fn place(world: &World, partition: usize) -> Place {
    Place {
        root: PathBuf::from("/"),
        dir: dir_of(partition),
        partition_id: partition as u32,
        incarnation: world.parts[partition].incarnation.get(),
    }
}

fn id(partition: usize) -> PartitionId {
    PartitionId::new(0, partition as u32, partition as u32)
}

impl Engine {
    /// Begins a life: the shards run.
    pub(crate) fn start(world: &World) -> Rc<Self> {
        world.parts.iter().for_each(|part| part.ruled.set(false));
        let (params, platform) = (&world.params, world.platform());
        let (shards, seats) = Shards::new(params.shards, &params.shard_limits);
        let mut contexts = Vec::new();
        for seat in seats {
            let shard = Shard::new(seat, platform.clone(), CopyOut, params.limits.clone());
            contexts.push(shard.context(&params.client_limits));
            platform.spawn().spawn(shard.run());
        }
        Rc::new(Engine {
            shared: Shared::new(platform.clone(), params.limits.clone()),
            client: shards.client(&params.client_limits),
            shards,
            contexts,
        })
    }

    /// Bytes that the caches keep; `None` where a shard is too busy to say.
    pub(crate) async fn cached_bytes(&self) -> Option<usize> {
        let mut bytes = self.shared.cached_bytes();
        for index in 0..self.shards.count() {
            bytes += self.shards.stats(index).await.ok()?.cached_bytes;
        }
        Some(bytes)
    }

    /// Opens a partition and holds what it says against what is owed.
    pub(crate) async fn open(&self, world: &World, partition: usize) -> Result<(), Control> {
        let _opening = Opening::begin(world, partition);
        before_opening(world, partition);
        // Who opens a partition tells it of its topic anew.
        world.parts[partition].ruled.set(false);
        let mut opened = self.open_once(world, partition).await;
        if let Err(Control::OtherLife(found)) = opened
            && found < world.parts[partition].incarnation.get()
        {
            // What a crash has left of a purge.
            move_away(world, partition, found).await?;
            opened = self.open_once(world, partition).await;
        }
        let (door, report) = opened.inspect_err(|error| {
            world.note(&format!("p{partition} open: {error:?}"));
        })?;
        self.welcome(world, partition, door, &report).await;
        Ok(())
    }

    async fn open_once(
        &self,
        world: &World,
        partition: usize,
    ) -> Result<(Door, OpenReport), Control> {
        let params = world.params.partition(partition);
        let (place, config) = (place(world, partition), params.config.clone());
        match params.way {
            Way::Direct => Log::open(self.shared.clone(), place, config)
                .await
                .map(|(log, report)| (Door::Direct(log), report))
                .map_err(|error| not_opened(&error)),
            Way::Client | Way::Producer | Way::Context => self
                .shards
                .open(id(partition), place, config)
                .await
                .map(|report| (self.door(params.way, partition), report))
                .map_err(|error| refused(&error)),
        }
    }

    /// Reopens a poisoned partition in place, where there is a call for that.
    pub(crate) async fn reopen(&self, world: &World, partition: usize) -> Result<(), Control> {
        let _opening = Opening::begin(world, partition);
        let part = &world.parts[partition];
        part.endings.set(part.endings.get() + 1);
        let door = part.door.borrow_mut().take().ok_or(Control::Refused)?;
        let reopened = match &door {
            Door::Direct(log) => {
                // The manifest can still move until the old life has ended; the oracle needs the
                // mark then.
                let _ = log.close().await;
                before_opening(world, partition);
                let reopened = log.reopen().await.map_err(|error| not_reopened(&error));
                reopened.map(|(log, report)| (Door::Direct(log), report))
            }
            // Where damage is possible the mark has to be known, see above.
            _ if world.params.wrongs.rot || world.params.wrongs.lies => {
                *part.door.borrow_mut() = Some(door);
                return Err(Control::Refused);
            }
            _ => loop {
                match self.shards.reopen(id(partition)).await.map_err(|error| refused(&error)) {
                    Err(Control::Busy) => world.sleep_us(500).await,
                    result => {
                        world.hit(Probe::ReopenedOnShard);
                        break result.map(|report| (door, report));
                    }
                }
            },
        };
        let (door, report) = reopened.inspect_err(|error| {
            world.note(&format!("p{partition} reopen: {error:?}"));
        })?;
        world.hit(Probe::ReopenedInPlace);
        self.welcome(world, partition, door, &report).await;
        Ok(())
    }

    /// Holds what an opening says against what is owed, and lets the others in.
    async fn welcome(&self, world: &World, partition: usize, door: Door, report: &OpenReport) {
        world.note(&format!("p{partition} open: {}", told(report)));
        probe(world, report);
        let marks = loop {
            // A client may be busy.
            match door.watermarks().await {
                Some(marks) => break marks,
                None => world.sleep_us(500).await,
            }
        };
        world.note(&format!("p{partition} stands at {marks:?}"));
        judge_damage(world, partition, report);
        let part = &world.parts[partition];
        if part.unread_before.take() {
            part.oracle.borrow_mut().may_have_jumped(marks.appended());
        }
        // A slot of the table that the device does not give back counts as damaged.
        let lost = world.allowed.borrow().injected_any(IoOp::Read);
        let checked = part.oracle.borrow_mut().opened(marks, lost, world.latest_us());
        // Behind the look at where the log begins: what moved that may have been decided in the life
        // before, when less was stored.
        if !part.ruled.get() {
            part.oracle.borrow_mut().start_rests();
        }
        match checked {
            Ok(openness) => {
                if openness.answered_lost > 0 {
                    world.hit(Probe::AnsweredLost);
                }
                if openness.put_down > 0 {
                    world.hit(Probe::PutDown);
                }
            }
            Err(broken) => world.fail(format!("partition {partition}: {broken}")),
        }
        part.poisoned.set(false);
        part.full.set(false);
        part.read_only.set(report.read_only);
        *part.door.borrow_mut() = Some(door);
    }

    fn door(&self, way: Way, partition: usize) -> Door {
        let id = id(partition);
        match way {
            Way::Context => Door::Context(self.contexts[self.shards.owner(id)].clone(), id),
            _ => Door::Client(self.client.clone(), id),
        }
    }

    /// Closes a partition. What was appended before is durable when that succeeds.
    pub(crate) async fn close(&self, world: &World, partition: usize) -> Result<(), Control> {
        let part = &world.parts[partition];
        let Some(door) = part.door.borrow_mut().take() else { return Err(Control::Refused) };
        part.endings.set(part.endings.get() + 1);
        // Appends that are called while a busy shard is asked again may come before the close.
        let calls = part.oracle.borrow().calls();
        let result = match door {
            Door::Direct(log) => log.close().await.map_err(|error| not_closed(&error)),
            Door::Client(..) | Door::Context(..) => loop {
                match self.shards.close(id(partition)).await.map_err(|error| refused(&error)) {
                    Err(Control::Busy) => world.sleep_us(500).await,
                    result => break result,
                }
            },
        };
        world.note(&format!("p{partition} close after {calls} calls: {result:?}"));
        if result.is_ok() {
            part.oracle.borrow_mut().closed(calls);
        }
        result
    }

    /// Ends the shards in order; the partitions they still have are closed by that.
    pub(crate) async fn end(&self, world: &World) {
        for index in 0..self.shards.count() {
            match self.shards.close_all(index).await {
                Err(corelog_shard::ControlError::Unavailable(corelog_shard::Unavailable::Busy)) => {
                    world.fail("nobody asks for anything, and a shard is busy".to_owned());
                }
                Ok(report) => world.note(&format!("shard {index} ended: {report:?}")),
                Err(error) => world.fail(format!("shard {index} does not end: {error}")),
            }
        }
    }
}

/// Damage that an opening reports needs a cause.
fn judge_damage(world: &World, partition: usize, report: &OpenReport) {
    let oracle = &world.parts[partition].oracle;
    let lied = oracle.borrow().expects_damage();
    for damage in &report.damage {
        match damage {
            // The device did not give the rest of the segment back then; it is not lost.
            OpenDamage::Unreadable { segment, position }
                if world.allowed.borrow().injected_any(IoOp::Read) =>
            {
                world.hit(Probe::Unreadable);
                oracle.borrow_mut().harmed(*segment, *position..u64::MAX);
            }
            // Neither of its slots was given back, so it counts as lost.
            OpenDamage::Manifest | OpenDamage::ConsumerOffsets
                if world.allowed.borrow().injected_any(IoOp::Read) => {}
            // Where the log began is lost with the manifest, and files that could not be removed
            // stand before it.
            OpenDamage::MissingSegment { offset }
                if report.damage[0] == OpenDamage::Manifest
                    && oracle.borrow().may_be_trimmed(*offset) =>
            {
                oracle.borrow_mut().start_is_lost(*offset);
            }
            // A creation that failed half way: its manifest, which was not given back, and no log. What
            // is missing never held a message.
            OpenDamage::MissingSegment { offset }
                if report.damage[0] == OpenDamage::Manifest
                    && world.allowed.borrow().injected_any(IoOp::Read)
                    && oracle.borrow().known_end() <= *offset => {}
            // A torn tail, but what stands behind could not be read, or up to where it is durable:
            // nothing may be cut.
            OpenDamage::Corrupt { segment, position, .. }
                if (is_unread_behind(world, report, *segment, *position)
                    || world.allowed.borrow().injected_any(IoOp::Read)
                        && report.damage[0] == OpenDamage::Manifest)
                    && oracle.borrow().may_be_torn(*segment, *position) =>
            {
                oracle.borrow_mut().harmed(*segment, *position..u64::MAX);
            }
            _ if lied => {}
            _ => world.fail(format!("partition {partition}: no disk lied, but {}", told(report))),
        }
    }
}

/// Bytes behind this place were made unreadable, so that the opening left all of them.
fn is_unread_behind(world: &World, report: &OpenReport, segment: u64, position: u64) -> bool {
    let is_behind = |damage: &OpenDamage| match damage {
        OpenDamage::Unreadable { segment: at, position: from } => {
            // Reads begin with a block.
            (*at, *from) >= (segment, align_down(position))
        }
        _ => false,
    };
    world.allowed.borrow().injected_any(IoOp::Read) && report.damage.iter().any(is_behind)
}

/// Tells the oracle what an opening now may find damaged.
fn before_opening(world: &World, partition: usize) {
    mischief::look(world);
    let mut oracle = world.parts[partition].oracle.borrow_mut();
    oracle.life_is(world.parts[partition].incarnation.get());
    if oracle.expects_damage() {
        oracle.opens_at(mischief::mark(world, partition).unwrap_or_default());
    }
}

/// A report in short.
fn told(report: &OpenReport) -> String {
    let OpenReport { created, recovered_batches, cut_bytes, quarantined, damage, .. } = report;
    format!(
        "created {created}, {recovered_batches} batches above the mark, {cut_bytes} bytes cut, {} \
         quarantined, damage {damage:?}",
        quarantined.len()
    )
}

fn probe(world: &World, report: &OpenReport) {
    if report.cut_bytes > 0 {
        world.hit(Probe::TornTailCut);
    }
    if !report.quarantined.is_empty() {
        world.hit(Probe::Quarantined);
    }
    if report.damage.iter().any(|damage| matches!(damage, OpenDamage::Corrupt { .. })) {
        world.hit(Probe::DamageAtOpening);
    }
}

/// Judges a failed opening or close. True where the caller may try again.
pub(crate) fn judge(world: &World, partition: usize, what: &str, error: &Control) -> bool {
    let allowed = match error {
        Control::Io(cause) => {
            world.allowed.borrow().error(*cause) || is_rot_meanwhile(world, partition, *cause)
        }
        Control::Poisoned(cause) => world.may_poison(partition, *cause),
        Control::Refused | Control::Busy => true,
        // Its own close gives the lock back before it answers.
        Control::Locked | Control::OtherLife(_) | Control::Bug(_) => false,
    };
    match (what, error) {
        ("open", Control::Io(_)) => world.hit(Probe::OpenError),
        ("close", Control::Io(_) | Control::Poisoned(_)) => world.hit(Probe::CloseError),
        _ => {}
    }
    if !allowed {
        world.fail(format!("partition {partition}: {what} failed without a cause: {error:?}"));
    }
    allowed
}

/// A bit flipped between two reads of one opening, which found that they differ.
fn is_rot_meanwhile(world: &World, partition: usize, cause: Cause) -> bool {
    let differs = Cause { op: IoOp::Read, errno: None, kind: std::io::ErrorKind::Other };
    cause == differs && world.parts[partition].oracle.borrow().expects_damage()
}

/// Virtual time now, microseconds since the epoch, as the partitions see it.
pub(crate) fn now_us(world: &World) -> u64 {
    world.platform().clock().now_us()
}
