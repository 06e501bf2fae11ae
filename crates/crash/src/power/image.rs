//! The bytes of a block device, in memory: only blocks that hold something but zeros are kept, and
//! clones share them, so that a thousand images of one device cost little more than one.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

const BLOCK: usize = 4096;

/// A device of a fixed number of bytes, zero where nothing was written.
#[derive(Debug, Clone)]
pub struct Image {
    blocks: HashMap<u64, Arc<[u8; BLOCK]>>,
    len: u64,
}

impl Image {
    /// An empty device of `len` bytes.
    ///
    /// # Panics
    /// Unless `len` is a multiple of 4096.
    pub fn new(len: u64) -> Self {
        assert!(len.is_multiple_of(BLOCK as u64), "{len} bytes are not whole blocks");
        Image { blocks: HashMap::new(), len }
    }

    /// Bytes of the device.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the device has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `into` from position `at`; beyond the end there are zeros.
    pub fn read(&self, at: u64, into: &mut [u8]) {
        for (block, inside, range) in pieces(at, into.len()) {
            match self.blocks.get(&block) {
                Some(stored) => {
                    into[range.clone()].copy_from_slice(&stored[inside..][..range.len()])
                }
                None => into[range].fill(0),
            }
        }
    }

    /// Stores `bytes` at position `at`.
    ///
    /// # Panics
    /// Beyond the end of the device: the kernel never asks for that.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        assert!(at + bytes.len() as u64 <= self.len, "{} bytes at {at}", bytes.len());
        for (block, inside, range) in pieces(at, bytes.len()) {
            let piece = &bytes[range];
            let all_zero = piece.iter().all(|byte| *byte == 0);
            if all_zero && (piece.len() == BLOCK || !self.blocks.contains_key(&block)) {
                self.blocks.remove(&block);
                continue;
            }
            let stored = self.blocks.entry(block).or_insert_with(|| Arc::new([0; BLOCK]));
            Arc::make_mut(stored)[inside..][..piece.len()].copy_from_slice(piece);
        }
    }

    /// Writes the device to the sparse file `path`.
    ///
    /// # Errors
    /// Those of the file.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let file = File::create(path)?;
        file.set_len(self.len)?;
        for (block, bytes) in &self.blocks {
            file.write_all_at(&bytes[..], block * BLOCK as u64)?;
        }
        Ok(())
    }

    /// Reads what [`Image::save`] has written.
    ///
    /// # Errors
    /// Those of the file.
    pub fn load(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let mut image = Image::new(file.metadata()?.len());
        let mut bytes = vec![0; 256 * BLOCK];
        let mut at = 0;
        while at < image.len {
            let len = bytes.len().min((image.len - at) as usize);
            file.read_exact_at(&mut bytes[..len], at)?;
            image.write(at, &bytes[..len]);
            at += len as u64;
        }
        Ok(image)
    }
}

/// `len` bytes from `at` on, block by block: the block, where in it they start, and which of the
/// bytes they are.
fn pieces(at: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let inside = ((at + done as u64) % BLOCK as u64) as usize;
        let range = done..len.min(done + BLOCK - inside);
        let block = (at + done as u64) / BLOCK as u64;
        done = range.end;
        (!range.is_empty()).then_some((block, inside, range))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_wherever_they_begin_and_end() {
        let mut image = Image::new(16 * BLOCK as u64);
        let mut plain = vec![0u8; 16 * BLOCK];
        for (number, (at, len)) in
            [(0, 512), (4_000, 200), (8_192, 4_096), (3_584, 9_728), (65_024, 512)]
                .iter()
                .enumerate()
        {
            let bytes = vec![number as u8 + 1; *len];
            image.write(*at as u64, &bytes);
            plain[*at..at + len].copy_from_slice(&bytes);
        }
        // Zeros over a part of a block, over a whole one, and where nothing was.
        for (at, len) in [(4_096 + 512, 512), (8_192, 4_096), (32_768, 8_192)] {
            image.write(at as u64, &vec![0; len]);
            plain[at..at + len].fill(0);
        }
        let mut read = vec![9; plain.len()];
        image.read(0, &mut read);
        assert!(read == plain);
        let mut part = vec![9; 700];
        image.read(3_900, &mut part);
        assert!(part == plain[3_900..4_600]);
        assert!(!image.blocks.contains_key(&2) && !image.blocks.contains_key(&8), "zeros are free");
    }

    #[test]
    fn a_clone_keeps_what_it_had() {
        let mut image = Image::new(2 * BLOCK as u64);
        image.write(0, &[1; 600]);
        let before = image.clone();
        image.write(512, &[2; 512]);
        let mut bytes = [0; 1024];
        before.read(0, &mut bytes);
        assert!(bytes[..600] == [1; 600] && bytes[600..] == [0; 424]);
    }

    #[test]
    fn a_saved_image_is_loaded_as_it_was() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        let mut image = Image::new(600 * BLOCK as u64);
        image.write(300 * BLOCK as u64 + 512, &[7; 5_000]);
        image.save(file.path()).expect("it is written");
        let loaded = Image::load(file.path()).expect("it is read");
        assert_eq!((loaded.len, loaded.blocks), (image.len, image.blocks));
    }
}
