//! What a cut may leave and what it may not, on journals of a few entries.

use bytes::Bytes;

use super::*;
use crate::power::journal::Entry;

const BLOCK: usize = 4096;
/// Blocks of this are not torn in sectors.
const WHOLE: u8 = 0xee;

/// A journal that is written down in a few words.
#[derive(Default)]
struct Story(Journal);

impl Story {
    /// Asks for `blocks` blocks full of `with` at block `block`.
    fn ask(&mut self, block: u64, blocks: usize, with: u8) -> usize {
        let bytes = Bytes::from(vec![with; blocks * BLOCK]);
        self.0.push(Entry::Write { at: block * BLOCK as u64, bytes })
    }

    fn answer(&mut self, write: usize) {
        self.0.push(Entry::Answered { write });
    }

    fn write(&mut self, block: u64, blocks: usize, with: u8) {
        let write = self.ask(block, blocks, with);
        self.answer(write);
    }

    fn flush(&mut self) {
        self.0.push(Entry::Flush);
    }

    fn end(&self) -> usize {
        self.0.entries().len()
    }

    /// The first bytes of all sectors of the first `blocks` blocks after a cut at `place`.
    fn sectors(&self, place: usize, shape: Shape, seed: u64, blocks: usize) -> Vec<u8> {
        let cut = Cut { place, shape, seed, lies: 0 };
        let image =
            cut.leaves(&Image::new(64 * BLOCK as u64), &self.0, |_, bytes| bytes[0] != WHOLE);
        let mut bytes = vec![0; blocks * BLOCK];
        image.read(0, &mut bytes);
        assert!(bytes.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
        bytes.chunks(512).map(|sector| sector[0]).collect()
    }

    /// The same, of blocks that are not torn.
    fn blocks(&self, place: usize, shape: Shape, seed: u64, blocks: usize) -> Vec<u8> {
        let sectors = self.sectors(place, shape, seed, blocks);
        assert!(sectors.chunks(8).all(|block| block.iter().all(|sector| *sector == block[0])));
        sectors.chunks(8).map(|block| block[0]).collect()
    }

    /// Everything that cuts of `shape` at the end leave of the first `blocks` blocks.
    fn all(&self, shape: Shape, blocks: usize) -> Vec<Vec<u8>> {
        let mut all: Vec<_> =
            (0..400).map(|seed| self.blocks(self.end(), shape, seed, blocks)).collect();
        all.sort();
        all.dedup();
        all
    }
}

#[test]
fn what_was_flushed_is_there_whatever_the_shape() {
    let mut story = Story::default();
    story.write(0, 2, 1);
    story.write(1, 1, 2);
    story.flush();
    story.write(4, 1, 3);
    for (shape, name) in SHAPES {
        for seed in 0..50 {
            assert_eq!(
                story.sectors(story.end(), shape, seed, 2)[..16],
                [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2],
                "{name}"
            );
        }
    }
    // A cut before the flush knows nothing of it.
    assert_eq!(story.blocks(4, Shape::None, 0, 2), [0, 0]);
}

#[test]
fn a_flush_covers_what_had_been_answered_and_nothing_else() {
    let mut story = Story::default();
    let late = story.ask(0, 1, 1);
    story.write(1, 1, 2);
    story.flush();
    story.answer(late);
    assert_eq!(story.blocks(story.end(), Shape::None, 0, 2), [0, 2]);
    story.flush();
    assert_eq!(story.blocks(story.end(), Shape::None, 0, 2), [1, 2]);
}

#[test]
fn loose_writes_fare_as_the_shape_says() {
    let mut story = Story::default();
    story.write(3, 1, 9);
    story.flush();
    for block in 0..3 {
        story.write(block, 1, block as u8 + 1);
    }
    assert_eq!(story.all(Shape::None, 4), [[0, 0, 0, 9]]);
    assert_eq!(story.all(Shape::All, 4), [[1, 2, 3, 9]]);
    assert_eq!(
        story.all(Shape::Prefix, 4),
        [[0, 0, 0, 9], [1, 0, 0, 9], [1, 2, 0, 9], [1, 2, 3, 9]]
    );
    assert_eq!(
        story.all(Shape::AllButOne, 4),
        [[0, 2, 3, 9], [1, 0, 3, 9], [1, 2, 0, 9], [1, 2, 3, 9]]
    );
    assert_eq!(story.all(Shape::One, 4), [[0, 0, 0, 9], [0, 0, 3, 9], [0, 2, 0, 9], [1, 0, 0, 9]]);
    assert_eq!(story.all(Shape::Any, 4).len(), 8, "every subset");
}

#[test]
fn torn_writes_fall_apart_at_aligned_pieces() {
    let mut story = Story::default();
    story.write(0, 2, 1);
    let torn: Vec<_> =
        (0..200).map(|seed| story.sectors(story.end(), Shape::Torn512, seed, 2)).collect();
    assert!(torn.iter().any(|sectors| sectors[..8].contains(&0) && sectors[..8].contains(&1)));
    assert_eq!(story.all(Shape::Torn4096, 2), [[0, 0], [0, 1], [1, 0], [1, 1]]);

    let mut story = Story::default();
    story.write(0, 2, WHOLE);
    let halves = [[0, 0], [0, WHOLE], [WHOLE, 0], [WHOLE, WHOLE]];
    assert_eq!(story.all(Shape::Torn512, 2), halves, "the file system would not stand it");

    // A write that begins inside of a block ends its first piece with the block.
    let mut story = Story::default();
    let bytes = Bytes::from(vec![1; BLOCK]);
    let write = story.0.push(Entry::Write { at: 512, bytes });
    story.answer(write);
    let torn: Vec<_> =
        (0..200).map(|seed| story.sectors(story.end(), Shape::Torn4096, seed, 2)).collect();
    let halves = [[0; 16], [0, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]];
    assert!(halves.iter().all(|half| torn.iter().any(|sectors| sectors[..] == half[..])));
}

#[test]
fn only_writes_in_flight_together_change_their_order() {
    let mut story = Story::default();
    let (first, second) = (story.ask(0, 1, 1), story.ask(0, 1, 2));
    story.answer(first);
    story.answer(second);
    assert_eq!(story.all(Shape::Any, 1), [[0], [1], [2]]);
    let mut both_kept = Story::default();
    both_kept.write(0, 1, 1);
    both_kept.write(0, 1, 2);
    both_kept.flush();
    assert_eq!(both_kept.all(Shape::Reordered, 1), [[2]], "one after the other");
    story.flush();
    assert_eq!(story.all(Shape::Reordered, 1), [[1], [2]], "side by side");
    assert_eq!(story.all(Shape::None, 1), [[2]]);
}

#[test]
fn a_lie_takes_back_the_last_flushes() {
    let mut story = Story::default();
    story.write(0, 1, 1);
    story.flush();
    story.write(1, 1, 2);
    story.flush();
    let left = |lies| {
        let cut = Cut { place: story.end(), shape: Shape::None, seed: 0, lies };
        let mut bytes = vec![0; 2 * BLOCK];
        cut.leaves(&Image::new(64 * BLOCK as u64), &story.0, |_, _| true).read(0, &mut bytes);
        (bytes[0], bytes[BLOCK], story.0.loose_before(story.end(), lies))
    };
    assert_eq!([left(0), left(1), left(2)], [(1, 2, 0), (1, 0, 1), (0, 0, 2)]);
}
