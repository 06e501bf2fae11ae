//! Input that means harm: cut, flipped, random. Nothing panics, nothing is believed too early, and
//! what is accepted says exactly what its bytes say.

use corelog_format::{FormatError, OptionsBlock, UserHeaders};

use crate::codecs::{self, CODECS, Codec};
use crate::rows;

/// Deterministic random numbers (xorshift64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

/// Decodes; an error must point into the input, and accepted bytes must come back the same.
fn probe(codec: &Codec, bytes: &[u8]) -> Result<(), FormatError> {
    match (codec.again)(bytes) {
        Ok(again) => assert_eq!(again, bytes, "{}", codec.kind),
        Err(error) => assert!(error.at <= bytes.len() as u64, "{}: {error}", codec.kind),
    }
    (codec.decode)(bytes).map(drop)
}

#[test]
fn every_prefix_is_refused_unless_it_is_a_shorter_block() {
    for row in rows::good().filter(|row| row.bytes.len() < 4096) {
        let codec = codecs::of(&row.kind);
        for length in 0..row.bytes.len() {
            let result = probe(codec, &row.bytes[..length]);
            let whole_pairs = codec.prefix.is_none() && is_pair_end(&row.bytes, length);
            assert_eq!(result.is_ok(), whole_pairs, "line {}, {length} bytes", row.line);
        }
    }
}

/// Whether a good block has a pair that ends at `length`.
fn is_pair_end(block: &[u8], length: usize) -> bool {
    let (mut at, mut fields) = (0, 0);
    while at < length {
        at += 5 + usize::from(block[at + 1]);
        fields += 1;
    }
    at == length && fields % 2 == 0
}

#[test]
fn a_prefix_decoder_takes_what_is_its_own() {
    for row in rows::good() {
        let Some(prefix) = codecs::of(&row.kind).prefix else { continue };
        let longer = [&row.bytes[..], &[0xff, 0, 1]].concat();
        assert_eq!(prefix(&longer), Ok(row.bytes.len()), "line {}", row.line);
        assert!(probe(codecs::of(&row.kind), &longer).is_err(), "line {}", row.line);
    }
}

#[test]
fn every_flipped_bit_is_refused_or_read_as_it_stands() {
    for row in rows::good().filter(|row| row.bytes.len() < 1024) {
        let codec = codecs::of(&row.kind);
        let original = (codec.decode)(&row.bytes).expect("a good row").to_string();
        let mut bytes = row.bytes.clone();
        for index in 0..bytes.len() {
            for flip in [1, 2, 4, 8, 16, 32, 64, 128, 255] {
                bytes[index] ^= flip;
                // Two different inputs never mean the same; as text, in which -0.0 is not 0.0.
                if probe(codec, &bytes).is_ok() {
                    let value = (codec.decode)(&bytes).expect("probed").to_string();
                    assert_ne!(value, original, "line {}, byte {index}", row.line);
                }
                bytes[index] ^= flip;
            }
        }
    }
}

#[test]
fn random_bytes_are_read_by_every_decoder() {
    let mut random = Random(0x51f3);
    let mut accepted = [0; CODECS.len()];
    for _ in 0..40_000 {
        let length = random.below(24) as usize;
        let mut bytes = random.bytes(length);
        // Small bytes in front get past kinds and lengths more often.
        for byte in bytes.iter_mut().take(3) {
            *byte %= 6;
        }
        for (codec, count) in CODECS.iter().zip(&mut accepted) {
            *count += u32::from(probe(codec, &bytes).is_ok());
        }
    }
    assert!(
        accepted.iter().all(|count| *count > 0),
        "some decoder was never reached: {accepted:?}"
    );
}

/// What the specification says about a block, written again and without any speed.
fn block_is_good(mut bytes: &[u8], typed: bool) -> bool {
    let mut fields: Vec<(u8, &[u8])> = Vec::new();
    while !bytes.is_empty() {
        if bytes.len() < 5 {
            return false;
        }
        let length = bytes[1..5].iter().rev().fold(0, |sum, byte| sum * 256 + usize::from(*byte));
        if bytes[0] == 0 || !(1..=255).contains(&length) || bytes.len() < 5 + length {
            return false;
        }
        fields.push((bytes[0], &bytes[5..5 + length]));
        bytes = &bytes[5 + length..];
    }
    let string =
        |(kind, data): &(u8, &[u8])| *kind == 2 && String::from_utf8(data.to_vec()).is_ok();
    fields.len().is_multiple_of(2) && (!typed || fields.iter().step_by(2).all(string))
}

/// A block that is nearly right: mostly good fields, small breaks here and there.
fn nearly_a_block(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for index in 0..random.below(7) {
        let length = random.below(20) as u32 + u32::from(random.below(12) != 0);
        let kind = if index % 2 == 0 { 2 } else { random.below(20) as u8 + 1 };
        let odd_kind = random.below(12) == 0;
        bytes.push(if odd_kind { random.below(3) as u8 } else { kind });
        let lie = if random.below(16) == 0 { 1 << random.below(32) } else { 0 };
        bytes.extend((length ^ lie).to_le_bytes());
        let text = random.below(8) != 0;
        let data = random.bytes(length as usize);
        bytes.extend(data.iter().map(|byte| if text { byte & 0x7f } else { *byte }));
    }
    if random.below(6) == 0 {
        bytes.truncate(random.below(bytes.len() as u64 + 1) as usize);
    }
    bytes
}

#[test]
fn blocks_are_judged_as_the_specification_reads() {
    let mut random = Random(0xb10c);
    let (mut structures, mut typed) = (0, 0);
    for _ in 0..50_000 {
        let bytes = nearly_a_block(&mut random);
        let structure = UserHeaders::decode_structure(&bytes).is_ok();
        let headers = UserHeaders::decode(&bytes).is_ok();
        assert_eq!(structure, block_is_good(&bytes, false), "{bytes:?}");
        assert_eq!(headers, block_is_good(&bytes, true), "{bytes:?}");
        if let Ok(block) = OptionsBlock::decode(&bytes) {
            let keys: std::collections::HashSet<_> = block.iter().map(|(key, _)| key).collect();
            assert!(headers && keys.len() == block.len(), "{bytes:?}");
        }
        structures += u32::from(structure);
        typed += u32::from(headers);
    }
    // Neither side of either question may go untested.
    assert!((10_000..45_000).contains(&structures), "{structures}");
    assert!((5_000..structures).contains(&typed), "{typed}");
}
