//! Little-endian integers: the only way numbers enter and leave bytes in this workspace.

use crate::{FormatError, FormatErrorKind};

/// The `N` bytes at `at`, or a `Truncated` error naming `field`.
pub(crate) fn array<const N: usize>(
    bytes: &[u8],
    at: usize,
    field: &'static str,
) -> Result<[u8; N], FormatError> {
    match bytes.get(at..).and_then(|rest| rest.first_chunk::<N>()) {
        Some(chunk) => Ok(*chunk),
        None => Err(FormatError::new(
            at as u64,
            field,
            FormatErrorKind::Truncated {
                needed: N as u64,
                have: bytes.len().saturating_sub(at) as u64,
            },
        )),
    }
}

/// The u32 at `at` of a record whose length is known.
#[inline(always)]
pub(crate) fn get_u32<const N: usize>(record: &[u8; N], at: usize) -> u32 {
    u32::from_le_bytes(get(record, at))
}

/// The u64 at `at` of a record whose length is known.
#[inline(always)]
pub(crate) fn get_u64<const N: usize>(record: &[u8; N], at: usize) -> u64 {
    u64::from_le_bytes(get(record, at))
}

/// The u128 at `at` of a record whose length is known.
#[inline(always)]
pub(crate) fn get_u128<const N: usize>(record: &[u8; N], at: usize) -> u128 {
    u128::from_le_bytes(get(record, at))
}

#[inline(always)]
fn get<const N: usize, const W: usize>(record: &[u8; N], at: usize) -> [u8; W] {
    let mut out = [0; W];
    out.copy_from_slice(&record[at..at + W]);
    out
}

/// The u8 at `at`.
pub(crate) fn u8(bytes: &[u8], at: usize, field: &'static str) -> Result<u8, FormatError> {
    array::<1>(bytes, at, field).map(|b| b[0])
}

/// The u32 at `at`.
pub(crate) fn u32(bytes: &[u8], at: usize, field: &'static str) -> Result<u32, FormatError> {
    array(bytes, at, field).map(u32::from_le_bytes)
}

/// The u64 at `at`.
pub(crate) fn u64(bytes: &[u8], at: usize, field: &'static str) -> Result<u64, FormatError> {
    array(bytes, at, field).map(u64::from_le_bytes)
}
