//! The bytes of one file: as readers see them, as they are durable, and every change in between.
//!
//! A block keeps its durable content and the list of changes since, oldest first. A write that
//! landed adds its data; a cut adds "zero from here". Changes of length are a list of their own: the
//! file system's journal keeps those in order, so a power cut keeps a prefix of them, and a block's
//! zeroing goes with the cut that made it. Everything else a power cut decides sector by sector.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::Rng;
use super::cut::Mood;
use crate::BLOCK;

/// A power cut tears writes at this size at the finest.
pub(super) const SECTOR: usize = 512;

type Block = Rc<[u8]>;

/// A place in the one order of everything that began or returned.
pub(super) type Order = u64;

#[derive(Clone)]
enum Change {
    Data(Block),
    /// Bytes from here to the block's end became zero, with the cut of this order.
    ZeroFrom(usize, Order),
}

#[derive(Clone)]
struct Version {
    change: Change,
    /// When the write returned.
    landed: Order,
    /// A sync that should have covered it failed: no later sync does.
    doubtful: bool,
}

#[derive(Clone)]
struct LenChange {
    len: u64,
    landed: Order,
    doubtful: bool,
}

/// A write that was submitted and has not returned.
#[derive(Clone)]
pub(super) struct InFlight {
    pub(super) op: u64,
    pub(super) at: u64,
    pub(super) bytes: Rc<[u8]>,
}

/// One file's bytes.
#[derive(Clone, Default)]
pub(super) struct Content {
    len: u64,
    blocks: BTreeMap<u64, Block>,
    durable_len: u64,
    durable: BTreeMap<u64, Block>,
    pending: BTreeMap<u64, Vec<Version>>,
    lens: Vec<LenChange>,
    /// Blocks from the start that have space, written or not.
    reserved: u64,
    pub(super) in_flight: Vec<InFlight>,
}

fn block_of(at: u64) -> u64 {
    at / BLOCK as u64
}

fn zeros() -> Block {
    Rc::from([0; BLOCK].as_slice())
}

fn zeroed_from(block: &Block, from: usize) -> Block {
    let mut bytes = block.to_vec();
    bytes[from..].fill(0);
    Rc::from(bytes)
}

impl Content {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of the disk that the file takes.
    pub(super) fn space(&self) -> u64 {
        let beyond = self.blocks.range(self.reserved..).count() as u64;
        (self.reserved + beyond) * BLOCK as u64
    }

    /// Blocks that a write of `blocks` blocks at `at` needs and that have no space yet: for each
    /// block in order, whether it needs some.
    pub(super) fn needs_space(&self, block: u64) -> bool {
        block >= self.reserved && !self.blocks.contains_key(&block)
    }

    /// Up to `len` bytes at `at`. Sectors under a write in flight are old or new, as `rng` says.
    pub(super) fn read(&self, at: u64, len: usize, rng: &mut Rng, out: &mut [u8]) -> usize {
        let end = at.saturating_add(len as u64).min(self.len);
        if at >= end {
            return 0;
        }
        let count = (end - at) as usize;
        for (i, piece) in out[..count].chunks_mut(BLOCK).enumerate() {
            let number = block_of(at) + i as u64;
            match self.blocks.get(&number) {
                Some(block) => piece.copy_from_slice(&block[..piece.len()]),
                None => piece.fill(0),
            }
            for write in &self.in_flight {
                let first = block_of(write.at);
                let Some(new) = number
                    .checked_sub(first)
                    .and_then(|i| write.bytes.chunks(BLOCK).nth(i as usize))
                else {
                    continue;
                };
                for (old, new) in piece.chunks_mut(SECTOR).zip(new.chunks(SECTOR)) {
                    if rng.chance(1, 2) {
                        old.copy_from_slice(&new[..old.len()]);
                    }
                }
            }
        }
        count
    }

    /// The number of blocks of a write in flight that a write of `len` bytes at `at` would touch.
    pub(super) fn overlapping(&self, at: u64, len: usize) -> Option<&InFlight> {
        let end = at + len as u64;
        self.in_flight.iter().find(|w| w.at < end && at < w.at + w.bytes.len() as u64)
    }

    /// A write in flight that reaches beyond `len`.
    pub(super) fn reaching_beyond(&self, len: u64) -> Option<&InFlight> {
        self.in_flight.iter().find(|w| w.at + w.bytes.len() as u64 > len)
    }

    /// Takes a write out of flight.
    pub(super) fn take_in_flight(&mut self, op: u64) -> Option<InFlight> {
        let at = self.in_flight.iter().position(|w| w.op == op)?;
        Some(self.in_flight.swap_remove(at))
    }

    /// A write arrived whole: readers see it, the device has it, nothing holds it yet.
    pub(super) fn land(&mut self, at: u64, bytes: &[u8], now: Order) {
        for (i, data) in bytes.chunks_exact(BLOCK).enumerate() {
            self.land_block(block_of(at) + i as u64, Rc::from(data), now);
        }
        self.grow(at + bytes.len() as u64, now);
    }

    /// Some sectors of a write arrived (it failed, or its process died): which ones, `rng` says.
    pub(super) fn land_some(&mut self, at: u64, bytes: &[u8], now: Order, rng: &mut Rng) {
        let mood = Mood::draw(rng);
        let mut end = 0;
        for (i, data) in bytes.chunks_exact(BLOCK).enumerate() {
            let number = block_of(at) + i as u64;
            let old = self.blocks.get(&number).cloned().unwrap_or_else(zeros);
            let mut mixed = old.to_vec();
            let mut any = false;
            mood.each_unit(rng, |unit, rng| {
                if mood.keeps(rng) {
                    mixed[unit.clone()].copy_from_slice(&data[unit]);
                    any = true;
                }
            });
            if any {
                self.land_block(number, Rc::from(mixed), now);
                end = (number + 1) * BLOCK as u64;
            }
        }
        if end != 0 {
            self.grow(end, now);
        }
    }

    fn land_block(&mut self, number: u64, data: Block, now: Order) {
        self.blocks.insert(number, Rc::clone(&data));
        let version = Version { change: Change::Data(data), landed: now, doubtful: false };
        self.pending.entry(number).or_default().push(version);
    }

    fn grow(&mut self, len: u64, now: Order) {
        if len > self.len {
            self.len = len;
            self.lens.push(LenChange { len, landed: now, doubtful: false });
        }
    }

    /// Reserves `len` bytes; the length is at least that afterwards.
    pub(super) fn allocate(&mut self, len: u64, now: Order) {
        self.reserved = self.reserved.max(len.div_ceil(BLOCK as u64));
        self.grow(len, now);
    }

    /// Bytes of space that [`Content::allocate`] of `len` would take.
    pub(super) fn allocation_needs(&self, len: u64) -> u64 {
        let blocks = len.div_ceil(BLOCK as u64);
        let new = blocks.saturating_sub(self.reserved);
        let written = match new {
            0 => 0,
            _ => self.blocks.range(self.reserved..blocks).count() as u64,
        };
        (new - written) * BLOCK as u64
    }

    /// Sets the length; bytes cut off are gone for readers, and read as zeros if it grows again.
    pub(super) fn set_len(&mut self, len: u64, now: Order) {
        if len >= self.len {
            self.grow(len, now);
            return;
        }
        let partial = (len % BLOCK as u64) as usize;
        let first = block_of(len);
        // Every block that readers or a power cut could still find something in.
        let mut touched: Vec<u64> = self.blocks.range(first..).map(|(n, _)| *n).collect();
        touched.extend(self.pending.range(first..).map(|(n, _)| *n));
        touched.extend(self.durable.range(first..).map(|(n, _)| *n));
        touched.sort_unstable();
        touched.dedup();
        for number in touched {
            let from = if number == first { partial } else { 0 };
            if from == 0 {
                self.blocks.remove(&number);
            } else if let Some(block) = self.blocks.get_mut(&number) {
                *block = zeroed_from(block, from);
            }
            let change = Change::ZeroFrom(from, now);
            let version = Version { change, landed: now, doubtful: false };
            self.pending.entry(number).or_default().push(version);
        }
        self.reserved = self.reserved.min(len.div_ceil(BLOCK as u64));
        self.len = len;
        self.lens.push(LenChange { len, landed: now, doubtful: false });
    }

    /// A sync that began at `begun` succeeded: what had returned by then is durable.
    pub(super) fn commit_before(&mut self, begun: Order) {
        let covered = self.lens.iter().rposition(|l| l.landed < begun && !l.doubtful);
        let cuts_to = self.commit_lens(covered);
        let numbers: Vec<u64> = self.pending.keys().copied().collect();
        for number in numbers {
            self.fold(number, |version| match version.change {
                Change::Data(_) => version.landed < begun && !version.doubtful,
                Change::ZeroFrom(_, cut) => cut <= cuts_to,
            });
        }
    }

    /// A write through an O_DSYNC handle returned: its own blocks are durable, and the length that
    /// reaches them; nothing else.
    pub(super) fn commit_write(&mut self, at: u64, len: usize) {
        let end = at + len as u64;
        let reached = self.durable_len >= end && self.lens.iter().all(|l| l.len >= end);
        if !reached {
            let cuts_to = self.commit_lens(self.lens.len().checked_sub(1));
            let numbers: Vec<u64> = self.pending.keys().copied().collect();
            for number in numbers {
                self.fold(
                    number,
                    |v| matches!(v.change, Change::ZeroFrom(_, cut) if cut <= cuts_to),
                );
            }
        }
        for number in block_of(at)..block_of(end) {
            let Some(versions) = self.pending.get(&number) else { continue };
            let last = versions.last().map(|v| v.landed);
            self.fold(number, |v| Some(v.landed) == last);
        }
    }

    /// Makes the changes of length up to index `last` durable; answers the newest of them.
    fn commit_lens(&mut self, last: Option<usize>) -> Order {
        let Some(last) = last else { return 0 };
        let newest = self.lens[last].landed;
        self.durable_len = self.lens[last].len;
        self.lens.drain(..=last);
        newest
    }

    /// Moves the changes of a block that `covered` names into its durable content.
    fn fold(&mut self, number: u64, covered: impl Fn(&Version) -> bool) {
        let Some(versions) = self.pending.remove(&number) else { return };
        let mut base = self.durable.remove(&number);
        let mut rest: Vec<Version> = Vec::new();
        for version in versions {
            match (covered(&version), &version.change) {
                (true, Change::Data(data)) => {
                    base = Some(Rc::clone(data));
                    rest.clear();
                }
                (true, Change::ZeroFrom(from, _)) => {
                    base = base.filter(|_| *from != 0).map(|b| zeroed_from(&b, *from));
                    for older in &mut rest {
                        if let Change::Data(data) = &mut older.change {
                            *data = zeroed_from(data, *from);
                        }
                    }
                }
                (false, _) => rest.push(version),
            }
        }
        if let Some(base) = base {
            self.durable.insert(number, base);
        }
        if !rest.is_empty() {
            self.pending.insert(number, rest);
        }
    }

    /// A sync that began at `begun` failed: what it should have covered may be lost whatever
    /// follows, until it is written again.
    pub(super) fn doubt_before(&mut self, begun: Order) {
        for version in self.pending.values_mut().flatten().filter(|v| v.landed < begun) {
            version.doubtful = true;
        }
        for change in self.lens.iter_mut().filter(|l| l.landed < begun) {
            change.doubtful = true;
        }
    }

    /// What a power cut leaves. Writes in flight must have landed or gone.
    pub(super) fn cut(&mut self, rng: &mut Rng) {
        assert!(self.in_flight.is_empty(), "writes in flight outlive a power cut");
        let mood = Mood::draw(rng);
        let kept = mood.prefix(rng, self.lens.len());
        let cuts_to = self.commit_lens(kept.checked_sub(1));
        for (number, versions) in std::mem::take(&mut self.pending) {
            let base = self.durable.remove(&number).unwrap_or_else(zeros);
            let mut block = base.to_vec();
            mood.each_unit(rng, |unit, rng| {
                let chosen = mood.version(rng, versions.len());
                let mut piece = &base[unit.clone()];
                for version in &versions[..chosen] {
                    if let Change::Data(data) = &version.change {
                        piece = &data[unit.clone()];
                    }
                }
                block[unit.clone()].copy_from_slice(piece);
                // A cut that was kept zeroes what was there before it, and only that.
                let since = versions[..chosen]
                    .iter()
                    .rposition(|v| matches!(v.change, Change::Data(_)))
                    .map_or(0, |at| at + 1);
                for version in &versions[since..] {
                    if let Change::ZeroFrom(from, cut) = version.change
                        && cut <= cuts_to
                    {
                        block[unit.start.max(from).min(unit.end)..unit.end].fill(0);
                    }
                }
            });
            self.durable.insert(number, Rc::from(block));
        }
        self.lens.clear();
        self.clip_durable();
        self.become_durable();
    }

    /// Bytes beyond the durable length are out of reach, and zeros if it grows again.
    fn clip_durable(&mut self) {
        let first_out = self.durable_len.div_ceil(BLOCK as u64);
        self.durable.retain(|number, _| *number < first_out);
        let partial = (self.durable_len % BLOCK as u64) as usize;
        if partial != 0
            && let Some(block) = self.durable.get_mut(&block_of(self.durable_len))
        {
            *block = zeroed_from(block, partial);
        }
    }

    fn become_durable(&mut self) {
        self.len = self.durable_len;
        self.blocks.clone_from(&self.durable);
        self.reserved = self.reserved.min(self.len.div_ceil(BLOCK as u64));
    }

    /// All bytes as readers see them.
    pub(super) fn bytes(&self) -> Vec<u8> {
        flatten(&self.blocks, self.len)
    }

    /// All bytes that a power cut could not take.
    pub(super) fn durable_bytes(&self) -> Vec<u8> {
        flatten(&self.durable, self.durable_len)
    }

    /// Replaces everything, durably: how tests damage and import files.
    pub(super) fn replace(&mut self, bytes: &[u8]) {
        self.pending.clear();
        self.lens.clear();
        self.durable.clear();
        for (number, data) in bytes.chunks(BLOCK).enumerate() {
            let mut block = data.to_vec();
            block.resize(BLOCK, 0);
            self.durable.insert(number as u64, Rc::from(block));
        }
        self.durable_len = bytes.len() as u64;
        self.become_durable();
    }

    /// Changes one byte in every version of it: damage that no power cut undoes.
    pub(super) fn damage(&mut self, at: u64, change: impl Fn(u8) -> u8) {
        let number = block_of(at);
        let within = (at % BLOCK as u64) as usize;
        let change = |block: &Block| -> Block {
            let mut bytes = block.to_vec();
            bytes[within] = change(bytes[within]);
            Rc::from(bytes)
        };
        let now = self.blocks.get(&number).cloned().unwrap_or_else(zeros);
        self.blocks.insert(number, change(&now));
        let durable = self.durable.get(&number).cloned().unwrap_or_else(zeros);
        self.durable.insert(number, change(&durable));
        for version in self.pending.get_mut(&number).into_iter().flatten() {
            if let Change::Data(data) = &mut version.change {
                *data = change(data);
            }
        }
    }
}

fn flatten(blocks: &BTreeMap<u64, Block>, len: u64) -> Vec<u8> {
    let len = usize::try_from(len).expect("a simulated file fits in memory");
    let mut out = vec![0; len];
    for (number, block) in blocks {
        let start = (*number as usize) * BLOCK;
        if start < len {
            let count = BLOCK.min(len - start);
            out[start..start + count].copy_from_slice(&block[..count]);
        }
    }
    out
}
