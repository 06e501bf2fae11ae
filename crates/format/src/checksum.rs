//! Both checksums of the formats. This file alone decides which implementation hashes what.
//!
//! xxhash-rust picks its vector code when it is compiled (SSE2 in a baseline x86-64 build),
//! twox-hash looks for AVX2 when it runs. Up to 128 bytes, where neither uses vectors, they take
//! the same time; above, twox-hash is ahead: 13.9 against 20.3 ns at 144 bytes, 32 against 45 ns at
//! 1 KiB, 1.1 against 2.1 us at 64 KiB (`benches/checksum.rs`, AMD EPYC with AVX2). So the length
//! decides, and no target-cpu flag is ever needed. Only xxhash-rust streams without an allocation.

use xxhash_rust::xxh3::Xxh3;

/// Longest input that xxhash-rust gets.
const SHORT_MAX: usize = 128;

/// XXH3-64 with seed 0 over `bytes`.
#[inline]
pub fn xxh3(bytes: &[u8]) -> u64 {
    if bytes.len() <= SHORT_MAX {
        xxhash_rust::xxh3::xxh3_64(bytes)
    } else {
        twox_hash::XxHash3_64::oneshot(bytes)
    }
}

/// XXH32 with seed 0 over `bytes`: the key under which a named consumer's offset is stored.
pub fn xxh32(bytes: &[u8]) -> u32 {
    xxhash_rust::xxh32::xxh32(bytes, 0)
}

/// Bytes kept back before the streaming hasher is started: the header's 44 and 58 sums.
const PIECES_BYTES: usize = 44 + 8 * 58;

/// XXH3-64 over a run of short pieces, without an allocation.
///
/// Small batches end inside of the buffer and are hashed in one go, without the streaming hasher's
/// half a KiB of state.
pub(crate) struct Pieces {
    buffer: [u8; PIECES_BYTES],
    filled: usize,
    stream: Option<Xxh3>,
}

impl Pieces {
    #[inline]
    pub(crate) fn new() -> Self {
        Pieces { buffer: [0; PIECES_BYTES], filled: 0, stream: None }
    }

    /// Appends a piece.
    #[inline]
    pub(crate) fn push<const N: usize>(&mut self, piece: &[u8; N]) {
        const { assert!(N <= PIECES_BYTES) };
        if self.filled + N > PIECES_BYTES {
            self.spill();
        }
        self.buffer[self.filled..self.filled + N].copy_from_slice(piece);
        self.filled += N;
    }

    #[cold]
    fn spill(&mut self) {
        let stream = self.stream.get_or_insert_with(Xxh3::new);
        stream.update(&self.buffer[..self.filled]);
        self.filled = 0;
    }

    /// The hash of everything pushed.
    pub(crate) fn finish(mut self) -> u64 {
        if self.stream.is_none() {
            return xxh3(&self.buffer[..self.filled]);
        }
        self.spill();
        self.stream.map_or(0, |stream| stream.digest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes without a pattern that a broken hash could miss.
    fn noise(len: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        (0..len).map(|_| next()).collect()
    }

    #[test]
    fn known_hashes() {
        assert_eq!(xxh3(b""), 0x2d06_8005_38d3_94c2);
        // The reference server's offset file for offset 41.
        assert_eq!(xxh3(&41_u64.to_le_bytes()), 0xe096_deb7_3c9d_4d58);
        assert_eq!(xxh32(b"key1"), 133_378_825);
        assert_eq!(xxh32(b"a"), 1_426_945_110);
        assert_eq!(xxh32(b"my-consumer"), 2_115_191_887);
    }

    #[test]
    fn both_crates_agree_at_every_length() {
        let bytes = noise(4 << 20);
        let larger = [4096, 65_535, 65_536, 65_537, 1 << 20, bytes.len() - 3];
        for len in (0..=2048).chain(larger) {
            // An odd start: frames stand at any address.
            let input = &bytes[3..3 + len];
            let expected = xxhash_rust::xxh3::xxh3_64(input);
            assert_eq!(twox_hash::XxHash3_64::oneshot(input), expected, "{len} bytes");
            assert_eq!(xxh3(input), expected, "{len} bytes");
        }
    }

    #[test]
    fn pieces_hash_like_the_whole() {
        let bytes = noise(44 + 8 * 1000);
        let (head, sums) = bytes.split_first_chunk::<44>().expect("longer than a header's part");
        let (sums, _) = sums.as_chunks::<8>();
        for count in (0..200).chain([999, 1000]) {
            let mut pieces = Pieces::new();
            pieces.push(head);
            sums[..count].iter().for_each(|sum| pieces.push(sum));
            assert_eq!(pieces.finish(), xxh3(&bytes[..44 + 8 * count]), "{count} sums");
        }
    }
}
