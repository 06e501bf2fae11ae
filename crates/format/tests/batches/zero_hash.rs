//! Chooses bytes so that XXH3 of what they stand in is 0.

/// The first 16 bytes of XXH3's secret, as two little-endian numbers: for what begins an input.
pub(crate) const SECRET_0: [u64; 2] = [0xbe4b_a423_396c_feb8, 0x1cad_21f7_2c81_017c];

/// The sum that XXH3 scrambles in the end to get `hash`, for inputs of 17 to 128 bytes: the last
/// step is made of operations that all have an inverse.
fn sum_behind(hash: u64) -> u64 {
    const PRIME: u64 = 0x1656_6791_9e37_79f9;
    // Newton's iteration doubles the right bits; an odd number is its own inverse in the low three.
    let inverse =
        (0..5).fold(PRIME, |x, _| x.wrapping_mul(2_u64.wrapping_sub(PRIME.wrapping_mul(x))));
    let h = (hash ^ (hash >> 32)).wrapping_mul(inverse);
    h ^ (h >> 37)
}

/// Chooses the 16 bytes at `at` so that `hash` of all of it is 0. XXH3 adds the folded product of
/// two numbers there, each of them xored with a part of the `secret`; with the secret itself in
/// place they are 0, so what is left is the sum of all the rest, and the product cancels it.
pub(crate) fn make_zero(
    bytes: &mut [u8],
    at: usize,
    secret: [u64; 2],
    hash: impl Fn(&[u8]) -> u64,
) {
    let put = |bytes: &mut [u8], numbers: [u64; 2]| {
        for (i, number) in numbers.into_iter().enumerate() {
            bytes[at + 8 * i..][..8].copy_from_slice(&number.to_le_bytes());
        }
    };
    put(bytes, secret);
    let rest = sum_behind(hash(bytes));
    put(bytes, [secret[0] ^ rest.wrapping_neg(), secret[1] ^ 1]);
    assert_eq!(hash(bytes), 0, "the construction holds");
}
