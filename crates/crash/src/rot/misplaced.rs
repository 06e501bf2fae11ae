//! Files that are missing, swapped, doubled, stale, cut, grown, or none of ours.

use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use corelog_format::{Manifest, SLOT_LEN, Slot, segment_file_name};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::random::Random;

use super::case::{Case, Harm};
use super::expect::Expect;
use super::specimen::{Partition, Specimen};
use super::wound::ENGINE_FILES;

/// What happens to which file; `place` says where in it, or which offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Misplaced {
    what: What,
    on: On,
    /// Number of the partition; not looked at for the engine's own files.
    partition: usize,
    /// Number of the segment in it, or of the engine's file.
    segment: usize,
    place: u64,
}

/// Which file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum On {
    Log,
    Index,
    Manifest,
    /// The directory with all that is in it.
    Partition,
    /// The data directory's own files.
    Engine,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Missing,
    /// Contents exchanged with the next segment's.
    Swapped,
    /// Contents exchanged with the next partition's of the topic.
    SwappedAcross,
    /// The next partition's of the topic in its place.
    Foreign,
    /// An old copy was put back.
    Stale,
    Cut,
    Zeros,
    Garbage,
    Directory,
    Link,
    Fifo,
    /// One more copy under an offset inside of the log.
    CopyInside,
    /// One more copy under an offset behind the log.
    CopyBehind,
    /// One more, empty, inside of the log.
    EmptyInside,
    /// A file of nothing but a hole, larger than any segment, behind the log.
    HugeBehind,
    /// Copies with other endings, and names that are nothing at all.
    Clutter,
    /// No file of that name may be a log: a pipe and a link under an offset inside of it.
    OddInside,
}

use What::*;

const ALL: [(What, &str, &[On]); 17] = {
    const FILES: &[On] = &[On::Log, On::Index, On::Manifest, On::Engine];
    const OF_PARTITION: &[On] = &[On::Log, On::Index, On::Manifest, On::Partition];
    const LOG: &[On] = &[On::Log];
    [
        (Missing, "missing", &[On::Log, On::Index, On::Manifest, On::Partition, On::Engine]),
        (Swapped, "swapped", &[On::Log, On::Index]),
        (SwappedAcross, "swapped-across", OF_PARTITION),
        (Foreign, "foreign", OF_PARTITION),
        (Stale, "stale", &[On::Log, On::Manifest]),
        (Cut, "cut", FILES),
        (Zeros, "zeros", FILES),
        (Garbage, "garbage", FILES),
        (Directory, "directory", FILES),
        (Link, "link", FILES),
        (Fifo, "fifo", FILES),
        (CopyInside, "copy-inside", LOG),
        (CopyBehind, "copy-behind", LOG),
        (EmptyInside, "empty-inside", LOG),
        (HugeBehind, "huge-behind", LOG),
        (Clutter, "clutter", &[On::Partition]),
        (OddInside, "odd-inside", LOG),
    ]
};

const ONS: [(On, &str); 5] = [
    (On::Log, "log"),
    (On::Index, "index"),
    (On::Manifest, "manifest"),
    (On::Partition, "partition"),
    (On::Engine, "engine"),
];

/// A drawn one, of a partition's files or of the engine's.
pub(super) fn drawn(specimen: &Specimen, rng: &mut Random, of_engine: bool) -> Case {
    loop {
        let (what, _, ons) = rng.pick(&ALL);
        let on = rng.pick(ons);
        // To search a file as long as a log can be takes a second.
        let is_rare = what == HugeBehind && !rng.once_in(16);
        if (on == On::Engine) == of_engine && !is_rare {
            let partition = rng.below(specimen.partitions.len() as u64) as usize;
            let (segment, place) = (rng.below(3) as usize, rng.draw());
            return Case(Harm::Misplaced(Misplaced { what, on, partition, segment, place }));
        }
    }
}

/// All of them, once for each partition and segment.
pub(super) fn every(specimen: &Specimen, rng: &mut Random, of_engine: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for (what, _, ons) in ALL {
        for on in ons.iter().copied().filter(|on| (*on == On::Engine) == of_engine) {
            let partitions = if of_engine { 1 } else { specimen.partitions.len() };
            for (partition, segment) in (0..partitions).flat_map(|p| (0..3).map(move |s| (p, s))) {
                let place = rng.draw();
                let one = Misplaced { what, on, partition, segment, place };
                cases.push(Case(Harm::Misplaced(one)));
            }
        }
    }
    cases
}

impl Misplaced {
    pub(super) fn parse(text: &str) -> Option<Misplaced> {
        let words: Vec<&str> = text.split(' ').collect();
        let [what, on, partition, segment, place] = words[..] else { return None };
        let (what, _, ons) = *ALL.iter().find(|(_, name, _)| *name == what)?;
        let (on, _) = *ONS.iter().find(|(_, name)| *name == on)?;
        let (partition, segment) = (partition.parse().ok()?, segment.parse().ok()?);
        let place = place.parse().ok()?;
        ons.contains(&on).then_some(Misplaced { what, on, partition, segment, place })
    }

    fn of<'a>(&self, specimen: &'a Specimen) -> &'a Partition {
        &specimen.partitions[self.partition]
    }

    /// The next partition of the topic: batches tell partitions of different numbers apart.
    fn other(&self, specimen: &Specimen) -> usize {
        let id = self.of(specimen).id;
        let same = |number: &usize| {
            let other = specimen.partitions[*number].id;
            (other.stream, other.topic) == (id.stream, id.topic)
        };
        let next = self.partition + 1;
        let all = (next..specimen.partitions.len()).chain(0..next);
        all.into_iter().find(same).expect("the partition itself is one")
    }

    fn segment(&self, partition: &Partition) -> u64 {
        partition.logs[self.segment % partition.logs.len()].0
    }

    fn next_segment(&self, partition: &Partition) -> u64 {
        partition.logs[(self.segment + 1) % partition.logs.len()].0
    }

    /// The file, below the data directory; of the partition `of`.
    fn path(&self, of: &Partition) -> PathBuf {
        match self.on {
            On::Log => of.log(self.segment(of)),
            On::Index => of.index(self.segment(of)),
            On::Manifest => of.manifest(),
            On::Partition => of.dir.clone(),
            On::Engine => PathBuf::from(ENGINE_FILES[self.segment % ENGINE_FILES.len()]),
        }
    }

    /// An offset inside of the segment, where batches stand on both sides.
    fn inside(&self, of: &Partition) -> u64 {
        let segment = self.segment(of);
        let batches: Vec<_> = of.batches.iter().filter(|b| b.segment == segment).collect();
        let (first, last) = (batches[0].base_offset, batches[batches.len() - 1].base_offset);
        first + 1 + self.place % (last - first - 1)
    }

    pub(super) fn touches(&self, specimen: &Specimen) -> Vec<PathBuf> {
        match self.on {
            On::Engine => vec![self.path(self.of(specimen))],
            _ => vec![
                self.of(specimen).dir.clone(),
                specimen.partitions[self.other(specimen)].dir.clone(),
            ],
        }
    }

    pub(super) fn apply(&self, specimen: &Specimen, dir: &Path) -> io::Result<()> {
        let of = self.of(specimen);
        let path = dir.join(self.path(of));
        let other = &specimen.partitions[self.other(specimen)];
        // Other partitions need not have as many segments: the one of the same number from the end.
        let across = dir.join(match self.on {
            On::Log | On::Index => {
                let there = Misplaced { segment: self.segment % other.logs.len(), ..self.clone() };
                there.path(other)
            }
            _ => self.path(other),
        });
        let len = || -> io::Result<u64> { Ok(fs::metadata(&path)?.len()) };
        match self.what {
            Missing if self.on == On::Partition => fs::remove_dir_all(path),
            Missing => fs::remove_file(path),
            Swapped => {
                let next = self.next_segment(of);
                let next = if self.on == On::Log { of.log(next) } else { of.index(next) };
                swap(&path, &dir.join(next))
            }
            SwappedAcross => swap(&path, &across),
            Foreign if self.on == On::Partition => {
                fs::remove_dir_all(&path)?;
                fs::create_dir(&path)?;
                for entry in fs::read_dir(across)? {
                    let entry = entry?;
                    fs::copy(entry.path(), path.join(entry.file_name()))?;
                }
                Ok(())
            }
            Foreign => fs::copy(across, path).map(drop),
            Stale if self.on == On::Log => truncate(&path, self.stale_end(of)),
            Stale => stale_manifest(&path),
            Cut => truncate(&path, self.place % len()?.max(1)),
            Zeros => truncate(&path, len()? + 1 + self.place % 20_000),
            Garbage => {
                let mut rng = Random::new(self.place);
                let count = 1 + self.place % 20_000;
                let bytes: Vec<u8> = (0..count).map(|_| 1 | rng.draw() as u8).collect();
                OpenOptions::new().append(true).open(path)?.write_all(&bytes)
            }
            Directory => replaced(&path, |path| fs::create_dir(path)),
            Link => {
                let away = path.with_extension("elsewhere");
                fs::rename(&path, &away)?;
                symlink(away, path)
            }
            Fifo => replaced(&path, fifo),
            CopyInside => fs::copy(&path, dir.join(of.log(self.inside(of)))).map(drop),
            CopyBehind => {
                let behind = of.end_offset() + self.place % 1_000;
                fs::copy(&path, dir.join(of.log(behind))).map(drop)
            }
            EmptyInside => fs::write(dir.join(of.log(self.inside(of))), b""),
            HugeBehind => {
                let behind = dir.join(of.log(of.end_offset() + self.place % 1_000));
                fs::File::create(behind)?.set_len(64 << 30)
            }
            Clutter => clutter(&path, of),
            OddInside => {
                let odd = dir.join(of.log(self.inside(of)));
                if self.place.is_multiple_of(2) { fifo(&odd) } else { symlink(path, odd) }
            }
        }
    }

    /// Where an old copy of the log ends: behind a batch.
    fn stale_end(&self, of: &Partition) -> u64 {
        let segment = self.segment(of);
        let batches: Vec<_> = of.batches.iter().filter(|b| b.segment == segment).collect();
        batches[self.place as usize % batches.len()].position
    }

    /// What it may do to which partition; `None` where the file is the engine's.
    pub(super) fn expect(&self, specimen: &Specimen) -> Option<Vec<(usize, Expect)>> {
        if self.on == On::Engine {
            return None;
        }
        let of = self.of(specimen);
        let mut all = vec![(self.partition, self.expect_of(of))];
        if self.what == SwappedAcross {
            all.push((
                self.other(specimen),
                self.expect_of(&specimen.partitions[self.other(specimen)]),
            ));
        }
        Some(all)
    }

    fn expect_of(&self, of: &Partition) -> Expect {
        let mut expect = Expect { may_warn: true, ..Expect::default() };
        let segment = self.segment(of);
        match (self.what, self.on) {
            (Missing, On::Partition) => {
                expect.hurt = (0..of.batches.len()).collect();
                expect.may_begin_again = true;
            }
            (SwappedAcross | Foreign, On::Manifest | On::Partition) => expect.may_refuse = true,
            (Directory | Link | Fifo, On::Manifest) => expect.may_refuse = true,
            (Zeros | Garbage, _) if segment == of.active() && self.on == On::Log => {
                expect.cut_from = Some(of.batches.len());
            }
            (Missing | Foreign | SwappedAcross, On::Log) => expect.log(of, segment),
            (Swapped, On::Log) => {
                expect.log(of, segment);
                expect.log(of, self.next_segment(of));
            }
            (Stale, On::Log) => expect.harm(of, segment, self.stale_end(of)..u64::MAX),
            (Cut, On::Log) => {
                let len = of.logs.iter().find(|(first, _)| *first == segment).map_or(1, |l| l.1);
                expect.harm(of, segment, self.place % len.max(1)..u64::MAX);
            }
            (Directory | Link | Fifo, On::Log) => {
                expect.log(of, segment);
                // Where the log would go on under just that name.
                expect.may_refuse = segment == of.active();
            }
            (CopyInside | EmptyInside | OddInside, _) => {
                let from = self.inside(of);
                let hidden = of.batches.iter().enumerate();
                let hidden = hidden.filter(|(_, b)| b.segment == segment && b.end_offset > from);
                expect.hurt = hidden.map(|(number, _)| number).collect();
            }
            (Missing, On::Index | On::Manifest)
            | (Swapped | SwappedAcross | Foreign, On::Index)
            | (Stale, On::Manifest)
            | (
                Cut | Zeros | Garbage | Directory | Link | Fifo | CopyBehind | HugeBehind | Clutter,
                _,
            ) => {}
            (what, on) => unreachable!("{what:?} of {on:?} is not drawn"),
        }
        // What is gone without a trace above the mark cannot be told from what never came.
        let is_gone = matches!(self.what, Missing | Stale | Cut | Directory | Link | Fifo);
        expect.may_vanish = is_gone && self.on == On::Log;
        expect
    }
}

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = ALL.iter().find(|(what, ..)| *what == self.what).map_or("", |(_, name, _)| name);
        let on = ONS.iter().find(|(on, _)| *on == self.on).map_or("", |(_, name)| name);
        write!(f, "{what} {on} {} {} {}", self.partition, self.segment, self.place)
    }
}

fn swap(a: &Path, b: &Path) -> io::Result<()> {
    let between = a.with_extension("between");
    fs::rename(a, &between)?;
    fs::rename(b, a)?;
    fs::rename(between, b)
}

fn truncate(path: &Path, len: u64) -> io::Result<()> {
    OpenOptions::new().write(true).open(path)?.set_len(len)
}

fn replaced(path: &Path, with: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    fs::remove_file(path)?;
    with(path)
}

fn fifo(path: &Path) -> io::Result<()> {
    Ok(mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0)?)
}

/// Both slots hold the older of the two.
fn stale_manifest(path: &Path) -> io::Result<()> {
    let bytes = fs::read(path)?;
    let (a, b) = bytes.split_at(SLOT_LEN);
    let newer = Manifest::pick(a, b).map_err(io::Error::other)?.map(|(_, slot)| slot);
    let (older, at) = match newer {
        Some(Slot::B) => (a, SLOT_LEN as u64),
        _ => (b, 0),
    };
    // A manifest that was stored once has no older one.
    if older.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    OpenOptions::new().write(true).open(path)?.write_all_at(older, at)
}

fn clutter(dir: &Path, of: &Partition) -> io::Result<()> {
    let log = dir.join(segment_file_name(of.active()));
    for ending in ["log.bak", "log~", "log.tmp", "index.old", "LOG"] {
        fs::copy(&log, log.with_extension(ending))?;
    }
    for name in ["+0000000000000000001.log", "1.log", "000000000000000000001.log", ".log", "-"] {
        fs::write(dir.join(name), b"nothing")?;
    }
    fs::write(dir.join(OsStr::from_bytes(b"\xff\xfe.log")), b"nothing")?;
    fs::create_dir(dir.join(segment_file_name(of.end_offset() + 5)))?;
    fs::create_dir(dir.join("lost+found"))?;
    fs::create_dir(dir.join("quarantine"))?;
    fs::write(dir.join("quarantine/notes"), b"nothing")?;
    // Long paths are no socket's.
    let socket = UnixListener::bind(dir.join("s")).map(drop);
    socket.or_else(|error| match error.kind() {
        io::ErrorKind::InvalidInput => Ok(()),
        _ => Err(error),
    })
}
