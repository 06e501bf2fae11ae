//! Loads an index in bounded memory, whatever its file holds.

use corelog_format::INDEX_ENTRY_LEN;
use corelog_io::{BLOCK, File, IoError, Open, align_up};

use super::SparseIndex;

/// Read at once: whole entries in whole blocks. The index of 1 GiB at a step of 64 KiB.
const PIECE: usize = 4 * (INDEX_ENTRY_LEN * BLOCK);
/// Entries kept of one index. Where a file has more (the reference server's may have one a batch,
/// and a step may be as small as a block), only every so many bytes of log keep theirs.
const ENTRIES_MAX: usize = 1 << 16;
/// No index of a segment is longer than this: one entry for each smallest batch of 1 GiB.
const FILE_MAX: u64 = 96 << 20;

/// How index files are opened.
pub(crate) const OPEN: Open =
    Open { write: false, create_new: false, dsync: false, lock: false, short: true };

/// The index in the file that `opened` is, an entry for each `step` bytes of log or more. Where
/// there is no file, or nothing of use in it, the index is empty, which is always correct. `None`
/// where the disk could not say: correct as an empty one is, but not to be kept.
pub(crate) async fn load<F: File>(opened: Result<F, IoError>, step: u64) -> Option<SparseIndex> {
    let file = match opened {
        Err(error) if error.is_not_found() => return Some(SparseIndex::default()),
        opened => opened.ok()?,
    };
    let len = file.len().await.ok()?.min(FILE_MAX);
    let mut thinned = Thinned::new(step, ENTRIES_MAX);
    let mut at = 0;
    while at < len {
        let asked = align_up(len - at).min(PIECE as u64) as usize;
        let bytes = file.read_at(at, asked).await.ok()?;
        let bytes = bytes.as_ref();
        if !thinned.add(bytes) || bytes.len() < asked {
            break;
        }
        at += PIECE as u64;
    }
    Some(thinned.into_index())
}

/// An index of at most `max` entries: where it is full, its step is doubled.
struct Thinned {
    index: SparseIndex,
    /// The last entry that was seen: offset and position.
    last: Option<(u64, u64)>,
    /// Entries that were seen.
    seen: usize,
    step: u64,
    max: usize,
}

impl Thinned {
    fn new(step: u64, max: usize) -> Self {
        Thinned { index: SparseIndex::default(), last: None, seen: 0, step, max }
    }

    /// Adds the entries of a piece of the file; false where they end in it.
    fn add(&mut self, piece: &[u8]) -> bool {
        let parsed = SparseIndex::parse(piece);
        for entry in parsed.entries() {
            let place = (entry.base_offset, entry.position);
            if self.last.is_some_and(|last| last.0 >= place.0 || last.1 >= place.1) {
                return false;
            }
            self.last = Some(place);
            self.seen += 1;
            self.index.note(*entry, self.step);
            while self.index.entries().len() > self.max {
                self.step = self.step.saturating_mul(2);
                let all = std::mem::take(&mut self.index);
                all.entries().iter().for_each(|entry| self.index.note(*entry, self.step));
            }
        }
        parsed.entries().len() == piece.len() / INDEX_ENTRY_LEN
    }

    /// The index as its file has it, or to be written as a whole where some entries were left out.
    fn into_index(mut self) -> SparseIndex {
        match self.seen == self.index.entries.len() {
            true => self.index.saved = self.seen,
            false => self.index.longer = true,
        }
        self.index
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use corelog_format::IndexEntry;
    use corelog_io::sim::Sim;
    use corelog_io::{Buf, Disk, IoOp, Open, Platform};

    use super::*;

    fn bytes(entries: impl Iterator<Item = (u64, u64)>) -> Vec<u8> {
        let entry = |(n, position)| IndexEntry { base_offset: n, base_timestamp: n + 1, position };
        entries.flat_map(|e| entry(e).encode()).collect()
    }

    fn positions(index: &SparseIndex) -> Vec<u64> {
        index.entries().iter().map(|entry| entry.position).collect()
    }

    #[test]
    fn more_entries_than_fit_are_thinned_out_evenly() {
        let mut thinned = Thinned::new(100, 8);
        assert!(thinned.add(&bytes((0..20).map(|n| (n, n * 50)))));
        assert_eq!(positions(&thinned.index), [0, 200, 400, 600, 800]);
        assert!(thinned.add(&bytes((20..40).map(|n| (n, n * 50)))));
        assert_eq!(positions(&thinned.index), [0, 400, 800, 1200, 1600]);
        assert!(!thinned.add(&bytes([(41, 3_000), (0, 0), (42, 5_000)].into_iter())));
        assert!(!thinned.add(&bytes([(12, 9_000)].into_iter())), "it goes back");
        assert_eq!(positions(&thinned.index), [0, 400, 800, 1200, 1600, 3000]);
    }

    #[test]
    fn positions_at_the_end_of_the_number_line_end_the_thinning() {
        let mut thinned = Thinned::new(u64::MAX / 4, 2);
        thinned.add(&bytes((0..9).map(|n| (n, n * (u64::MAX / 9)))));
        assert!(thinned.index.entries().len() <= 2, "{:?}", thinned.index);
    }

    async fn load_at<D: Disk>(disk: &D, path: &Path, step: u64) -> Option<SparseIndex> {
        load(disk.open(path, Open::default()).await, step).await
    }

    /// An index file with these bytes, padded to whole blocks where it is `padded`.
    async fn put<D: Disk>(disk: &D, path: &Path, mut all: Vec<u8>, padded: bool) -> D::File {
        let len = all.len();
        all.resize(len.next_multiple_of(BLOCK), 0);
        let how = Open { create_new: true, write: true, ..Open::default() };
        let file = disk.open(path, how).await.unwrap();
        let mut buf = disk.alloc(all.len()).unwrap();
        buf.as_mut().copy_from_slice(&all);
        file.write_at(buf.freeze(all.len()), 0).await.unwrap();
        if !padded {
            file.set_len(len as u64).await.unwrap();
        }
        file
    }

    #[test]
    fn a_file_of_many_pieces_is_read_to_its_end() {
        let sim = Sim::new(1);
        let count = (2 * PIECE / INDEX_ENTRY_LEN + 5) as u64;
        let disk = sim.platform().disk().clone();
        let path = Path::new("/0.index");
        sim.run(async {
            assert_eq!(load_at(&disk, path, 4096).await, Some(SparseIndex::default()), "none");
            put(&disk, path, bytes((0..count).map(|n| (n, n * 5_000))), true).await;
            let index = load_at(&disk, path, 64 << 10).await.unwrap();
            let last = index.entries().last().unwrap();
            assert!(last.position > (count - 20) * 5_000, "{last:?}");
            assert!(index.entries().len() as u64 <= count * 5_000 / (64 << 10) + 1);
        });
    }

    #[test]
    fn a_short_file_costs_a_short_read() {
        let sim = Sim::new(2);
        let disk = sim.platform().disk().clone();
        let path = Path::new("/0.index");
        sim.run(async {
            put(&disk, path, bytes((0..200).map(|n| (n, n * 5_000))), false).await;
            let before = sim.disk().bytes(IoOp::Read);
            assert_eq!(load_at(&disk, path, 4096).await.unwrap().entries().len(), 200);
            assert_eq!(sim.disk().bytes(IoOp::Read) - before, 8192);
        });
    }

    /// The file and the index go together, whatever was left out of it.
    #[test]
    fn what_is_saved_after_loading_is_all_of_the_index() {
        for step in [100, 1_000, 64 << 10] {
            let sim = Sim::new(3);
            let disk = sim.platform().disk().clone();
            let path = Path::new("/0.index");
            sim.run(async {
                let file = put(&disk, path, bytes((0..400).map(|n| (n, n * 500))), false).await;
                let mut index = load_at(&disk, path, step).await.unwrap();
                assert_eq!(index.is_unsaved(), step > 500, "{step}: some were left out");
                let entry = IndexEntry { base_offset: 400, base_timestamp: 9, position: 1 << 20 };
                index.note(entry, step);
                let write = index.save(|len| disk.alloc(len)).unwrap();
                index.mark_saved(write.run(&file).await.unwrap());
                assert!(!index.is_unsaved());
                assert_eq!(load_at(&disk, path, step).await.unwrap(), index, "{step}");
            });
        }
    }
}
