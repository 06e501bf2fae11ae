//! Makes batches out of what a fuzzer dreams up: random bytes never carry two right checksums, so
//! without this nothing behind them would ever be reached.
//!
//! Written against the specification's tables, not with the crate's own writers, so that a mistake
//! there cannot hide itself.

use corelog_format::checksum::xxh3;

const HEADER: usize = 256;
const FRAME: usize = 48;

/// Which parts of a batch are put right; the rest stays as it is.
#[derive(Debug, Clone, Copy)]
pub struct Repair {
    /// Reserved bytes, lengths and the count, so that the frames tile the bytes.
    pub layout: bool,
    /// Deltas that follow one another from this one.
    pub deltas_from: Option<u32>,
    /// No user headers, where they would be random bytes.
    pub no_user_headers: bool,
    /// Frame checksums.
    pub frame_checksums: bool,
    /// The batch checksum.
    pub batch_checksum: bool,
}

impl From<[u8; 2]> for Repair {
    fn from([flags, delta]: [u8; 2]) -> Self {
        let set = |bit: u32| flags & (1 << bit) == 0;
        Repair {
            layout: set(0),
            deltas_from: set(1).then_some(if set(2) { 0 } else { u32::from(delta) }),
            no_user_headers: set(3),
            frame_checksums: set(4),
            batch_checksum: set(5),
        }
    }
}

/// Puts `bytes` right as asked, as far as they are long enough to be a batch.
pub fn repair(bytes: &mut [u8], how: Repair) {
    if bytes.len() < HEADER + FRAME {
        return;
    }
    if how.layout {
        bytes[52..HEADER].fill(0);
        let length = bytes.len() as u64;
        bytes[32..40].copy_from_slice(&length.to_le_bytes());
    }
    let mut sums = Vec::new();
    let (mut at, mut count) = (HEADER, 0_u32);
    while bytes.len() - at >= FRAME {
        let end = repair_frame(&mut bytes[at..], count, how);
        sums.extend_from_slice(&bytes[at..at + 8]);
        (at, count) = (at + end, count + 1);
    }
    if how.layout {
        bytes[48..52].copy_from_slice(&count.to_le_bytes());
    }
    if how.batch_checksum {
        let covered = [&bytes[..40], &bytes[48..52], &sums].concat();
        bytes[40..48].copy_from_slice(&xxh3(&covered).to_le_bytes());
    }
}

/// Puts right the frame that `rest` begins with; returns its length.
fn repair_frame(rest: &mut [u8], index: u32, how: Repair) -> usize {
    let body = rest.len() - FRAME;
    let length = |rest: &[u8], at: usize| {
        u32::from_le_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]) as usize
    };
    let (mut headers, mut payload) = (length(rest, 32), length(rest, 36));
    if how.no_user_headers {
        headers = 0;
    }
    if how.layout {
        rest[40..48].fill(0);
        headers %= body + 1;
        payload %= body - headers + 1;
        // What is left must be room for another frame or belong to this one.
        if body - headers - payload < FRAME {
            payload = body - headers;
        }
    }
    rest[32..36].copy_from_slice(&(headers as u32).to_le_bytes());
    rest[36..40].copy_from_slice(&(payload as u32).to_le_bytes());
    if let Some(from) = how.deltas_from {
        rest[24..28].copy_from_slice(&from.wrapping_add(index).to_le_bytes());
    }
    let end = FRAME + (headers + payload).min(body);
    if how.frame_checksums {
        let sum = xxh3(&rest[8..end]);
        rest[..8].copy_from_slice(&sum.to_le_bytes());
    }
    end
}
