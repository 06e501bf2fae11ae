//! A bit that flips, or a sector that reads as zeros.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use corelog_format::{BATCH_HEADER_LEN, FRAME_HEADER_LEN, SLOT_LEN};

use crate::random::Random;

use super::case::{Case, Harm};
use super::expect::Expect;
use super::specimen::{Partition, Specimen};

const SECTOR: u64 = 512;
/// What a slot's fields take: everything behind is zero, and under the checksum all the same.
const SLOT_FIELDS: u64 = 96;
/// The engine's own files.
pub(super) const ENGINE_FILES: [&str; 3] = ["catalog.redb", "clock", "LOCK"];

/// A place in a file that goes bad.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wound {
    Bit { file: PathBuf, byte: u64, bit: u8 },
    Sector { file: PathBuf, sector: u64 },
}

impl Wound {
    pub(super) fn file(&self) -> &Path {
        match self {
            Wound::Bit { file, .. } | Wound::Sector { file, .. } => file,
        }
    }

    fn bytes(&self) -> Range<u64> {
        match self {
            Wound::Bit { byte, .. } => *byte..byte + 1,
            Wound::Sector { sector, .. } => sector * SECTOR..(sector + 1) * SECTOR,
        }
    }

    pub(super) fn apply(&self, dir: &Path) -> io::Result<()> {
        let file = OpenOptions::new().read(true).write(true).open(dir.join(self.file()))?;
        match self {
            Wound::Bit { byte, bit, .. } => {
                let mut held = [0];
                file.read_exact_at(&mut held, *byte)?;
                file.write_all_at(&[held[0] ^ 1 << bit], *byte)
            }
            Wound::Sector { sector, .. } => {
                let at = sector * SECTOR;
                let len = file.metadata()?.len().saturating_sub(at).min(SECTOR);
                file.write_all_at(&[0; SECTOR as usize][..len as usize], at)
            }
        }
    }

    /// What it does to which partition; `None` where the file is the engine's.
    pub(super) fn expect(&self, specimen: &Specimen) -> Option<(usize, Expect)> {
        let mut partitions = specimen.partitions.iter().enumerate();
        let (number, partition) = partitions.find(|(_, p)| self.file().starts_with(&p.dir))?;
        let log = partition.logs.iter().find(|(first, _)| partition.log(*first) == self.file());
        let expect = match log {
            Some((segment, _)) => Expect::bytes(partition, *segment, self.bytes()),
            None => Expect::default(),
        };
        Some((number, expect))
    }

    pub(super) fn parse(text: &str) -> Option<Wound> {
        let words: Vec<&str> = text.split(' ').collect();
        match words[..] {
            ["bit", file, byte, bit] => Some(Wound::Bit {
                file: file.into(),
                byte: byte.parse().ok()?,
                bit: bit.parse().ok().filter(|bit| *bit < 8)?,
            }),
            ["sector", file, sector] => {
                Some(Wound::Sector { file: file.into(), sector: sector.parse().ok()? })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Wound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wound::Bit { file, byte, bit } => write!(f, "bit {} {byte} {bit}", file.display()),
            Wound::Sector { file, sector } => write!(f, "sector {} {sector}", file.display()),
        }
    }
}

/// A drawn wound of a partition.
pub(super) fn drawn(specimen: &Specimen, rng: &mut Random) -> io::Result<Case> {
    let partition = one_of(&specimen.partitions, rng);
    let (segment, len) = rng.pick(&partition.logs);
    let batch = loop {
        let batch = one_of(&partition.batches, rng);
        if batch.segment == segment {
            break batch;
        }
    };
    let log = partition.log(segment);
    let (file, bytes, whole) = match rng.below(16) {
        0..=3 => (log, batch.position..batch.position + BATCH_HEADER_LEN as u64, false),
        4..=5 => {
            let first = batch.position + BATCH_HEADER_LEN as u64;
            (log, first..first + FRAME_HEADER_LEN as u64, false)
        }
        6 => (log, batch.position..batch.position_end(), false),
        7..=8 => (log, 0..len, true),
        9 => (log, partition.log_end(segment).saturating_sub(8)..len, false),
        10..=12 => {
            let file = partition.index(segment);
            let len = fs::metadata(specimen.dir.join(&file))?.len();
            (file, 0..len, rng.below(4) == 0)
        }
        13..=14 => {
            let slot = rng.below(2) * SLOT_LEN as u64;
            (partition.manifest(), slot..slot + SLOT_FIELDS, false)
        }
        _ => (partition.manifest(), 0..2 * SLOT_LEN as u64, rng.below(2) == 0),
    };
    if bytes.is_empty() {
        return drawn(specimen, rng);
    }
    let byte = bytes.start + rng.below(bytes.end - bytes.start);
    Ok(case(file, byte, whole.then_some(()), rng))
}

/// A drawn wound of one of the engine's own files.
pub(super) fn drawn_of_engine(specimen: &Specimen, rng: &mut Random) -> io::Result<Case> {
    let file = PathBuf::from(rng.pick(&ENGINE_FILES));
    let len = fs::metadata(specimen.dir.join(&file))?.len();
    let byte = match (file.as_os_str() == "clock", rng.below(2)) {
        (true, 0) => rng.below(2) * SLOT_LEN as u64 + rng.below(SLOT_FIELDS),
        _ => rng.below(len.max(1)),
    };
    // Most of the store's pages hold nothing: a place with something in it is drawn.
    let held = fs::read(specimen.dir.join(&file))?;
    let byte = (0..1_000).map(|_| rng.below(len)).fold(byte, |byte, other| {
        match file.as_os_str() == "catalog.redb" && held[byte as usize] == 0 {
            true => other,
            false => byte,
        }
    });
    let sector = (rng.below(4) == 0).then_some(());
    Ok(case(file, byte, sector, rng))
}

fn case(file: PathBuf, byte: u64, sector: Option<()>, rng: &mut Random) -> Case {
    Case(Harm::Wound(match sector {
        Some(()) => Wound::Sector { file, sector: byte / SECTOR },
        None => Wound::Bit { file, byte, bit: rng.below(8) as u8 },
    }))
}

/// Every bit of what decides most: a header of each log, indexes, manifests; every sector of all
/// logs. A topic's partitions are alike, so each takes its share of the topic's bits.
pub(super) fn every(specimen: &Specimen) -> io::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (number, partition) in specimen.partitions.iter().enumerate() {
        let same = |other: &&Partition| {
            (other.id.stream, other.id.topic) == (partition.id.stream, partition.id.topic)
        };
        let share = (
            specimen.partitions[..number].iter().filter(same).count(),
            specimen.partitions.iter().filter(same).count(),
        );
        let mut bits = |file: &Path, bytes: Range<u64>| {
            let mine = bytes.skip(share.0).step_by(share.1);
            for (byte, bit) in mine.flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
                cases.push(Case(Harm::Wound(Wound::Bit { file: file.to_owned(), byte, bit })));
            }
        };
        for slot in [0, SLOT_LEN as u64] {
            bits(&partition.manifest(), slot..slot + SLOT_FIELDS);
        }
        for (place, (segment, _)) in partition.logs.iter().enumerate() {
            let of: Vec<_> = partition.batches.iter().filter(|b| b.segment == *segment).collect();
            let batch = of[[0, of.len() / 2, of.len() - 1][place.min(2)]];
            let header = (BATCH_HEADER_LEN + FRAME_HEADER_LEN) as u64;
            bits(&partition.log(*segment), batch.position..batch.position + header);
            let index = partition.index(*segment);
            let len = fs::metadata(specimen.dir.join(&index))?.len();
            // Entries are alike: those of the first 64.
            bits(&index, 0..len.min(64 * 24));
        }
        for (segment, len) in &partition.logs {
            let file = partition.log(*segment);
            let sectors = (0..len.div_ceil(SECTOR)).skip(share.0).step_by(share.1);
            cases.extend(
                sectors
                    .map(|sector| Case(Harm::Wound(Wound::Sector { file: file.clone(), sector }))),
            );
        }
        let sectors = (0..2 * SLOT_LEN as u64 / SECTOR)
            .map(|sector| Case(Harm::Wound(Wound::Sector { file: partition.manifest(), sector })));
        cases.extend(sectors);
    }
    Ok(cases)
}

/// Every bit of the clock record's fields and of the lock file, every sector of all three of the
/// engine's own files, and one bit of each byte of the catalog that holds something.
pub(super) fn every_of_engine(specimen: &Specimen, rng: &mut Random) -> io::Result<Vec<Case>> {
    let mut cases = Vec::new();
    for name in ENGINE_FILES {
        let (file, held) = (PathBuf::from(name), fs::read(specimen.dir.join(name))?);
        let sectors = (0..held.len() as u64).step_by(SECTOR as usize);
        for sector in sectors.map(|at| at / SECTOR) {
            cases.push(Case(Harm::Wound(Wound::Sector { file: file.clone(), sector })));
        }
        for byte in 0..held.len() as u64 {
            let bits = match name {
                "catalog.redb" if held[byte as usize] == 0 => 0..0,
                "catalog.redb" => 0..1,
                "clock" if byte % SLOT_LEN as u64 >= SLOT_FIELDS => 0..0,
                _ => 0..8,
            };
            for bit in bits {
                let bit = if name == "catalog.redb" { rng.below(8) as u8 } else { bit };
                cases.push(Case(Harm::Wound(Wound::Bit { file: file.clone(), byte, bit })));
            }
        }
    }
    Ok(cases)
}

fn one_of<'a, T>(items: &'a [T], rng: &mut Random) -> &'a T {
    &items[rng.below(items.len() as u64) as usize]
}
