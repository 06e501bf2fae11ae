//! What a power cut leaves of a device: everything that was flushed, and of the rest any part.
//!
//! A write is safe when a flush was asked for after it had been answered. Every other write is
//! loose: it may have reached the medium whole, in sectors, or not at all, and before or after any
//! write that was in flight at the same time. Two writes to one place never change their order if
//! the first had been answered before the second was asked for.

use std::fmt;

use super::image::Image;
use super::journal::{Journal, Write};
use crate::random::Random;

/// How the loose writes fare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// None is there.
    None,
    /// All are there.
    All,
    /// The first ones are there, in the order of asking.
    Prefix,
    /// Any are there.
    Any,
    /// All but one are there.
    AllButOne,
    /// One is there.
    One,
    /// Of each, any of its aligned pieces of 512 bytes are there: what a sector is to most devices.
    /// Where a file system does not stand that, of 4096 bytes.
    Torn512,
    /// Of each, any of its aligned pieces of 4096 bytes are there.
    Torn4096,
    /// Any are there, and those that were in flight together took another order.
    Reordered,
}

/// Every shape, with its name in reports.
pub const SHAPES: [(Shape, &str); 9] = [
    (Shape::None, "none"),
    (Shape::All, "all"),
    (Shape::Prefix, "prefix"),
    (Shape::Any, "any"),
    (Shape::AllButOne, "all-but-one"),
    (Shape::One, "one"),
    (Shape::Torn512, "torn-512"),
    (Shape::Torn4096, "torn-4096"),
    (Shape::Reordered, "reordered"),
];

/// One power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Entries of the journal before it.
    pub place: usize,
    /// How the loose writes fare.
    pub shape: Shape,
    /// Draws what the shape leaves open.
    pub seed: u64,
    /// The rig's own canary: this many last flushes did nothing, like those of a disk that lies.
    pub lies: usize,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape = SHAPES.iter().find(|(shape, _)| *shape == self.shape);
        let name = shape.map_or("?", |(_, name)| name);
        write!(f, "{}:{name}:{}", self.place, self.seed)?;
        if self.lies > 0 {
            write!(f, ":{}", self.lies)?;
        }
        Ok(())
    }
}

impl Cut {
    /// The device as this cut leaves it, if it held `base` when `journal` began. What does not
    /// `survive_tearing` is not torn below 4096 bytes.
    ///
    /// # Panics
    /// If the journal does not reach as far as the cut.
    pub fn leaves(
        &self,
        base: &Image,
        journal: &Journal,
        survives_tearing: impl Fn(u64, &[u8]) -> bool,
    ) -> Image {
        let mut random = Random::new(self.seed);
        let flushed = journal.flushed_before(self.place, self.lies);
        let is_safe = |write: &Write<'_>| write.is_safe(flushed);
        let mut writes = journal.writes_before(self.place);
        if self.shape == Shape::Reordered {
            // Each takes effect at some moment between its question and its answer.
            writes.sort_by_cached_key(|write| {
                let until = write.answered.unwrap_or(self.place);
                // Halves of an entry, so that an answer stands before the next question.
                2 * write.asked as u64 + random.below(2 * (until - write.asked) as u64)
            });
        }
        let loose = writes.iter().filter(|write| !is_safe(write)).count() as u64;
        let mut fate = Fate::draw(self.shape, loose, &mut random);
        let mut image = base.clone();
        for write in &writes {
            if is_safe(write) {
                image.write(write.at, write.bytes);
            } else {
                let sector = if survives_tearing(write.at, write.bytes) { 512 } else { 4096 };
                fate.apply(write, sector, &mut image, &mut random);
            }
        }
        image
    }
}

/// What becomes of the loose writes, one after the other.
struct Fate {
    shape: Shape,
    /// A write, or a piece of one, is kept this many times of a hundred.
    kept_percent: u64,
    /// The one that `Prefix`, `AllButOne` and `One` speak of, by number.
    which: u64,
    /// Number of the next one.
    next: u64,
}

impl Fate {
    fn draw(shape: Shape, loose: u64, random: &mut Random) -> Self {
        let kept_percent = random.pick(&[10, 50, 90]);
        Fate { shape, kept_percent, which: random.below(loose + 1), next: 0 }
    }

    fn apply(&mut self, write: &Write<'_>, sector: u64, image: &mut Image, random: &mut Random) {
        let number = self.next;
        self.next += 1;
        let kept = match self.shape {
            Shape::None => false,
            Shape::All => true,
            Shape::Prefix => number < self.which,
            Shape::AllButOne => number != self.which,
            Shape::One => number == self.which,
            Shape::Any | Shape::Reordered => random.below(100) < self.kept_percent,
            Shape::Torn512 => return self.tear(write, sector, image, random),
            Shape::Torn4096 => return self.tear(write, 4096, image, random),
        };
        if kept {
            image.write(write.at, write.bytes);
        }
    }

    /// Keeps any of the aligned pieces of `size` bytes.
    fn tear(&self, write: &Write<'_>, size: u64, image: &mut Image, random: &mut Random) {
        let end = write.at + write.bytes.len() as u64;
        let mut from = write.at;
        while from < end {
            let to = end.min((from / size + 1) * size);
            if random.below(100) < self.kept_percent {
                let range = (from - write.at) as usize..(to - write.at) as usize;
                image.write(from, &write.bytes[range]);
            }
            from = to;
        }
    }
}

#[cfg(test)]
mod tests;
