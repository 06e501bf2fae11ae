//! Any machine, injected: what is said about it.

use std::collections::BTreeMap;

use super::trial::Ring;
use super::*;
use crate::ceiling::Abilities;
use crate::machine::{Alignment, Cgroup, Cpu, Device, Limit, Memory, Mount, Space, Uring};

/// A machine on which everything is as it should be.
fn fit() -> Facts {
    let machine = Machine {
        cpu: Cpu { cpus: Some(8), governor: Some("performance".into()), ..Cpu::default() },
        memory: Memory {
            total_bytes: Some(32 << 30),
            transparent_huge_pages: Some("madvise".into()),
            memlock_bytes: Some(Limit::Max),
            open_files: Some(Limit::At(65_536)),
            ..Memory::default()
        },
        uring: Uring {
            disabled: Some(0),
            abilities: Some(Abilities {
                features: vec!["nodrop"],
                needed_operations: 23,
                deferred_taskrun: true,
                ..Abilities::default()
            }),
            refusal: None,
        },
        cgroup: Cgroup { memory_bytes: Some(Limit::Max), ..Cgroup::default() },
        file_system: Some(Mount {
            kind: "ext4".into(),
            options: "rw,relatime;rw,discard".into(),
            source: "/dev/nvme0n1".into(),
        }),
        space: Some(Space { total_bytes: 100 << 30, available_bytes: 50 << 30 }),
        direct_io: Some(Alignment { offset: 512, memory: 4 }),
        device: Some(Device {
            scheduler: Some("none".into()),
            write_cache: Some("write through".into()),
            fua: Some(0),
            rotational: Some(0),
            ..Device::default()
        }),
        ..Machine::default()
    };
    let ring = Ring::Works { synced_p50_us: 40.0, registered_buffers: true };
    Facts { machine, trial: Trial { ring, engine: Some(Ok(())), on_ring: Some(Ok(())) } }
}

fn judged(facts: &Facts) -> BTreeMap<&'static str, Check> {
    checks(facts).into_iter().map(|check| (check.name, check)).collect()
}

#[test]
fn a_fit_machine_is_fit_without_a_word_of_advice() {
    let facts = fit();
    for check in checks(&facts) {
        assert_eq!((check.standing, &check.advice), (Standing::Fit, &None), "{check:?}");
    }
}

#[test]
fn a_machine_that_says_nothing_is_unknown_and_not_unfit() {
    for check in checks(&Facts::default()) {
        assert_eq!(check.standing, Standing::Unknown, "{check:?}");
    }
}

/// One thing changed on a fit machine: that one is named, with its advice, and no other.
#[test]
fn each_fault_is_named_and_nothing_else() {
    type Break = fn(&mut Facts);
    use Standing::{Poor, Unfit};
    let cases: [(Break, &str, Standing, &str); 25] = [
        (|f| refuse(f, Some(2)), "io_uring", Unfit, "io_uring_disabled=0"),
        (|f| refuse(f, Some(1)), "io_uring", Unfit, "io_uring_group"),
        (|f| refuse(f, Some(0)), "io_uring", Unfit, "seccomp"),
        (|f| refuse(f, None), "io_uring", Unfit, "Linux 5.8"),
        (
            |f| abilities(f).missing_operations = vec!["STATX", "OPENAT"],
            "io_uring operations",
            Unfit,
            "newer kernel",
        ),
        (|f| abilities(f).deferred_taskrun = false, "io_uring completions", Poor, "6.1"),
        (|f| f.trial.ring = Ring::NoDirectIo("no".into()), "O_DIRECT", Unfit, "ext4 or XFS"),
        (|f| f.trial.ring = Ring::Failed("no".into()), "O_DIRECT", Unfit, "lines"),
        (|f| align(f).offset = 16_384, "alignment", Unfit, "4 KiB"),
        (|f| mount(f).options.push_str(",nobarrier"), "file system", Unfit, "barriers"),
        (|f| mount(f).options.push_str(",data=journal"), "file system", Poor, "ordered"),
        (|f| mount(f).kind = "tmpfs".into(), "file system", Poor, "disk that will be used"),
        (|f| mount(f).kind = "overlay".into(), "file system", Poor, "volume"),
        (|f| mount(f).kind = "btrfs".into(), "file system", Poor, "chattr"),
        (|f| mount(f).kind = "nfs4".into(), "file system", Poor, "this machine"),
        (|f| synced(f, 2.0), "syncs", Poor, "cache=unsafe"),
        (|f| device(f).scheduler = Some("bfq".into()), "I/O scheduler", Poor, "echo none"),
        (|f| space(f).available_bytes = 1 << 30, "space", Unfit, "free at least"),
        (|f| space(f).available_bytes = 5 << 30, "space", Poor, "nearly full"),
        (|f| f.machine.memory.memlock_bytes = at(65_536), "locked memory", Unfit, "ulimit -l"),
        (|f| f.machine.memory.memlock_bytes = at(1 << 20), "locked memory", Poor, "memlock=-1"),
        (|f| f.machine.memory.open_files = at(1024), "open files", Poor, "ulimit -n"),
        (
            |f| f.machine.memory.transparent_huge_pages = Some("never".into()),
            "huge pages",
            Poor,
            "madvise",
        ),
        (|f| f.machine.cgroup.cpus = Some(Limit::At(1.5)), "CPUs", Poor, "quota"),
        (|f| f.machine.cpu.governor = Some("powersave".into()), "CPU frequency", Poor, "cpupower"),
    ];
    for (number, (change, name, standing, advice)) in cases.into_iter().enumerate() {
        let mut facts = fit();
        change(&mut facts);
        let judged = judged(&facts);
        let found = &judged[name];
        assert_eq!(found.standing, standing, "case {number}: {found:?}");
        assert!(found.advice.as_ref().unwrap().contains(advice), "case {number}: {found:?}");
        for other in judged.values().filter(|other| other.name != name) {
            // What a trial could not find out is unknown then.
            let may = [Standing::Fit, Standing::Unknown].contains(&other.standing);
            assert!(may, "case {number}: {other:?}");
        }
        let diagnosis = Diagnosis {
            dir: "here".into(),
            checks: checks(&facts),
            machine: facts.machine.clone(),
        };
        assert_eq!(diagnosis.is_fit(), standing != Standing::Unfit, "case {number}");
    }
}

#[test]
fn a_flush_for_each_append_is_mentioned_and_is_no_fault() {
    let mut facts = fit();
    device(&mut facts).write_cache = Some("write back".into());
    let syncs = judged(&facts).remove("syncs").unwrap();
    assert_eq!(syncs.standing, Standing::Fit);
    assert!(syncs.advice.unwrap().contains("flush"));
    device(&mut facts).fua = Some(1);
    assert_eq!(judged(&facts)["syncs"].advice, None);
}

#[test]
fn the_screen_and_the_json_say_the_same() {
    let mut facts = fit();
    space(&mut facts).available_bytes = 1 << 30;
    facts.machine.memory.open_files = at(1024);
    let checks = checks(&facts);
    let diagnosis = Diagnosis { dir: "/data".into(), checks, machine: facts.machine };
    let mut text = Vec::new();
    diagnosis.print(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("UNFIT    space                1.07 GB free of 107.37 GB\n"), "{text}");
    assert!(text.contains("                              -> free at least 2.15 GB\n"), "{text}");
    assert!(text.ends_with("/data is NOT fit: 1 of 17 things.\n"), "{text}");
    assert!(text.lines().count() <= 24, "more than one screen:\n{text}");

    let json = diagnosis.to_json();
    assert_eq!((&json["schema"], &json["fit"]), (&json!(1), &json!(false)));
    let find = |name: &str| {
        let all = json["checks"].as_array().unwrap();
        all.iter().find(|check| check["name"] == name).unwrap().clone()
    };
    assert_eq!(find("space")["standing"], "unfit");
    assert_eq!(find("open files")["standing"], "poor");
    assert_eq!(find("CPUs")["advice"], Value::Null);
}

/// The whole of it on the disk of the build, which the tests of the engine need to be fit anyway.
#[test]
fn the_disk_of_the_build_is_tried_and_left_as_it_was() {
    let place = crate::place::tests::test_dir("doctor");
    let names = || std::fs::read_dir(place.path()).unwrap().count();
    let before = names();
    let diagnosis = examine(place.path(), &Interrupt::default()).unwrap();
    for name in ["io_uring", "io_uring operations", "O_DIRECT", "engine", "runtime ring"] {
        let check = diagnosis.checks.iter().find(|check| check.name == name).unwrap();
        assert_eq!(check.standing, Standing::Fit, "{check:?}");
    }
    assert_eq!(names(), before);
}

fn refuse(facts: &mut Facts, disabled: Option<u64>) {
    let refusal = Some("Operation not permitted".to_owned());
    facts.machine.uring = Uring { disabled, abilities: None, refusal };
}

fn abilities(facts: &mut Facts) -> &mut Abilities {
    facts.machine.uring.abilities.as_mut().unwrap()
}

fn align(facts: &mut Facts) -> &mut Alignment {
    facts.machine.direct_io.as_mut().unwrap()
}

fn mount(facts: &mut Facts) -> &mut Mount {
    facts.machine.file_system.as_mut().unwrap()
}

fn device(facts: &mut Facts) -> &mut Device {
    facts.machine.device.as_mut().unwrap()
}

fn space(facts: &mut Facts) -> &mut Space {
    facts.machine.space.as_mut().unwrap()
}

fn synced(facts: &mut Facts, synced_p50_us: f64) {
    facts.trial.ring = Ring::Works { synced_p50_us, registered_buffers: true };
}

fn at(limit: u64) -> Option<Limit<u64>> {
    Some(Limit::At(limit))
}
