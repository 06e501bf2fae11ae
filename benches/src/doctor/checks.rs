//! The judgements: what the facts mean for a log, and what to do.

use super::trial::Ring;
use super::{Check, Facts, Standing};
use crate::machine::{Limit, Machine};
use crate::size::{human, human_block};

/// Locked memory below which the engine's runtime does not start.
const MEMLOCK_MIN: u64 = 512 * 1024;
/// Locked memory with which the ceiling's buffers can be registered as well.
const MEMLOCK_GOOD: u64 = 8 << 20;
/// Open files with which thousands of partitions still work at full speed.
const FILES_GOOD: u64 = 4096;
/// What a log of its default settings needs to begin.
const SPACE_MIN: u64 = 2 << 30;
/// Above this, SSDs and file systems slow down.
const USED_PERCENT_GOOD: f64 = 90.0;
/// Memory below which a default engine is short of buffers.
const MEMORY_GOOD: u64 = 1 << 30;
/// A synced write to a real device takes longer than this.
const SYNC_SUSPICIOUS_US: f64 = 8.0;
/// The largest alignment that the engine's blocks keep.
const BLOCK_BYTES: u64 = 4096;

/// All checks, in the order in which they are shown.
pub(super) fn checks(facts: &Facts) -> Vec<Check> {
    let machine = &facts.machine;
    vec![
        uring(machine),
        operations(machine),
        task_work(machine),
        direct_io(facts),
        alignment(machine),
        file_system(machine),
        engine(facts),
        on_ring(facts),
        write_cache(facts),
        scheduler(machine),
        space(machine),
        memlock(facts),
        open_files(machine),
        huge_pages(machine),
        memory(machine),
        cpu(machine),
        governor(machine),
    ]
}

fn check(name: &'static str, standing: Standing, found: impl Into<String>) -> Check {
    Check { name, standing, found: found.into(), advice: None }
}

impl Check {
    fn advise(mut self, advice: impl Into<String>) -> Check {
        self.advice = Some(advice.into());
        self
    }
}

fn unknown(name: &'static str) -> Check {
    check(name, Standing::Unknown, "the kernel does not say")
}

fn uring(machine: &Machine) -> Check {
    let name = "io_uring";
    let uring = &machine.uring;
    let Some(refusal) = &uring.refusal else {
        return match &uring.abilities {
            Some(abilities) => {
                let features = abilities.features.len();
                check(name, Standing::Fit, format!("allowed, {features} features"))
            }
            None => unknown(name),
        };
    };
    let refused = check(name, Standing::Unfit, format!("refused: {refusal}"));
    match uring.disabled {
        Some(2) => refused.advise("sysctl kernel.io_uring_disabled=0 (it is 2: nobody may)"),
        Some(1) => refused.advise(
            "sysctl kernel.io_uring_disabled=0, or join the group of kernel.io_uring_group",
        ),
        Some(_) => refused.advise(
            "a container's seccomp profile forbids it, as Docker's does: allow io_uring_setup, \
             io_uring_enter and io_uring_register",
        ),
        None => {
            refused.advise("Linux 5.8 or newer is needed, and a seccomp profile that allows it")
        }
    }
}

fn operations(machine: &Machine) -> Check {
    let name = "io_uring operations";
    let Some(abilities) = &machine.uring.abilities else { return unknown(name) };
    let needed = abilities.needed_operations;
    if abilities.missing_operations.is_empty() {
        return check(name, Standing::Fit, format!("all {needed} that are needed"));
    }
    let missing = abilities.missing_operations.join(", ");
    check(name, Standing::Unfit, format!("missing of {needed}: {missing}"))
        .advise("use a newer kernel: 5.8 has them all")
}

fn task_work(machine: &Machine) -> Check {
    let name = "io_uring completions";
    let Some(abilities) = &machine.uring.abilities else { return unknown(name) };
    if abilities.deferred_taskrun {
        return check(name, Standing::Fit, "DEFER_TASKRUN");
    }
    check(name, Standing::Poor, "no DEFER_TASKRUN: each completion interrupts the program")
        .advise("Linux 6.1 or newer has it")
}

fn direct_io(facts: &Facts) -> Check {
    let name = "O_DIRECT";
    match &facts.trial.ring {
        Ring::Works { .. } => check(name, Standing::Fit, "writes and reads"),
        Ring::NoDirectIo(error) => {
            check(name, Standing::Unfit, error.clone()).advise("choose a directory on ext4 or XFS")
        }
        Ring::Failed(error) => {
            check(name, Standing::Unfit, error.clone()).advise("see the lines above and below")
        }
        Ring::NotTried => check(name, Standing::Unknown, "not tried"),
    }
}

fn alignment(machine: &Machine) -> Check {
    let name = "alignment";
    let Some(align) = machine.direct_io else {
        return check(
            name,
            Standing::Unknown,
            "statx does not tell (Linux 6.1 does, on ext4, XFS)",
        );
    };
    let found = format!(
        "{} for positions, {} for memory",
        human_block(align.offset),
        human_block(align.memory)
    );
    if align.offset.max(align.memory) <= BLOCK_BYTES {
        return check(name, Standing::Fit, found);
    }
    check(name, Standing::Unfit, found)
        .advise("blocks of 4 KiB are written: use a device with sectors of at most 4 KiB")
}

fn file_system(machine: &Machine) -> Check {
    let name = "file system";
    let Some(mount) = &machine.file_system else { return unknown(name) };
    let found = format!("{} on {}", mount.kind, mount.source);
    let has = |option: &str| mount.options.split([',', ';']).any(|one| one == option);
    let poor = |why: &str| check(name, Standing::Poor, format!("{found}: {why}"));
    match mount.kind.as_str() {
        "ext4" | "xfs" if has("nobarrier") || has("barrier=0") => {
            check(name, Standing::Unfit, format!("{found}, mounted without barriers"))
                .advise("remount with barriers: without them nothing is durable")
        }
        "ext4" | "xfs" if has("sync") || has("dirsync") => {
            poor("mounted with sync").advise("remount without it: the engine syncs what must be")
        }
        "ext4" if has("data=journal") => {
            poor("data=journal writes everything twice, and not directly")
                .advise("remount with data=ordered")
        }
        "ext4" | "xfs" => check(name, Standing::Fit, found),
        "btrfs" | "zfs" | "bcachefs" => poor("copy on write makes every overwrite an allocation")
            .advise("ext4 or XFS; on btrfs at least chattr +C on the empty directory"),
        "tmpfs" | "ramfs" => poor("memory, not a disk: nothing survives")
            .advise("measure on the disk that will be used"),
        "overlay" => {
            poor("the upper layer of a container").advise("mount a volume and point --dir at it")
        }
        "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "virtiofs" | "fuse" | "fuseblk" | "ceph" => {
            poor("a network or another program stands in between")
                .advise("use a disk of this machine")
        }
        _ => poor("not one that is tested").advise("ext4 and XFS are"),
    }
}

fn engine(facts: &Facts) -> Check {
    let name = "engine";
    match &facts.trial.engine {
        Some(Ok(())) => {
            check(name, Standing::Fit, "opened, made a batch durable, read it back, closed")
        }
        Some(Err(error)) => check(name, Standing::Unfit, error.clone()),
        None => check(name, Standing::Unknown, "not tried"),
    }
}

fn on_ring(facts: &Facts) -> Check {
    let name = "runtime ring";
    match &facts.trial.on_ring {
        Some(Ok(())) => check(name, Standing::Fit, "the same, on the engine's other runtime"),
        Some(Err(error)) => check(name, Standing::Poor, error.clone())
            .advise("stay with the default, or use Linux 5.13 or newer"),
        None => check(name, Standing::Unknown, "not tried"),
    }
}

fn write_cache(facts: &Facts) -> Check {
    let name = "syncs";
    let device = facts.machine.device.as_ref();
    let cache = device.and_then(|device| device.write_cache.as_deref());
    let fua = device.and_then(|device| device.fua).map(|fua| fua > 0);
    let Ring::Works { synced_p50_us, .. } = facts.trial.ring else {
        return check(name, Standing::Unknown, "not tried");
    };
    let fua_words = match fua {
        Some(true) => "with FUA",
        Some(false) => "without FUA",
        None => "FUA unknown",
    };
    let found = format!(
        "4 KiB durable in {synced_p50_us:.0} us; write cache {}, {fua_words}",
        cache.unwrap_or("unknown")
    );
    if synced_p50_us < SYNC_SUSPICIOUS_US {
        return check(name, Standing::Poor, found).advise(
            "too quick for a device: memory, or a layer below that ignores syncs (a virtual disk \
             with cache=unsafe). Do not trust it with data",
        );
    }
    if cache == Some("write back") && fua == Some(false) {
        return check(name, Standing::Fit, found).advise(
            "each durable append pays for a flush: FUA or a protected cache makes it quicker",
        );
    }
    check(name, Standing::Fit, found)
}

fn scheduler(machine: &Machine) -> Check {
    let name = "I/O scheduler";
    let Some(device) = &machine.device else {
        return check(name, Standing::Unknown, "no block device below");
    };
    let Some(scheduler) = &device.scheduler else { return unknown(name) };
    let queue = device.name.as_deref().unwrap_or("DISK");
    match (scheduler.as_str(), device.rotational) {
        ("bfq", Some(0)) | ("kyber", _) => check(name, Standing::Poor, scheduler.clone())
            .advise(format!("echo none > /sys/block/{queue}/queue/scheduler")),
        _ => check(name, Standing::Fit, scheduler.clone()),
    }
}

fn space(machine: &Machine) -> Check {
    let name = "space";
    let Some(space) = machine.space else { return unknown(name) };
    let used = space.used_percent();
    let found = format!("{} free of {}", human(space.available_bytes), human(space.total_bytes));
    if space.available_bytes < SPACE_MIN {
        return check(name, Standing::Unfit, found)
            .advise(format!("free at least {}", human(SPACE_MIN)));
    }
    if used > USED_PERCENT_GOOD {
        return check(name, Standing::Poor, format!("{found}, {used:.0} % full"))
            .advise("SSDs and file systems that are nearly full are slow: free some space");
    }
    check(name, Standing::Fit, found)
}

fn memlock(facts: &Facts) -> Check {
    let name = "locked memory";
    let Some(limit) = facts.machine.memory.memlock_bytes else { return unknown(name) };
    let found = match limit {
        Limit::At(bytes) => format!("at most {}", human_block(bytes)),
        Limit::Max => "no limit".to_owned(),
    };
    let advice = "ulimit -l unlimited, LimitMEMLOCK=infinity, or docker run --ulimit memlock=-1";
    let refused = matches!(facts.trial.ring, Ring::Works { registered_buffers: false, .. });
    if limit.is_below(MEMLOCK_MIN) {
        return check(name, Standing::Unfit, found).advise(advice);
    }
    if refused {
        let found = format!("{found}: buffers cannot be registered");
        return check(name, Standing::Poor, found).advise(advice);
    }
    if limit.is_below(MEMLOCK_GOOD) {
        return check(name, Standing::Poor, found).advise(advice);
    }
    check(name, Standing::Fit, found)
}

fn open_files(machine: &Machine) -> Check {
    let name = "open files";
    match machine.memory.open_files {
        None => unknown(name),
        Some(Limit::Max) => check(name, Standing::Fit, "no limit"),
        Some(limit @ Limit::At(files)) if limit.is_below(FILES_GOOD) => {
            check(name, Standing::Poor, format!("at most {files}")).advise(format!(
                "ulimit -n {FILES_GOOD} or more, or LimitNOFILE: fewer work, and are reopened often"
            ))
        }
        Some(Limit::At(files)) => check(name, Standing::Fit, format!("at most {files}")),
    }
}

fn huge_pages(machine: &Machine) -> Check {
    let name = "huge pages";
    match machine.memory.transparent_huge_pages.as_deref() {
        None => unknown(name),
        Some(choice @ ("always" | "madvise")) => {
            check(name, Standing::Fit, format!("transparent, {choice}"))
        }
        Some(choice) => check(name, Standing::Poor, format!("transparent, {choice}")).advise(
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: large requests then reach \
             the device in one piece",
        ),
    }
}

fn memory(machine: &Machine) -> Check {
    let name = "memory";
    let total = machine.memory.total_bytes;
    let group = match machine.cgroup.memory_bytes {
        Some(Limit::At(bytes)) => Some(bytes),
        _ => None,
    };
    let Some(bytes) = [total, group].into_iter().flatten().min() else { return unknown(name) };
    let found = match group {
        Some(group) if Some(group) == Some(bytes) => format!("{} (control group)", human(bytes)),
        _ => human(bytes),
    };
    if bytes < MEMORY_GOOD {
        return check(name, Standing::Poor, found)
            .advise("lower the engine's limits (Limits) or give it more memory");
    }
    check(name, Standing::Fit, found)
}

fn cpu(machine: &Machine) -> Check {
    let name = "CPUs";
    let Some(cpus) = machine.cpu.cpus else { return unknown(name) };
    let quota = match machine.cgroup.cpus {
        Some(Limit::At(quota)) => Some(quota),
        _ => None,
    };
    if let Some(quota) = quota.filter(|quota| *quota < cpus as f64) {
        return check(
            name,
            Standing::Poor,
            format!("{cpus}, of which a control group allows {quota}"),
        )
        .advise("a quota stops all shards at once when it is used up: raise it, or use cpusets");
    }
    if cpus == 1 {
        return check(name, Standing::Poor, "1")
            .advise("producers and the shard share it: figures are those of both");
    }
    check(name, Standing::Fit, cpus.to_string())
}

fn governor(machine: &Machine) -> Check {
    let name = "CPU frequency";
    match machine.cpu.governor.as_deref() {
        None if machine.cpu.is_virtual == Some(true) => {
            check(name, Standing::Unknown, "the hypervisor's business")
        }
        None => unknown(name),
        Some(governor @ ("powersave" | "conservative" | "ondemand")) => {
            check(name, Standing::Poor, governor)
                .advise("cpupower frequency-set -g performance, for figures that can be repeated")
        }
        Some(governor) => check(name, Standing::Fit, governor),
    }
}
