//! Processors, memory and kernel.

use std::fs;
use std::path::Path;
use std::thread;

use serde_json::{Map, Value, json};

use super::text::{Limit, chosen, field, kib, read, read_number};

/// What computes, and how fast it may.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Cpu {
    pub(crate) model: Option<String>,
    /// CPUs this process may use.
    pub(crate) cpus: Option<u64>,
    pub(crate) governor: Option<String>,
    /// May clock above its nominal rate.
    pub(crate) turbo: Option<bool>,
    pub(crate) idle_driver: Option<String>,
    pub(crate) smt: Option<bool>,
    pub(crate) numa_nodes: Option<u64>,
    /// A hypervisor says it is there; None where the CPU has no flag for it.
    pub(crate) is_virtual: Option<bool>,
}

impl Cpu {
    pub(super) fn look() -> Cpu {
        let info = read("/proc/cpuinfo");
        Cpu {
            model: info.as_deref().and_then(|text| field(text, "model name")),
            cpus: thread::available_parallelism().ok().map(|cpus| cpus.get() as u64),
            is_virtual: info.as_deref().and_then(|text| {
                let flags = field(text, "flags")?;
                Some(flags.split(' ').any(|flag| flag == "hypervisor"))
            }),
            ..Cpu::read(Path::new("/sys/devices/system"))
        }
    }

    /// What sysfs has about all CPUs.
    fn read(system: &Path) -> Cpu {
        let cpu = system.join("cpu");
        Cpu {
            governor: read(cpu.join("cpu0/cpufreq/scaling_governor")),
            turbo: read_number(cpu.join("intel_pstate/no_turbo"))
                .map(|no| no == 0)
                .or_else(|| read_number(cpu.join("cpufreq/boost")).map(|yes| yes == 1)),
            idle_driver: read(cpu.join("cpuidle/current_driver")),
            smt: read_number(cpu.join("smt/active")).map(|active| active == 1),
            numa_nodes: fs::read_dir(system.join("node")).ok().map(|entries| {
                let is_node = |name: &str| {
                    let number = name.strip_prefix("node");
                    number.is_some_and(|number| number.parse::<u32>().is_ok())
                };
                entries
                    .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                    .filter(|name| is_node(name))
                    .count() as u64
            }),
            ..Cpu::default()
        }
    }

    pub(super) fn put(&self, into: &mut Map<String, Value>) {
        into.insert("cpu_model".into(), json!(self.model));
        into.insert("cpus".into(), json!(self.cpus));
        into.insert("cpu_governor".into(), json!(self.governor));
        into.insert("cpu_turbo".into(), json!(self.turbo));
        into.insert("cpu_idle_driver".into(), json!(self.idle_driver));
        into.insert("smt".into(), json!(self.smt));
        into.insert("numa_nodes".into(), json!(self.numa_nodes));
        into.insert("virtual".into(), json!(self.is_virtual));
    }
}

/// Memory, and what the kernel does with pages.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Memory {
    pub(crate) total_bytes: Option<u64>,
    /// `always`, `madvise` or `never`.
    pub(crate) transparent_huge_pages: Option<String>,
    /// Pages of the default huge size that are reserved and unused.
    pub(crate) huge_pages_free: Option<u64>,
    pub(crate) memlock_bytes: Option<Limit<u64>>,
    pub(crate) open_files: Option<Limit<u64>>,
}

impl Memory {
    pub(super) fn look() -> Memory {
        use rustix::process::{Resource, getrlimit};
        let info = read("/proc/meminfo").unwrap_or_default();
        let limit = |of| Some(getrlimit(of).current.map_or(Limit::Max, Limit::At));
        Memory {
            total_bytes: field(&info, "MemTotal").and_then(|text| kib(&text)),
            transparent_huge_pages: read("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|text| chosen(&text)),
            huge_pages_free: field(&info, "HugePages_Free").and_then(|text| text.parse().ok()),
            memlock_bytes: limit(Resource::Memlock),
            open_files: limit(Resource::Nofile),
        }
    }

    pub(super) fn put(&self, into: &mut Map<String, Value>) {
        into.insert("memory_bytes".into(), json!(self.total_bytes));
        into.insert("transparent_huge_pages".into(), json!(self.transparent_huge_pages));
        into.insert("huge_pages_free".into(), json!(self.huge_pages_free));
        into.insert("memlock_bytes".into(), json!(self.memlock_bytes.map(Limit::json)));
        into.insert("open_files".into(), json!(self.open_files.map(Limit::json)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sysfs_has_and_has_not() {
        let place = crate::place::tests::test_dir("machine-cpu");
        let system = place.path().join("ceiling");
        assert_eq!(Cpu::read(&system), Cpu::default());
        for (file, text) in [
            ("cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("cpu/intel_pstate/no_turbo", "1\n"),
            ("cpu/smt/active", "1\n"),
            ("node/node0/x", ""),
            ("node/node1/x", ""),
            ("node/possible", "0-1\n"),
        ] {
            let path = system.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let expected = Cpu {
            governor: Some("powersave".into()),
            turbo: Some(false),
            smt: Some(true),
            numa_nodes: Some(2),
            ..Cpu::default()
        };
        assert_eq!(Cpu::read(&system), expected);
    }
}
