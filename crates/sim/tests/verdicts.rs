//! `corelog-dump verify` and recovery on the same files, thousands of damages, each from a seed: they
//! never disagree, and both are held to what the test itself knows to stand there. And what a repair
//! leaves is opened and served as the repair said.

#[path = "../../storage/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use common::{
    Log, PARTITION, append_wait, as_stored, batch, index_file, log_file, place, poll, try_open,
};
use corelog_dump::{FileVerdict, Verdict, Verdicts, repair, verdicts};
use corelog_format::{IndexEntry, Manifest, Mark, SLOT_LEN, index_file_name, segment_file_name};
use corelog_io::sim::{Rng, Sim};
use corelog_storage::{Ack, From, LogConfig, OpenReport, PollError};

/// Seeds of each kind, where `CORELOG_SEEDS` names no others.
const ROUNDS: u64 = 4_000;
const REPAIRS: u64 = 1_500;
/// The mark's and every batch's time: below what the simulated clock allows.
const TIME: u64 = 1_000;

/// `CORELOG_SEEDS=N` runs the first N of them, `A..B` those and no others: one alone, or a part.
fn seeds(otherwise: u64) -> Range<u64> {
    let number = |text: &str| text.parse::<u64>().expect("CORELOG_SEEDS is N or A..B");
    match std::env::var("CORELOG_SEEDS") {
        Err(_) => 0..otherwise,
        Ok(text) => match text.split_once("..") {
            Some((from, to)) => number(from)..number(to),
            None => 0..number(&text),
        },
    }
}

/// One segment as it was written.
#[derive(Clone)]
struct Segment {
    first_offset: u64,
    bytes: Vec<u8>,
    /// Where its batches stand.
    batches: Vec<Range<usize>>,
    next_offset: u64,
    index: Vec<u8>,
}

/// A partition at rest.
#[derive(Clone)]
struct Files {
    segments: Vec<Segment>,
    manifest: Option<Vec<u8>>,
    /// What an append may not get.
    next_offset: u64,
}

fn segment(first_offset: u64, rng: &mut Rng) -> Segment {
    let (mut bytes, mut batches, mut next, mut index) =
        (Vec::new(), Vec::new(), first_offset, None);
    for _ in 0..rng.between(2, 6) {
        let sizes: Vec<usize> = (0..rng.between(1, 3)).map(|_| rng.below(400) as usize).collect();
        let time = TIME + next;
        let one = as_stored(&batch(rng.next_u64(), &sizes), PARTITION, next, time);
        let position = bytes.len() as u64;
        let entry = IndexEntry { base_offset: next, base_timestamp: time, position };
        index.get_or_insert(entry);
        batches.push(bytes.len()..bytes.len() + one.len());
        bytes.extend_from_slice(&one);
        next += sizes.len() as u64;
    }
    let index = index.map(|entry| entry.encode().to_vec()).unwrap_or_default();
    Segment { first_offset, bytes, batches, next_offset: next, index }
}

/// Some segments, with a mark somewhere, or without one.
fn files(rng: &mut Rng) -> Files {
    let mut segments: Vec<Segment> = Vec::new();
    for _ in 0..rng.between(1, 3) {
        let first = segments.last().map_or(0, |last| last.next_offset);
        segments.push(segment(first, rng));
    }
    let next_offset = segments.last().map_or(0, |last| last.next_offset);
    let manifest = rng.chance(3, 4).then(|| {
        let marked = &segments[rng.index(segments.len())];
        let batch = rng.index(marked.batches.len() + 1);
        let position = marked.batches.get(batch).map_or(marked.bytes.len(), |at| at.start);
        let before: u64 = marked.batches[..batch].iter().map(|at| messages(marked, at)).sum();
        let mark = Mark {
            segment: marked.first_offset,
            position: position as u64,
            next_offset: marked.first_offset + before,
            last_timestamp: if position == 0 { 0 } else { TIME + marked.first_offset + before - 1 },
        };
        let (sequence, incarnation) = (1, place().incarnation);
        let manifest = Manifest { sequence, incarnation, first_offset: 0, adopted_end: 0, mark };
        [manifest.encode(), [0; SLOT_LEN]].concat()
    });
    Files { segments, manifest, next_offset }
}

fn messages(segment: &Segment, at: &Range<usize>) -> u64 {
    let count: [u8; 4] = segment.bytes[at.start + 48..at.start + 52].try_into().expect("four");
    u64::from(u32::from_le_bytes(count))
}

/// What was done to a segment.
#[derive(Debug, Clone, Copy)]
enum Harm {
    Bit,
    Cut,
    Zeros,
    Noise,
    /// A batch is missing, and what was behind it stands where it stood.
    Gone,
    /// A batch stands twice, and what was behind it stands further behind.
    Twice,
    /// Zeros behind the end.
    Longer,
}

/// Harms one place of one segment, and says which and how.
fn harm(files: &mut Files, rng: &mut Rng) -> (u64, Harm) {
    let number = rng.index(files.segments.len());
    let segment = &mut files.segments[number];
    let len = segment.bytes.len();
    if len < 2 {
        return (segment.first_offset, Harm::Cut);
    }
    let at = rng.index(len);
    let part = at..(at + rng.between(1, 600) as usize).min(len);
    let whole = segment.batches[rng.index(segment.batches.len())].clone();
    let whole = whole.start.min(len)..whole.end.min(len);
    let bytes = &mut segment.bytes;
    let harm = match rng.below(8) {
        0 | 1 => Harm::Bit,
        2 => Harm::Cut,
        3 => Harm::Zeros,
        4 => Harm::Noise,
        5 => Harm::Gone,
        6 => Harm::Twice,
        _ => Harm::Longer,
    };
    match harm {
        Harm::Bit => bytes[at] ^= 1 << rng.below(8),
        Harm::Cut => bytes.truncate(at),
        Harm::Zeros => bytes[part].fill(0),
        Harm::Noise => bytes[part].iter_mut().for_each(|byte| *byte = rng.next_u64() as u8),
        Harm::Gone => drop(bytes.drain(whole)),
        Harm::Twice => {
            let copy = bytes[whole.clone()].to_vec();
            bytes.splice(whole.end..whole.end, copy);
        }
        Harm::Longer => bytes.resize(len + rng.between(1, 9_000) as usize, 0),
    }
    (segment.first_offset, harm)
}

/// A batch as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Written {
    /// Its bytes.
    bytes: Vec<u8>,
    /// Whether all of them are still there, whole and in order.
    stands: bool,
    /// They are, but elsewhere in the file; or bytes were both taken out of it and put in, so that
    /// what stands where it was need not stand between what it stood between.
    moved: bool,
    /// All of its header is where it was.
    has_header: bool,
}

/// What was written to each segment, by offset, and what is left of it.
fn left(before: &Files, after: &Files, harms: &[(u64, Harm)]) -> Vec<BTreeMap<u64, Written>> {
    let both = before.segments.iter().zip(&after.segments);
    both.map(|(was, is)| left_in(was, is, harms)).collect()
}

fn left_in(was: &Segment, is: &Segment, harms: &[(u64, Harm)]) -> BTreeMap<u64, Written> {
    let had = |harm: fn(&Harm) -> bool| {
        harms.iter().any(|(segment, one)| *segment == was.first_offset && harm(one))
    };
    let spliced = had(|harm| matches!(harm, Harm::Gone)) && had(|harm| matches!(harm, Harm::Twice));
    let (mut from, mut offset) = (0, was.first_offset);
    let mut all = BTreeMap::new();
    for range in &was.batches {
        let bytes = was.bytes[range.clone()].to_vec();
        let rest = is.bytes.get(from..).unwrap_or_default();
        let at = rest.windows(bytes.len()).position(|here| here == bytes).map(|at| from + at);
        let header = range.start..range.start + 256;
        let has_header = is.bytes.get(header.clone()) == was.bytes.get(header);
        from = at.map_or(from, |at| at + bytes.len());
        let moved = at.is_some_and(|at| spliced || at != range.start);
        all.insert(offset, Written { bytes, stands: at.is_some(), moved, has_header });
        offset += messages(was, range);
    }
    all
}

/// The files in a directory, and in a simulated one.
fn lay(files: &Files, dir: &Path, sim: &Sim) {
    for segment in &files.segments {
        let first = segment.first_offset;
        for (name, path, bytes) in [
            (segment_file_name(first), log_file(first), &segment.bytes),
            (index_file_name(first), index_file(first), &segment.index),
        ] {
            fs::write(dir.join(name), bytes).expect("written");
            sim.disk().put(path, bytes).expect("room");
        }
    }
    if let Some(manifest) = &files.manifest {
        fs::write(dir.join("manifest"), manifest).expect("written");
        sim.disk().put(place().dir.join("manifest"), manifest).expect("room");
    }
}

/// What reading from the first offset to the last brings.
#[derive(Debug, Default)]
struct Read {
    /// The batches that were served, with their base offsets.
    served: Vec<(u64, Vec<u8>)>,
    /// Offsets that an answer named as damaged.
    named: Vec<Range<u64>>,
    /// The log's end, for the engine.
    end: u64,
}

async fn read(log: &Log) -> Read {
    let (mut read, mut at) = (Read::default(), 0);
    loop {
        match poll(log, From::Offset(at), u32::MAX, 1 << 20).await {
            Ok(got) if got.messages == 0 => return Read { end: at, ..read },
            Ok(got) => {
                let batches = got.batches();
                let served = batches.iter().map(|b| (b.header().base_offset, b.bytes().to_vec()));
                read.served.extend(served);
                at = got.next;
            }
            Err(PollError::Corrupt { resume_offset, .. }) => {
                let to = resume_offset.unwrap_or(u64::MAX);
                assert!(to > at, "stepping over from {at} to {to}");
                read.named.push(at..to);
                if resume_offset.is_none() {
                    return Read { end: to, ..read };
                }
                at = to;
            }
            Err(error) => panic!("a poll at {at}: {error}"),
        }
    }
}

/// Damage that is part of the log: what stands behind the end of a sealed segment is read by nobody.
fn harmed<'v>(files: &Files, said: &'v Verdicts) -> Vec<&'v FileVerdict> {
    let last = files.segments.last().map(|segment| segment.first_offset);
    let counts = |file: &&FileVerdict| {
        let end = files
            .segments
            .iter()
            .find(|segment| Some(segment.first_offset) == file.first_offset)
            .and_then(|segment| segment.batches.last().map(|at| at.end as u64));
        let is_sealed = file.first_offset < last;
        !is_sealed || file.faults.iter().any(|(at, _)| end.is_none_or(|end| *at < end))
    };
    said.files.iter().filter(|file| file.verdict != Verdict::Clean).filter(counts).collect()
}

fn says_so(report: &OpenReport, read: &Read) -> bool {
    let OpenReport { damage, quarantined, cut_bytes, .. } = report;
    !damage.is_empty() || !quarantined.is_empty() || *cut_bytes > 0 || !read.named.is_empty()
}

/// One damaged log, and what was said about it.
struct Case {
    files: Files,
    left: Vec<BTreeMap<u64, Written>>,
    said: Verdicts,
    report: OpenReport,
    read: Read,
    /// What recovery has put aside.
    aside: Vec<Vec<u8>>,
}

/// Why a batch that verifies is not served, where that is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Excuse {
    /// It stood above the mark behind a tear, was cut, and a copy is in quarantine.
    Aside,
    /// It does not stand in its place, which no device does to it: a reader goes by offsets and
    /// places, and serves what fits both. A repair gives it a place. Where its offset
    /// cannot have been given, by the mark or by the bytes that are lost before it, the log ends
    /// in front of it, and only the opening names the damage.
    Moved,
    /// `verify` takes it for a batch in a message's payload and names it lost: it does not stand in
    /// its place, and nothing around it tells. Or it calls the damage before it a torn tail.
    Doubted,
    /// Damage before it has taken the header that says where it begins, and behind it another
    /// header is missing, or not in its place, before the next place that the index names: nothing
    /// tells it from a batch in a message's payload. Named, and stepped over.
    Between,
}

/// Why the batch with this offset is not served.
fn excuse(case: &Case, number: usize, offset: u64) -> Option<Excuse> {
    let batches = &case.left[number];
    let batch = &batches[&offset];
    let holds = |copy: &Vec<u8>| copy.windows(batch.bytes.len()).any(|here| here == batch.bytes);
    if case.aside.iter().any(holds) {
        return Some(Excuse::Aside);
    }
    if batch.moved && offset >= case.read.end && !case.report.damage.is_empty() {
        return Some(Excuse::Moved);
    }
    if !case.read.named.iter().any(|named| named.contains(&offset)) {
        return None;
    }
    if batch.moved {
        return Some(Excuse::Moved);
    }
    let mut gap = batches.range(..offset).rev().map(|(_, b)| b).skip_while(|b| b.stands);
    let is_hidden = gap.by_ref().take_while(|b| !b.stands).any(|b| !b.has_header);
    let is_last = number + 1 == case.left.len();
    let whole_to_the_end =
        batches.range(offset..).all(|(_, b)| !b.moved && (b.stands || b.has_header))
            && (!is_last || batches.values().next_back().is_some_and(|b| b.stands));
    (is_hidden && !whole_to_the_end).then_some(Excuse::Between)
}

/// Why the two disagree, with each other or with what stands there; otherwise what is excused.
fn judge(case: &Case) -> Result<Vec<Excuse>, String> {
    let Case { files, left, said, report, read, .. } = case;
    let harmed = harmed(files, said);
    if said.files.iter().all(|f| f.verdict == Verdict::Clean) && says_so(report, read) {
        return Err("verify calls it clean, the engine names damage".to_string());
    }
    if !harmed.is_empty() && !says_so(report, read) {
        return Err("verify names damage, the engine does not".to_string());
    }
    let batches: u64 = said.files.iter().map(|file| file.batches).sum();
    let stand = left.iter().flat_map(BTreeMap::values).filter(|batch| batch.stands).count();
    let is_lost = |offset: &u64| {
        said.lost.iter().any(|(from, to)| from <= offset && to.is_none_or(|to| *offset < to))
    };
    // Behind a tear nothing is named lost: it is a tail that was never durable.
    let is_torn = |segment: &Segment| {
        let same = |file: &&FileVerdict| file.first_offset == Some(segment.first_offset);
        said.files.iter().find(same).is_some_and(|file| file.verdict == Verdict::TornTail)
    };
    let of_segments = left.iter().zip(&files.segments);
    let doubted: usize = of_segments
        .map(|(batches, segment)| {
            let doubted =
                |(o, batch): &(&u64, &Written)| batch.moved && (is_lost(o) || is_torn(segment));
            batches.iter().filter(doubted).count()
        })
        .sum();
    let uncounted = (stand as u64).wrapping_sub(batches);
    if uncounted > doubted as u64 {
        return Err(format!("{stand} batches stand there, verify reads {batches}"));
    }
    let all: BTreeMap<u64, &Written> =
        left.iter().flatten().map(|(offset, batch)| (*offset, batch)).collect();
    let mut served = BTreeMap::new();
    for (offset, bytes) in &read.served {
        let is_it = all.get(offset).is_some_and(|batch| batch.stands && batch.bytes == *bytes);
        if !is_it || served.insert(*offset, ()).is_some() {
            return Err(format!("the engine serves something else, or again, as {offset}"));
        }
    }
    let mut excused = vec![Excuse::Doubted; uncounted as usize];
    for (number, batches) in left.iter().enumerate() {
        for (offset, _) in batches.iter().filter(|(o, b)| b.stands && !served.contains_key(o)) {
            match excuse(case, number, *offset) {
                Some(excuse) => excused.push(excuse),
                None => return Err(format!("batch {offset} verifies and is not served")),
            }
        }
    }
    let only_torn = harmed.iter().all(|file| file.verdict == Verdict::TornTail);
    if !harmed.is_empty() && only_torn && files.manifest.is_some() && report.cut_bytes == 0 {
        return Err("verify says a torn tail, the engine cuts nothing".to_string());
    }
    let none_corrupt = said.files.iter().all(|file| file.verdict != Verdict::Corrupt);
    if none_corrupt && !report.damage.is_empty() && files.manifest.is_some() {
        return Err("verify knows of no corruption, the engine does".to_string());
    }
    Ok(excused)
}

/// The log of one seed, damaged, verified, opened and read; and what was done to it.
fn case(seed: u64) -> (Case, Vec<(u64, Harm)>) {
    let mut rng = Rng::new(seed);
    let before = files(&mut rng);
    let mut files = before.clone();
    let harms: Vec<_> = (0..rng.below(4)).map(|_| harm(&mut files, &mut rng)).collect();
    let left = left(&before, &files, &harms);
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("partitions").join(PARTITION.to_string());
    fs::create_dir_all(&path).expect("created");
    let sim = Sim::new(seed);
    lay(&files, &path, &sim);
    let said = verdicts(&path);
    assert!(said.unread.is_empty(), "{said:?}");
    let (report, read) = sim.run(async {
        let (log, report) = try_open(sim.platform(), LogConfig::default()).await.expect("it opens");
        let read = read(&log).await;
        (report, read)
    });
    let is_aside = |path: &PathBuf| path.parent().is_some_and(|dir| dir.ends_with("quarantine"));
    let aside = sim.disk().files().into_iter().filter(is_aside);
    let aside = aside.map(|path| sim.disk().contents(path).expect("it is there")).collect();
    (Case { files, left, said, report, read, aside }, harms)
}

#[test]
fn verify_and_recovery_never_disagree() {
    let (mut met, mut excused, mut failures) = ([0_u32; 3], Vec::new(), Vec::new());
    let seeds = seeds(ROUNDS);
    for seed in seeds.clone() {
        let (case, harms) = case(seed);
        let Case { said, report, read, .. } = &case;
        let worst = said.files.iter().map(|file| file.verdict as usize).max().unwrap_or(0);
        met[worst] += 1;
        match judge(&case) {
            Ok(more) => excused.extend(more),
            Err(why) => {
                let (served, named) = (read.served.iter().map(|(at, _)| *at), &read.named);
                let served: Vec<u64> = served.collect();
                failures.push(format!(
                    "seed {seed}: {why}\n  {harms:?}\n  {said:?}\n  {report:?}\n  served \
                     {served:?}, named {named:?}"
                ));
            }
        }
    }
    let few = failures.iter().take(5).cloned().collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{} of {seeds:?} disagree, such as\n{few}", failures.len());
    let rounds = seeds.end - seeds.start;
    if rounds < ROUNDS {
        return;
    }
    // Of each verdict there were many, and every excuse is needed.
    assert!(met.iter().all(|count| *count > 100), "{met:?}");
    for excuse in [Excuse::Aside, Excuse::Moved, Excuse::Between] {
        let count = excused.iter().filter(|one| **one == excuse).count();
        assert!(count > 10, "{excuse:?}: {count}");
    }
    let doubted = excused.iter().filter(|one| **one == Excuse::Doubted).count() as u64;
    assert!(doubted <= rounds / 1_000, "{doubted} batches are taken for others");
}

/// Appends, perhaps until it rolls; drops old segments; is closed or killed.
async fn live(sim: &Sim, rng: &mut Rng, rolls: bool) {
    let config = LogConfig { segment_bytes: 1 << 20, ..LogConfig::default() };
    let (log, _) = try_open(sim.platform(), config).await.expect("it opens");
    let target = if rolls { 2_500_000 } else { rng.below(20_000) };
    let mut stored = 0;
    while stored < target {
        let count = if rng.chance(1, 50) { 1_000 } else { rng.between(1, 30) };
        let each = rng.below(if rolls { 3_000 } else { 200 });
        let sizes: Vec<usize> = (0..count).map(|_| each as usize).collect();
        let bytes = batch(rng.next_u64(), &sizes);
        stored += bytes.len() as u64;
        append_wait(&log, &bytes, Ack::Durable).await;
    }
    if rolls && rng.chance(1, 2) {
        log.trim(log.watermarks().durable()).await.expect("nothing is wrong");
    }
    if rng.chance(1, 2) {
        log.close().await.expect("nothing is wrong");
    }
}

/// TOOL-1: what an engine has written is clean, and there is nothing to say about it.
#[test]
fn a_thousand_healthy_logs_are_clean() {
    let mut rolled = 0;
    for seed in 0..1_000 {
        let mut rng = Rng::new(seed);
        let sim = Sim::new(seed);
        for _ in 0..rng.between(1, 3) {
            sim.run(live(&sim, &mut rng, seed % 25 == 0));
            sim.disk().process_kill(seed);
        }
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("partitions").join(PARTITION.to_string());
        fs::create_dir_all(&path).expect("created");
        for file in sim.disk().files() {
            if file.parent() == Some(&*place().dir) {
                let bytes = sim.disk().contents(&file).expect("it is there");
                fs::write(path.join(file.file_name().expect("a name")), bytes).expect("written");
            }
        }
        let said = verdicts(&path);
        let clean = |file: &FileVerdict| file.verdict == Verdict::Clean && file.findings.is_empty();
        assert!(said.files.iter().all(clean), "seed {seed}: {said:?}");
        let Verdicts { lost, unread, ignored, files } = said;
        assert!(lost.is_empty() && unread.is_empty() && ignored.is_empty(), "seed {seed}");
        rolled += usize::from(files.len() > 1);
    }
    assert!(rolled >= 10, "{rolled}");
}

/// What stands in the directory goes to the simulated disk, where recovery opens it.
fn carry(dir: &Path, sim: &Sim) {
    for entry in fs::read_dir(dir).expect("listed").flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            let bytes = fs::read(entry.path()).expect("read");
            sim.disk().put(place().dir.join(entry.file_name()), &bytes).expect("room");
        }
    }
}

#[test]
fn what_a_repair_leaves_is_served_as_it_said() {
    let mut repaired = 0;
    let seeds = seeds(REPAIRS);
    for seed in seeds.clone() {
        let mut rng = Rng::new(!seed);
        let mut files = files(&mut rng);
        for _ in 0..rng.between(1, 3) {
            harm(&mut files, &mut rng);
        }
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("partitions").join(PARTITION.to_string());
        fs::create_dir_all(&path).expect("created");
        lay(&files, &path, &Sim::new(seed));
        let plan = repair(&path, false).expect("nobody holds it");
        let done = repair(&path, true).expect("nobody holds it");
        assert_eq!((plan.needed, &plan.lost), (done.needed, &done.lost), "seed {seed}");
        repaired += u32::from(done.needed);
        let again = repair(&path, false).expect("nobody holds it");
        assert!(!again.needed, "seed {seed}: {done:?}\n{again:?}");
        let said = verdicts(&path);
        let batches: u64 = said.files.iter().map(|file| file.batches).sum();
        let sim = Sim::new(seed);
        carry(&path, &sim);
        let (report, read, appended) = sim.run(async {
            let (log, report) =
                try_open(sim.platform(), LogConfig::default()).await.expect("it opens");
            let read = read(&log).await;
            let appended = append_wait(&log, &batch(seed, &[10]), Ack::Durable).await;
            (report, read, appended.base_offset)
        });
        let what = || format!("seed {seed}: {done:?}\n{said:?}\n{report:?}\n{read:?}");
        assert_eq!(read.served.len() as u64, batches, "{}", what());
        assert!(report.cut_bytes == 0 && report.quarantined.is_empty(), "{}", what());
        if files.manifest.is_some() {
            assert!(report.damage.is_empty(), "{}", what());
            assert!(appended >= mark_of(&files), "{}", what());
        }
        // Every hole that polls name was announced.
        for named in &read.named {
            let is_said = done.lost.iter().any(|(from, to)| {
                *from <= named.start && to.is_none_or(|to| named.end <= to || named.end == u64::MAX)
            });
            assert!(is_said, "{named:?} was not announced: {}", what());
        }
    }
    let rounds = seeds.end - seeds.start;
    assert!(rounds < REPAIRS || u64::from(repaired) > rounds / 2, "{repaired}");
}

fn mark_of(files: &Files) -> u64 {
    let manifest = files.manifest.as_deref().expect("one with a manifest");
    let picked = Manifest::pick(&manifest[..SLOT_LEN], &manifest[SLOT_LEN..]);
    picked.ok().flatten().map_or(files.next_offset, |(manifest, _)| manifest.mark.next_offset)
}
