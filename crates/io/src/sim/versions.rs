//! What happened to one block since it was last durable, and what of it a sync or a cut keeps.

use std::rc::Rc;

use super::Rng;
use super::cut::Mood;
use crate::BLOCK;

/// The bytes of one block.
pub(super) type Block = Rc<[u8]>;

/// A place in the one order of everything that began or returned.
pub(super) type Order = u64;

pub(super) fn zeros() -> Block {
    Rc::from([0; BLOCK].as_slice())
}

pub(super) fn zeroed_from(block: &Block, from: usize) -> Block {
    let mut bytes = block.to_vec();
    bytes[from..].fill(0);
    Rc::from(bytes)
}

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

/// The changes of one block that are not durable, oldest first.
#[derive(Clone, Default)]
pub(super) struct Versions {
    list: Vec<Version>,
}

impl Versions {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn push_data(&mut self, data: Block, landed: Order) {
        self.list.push(Version { change: Change::Data(data), landed, doubtful: false });
    }

    /// The file was cut `from` bytes into the block.
    pub(super) fn push_cut(&mut self, from: usize, landed: Order) {
        let change = Change::ZeroFrom(from, landed);
        self.list.push(Version { change, landed, doubtful: false });
    }

    /// Makes durable what returned before `begun`, and cuts up to the one of order `cuts_to`.
    pub(super) fn commit_before(
        &mut self,
        base: Option<Block>,
        begun: Order,
        cuts_to: Order,
    ) -> Option<Block> {
        self.commit(base, |version| match version.change {
            Change::Data(_) => version.landed < begun && !version.doubtful,
            Change::ZeroFrom(_, cut) => cut <= cuts_to,
        })
    }

    /// Makes only cuts durable, up to the one of order `cuts_to`.
    pub(super) fn commit_cuts(&mut self, base: Option<Block>, cuts_to: Order) -> Option<Block> {
        self.commit(base, |v| matches!(v.change, Change::ZeroFrom(_, cut) if cut <= cuts_to))
    }

    /// Makes the newest change durable.
    pub(super) fn commit_newest(&mut self, base: Option<Block>) -> Option<Block> {
        let newest = self.list.last().map(|v| v.landed);
        self.commit(base, |v| Some(v.landed) == newest)
    }

    /// Moves the changes that `covered` names into the durable content.
    fn commit(
        &mut self,
        mut base: Option<Block>,
        covered: impl Fn(&Version) -> bool,
    ) -> Option<Block> {
        let mut rest: Vec<Version> = Vec::new();
        for version in self.list.drain(..) {
            match (covered(&version), &version.change) {
                (true, Change::Data(data)) => {
                    base = Some(Rc::clone(data));
                    rest.clear(); // Older ones are overwritten on the medium.
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
        self.list = rest;
        base
    }

    /// No later sync makes what returned before `begun` durable.
    pub(super) fn doubt_before(&mut self, begun: Order) {
        for version in self.list.iter_mut().filter(|v| v.landed < begun) {
            version.doubtful = true;
        }
    }

    /// What a power cut leaves of the block, where cuts up to the one of order `cuts_to` are kept:
    /// each unit as some version had it, then zeroed by the kept cuts that came after that version.
    pub(super) fn choose(&self, base: &Block, cuts_to: Order, mood: Mood, rng: &mut Rng) -> Block {
        let mut block = base.to_vec();
        mood.each_unit(rng, |unit, rng| {
            let chosen = mood.version(rng, self.list.len());
            let mut since = 0;
            for (i, version) in self.list[..chosen].iter().enumerate() {
                if let Change::Data(data) = &version.change {
                    block[unit.clone()].copy_from_slice(&data[unit.clone()]);
                    since = i + 1;
                }
            }
            for version in &self.list[since..] {
                if let Change::ZeroFrom(from, cut) = version.change
                    && cut <= cuts_to
                {
                    block[unit.start.max(from).min(unit.end)..unit.end].fill(0);
                }
            }
        });
        Rc::from(block)
    }

    /// Changes every version's data.
    pub(super) fn damage(&mut self, change: impl Fn(&Block) -> Block) {
        for version in &mut self.list {
            if let Change::Data(data) = &mut version.change {
                *data = change(data);
            }
        }
    }
}
