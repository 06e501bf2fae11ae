//! The bytes of one file: as readers see them, as they are durable, and every change in between.
//!
//! A block keeps its durable content and the list of changes since, oldest first. A write that
//! landed adds its data; a cut adds "zero from here". Changes of length are a list of their own: the
//! file system's journal keeps those in order, so a power cut keeps a prefix of them, and a block's
//! zeroing goes with the cut that made it. Everything else a power cut decides sector by sector.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::Rng;
use super::cut::{Mood, SECTOR};
use super::versions::{Block, Order, Versions, zeroed_from, zeros};
use crate::BLOCK;

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
    pending: BTreeMap<u64, Versions>,
    lens: Vec<LenChange>,
    /// Blocks from the start that have space, written or not.
    reserved: u64,
    pub(super) in_flight: Vec<InFlight>,
}

fn block_of(at: u64) -> u64 {
    at / BLOCK as u64
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

    /// Every write in flight arrives, after all that returned.
    pub(super) fn land_in_flight(&mut self) {
        for write in std::mem::take(&mut self.in_flight) {
            self.land(write.at, &write.bytes, Order::MAX);
        }
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
        self.pending.entry(number).or_default().push_data(data, now);
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
            self.pending.entry(number).or_default().push_cut(from, now);
        }
        self.reserved = self.reserved.min(len.div_ceil(BLOCK as u64));
        self.len = len;
        self.lens.push(LenChange { len, landed: now, doubtful: false });
    }

    /// A sync that began at `begun` succeeded: what had returned by then is durable.
    pub(super) fn commit_before(&mut self, begun: Order) {
        let covered = self.lens.iter().rposition(|l| l.landed < begun && !l.doubtful);
        let cuts_to = self.commit_lens(covered);
        for number in self.pending.keys().copied().collect::<Vec<u64>>() {
            self.settle(number, |versions, base| versions.commit_before(base, begun, cuts_to));
        }
    }

    /// A write through an O_DSYNC handle returned: its own blocks are durable, and the length that
    /// reaches them; nothing else.
    pub(super) fn commit_write(&mut self, at: u64, len: usize) {
        let end = at + len as u64;
        let reached = self.durable_len >= end && self.lens.iter().all(|l| l.len >= end);
        if !reached {
            let cuts_to = self.commit_lens(self.lens.len().checked_sub(1));
            for number in self.pending.keys().copied().collect::<Vec<u64>>() {
                self.settle(number, |versions, base| versions.commit_cuts(base, cuts_to));
            }
        }
        for number in block_of(at)..block_of(end) {
            self.settle(number, |versions, base| versions.commit_newest(base));
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

    /// Lets `commit` move changes of a block into its durable content.
    fn settle(
        &mut self,
        number: u64,
        commit: impl FnOnce(&mut Versions, Option<Block>) -> Option<Block>,
    ) {
        let Some(mut versions) = self.pending.remove(&number) else { return };
        if let Some(base) = commit(&mut versions, self.durable.remove(&number)) {
            self.durable.insert(number, base);
        }
        if !versions.is_empty() {
            self.pending.insert(number, versions);
        }
    }

    /// A sync that began at `begun` failed: what it should have covered may be lost whatever
    /// follows, until it is written again.
    pub(super) fn doubt_before(&mut self, begun: Order) {
        for versions in self.pending.values_mut() {
            versions.doubt_before(begun);
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
            self.durable.insert(number, versions.choose(&base, cuts_to, mood, rng));
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
        if let Some(versions) = self.pending.get_mut(&number) {
            versions.damage(change);
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
