//! Repairs that end behind each of their steps: the original is whole somewhere, and a second
//! attempt comes to what an undisturbed one comes to.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use corelog_format::{Manifest, Mark, SLOT_LEN, index_file_name, segment_file_name};

use super::plan::{Plan, plan};
use super::{Outcome, apply, one};
use crate::discover::{self, Partition};
use crate::durable::Durable;
use crate::failure::Failure;
use crate::source::Access;
use crate::testing;

/// A partition's directory, removed with its test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("corelog-dump-repair-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).expect("a directory");
        Scratch(dir)
    }

    fn partition(&self) -> Partition {
        let mut found = discover::discover(std::slice::from_ref(&self.0));
        assert!(found.failures.is_empty(), "{:?}", found.failures);
        found.partitions.remove(0)
    }

    fn plan(&self) -> Plan {
        let (durable, _) = Durable::read(&self.0).expect("a manifest or none");
        plan(&self.partition(), &durable, Access::default()).expect("a plan")
    }

    fn mark(&self) -> Option<Mark> {
        Durable::read(&self.0).expect("a manifest or none").0.mark()
    }

    /// The files that count, by name.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(&self.0).expect("listed").flatten();
        let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
        files
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name != "manifest")
            .map(|name| (name.clone(), fs::read(self.0.join(&name)).expect("read")))
            .collect()
    }

    /// Every content that stands in the directory or in its quarantine.
    fn contents(&self) -> Vec<Vec<u8>> {
        let in_dir = |dir: &Path| -> Vec<Vec<u8>> {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            entries.filter_map(|entry| fs::read(entry.path()).ok()).collect()
        };
        [in_dir(&self.0), in_dir(&self.0.join("quarantine"))].concat()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A stamped batch of two messages.
fn batch(base_offset: u64) -> Vec<u8> {
    let payload = [base_offset as u8 | 1; 90];
    testing::batch(base_offset, &[&payload, &payload])
}

/// Batches from this offset on.
fn log(first: u64, batches: u64) -> Vec<u8> {
    (0..batches).flat_map(|number| batch(first + 2 * number)).collect()
}

/// What is wrong in a scenario.
struct Scenario {
    name: &'static str,
    /// First offset and content of each segment.
    logs: Vec<(u64, Vec<u8>)>,
    /// Segment, position and next offset of the mark.
    mark: Option<(u64, u64, u64)>,
    /// Names and batches of the segments afterwards.
    after: Vec<(u64, u64)>,
}

const BATCH: usize = 256 + 2 * (48 + 90);

fn broken(mut log: Vec<u8>, batches: &[usize]) -> Vec<u8> {
    for number in batches {
        log[number * BATCH + 320] ^= 4;
    }
    log
}

fn scenarios() -> Vec<Scenario> {
    let len = |batches: u64| batches * BATCH as u64;
    let two = |second: Vec<u8>| vec![(0, log(0, 3)), (6, second)];
    let cut = log(6, 4)[..3 * BATCH + 100].to_vec();
    vec![
        Scenario {
            name: "torn, no mark",
            logs: two(cut.clone()),
            mark: None,
            after: vec![(0, 3), (6, 3)],
        },
        Scenario {
            name: "torn above the mark",
            logs: two(cut.clone()),
            mark: Some((6, len(2), 10)),
            after: vec![(0, 3), (6, 3)],
        },
        Scenario {
            name: "cut below the mark",
            logs: two(cut),
            mark: Some((6, len(4), 14)),
            after: vec![(0, 3), (6, 3), (14, 0)],
        },
        Scenario {
            name: "one batch in the middle",
            logs: vec![(0, broken(log(0, 3), &[1])), (6, log(6, 4))],
            mark: Some((6, len(4), 14)),
            after: vec![(0, 1), (4, 1), (6, 4)],
        },
        Scenario {
            name: "the first batch, and two more",
            logs: two(broken(log(6, 6), &[0, 3])),
            mark: Some((6, len(6), 18)),
            after: vec![(0, 3), (8, 2), (14, 2)],
        },
        Scenario {
            name: "nothing readable",
            logs: two(vec![0xA5; 3000]),
            mark: Some((6, 3000, 12)),
            after: vec![(0, 3), (12, 0)],
        },
        Scenario {
            name: "shorter than its mark",
            logs: two(log(6, 2)),
            mark: Some((6, len(4), 14)),
            after: vec![(0, 3), (6, 2), (14, 0)],
        },
        Scenario {
            name: "of other offsets",
            logs: vec![(0, log(0, 3)), (6, log(2, 4))],
            mark: None,
            after: vec![(0, 3), (6, 2)],
        },
    ]
}

fn made(scenario: &Scenario) -> Scratch {
    let scratch = Scratch::new();
    for (first, bytes) in &scenario.logs {
        fs::write(scratch.0.join(segment_file_name(*first)), bytes).expect("written");
        fs::write(scratch.0.join(index_file_name(*first)), [7; 24]).expect("written");
    }
    if let Some((segment, position, next_offset)) = scenario.mark {
        let mark = Mark { segment, position, next_offset, last_timestamp: 2_000 };
        let manifest =
            Manifest { sequence: 1, incarnation: 1, first_offset: 0, adopted_end: 0, mark };
        let bytes = [manifest.encode(), [0; SLOT_LEN]].concat();
        fs::write(scratch.0.join("manifest"), bytes).expect("written");
    }
    scratch
}

/// Repairs it, but for an end behind so many steps. Says whether it came to its own end.
fn repaired(scratch: &Scratch, steps: usize) -> bool {
    let mut left = steps;
    let done = apply::apply(&scratch.partition(), &scratch.plan(), &mut |_| match left {
        0 => Err(Failure::not_ours(&scratch.0, "ends here")),
        _ => {
            left -= 1;
            Ok(())
        }
    });
    done.is_ok()
}

#[test]
fn an_end_behind_any_step_loses_nothing_and_is_made_good() {
    for scenario in scenarios() {
        let name = scenario.name;
        let whole = made(&scenario);
        assert!(repaired(&whole, usize::MAX), "{name}");
        let after: Vec<_> = scenario.after.iter().collect();
        let logs: Vec<(u64, u64)> = whole
            .files()
            .iter()
            .filter_map(|(name, bytes)| {
                let first = name.strip_suffix(".log")?.parse().ok()?;
                Some((first, (bytes.len() / BATCH) as u64))
            })
            .collect();
        assert_eq!(logs.iter().collect::<Vec<_>>(), after, "{name}");
        assert!(whole.plan().is_empty(), "{name}: {:?}", whole.plan());
        let mut steps = 0;
        loop {
            let scratch = made(&scenario);
            let is_over = repaired(&scratch, steps);
            let contents = scratch.contents();
            for (first, bytes) in &scenario.logs {
                assert!(contents.contains(bytes), "{name}, {steps} steps: {first} is nowhere");
            }
            assert!(repaired(&scratch, usize::MAX), "{name}, {steps} steps");
            assert!(scratch.files() == whole.files(), "{name}, {steps} steps");
            assert_eq!(scratch.mark(), whole.mark(), "{name}, {steps} steps");
            assert!(scratch.plan().is_empty(), "{name}, {steps} steps: {:?}", scratch.plan());
            if is_over {
                break;
            }
            steps += 1;
        }
        assert!(steps > 1, "{name} has steps");
    }
}

#[test]
fn a_plan_changes_nothing() {
    for scenario in scenarios() {
        let scratch = made(&scenario);
        let (files, contents) = (scratch.files(), scratch.contents().len());
        assert!(!scratch.plan().is_empty(), "{}", scenario.name);
        let Ok(Outcome::Done(done)) = one(&scratch.partition(), false) else {
            panic!("{}: nobody holds it", scenario.name);
        };
        assert!(done.kept.is_none());
        assert!(scratch.files() == files && scratch.contents().len() == contents);
    }
}

#[test]
fn a_copy_in_quarantine_is_not_made_twice_and_never_written_over() {
    let scenario = &scenarios()[0];
    let scratch = made(scenario);
    let quarantine = scratch.0.join("quarantine");
    fs::create_dir(&quarantine).expect("created");
    let taken = quarantine.join(format!("{}.0", segment_file_name(6)));
    fs::write(&taken, b"an older one").expect("written");
    // Ends behind the copy, twice, then goes through.
    for steps in [3, 3, usize::MAX] {
        repaired(&scratch, steps);
    }
    let of_log = |entry: &fs::DirEntry| {
        entry.file_name().to_string_lossy().starts_with(&segment_file_name(6))
    };
    let count = fs::read_dir(&quarantine).expect("listed").flatten().filter(of_log).count();
    assert_eq!((fs::read(&taken).expect("read"), count), (b"an older one".to_vec(), 2));
}

#[test]
fn what_another_process_holds_is_left_alone() {
    let scratch = made(&scenarios()[0]);
    let path = scratch.0.join(segment_file_name(0));
    let engine = fs::File::open(&path).expect("opened");
    rustix::fs::flock(&engine, rustix::fs::FlockOperation::LockExclusive).expect("free");
    let files = scratch.files();
    for apply in [false, true] {
        let outcome = one(&scratch.partition(), apply).expect("looked at");
        assert!(matches!(outcome, Outcome::Held(held) if held == path));
    }
    assert!(scratch.files() == files && !scratch.0.join("quarantine").exists());
}
