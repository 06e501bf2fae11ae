//! The limits of the control groups this process is in, of both versions.
//!
//! A limit holds for everything below its group, so the strictest one on the way up counts. Where a
//! container shows its own group as the root, the limits beyond are not visible: unknown, not none.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::text::{Limit, read};

/// What the groups allow; None where no group with that controller can be seen.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Cgroup {
    /// `v1`, `v2`, or `v1 and v2` where both have a say.
    pub(crate) version: Option<&'static str>,
    pub(crate) memory_bytes: Option<Limit<u64>>,
    /// Memory above which the group is slowed down; version 2 only.
    pub(crate) memory_high_bytes: Option<Limit<u64>>,
    /// CPUs' worth of time.
    pub(crate) cpus: Option<Limit<f64>>,
    /// CPUs that may be used, e.g. `0-3,8`.
    pub(crate) cpuset: Option<String>,
    /// Limits on block I/O, one line a device as the kernel has them; empty for none.
    pub(crate) io: Option<Vec<String>>,
}

/// Where version 1 writes "no limit" for memory: the largest multiple of a page.
const V1_MEMORY_MAX: u64 = i64::MAX as u64 - 65_535;

impl Cgroup {
    /// Of this process, with cgroup file systems below `/sys/fs/cgroup`.
    pub(super) fn look() -> Cgroup {
        let own = read("/proc/self/cgroup").unwrap_or_default();
        Cgroup::read(Path::new("/sys/fs/cgroup"), &own)
    }

    /// The same from the text of `/proc/self/cgroup` and the directory of the file systems.
    fn read(root: &Path, own: &str) -> Cgroup {
        let lines: Vec<(&str, &str)> = own
            .lines()
            .filter_map(|line| {
                // hierarchy:controllers:path
                let (_, rest) = line.split_once(':')?;
                rest.split_once(':')
            })
            .collect();
        let v2 = V2::find(root, &lines);
        let v1 = V1 { root, lines: &lines };
        let mut cgroup = Cgroup {
            version: None,
            memory_bytes: strictest(v2.memory("memory.max"), v1.memory()),
            memory_high_bytes: v2.memory("memory.high"),
            cpus: strictest(v2.cpus(), v1.cpus()),
            cpuset: v2.cpuset().or_else(|| v1.cpuset()),
            io: v2.io().or_else(|| v1.io()),
        };
        cgroup.version = match (v2.has_controllers(), v1.has_controllers()) {
            (true, true) => Some("v1 and v2"),
            (true, false) => Some("v2"),
            (false, true) => Some("v1"),
            (false, false) => None,
        };
        cgroup
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "version": self.version,
            "memory_bytes": self.memory_bytes.map(Limit::json),
            "memory_high_bytes": self.memory_high_bytes.map(Limit::json),
            "cpus": self.cpus.map(Limit::json),
            "cpuset": self.cpuset,
            "io": self.io,
        })
    }
}

fn strictest<T: Copy + PartialOrd>(a: Option<Limit<T>>, b: Option<Limit<T>>) -> Option<Limit<T>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// A group's directory and those above it, up to the root of its file system.
fn upwards(mount: &Path, group: &str) -> Vec<PathBuf> {
    let own = mount.join(group.trim_start_matches('/'));
    // A path from outside of a container does not exist inside: its root stands for it then.
    let own = if own.is_dir() { own } else { mount.to_owned() };
    own.ancestors().take_while(|dir| dir.starts_with(mount)).map(Path::to_owned).collect()
}

/// The strictest of what `parse` makes of a file in these directories.
fn limit<T: Copy + PartialOrd>(
    dirs: &[PathBuf],
    parse: impl Fn(&Path) -> Option<Limit<T>>,
) -> Option<Limit<T>> {
    dirs.iter().filter_map(|dir| parse(dir)).reduce(Limit::min)
}

/// Lines of I/O limits in these directories; None where no directory has the file.
fn io_lines(dirs: &[PathBuf], names: &[&str]) -> Option<Vec<String>> {
    let files = dirs.iter().flat_map(|dir| names.iter().map(move |name| (dir.join(name), *name)));
    let found: Vec<_> = files.filter(|(path, _)| path.exists()).collect();
    (!found.is_empty()).then(|| {
        let lines = found.iter().flat_map(|(path, name)| {
            let text = read(path).unwrap_or_default();
            let line = |line: &str| format!("{name} {line}");
            text.lines().map(line).collect::<Vec<_>>()
        });
        lines.collect()
    })
}

/// One tree for all controllers.
struct V2 {
    dirs: Vec<PathBuf>,
}

impl V2 {
    fn find(root: &Path, lines: &[(&str, &str)]) -> V2 {
        let group = lines.iter().find(|(controllers, _)| controllers.is_empty());
        let mount = [root.to_owned(), root.join("unified")]
            .into_iter()
            .find(|mount| mount.join("cgroup.controllers").exists());
        let dirs = mount.zip(group).map(|(mount, (_, path))| upwards(&mount, path));
        V2 { dirs: dirs.unwrap_or_default() }
    }

    fn has_controllers(&self) -> bool {
        self.dirs.iter().any(|dir| read(dir.join("cgroup.controllers")).is_some())
    }

    fn memory(&self, name: &str) -> Option<Limit<u64>> {
        limit(&self.dirs, |dir| match read(dir.join(name))?.as_str() {
            "max" => Some(Limit::Max),
            bytes => bytes.parse().ok().map(Limit::At),
        })
    }

    /// `cpu.max`: quota and period in microseconds.
    fn cpus(&self) -> Option<Limit<f64>> {
        limit(&self.dirs, |dir| {
            let text = read(dir.join("cpu.max"))?;
            match text.split_once(' ')? {
                ("max", _) => Some(Limit::Max),
                (quota, period) => share(quota, period),
            }
        })
    }

    fn cpuset(&self) -> Option<String> {
        self.dirs.iter().find_map(|dir| read(dir.join("cpuset.cpus.effective")))
    }

    fn io(&self) -> Option<Vec<String>> {
        io_lines(&self.dirs, &["io.max"])
    }
}

/// One tree for each controller, or for several together.
struct V1<'a> {
    root: &'a Path,
    lines: &'a [(&'a str, &'a str)],
}

impl V1<'_> {
    fn dirs(&self, controller: &str) -> Vec<PathBuf> {
        let line = self.lines.iter().find(|(all, _)| all.split(',').any(|one| one == controller));
        let Some((all, group)) = line else { return Vec::new() };
        let mount = [*all, controller]
            .into_iter()
            .map(|name| self.root.join(name))
            .find(|mount| mount.is_dir());
        mount.map(|mount| upwards(&mount, group)).unwrap_or_default()
    }

    fn has_controllers(&self) -> bool {
        ["memory", "cpu", "blkio"].iter().any(|controller| !self.dirs(controller).is_empty())
    }

    fn memory(&self) -> Option<Limit<u64>> {
        limit(&self.dirs("memory"), |dir| {
            let bytes = read(dir.join("memory.limit_in_bytes"))?.parse().ok()?;
            Some(if bytes >= V1_MEMORY_MAX { Limit::Max } else { Limit::At(bytes) })
        })
    }

    fn cpus(&self) -> Option<Limit<f64>> {
        limit(&self.dirs("cpu"), |dir| {
            let quota = read(dir.join("cpu.cfs_quota_us"))?;
            if quota.starts_with('-') {
                return Some(Limit::Max);
            }
            share(&quota, &read(dir.join("cpu.cfs_period_us"))?)
        })
    }

    fn cpuset(&self) -> Option<String> {
        let dirs = self.dirs("cpuset");
        dirs.iter().find_map(|dir| {
            read(dir.join("cpuset.effective_cpus")).or_else(|| read(dir.join("cpuset.cpus")))
        })
    }

    fn io(&self) -> Option<Vec<String>> {
        io_lines(
            &self.dirs("blkio"),
            &[
                "blkio.throttle.read_bps_device",
                "blkio.throttle.write_bps_device",
                "blkio.throttle.read_iops_device",
                "blkio.throttle.write_iops_device",
            ],
        )
    }
}

fn share(quota: &str, period: &str) -> Option<Limit<f64>> {
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| Limit::At(quota / period))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tree(name: &str, files: &[(&str, &str)]) -> crate::place::Place {
        let place = crate::place::tests::test_dir(name);
        for (file, text) in files {
            let path = place.path().join("ceiling").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        place
    }

    #[test]
    fn version_2_has_the_strictest_on_the_way_up() {
        let place = tree(
            "cgroup-v2",
            &[
                ("cgroup.controllers", "cpu io memory\n"),
                ("a/cgroup.controllers", "cpu io memory\n"),
                ("a/memory.max", "1000\n"),
                ("a/cpu.max", "150000 100000\n"),
                ("a/io.max", "254:0 rbps=max wbps=1048576 riops=max wiops=max\n"),
                ("a/b/memory.max", "max\n"),
                ("a/b/memory.high", "max\n"),
                ("a/b/cpu.max", "max 100000\n"),
                ("a/b/cpuset.cpus.effective", "0-1\n"),
            ],
        );
        let seen = Cgroup::read(&place.path().join("ceiling"), "0::/a/b\n");
        let expected = Cgroup {
            version: Some("v2"),
            memory_bytes: Some(Limit::At(1000)),
            memory_high_bytes: Some(Limit::Max),
            cpus: Some(Limit::At(1.5)),
            cpuset: Some("0-1".into()),
            io: Some(vec!["io.max 254:0 rbps=max wbps=1048576 riops=max wiops=max".into()]),
        };
        assert_eq!(seen, expected);
        let json = seen.to_json();
        assert_eq!(
            (&json["memory_bytes"], &json["memory_high_bytes"]),
            (&json!(1000), &json!("max"))
        );
    }

    #[test]
    fn version_1_has_a_tree_a_controller() {
        let place = tree(
            "cgroup-v1",
            &[
                ("memory/x/memory.limit_in_bytes", "9223372036854771712\n"),
                ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
                ("cpu,cpuacct/x/cpu.cfs_quota_us", "50000\n"),
                ("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n"),
                ("blkio/blkio.throttle.write_bps_device", "254:0 1000\n"),
                ("cpuset/cpuset.cpus", "0-7\n"),
            ],
        );
        let own = "4:memory:/x\n3:cpu,cpuacct:/x\n2:blkio:/x\n1:cpuset:/\n0::/\n";
        let expected = Cgroup {
            version: Some("v1"),
            memory_bytes: Some(Limit::Max),
            memory_high_bytes: None,
            cpus: Some(Limit::At(0.5)),
            cpuset: Some("0-7".into()),
            io: Some(vec!["blkio.throttle.write_bps_device 254:0 1000".into()]),
        };
        assert_eq!(Cgroup::read(&place.path().join("ceiling"), own), expected);
    }

    #[test]
    fn what_cannot_be_seen_is_unknown_and_not_unlimited() {
        let place = tree("cgroup-none", &[("other", "")]);
        let root = place.path().join("ceiling");
        assert_eq!(Cgroup::read(&root, "0::/a\n"), Cgroup::default());
        assert_eq!(Cgroup::read(&root, ""), Cgroup::default());
        // A container's view: the path from outside is not there, its root is.
        let place = tree("cgroup-container", &[("memory/memory.limit_in_bytes", "4096\n")]);
        let seen = Cgroup::read(&place.path().join("ceiling"), "3:memory:/docker/0123\n");
        assert_eq!(seen.memory_bytes, Some(Limit::At(4096)));
    }
}
