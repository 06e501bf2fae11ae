//! The machine that was measured: a figure without it cannot be compared. Unknown is null.

mod cgroup;
mod cpu;
mod device;
mod mount;
mod text;

use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use serde_json::{Map, Value, json};

use crate::ceiling::{Abilities, abilities};

pub(crate) use cgroup::Cgroup;
pub(crate) use cpu::{Cpu, Memory};
pub(crate) use device::{Device, device_dir};
pub(crate) use mount::{Alignment, Mount, Space};
pub(crate) use text::Limit;

/// Facts about the CPU, kernel, file system and device under a directory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Machine {
    pub(crate) cpu: Cpu,
    pub(crate) memory: Memory,
    pub(crate) kernel: Option<String>,
    pub(crate) os: Option<String>,
    pub(crate) uring: Uring,
    pub(crate) cgroup: Cgroup,
    pub(crate) file_system: Option<Mount>,
    pub(crate) space: Option<Space>,
    pub(crate) direct_io: Option<Alignment>,
    pub(crate) device: Option<Device>,
}

/// What is known of io_uring here.
#[derive(Debug, Clone, Default)]
pub(crate) struct Uring {
    /// `kernel.io_uring_disabled`: 0 allowed, 1 for a group only, 2 for nobody.
    pub(crate) disabled: Option<u64>,
    /// None when the kernel refused a ring; then the next field says how.
    pub(crate) abilities: Option<Abilities>,
    pub(crate) refusal: Option<String>,
}

impl Machine {
    /// Looks at the machine and at what is below `dir`.
    pub(crate) fn look(dir: &Path) -> Machine {
        let stat = statx(CWD, dir, AtFlags::empty(), StatxFlags::BASIC_STATS).ok();
        let number = stat.map(|stat| (stat.stx_dev_major, stat.stx_dev_minor));
        Machine {
            cpu: Cpu::look(),
            memory: Memory::look(),
            kernel: text::read("/proc/sys/kernel/osrelease"),
            os: text::read("/etc/os-release").and_then(|text| pretty_name(&text)),
            uring: Uring::look(),
            cgroup: Cgroup::look(),
            file_system: number.and_then(|number| mount::of(number, dir)),
            space: mount::space(dir),
            direct_io: mount::alignment(dir),
            device: device_dir(dir).map(|disk| Device::read(&disk)),
        }
    }

    /// The facts as JSON; every key is there, unknown ones null.
    pub(crate) fn to_json(&self) -> Value {
        let mount = self.file_system.as_ref();
        let mut facts = Map::new();
        self.cpu.put(&mut facts);
        self.memory.put(&mut facts);
        facts.insert("kernel".into(), json!(self.kernel));
        facts.insert("os".into(), json!(self.os));
        facts.insert("architecture".into(), json!(std::env::consts::ARCH));
        facts.insert("io_uring".into(), self.uring.to_json());
        facts.insert("cgroup".into(), self.cgroup.to_json());
        facts.insert("file_system".into(), json!(mount.map(|mount| &mount.kind)));
        facts.insert("mount_options".into(), json!(mount.map(|mount| &mount.options)));
        facts.insert("mount_source".into(), json!(mount.map(|mount| &mount.source)));
        facts.insert("total_bytes".into(), json!(self.space.map(|space| space.total_bytes)));
        facts.insert("free_bytes".into(), json!(self.space.map(|space| space.available_bytes)));
        facts.insert("used_percent".into(), json!(self.space.map(|space| space.used_percent())));
        let direct_io = self.direct_io;
        facts.insert("direct_io_align_bytes".into(), json!(direct_io.map(|align| align.offset)));
        facts.insert(
            "direct_io_memory_align_bytes".into(),
            json!(direct_io.map(|align| align.memory)),
        );
        facts.insert("device".into(), self.device.clone().unwrap_or_default().to_json());
        Value::Object(facts)
    }

    /// The facts on one line, for people.
    pub(crate) fn line(&self) -> String {
        fn or_unknown<T: ToString>(fact: Option<T>) -> String {
            fact.map_or_else(|| "unknown".to_owned(), |fact| fact.to_string())
        }
        let mount = self.file_system.as_ref();
        let device = self.device.as_ref();
        let cpu_model = self.cpu.model.as_deref().unwrap_or("unknown CPU");
        format!(
            "{} x {cpu_model}, Linux {}; {} on {} (scheduler {}, write cache {}, FUA {})",
            or_unknown(self.cpu.cpus),
            or_unknown(self.kernel.as_deref()),
            or_unknown(mount.map(|mount| &mount.kind)),
            or_unknown(mount.map(|mount| &mount.source)),
            or_unknown(device.and_then(|device| device.scheduler.as_deref())),
            or_unknown(device.and_then(|device| device.write_cache.as_deref())),
            or_unknown(device.and_then(|device| device.fua)),
        )
    }
}

impl Uring {
    fn look() -> Uring {
        let disabled = text::read_number("/proc/sys/kernel/io_uring_disabled");
        match abilities() {
            Ok(abilities) => Uring { disabled, abilities: Some(abilities), refusal: None },
            Err(error) => Uring { disabled, abilities: None, refusal: Some(error.to_string()) },
        }
    }

    fn to_json(&self) -> Value {
        let abilities = self.abilities.as_ref();
        json!({
            "disabled": self.disabled,
            "refusal": self.refusal,
            "features": abilities.map(|abilities| &abilities.features),
            "missing_operations": abilities.map(|abilities| &abilities.missing_operations),
            "deferred_taskrun": abilities.map(|abilities| abilities.deferred_taskrun),
        })
    }
}

/// `PRETTY_NAME` of an `os-release` text.
fn pretty_name(text: &str) -> Option<String> {
    let value = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_null_and_every_key_is_there() {
        fn keys(path: &str, value: &Value, into: &mut Vec<String>) {
            into.push(path.to_owned());
            for (key, value) in value.as_object().into_iter().flatten() {
                keys(&format!("{path}/{key}"), value, into);
            }
        }
        let unknown = Machine::default().to_json();
        let here = crate::place::tests::test_dir("machine");
        let known = Machine::look(here.path()).to_json();
        let (mut of_unknown, mut of_known) = (Vec::new(), Vec::new());
        keys("", &unknown, &mut of_unknown);
        keys("", &known, &mut of_known);
        assert_eq!(of_unknown, of_known);
        for path in of_unknown {
            let value = unknown.pointer(&path).unwrap();
            assert!(
                value.is_object() || value.is_null() || path == "/architecture",
                "{path}: {value}"
            );
        }
        for path in ["/kernel", "/file_system", "/free_bytes", "/memlock_bytes", "/open_files"] {
            assert!(!known.pointer(path).unwrap().is_null(), "{path}: {known}");
        }
        assert!(known["io_uring"]["features"].as_array().unwrap().len() > 3, "{known}");
    }

    #[test]
    fn the_name_of_a_distribution() {
        let text = "NAME=\"X\"\nPRETTY_NAME=\"X 12 (y)\"\nID=x\n";
        assert_eq!(pretty_name(text).as_deref(), Some("X 12 (y)"));
        assert_eq!(pretty_name("NAME=X\n"), None);
    }
}
