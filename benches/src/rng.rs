//! Seeded random bytes: fast, good enough to defeat compression, and the same on every machine.

/// SplitMix64: the whole state is the seed plus a counter, so a stream can start anywhere.
#[derive(Debug, Clone)]
pub(crate) struct Rng(u64);

impl Rng {
    /// The stream of `seed`.
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next number.
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number of the half-open range, which is not empty (asserted). A range of one number draws
    /// nothing.
    pub(crate) fn draw_in(&mut self, start: u64, end: u64) -> u64 {
        assert!(start < end, "{start}..{end} is empty");
        if end - start == 1 { start } else { start + self.draw() % (end - start) }
    }

    /// Fills `bytes` with the stream.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.draw().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        // The first outputs of SplitMix64 from seed 0, as its authors' reference code gives them.
        let mut rng = Rng::new(0);
        assert_eq!(rng.draw(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(rng.draw(), 0x6e78_9e6a_a1b9_65f4);
        assert_eq!(rng.draw(), 0x06c4_5d18_8009_454f);
    }

    #[test]
    fn a_length_that_is_no_multiple_of_eight_is_filled_to_its_end() {
        let mut long = [0; 24];
        let mut short = [0; 21];
        Rng::new(7).fill(&mut long);
        Rng::new(7).fill(&mut short);
        assert_eq!(long[..21], short);
    }
}
