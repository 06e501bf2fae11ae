//! One situation for each row of the recovery table, on real bytes: a log that the engine made,
//! brought into the row's state, and what opening must come to.

use std::ops::RangeInclusive;

use bytes::Bytes;
use corelog_format::{Manifest, Mark, SLOT_LEN};
use corelog_io::IoOp;
use corelog_io::sim::{Fault, Image, Sim, errno};
use corelog_storage::{Ack, AppendError, From, MANIFEST_FILE, OpenDamage, PollError};

use super::*;

/// A state of the disk and what opening it must come to.
pub struct Situation {
    /// The row's name in the document.
    pub row: &'static str,
    pub image: Image,
    /// Faults that stay.
    pub faults: Vec<Fault>,
    /// Batches that are served, by polls that step over damage.
    pub served: Model,
    /// Where appends go on.
    pub next: RangeInclusive<u64>,
    /// What is reported, in order.
    pub damage: &'static [&'static str],
    /// Whole batches that are kept aside.
    pub aside: Vec<Bytes>,
    /// First offsets of the log files afterwards; the last is where appends go on, if it is new.
    pub logs: Vec<u64>,
    /// Log files that are left as they are, byte for byte.
    pub untouched: Vec<(u64, Vec<u8>)>,
}

/// How the life before ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Closed: the mark stands at the end.
    Closed,
    /// Killed, and the mark still at the start: its manifest could not be stored.
    MarkAtStart,
}

/// Offset 0 in segment 0, the others in segment 1.
const SIZES: [usize; 4] = [1 << 20, 90, 80, 70];
/// The same with batches that are longer than a block.
const LONG_SIZES: [usize; 4] = [1 << 20, 5_000, 9_000, 70];

/// A log on a simulated disk that is being brought into a state.
struct Scene {
    sim: Sim,
    model: Model,
}

impl Scene {
    fn new(sizes: &[usize], ended: Ended) -> Scene {
        let sim = Sim::new(11);
        let mut model = Model::default();
        sim.run(async {
            let log = open(sim.platform(), small_segments()).await;
            if ended == Ended::MarkAtStart {
                let full = Fault::fail(errno::ENOSPC).of(IoOp::Open).on(MANIFEST_FILE);
                sim.disk().inject(full.for_ever());
            }
            for (tag, len) in sizes.iter().enumerate() {
                let bytes = batch(tag as u64, &[*len]);
                model.push(bytes.clone(), append_wait(&log, &bytes, Ack::Durable).await);
            }
            if ended == Ended::Closed {
                log.close().await.unwrap();
            }
        });
        sim.disk().process_kill(1);
        sim.disk().lift_all();
        Scene { sim, model }
    }

    /// Position in segment 1 of the batch with this offset, or of the end.
    fn at(&self, offset: usize) -> u64 {
        self.model.batches[1..offset].iter().map(|(bytes, _)| bytes.len() as u64).sum()
    }

    fn frames(&self, offset: usize) -> Bytes {
        self.model.batches[offset].0.slice(256..)
    }

    fn delete(&self, path: PathBuf) {
        self.sim.disk().delete(path).unwrap();
    }

    fn lose_manifest(&self) {
        for slot in [0, SLOT_LEN as u64] {
            self.sim.disk().flip_bit(manifest(), slot + 20, 1).unwrap();
        }
    }

    /// A segment of offset 9 that does not continue the log, with one batch; its frames.
    fn plant_stray(&self) -> (Bytes, Appended) {
        let bytes = batch(77, &[150]);
        let time = self.model.batches[0].1.base_timestamp;
        let file = [&as_stored(&bytes, PARTITION, 9, time)[..], &[0; 5_000]].concat();
        self.sim.disk().put(log_file(9), &file).unwrap();
        (bytes, Appended { base_offset: 9, base_timestamp: time, message_count: 1 })
    }

    /// The situation as it stands, if this many batches are served and nothing else is to be said.
    fn is(self, row: &'static str, served: usize, next: u64, logs: &[u64]) -> Situation {
        let served = Model { batches: self.model.batches[..served].to_vec() };
        // Everything was durable; the un-synced rest of a killed life is drawn once and for all.
        let image = self.sim.disk().image_of_power_cut(5);
        let untouched = [0, 1, 9].into_iter().filter(|log| logs.contains(log));
        let untouched =
            untouched.filter_map(|log| Some((log, image.contents(log_file(log)).ok()?))).collect();
        Situation {
            row,
            image,
            faults: Vec::new(),
            served,
            next: next..=next,
            damage: &[],
            aside: Vec::new(),
            logs: logs.to_vec(),
            untouched,
        }
    }
}

fn manifest() -> PathBuf {
    place().dir.join(MANIFEST_FILE)
}

/// The rows' names, as the document shows them.
pub fn rows() -> Vec<&'static str> {
    let document = include_str!("../../../../docs/durability.md");
    let rows = document.lines().skip_while(|line| !line.starts_with("| row | the walk stops"));
    rows.skip(2).map_while(|line| line.strip_prefix("| `")?.split('`').next()).collect()
}

/// The situation of every row.
pub fn situation(row: &'static str) -> Situation {
    let with_mark = above_the_mark(row).or_else(|| below_the_mark(row));
    let found = with_mark.or_else(|| without_a_mark(row));
    found.unwrap_or_else(|| panic!("no situation for the row {row}: write one"))
}

fn above_the_mark(row: &'static str) -> Option<Situation> {
    use Ended::{Closed, MarkAtStart};
    Some(match row {
        "whole" => {
            let scene = Scene::new(&SIZES, MarkAtStart);
            // One made ahead of need and reserved, one just made.
            scene.sim.disk().put(log_file(8), &[]).unwrap();
            scene.sim.disk().put(log_file(12), &[0; 9_000]).unwrap();
            changed(scene.is(row, 4, 4, &[0, 1]))
        }
        "torn tail" => {
            let scene = Scene::new(&SIZES, MarkAtStart);
            scene.sim.disk().zero(log_file(1), scene.at(2)..scene.at(3)).unwrap();
            let (stray, _) = scene.plant_stray();
            let aside = vec![scene.frames(3), stray.slice(256..)];
            Situation { aside, ..changed(scene.is(row, 2, 2, &[0, 1])) }
        }
        "stray segment" => {
            let scene = Scene::new(&SIZES, MarkAtStart);
            let (stray, _) = scene.plant_stray();
            Situation { aside: vec![stray.slice(256..)], ..changed(scene.is(row, 4, 4, &[0, 1])) }
        }
        "begun again" => {
            let scene = Scene::new(&SIZES[..1], Closed);
            let last_timestamp = scene.model.batches[0].1.base_timestamp;
            let mark = Mark { segment: 1, position: 0, next_offset: 1, last_timestamp };
            let next =
                Manifest { sequence: 99, incarnation: 3, first_offset: 0, adopted_end: 0, mark };
            scene.sim.disk().overwrite(manifest(), 0, &next.encode()).unwrap();
            let (stray, _) = scene.plant_stray();
            Situation { aside: vec![stray.slice(256..)], ..scene.is(row, 1, 1, &[0, 1]) }
        }
        "unreadable" => {
            let scene = Scene::new(&LONG_SIZES, MarkAtStart);
            let sector = scene.at(2).next_multiple_of(4096)..scene.at(2).next_multiple_of(4096) + 1;
            assert!(sector.end < scene.at(3));
            let bad = Fault::fail(errno::EIO).of(IoOp::Read).on(name(&log_file(1)));
            // 48 bytes a message, from the batch on to the end of what was written.
            let most = 2 + (scene.at(4) - scene.at(2)) / 48;
            let situation = scene.is(row, 4, 4, &[0, 1]).without(2);
            let faults = vec![bad.over(sector).for_ever()];
            Situation { faults, next: 4..=most, damage: &["Unreadable"], ..situation }
        }
        _ => return None,
    })
}

fn below_the_mark(row: &'static str) -> Option<Situation> {
    use Ended::Closed;
    Some(match row {
        "corrupt" => {
            let scene = Scene::new(&SIZES, Closed);
            scene.sim.disk().flip_bit(log_file(1), scene.at(2) + 300, 3).unwrap();
            Situation { damage: &["Corrupt"], ..scene.is(row, 4, 4, &[0, 1, 4]).without(2) }
        }
        "cut short" => {
            let scene = Scene::new(&SIZES, Closed);
            scene.sim.disk().truncate(log_file(1), scene.at(3)).unwrap();
            Situation { damage: &["Corrupt"], ..scene.is(row, 3, 4, &[0, 1, 4]) }
        }
        "missing segment" => {
            let scene = Scene::new(&SIZES, Closed);
            scene.delete(log_file(1));
            Situation { damage: &["MissingSegment"], ..scene.is(row, 1, 4, &[0, 4]) }
        }
        _ => return None,
    })
}

fn without_a_mark(row: &'static str) -> Option<Situation> {
    use Ended::Closed;
    Some(match row {
        "new" => {
            let sim = Sim::new(1);
            sim.disk().put(log_file(0), &[]).unwrap();
            Scene { sim, model: Model::default() }.is(row, 0, 0, &[0])
        }
        "adopted" => {
            let scene = Scene::new(&SIZES, Closed);
            scene.delete(manifest());
            scene.is(row, 4, 4, &[0, 1])
        }
        "incomplete batch" => {
            let scene = Scene::new(&SIZES, Closed);
            scene.delete(manifest());
            scene.sim.disk().truncate(log_file(1), scene.at(4) - 5).unwrap();
            changed(scene.is(row, 3, 3, &[0, 1]))
        }
        "incomplete batch inside" => {
            let scene = Scene::new(&SIZES, Closed);
            scene.delete(manifest());
            // The length of a batch points far behind the file.
            scene.sim.disk().flip_bit(log_file(1), scene.at(2) + 32 + 2, 4).unwrap();
            Situation { damage: &["Corrupt"], ..scene.is(row, 4, 4, &[0, 1, 4]).without(2) }
        }
        "damage without a mark" => {
            let scene = Scene::new(&SIZES, Closed);
            scene.lose_manifest();
            scene.sim.disk().flip_bit(log_file(1), scene.at(3) + 300, 3).unwrap();
            let damage = &["Manifest", "Corrupt"];
            // Nothing behind it verifies, and without a mark nothing says that it was there: its
            // offset is given out again, in a file of its own.
            Situation { damage, ..scene.is(row, 3, 3, &[0, 1, 3]) }
        }
        "gap without a mark" => {
            let scene = Scene::new(&SIZES, Closed);
            scene.delete(manifest());
            let (bytes, appended) = scene.plant_stray();
            let mut situation = scene.is(row, 4, 10, &[0, 1, 9, 10]);
            situation.served.push(bytes, appended);
            Situation { damage: &["MissingSegment"], ..situation }
        }
        "no log left" => {
            let scene = Scene::new(&SIZES, Closed);
            scene.lose_manifest();
            scene.delete(log_file(0));
            scene.delete(log_file(1));
            Situation { damage: &["Manifest", "MissingSegment"], ..scene.is(row, 0, 0, &[0]) }
        }
        _ => return None,
    })
}

/// Reserved space is cut off, or more.
fn changed(situation: Situation) -> Situation {
    Situation { untouched: Vec::new(), ..situation }
}

fn kind(damage: &OpenDamage) -> &'static str {
    match damage {
        OpenDamage::Corrupt { .. } => "Corrupt",
        OpenDamage::Unreadable { .. } => "Unreadable",
        OpenDamage::MissingSegment { .. } => "MissingSegment",
        OpenDamage::Manifest => "Manifest",
        _ => "another",
    }
}

impl Situation {
    /// A poll steps over this batch, and serves what stands behind it.
    fn without(mut self, damaged: usize) -> Situation {
        self.served.batches.remove(damaged);
        self
    }

    /// The disk in this state.
    pub fn sim(&self, seed: u64) -> Sim {
        let sim = Sim::from_image(seed, &self.image);
        self.harm(&sim);
        sim
    }

    /// Only the faults that belong to the situation are in force.
    pub fn harm(&self, sim: &Sim) {
        sim.disk().lift_all();
        for fault in &self.faults {
            sim.disk().inject(fault.clone());
        }
    }

    /// Opens twice, the second time without a close before it: row and report the first time, if
    /// the disk is `fresh`; both times what is served, where appends go on, and what the directory holds.
    pub fn judge(&self, sim: &Sim, fresh: bool, what: &str) {
        let mut served = self.served.clone();
        sim.run(async {
            let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
            if fresh {
                assert_eq!(report.row, self.row, "{what}");
                let damage: Vec<&str> = report.damage.iter().map(kind).collect();
                assert_eq!(damage, self.damage, "{what}");
            }
            assert!(!report.read_only, "{what}");
            self.check_served(&log, &served, what).await;
            let end = log.watermarks().appended();
            assert!(self.next.contains(&end), "{what}: goes on at {end}");
            let bytes = batch(99, &[10]);
            let appended = append_wait(&log, &bytes, Ack::Durable).await;
            assert_eq!(appended.base_offset, end, "{what}");
            let before = self.served.batches.last().map_or(0, |(_, a)| a.base_timestamp);
            assert!(appended.base_timestamp > before, "{what}: time goes on");
            served.push(bytes, appended);
        });
        sim.disk().process_kill(7);
        let logs_now = logs(sim);
        let new = (self.row == "unreadable").then(|| served.batches.last().unwrap().1.base_offset);
        let expected: Vec<u64> = self.logs.iter().copied().chain(new).collect();
        assert_eq!(logs_now, expected, "{what}");
        self.check_aside(sim, what);
        sim.run(async {
            let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
            assert_eq!((report.cut_bytes, report.quarantined.len()), (0, 0), "{what}: once");
            self.check_served(&log, &served, what).await;
            assert_eq!(log.watermarks().appended(), served.end(), "{what}: opened again");
            log.close().await.unwrap();
            let (log, report) = try_open(sim.platform(), small_segments()).await.unwrap();
            assert_eq!((report.row, report.damage), ("whole", Vec::new()), "{what}: closed");
            log.close().await.unwrap();
        });
        assert_eq!(logs(sim), expected, "{what}: opened again");
        self.check_aside(sim, what);
        for (log, bytes) in &self.untouched {
            let now = sim.disk().contents(log_file(*log)).unwrap();
            assert!(now.starts_with(bytes), "{what}: segment {log} is left as it is");
            let is_last = self.logs.last() == Some(log);
            // What is written again gets its length again: cut off there, it has a few zeros more.
            let is_rewritten = !fresh && self.damage.contains(&"Manifest");
            let longer = &now[bytes.len()..];
            let zeros = longer.len() <= 4 * 4096 && longer.iter().all(|byte| *byte == 0);
            let is_same = longer.is_empty() || is_rewritten && zeros;
            assert!(is_last || is_same, "{what}: segment {log} is longer");
        }
        assert_eq!(sim.disk().open_files(), 0, "{what}");
    }

    async fn check_served(&self, log: &Log, served: &Model, what: &str) {
        let mut batches = served.batches.iter();
        let mut next = 0;
        while next < log.watermarks().appended() {
            match poll(log, From::Offset(next), u32::MAX, 3_000_000).await {
                Ok(got) => {
                    for batch in got.batches() {
                        let (bytes, appended) = batches.next().expect("nothing but what is served");
                        assert_same(&batch, bytes, *appended);
                    }
                    assert!(got.next > next, "{what}");
                    next = got.next;
                }
                Err(
                    PollError::Corrupt { resume_offset, .. }
                    | PollError::Unreadable { resume_offset, .. },
                ) => {
                    let resume = resume_offset.unwrap_or(u64::MAX);
                    assert!(resume > next, "{what}: stepping over goes forward");
                    next = resume;
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
        assert_eq!(batches.count(), 0, "{what}: everything that verifies is served");
    }

    /// Whole batches, each once, no half copies, no reserved zeros.
    fn check_aside(&self, sim: &Sim, what: &str) {
        let dir = place().dir.join("quarantine");
        let files = sim.disk().files().into_iter().filter(|path| path.starts_with(&dir));
        let names: Vec<PathBuf> = files.collect();
        assert_eq!(names.len(), self.aside.len(), "{what}: {names:?}");
        for frames in &self.aside {
            let holding = names.iter().filter(|path| {
                assert!(!name(path).ends_with("tmp"), "{what}: half a copy");
                sim.disk().contents(path).unwrap().ends_with(frames)
            });
            assert_eq!(holding.count(), 1, "{what}: a whole batch is kept aside, once");
        }
    }
}

/// Polls are served and appends refused: what a partition is that was opened for reading.
pub async fn check_read_only(situation: &Situation, log: &Log, what: &str) {
    situation.check_served(log, &situation.served, what).await;
    let refused = append(log, &batch(5, &[10]), Ack::Appended);
    let error = refused.get().expect("answered at once");
    assert!(matches!(error, Err(AppendError::Poisoned(_))), "{what}: {error:?}");
}
