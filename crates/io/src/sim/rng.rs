//! The simulator's only source of chance: a small generator whose whole state is one number.

/// A seeded generator (SplitMix64). The same seed gives the same numbers on every machine. Not for
/// secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator that is a function of `seed` alone.
    pub fn new(seed: u64) -> Self {
        Rng { state: seed }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `0..bound`.
    ///
    /// # Panics
    /// Where `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound != 0, "no number is below zero");
        // The bias is under bound / 2^64: far below what any seed count could show.
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in `least..=most`.
    ///
    /// # Panics
    /// Where `least > most`.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        assert!(least <= most, "empty range {least}..={most}");
        match (most - least).checked_add(1) {
            Some(width) => least + self.below(width),
            None => self.next_u64(),
        }
    }

    /// An index into a list of `len` items.
    ///
    /// # Panics
    /// Where `len` is zero.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True in `of` out of `out_of` cases.
    pub fn chance(&mut self, of: u64, out_of: u64) -> bool {
        self.below(out_of) < of
    }

    /// A generator for a part of the work, so that what one part draws does not move the others.
    pub fn fork(&mut self) -> Rng {
        Rng::new(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn a_seed_fixes_the_sequence() {
        // The published first outputs of SplitMix64 for seed 0.
        let mut rng = Rng::new(0);
        assert_eq!(rng.next_u64(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(rng.next_u64(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn numbers_stay_in_range_and_reach_both_ends() {
        let mut rng = Rng::new(1);
        let drawn: Vec<u64> = (0..200).map(|_| rng.between(3, 6)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&3), Some(&6)));
        assert_eq!(rng.between(9, 9), 9);
        rng.between(0, u64::MAX);
        assert!((0..100).all(|_| !rng.chance(0, 5) && rng.chance(5, 5)));
    }
}
