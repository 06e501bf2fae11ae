//! Which blocks of the pool are free: a buddy allocator over block numbers. It touches no memory of
//! the pool itself.

/// Larger buffers than this power of two of blocks are not of the pool: 1 GiB, which is also as
/// much as the kernel registers in one piece.
pub(super) const ORDER_MAX: u8 = 18;

const NONE: u32 = u32::MAX;

/// Free blocks in lists by size. A piece of order `n` is `2^n` blocks at a multiple of `2^n`.
pub(super) struct Buddy {
    /// For the first block of each free piece: its order.
    free: Vec<Option<u8>>,
    /// Neighbours in the list of the order, by first block.
    links: Vec<Links>,
    heads: [u32; ORDER_MAX as usize + 1],
}

#[derive(Clone, Copy)]
struct Links {
    before: u32,
    after: u32,
}

impl Buddy {
    /// `blocks` blocks, all of them free.
    pub(super) fn new(blocks: u32) -> Buddy {
        let mut buddy = Buddy {
            free: vec![None; blocks as usize],
            links: vec![Links { before: NONE, after: NONE }; blocks as usize],
            heads: [NONE; ORDER_MAX as usize + 1],
        };
        let mut at = 0;
        while at < blocks {
            let fits = (blocks - at).ilog2() as u8;
            let aligned = if at == 0 { ORDER_MAX } else { at.trailing_zeros() as u8 };
            let order = fits.min(aligned).min(ORDER_MAX);
            buddy.link(at, order);
            at += 1 << order;
        }
        buddy
    }

    /// The first block of a piece of `order`, the smallest that fits being split for it.
    pub(super) fn take(&mut self, order: u8) -> Option<u32> {
        let found = (order..=ORDER_MAX).find(|order| self.heads[*order as usize] != NONE)?;
        let at = self.heads[found as usize];
        self.unlink(at, found);
        for half in (order..found).rev() {
            self.link(at + (1 << half), half);
        }
        Some(at)
    }

    /// Gives back what [`Buddy::take`] gave, and joins it with free neighbours.
    pub(super) fn give(&mut self, mut at: u32, mut order: u8) {
        while order < ORDER_MAX {
            let other = at ^ (1 << order);
            if self.free.get(other as usize).copied().flatten() != Some(order) {
                break;
            }
            self.unlink(other, order);
            at &= !(1 << order);
            order += 1;
        }
        self.link(at, order);
    }

    fn link(&mut self, at: u32, order: u8) {
        let head = std::mem::replace(&mut self.heads[order as usize], at);
        self.links[at as usize] = Links { before: NONE, after: head };
        if head != NONE {
            self.links[head as usize].before = at;
        }
        self.free[at as usize] = Some(order);
    }

    fn unlink(&mut self, at: u32, order: u8) {
        let Links { before, after } = self.links[at as usize];
        match before {
            NONE => self.heads[order as usize] = after,
            before => self.links[before as usize].after = after,
        }
        if after != NONE {
            self.links[after as usize].before = before;
        }
        self.free[at as usize] = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_apart_aligned_and_all_come_back() {
        // 45 blocks: pieces of 32, 8, 4 and 1.
        let mut buddy = Buddy::new(45);
        let mut taken: Vec<(u32, u8)> = Vec::new();
        for order in [3, 0, 2, 0, 1, 3, 0] {
            let at = buddy.take(order).expect("there is room");
            assert!(at.is_multiple_of(1 << order), "{at} of order {order}");
            for &(other, size) in &taken {
                assert!(at + (1 << order) <= other || other + (1 << size) <= at, "{at} is twice");
            }
            taken.push((at, order));
        }
        assert_eq!(buddy.take(5), None, "the 32 blocks were split");
        for (at, order) in taken {
            buddy.give(at, order);
        }
        let all: Vec<_> = [5, 3, 2, 0].map(|order| buddy.take(order)).into();
        assert_eq!(all, [Some(0), Some(32), Some(40), Some(44)], "joined as at first");
        assert_eq!(buddy.take(0), None);
    }

    #[test]
    fn random_use_never_overlaps_and_loses_nothing() {
        let mut buddy = Buddy::new(300);
        let (mut taken, mut owner, mut seed) = (Vec::new(), vec![false; 300], 7_u64);
        for _ in 0..20_000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let pick = (seed >> 33) as usize;
            if !pick.is_multiple_of(3) {
                let order = (pick / 3 % 5) as u8;
                let Some(at) = buddy.take(order) else { continue };
                for block in at..at + (1 << order) {
                    assert!(!std::mem::replace(&mut owner[block as usize], true));
                }
                taken.push((at, order));
            } else if !taken.is_empty() {
                let (at, order) = taken.swap_remove(pick / 3 % taken.len());
                owner[at as usize..(at + (1 << order)) as usize].fill(false);
                buddy.give(at, order);
            }
        }
        taken.drain(..).for_each(|(at, order)| buddy.give(at, order));
        assert_eq!((buddy.take(8), buddy.take(5)), (Some(0), Some(256)));
    }
}
