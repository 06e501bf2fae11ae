//! Numbers from a seed, the same on every machine and in every version.

/// A stream of numbers (splitmix64). Not for secrets.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The stream of several numbers together: another one for each tuple.
    pub fn of(words: &[u64]) -> Random {
        let mut random = Random::new(words.len() as u64);
        for word in words {
            random.state = random.draw() ^ word;
        }
        random
    }

    /// The next number, any u64.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is no number below 0");
        // A bias of 2^-64 * end is nothing to a test.
        ((u128::from(self.draw()) * u128::from(end)) >> 64) as u64
    }

    /// A number from `min` to `max`, both included.
    pub fn between(&mut self, min: u64, max: u64) -> u64 {
        min + self.below(max - min + 1)
    }

    /// True once in `of` times.
    pub fn once_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    /// One of `choices`, which is not empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Appends `len` bytes to `out`.
    pub fn fill(&mut self, out: &mut Vec<u8>, len: usize) {
        let end = out.len() + len;
        out.reserve(len + 7);
        while out.len() < end {
            out.extend_from_slice(&self.draw().to_le_bytes());
        }
        out.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeds in reports stay good: the numbers may not change.
    #[test]
    fn the_numbers_of_a_seed_never_change() {
        let mut random = Random::new(0);
        assert_eq!(random.draw(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.draw(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn streams_of_neighbours_differ_and_ranges_hold() {
        let first = |words: &[u64]| Random::of(words).draw();
        let all = [first(&[]), first(&[0]), first(&[1]), first(&[0, 0]), first(&[0, 1])];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[at + 1..].contains(one), "{all:x?}");
        }
        let mut random = Random::new(1);
        for _ in 0..1000 {
            assert!((3..=5).contains(&random.between(3, 5)));
        }
        let mut bytes = vec![1];
        random.fill(&mut bytes, 13);
        assert_eq!(bytes.len(), 14);
    }
}
