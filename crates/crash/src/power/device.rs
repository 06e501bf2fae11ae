//! A recorded device, as a block device of this machine, and file systems on it.
//!
//! Whatever is attached and mounted here is taken down again in its order when it is dropped. If
//! the process is killed the kernel does it: the program runs in a mount namespace of its own
//! ([`super::machine`]), and a loop device goes with its last user once it is mounted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use fuser::{BackgroundSession, Config, MountOption};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};
use tempfile::TempDir;

use super::image::Image;
use super::machine::{Trouble, run};
use super::recorder::{FILE, Recorder, Recording};

/// What is busy is tried again this long: an io_uring lets go of its files a while after its
/// process has ended.
const PATIENCE: Duration = Duration::from_secs(20);

/// The UUID of every XFS here, and its bytes, which each block of its metadata has.
const XFS_UUID: &str = "636f7265-6c6f-672d-706f-776572637574";
const XFS_MARK: &[u8; 16] = b"corelog-powercut";

/// A file system that the kernel brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum FileSystem {
    /// With a small journal, so that it goes round often.
    Ext4,
    /// The smallest that mkfs.xfs makes.
    Xfs,
}

impl FileSystem {
    /// Its name, as mount(8) knows it.
    pub fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
        }
    }

    /// The program that makes one.
    pub fn mkfs(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "mkfs.ext4",
            FileSystem::Xfs => "mkfs.xfs",
        }
    }

    /// Whether `bytes`, a write at `at`, survive being torn in sectors. XFS trusts its device to keep
    /// blocks of its metadata whole: in a torn one it takes the new header's word that all of it is
    /// new, and refuses the mount (Linux 6.18: "Metadata CRC error"). ext4 has its journal mend them,
    /// except for the superblock (bytes 1024 to 2047, so in two sectors), whose checksum comes before
    /// the journal (Linux 6.18: "invalid superblock checksum").
    pub fn survives_tearing(self, at: u64, bytes: &[u8]) -> bool {
        match self {
            FileSystem::Ext4 => at >= 2048,
            FileSystem::Xfs => !bytes.windows(XFS_MARK.len()).any(|window| window == XFS_MARK),
        }
    }

    fn device_bytes(self) -> u64 {
        match self {
            FileSystem::Ext4 => 256 << 20,
            FileSystem::Xfs => 300 << 20,
        }
    }

    /// A device with a fresh file system.
    ///
    /// # Errors
    /// The machine cannot do it; it says what it tried.
    pub fn make(self, work: &Path) -> Result<Image, Trouble> {
        let device = Device::attach(Image::new(self.device_bytes()), work, 0)?;
        let mut command = Command::new(self.mkfs());
        match self {
            // Nothing is left for the kernel to initialize later.
            FileSystem::Ext4 => command
                .args(["-q", "-F", "-b", "4096", "-m", "0", "-J", "size=4"])
                .args(["-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"]),
            FileSystem::Xfs => {
                command.args(["-q", "-f", "-K", "-m"]).arg(format!("uuid={XFS_UUID}"))
            }
        };
        run(command.arg(&device.node))?;
        device.detach()
    }
}

/// A device that is attached, and what is mounted on it.
#[derive(Debug)]
pub struct Device {
    /// `/dev/loopN`.
    node: PathBuf,
    /// The loop device goes by itself when its last user does.
    leaves: bool,
    mounted: bool,
    /// Mounted in `dir`/fuse.
    session: Option<BackgroundSession>,
    recording: Recording,
    dir: TempDir,
}

impl Device {
    /// Attaches a device that holds `image`, with its mount points below `work`.
    ///
    /// # Errors
    /// The machine cannot do it.
    pub fn attach(image: Image, work: &Path, seed: u64) -> Result<Device, Trouble> {
        let dir = tempfile::Builder::new().prefix("device-").tempdir_in(work);
        let dir = dir.map_err(|error| Trouble::new("make a directory", work, &error))?;
        let (fuse, point) = (dir.path().join("fuse"), dir.path().join("disk"));
        for made in [&fuse, &point] {
            fs::create_dir(made).map_err(|error| Trouble::new("make", made, &error))?;
        }
        let failed = |error| Trouble::new("mount a FUSE file system on", &fuse, &error);
        let (recorder, recording) = Recorder::new(image, seed).map_err(failed)?;
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("recorder".to_owned())];
        let session = fuser::spawn_mount(recorder, &fuse, &config).map_err(failed)?;
        let mut device = Device {
            node: PathBuf::new(),
            leaves: true,
            mounted: false,
            session: Some(session),
            recording,
            dir,
        };
        let mut losetup = Command::new("losetup");
        losetup.args(["--find", "--show", "--direct-io=on"]).arg(fuse.join(FILE));
        device.node = PathBuf::from(run(&mut losetup)?.trim());
        device.leaves = false;
        device.check()?;
        Ok(device)
    }

    /// A loop device that went through the page cache, or swallowed flushes, would prove nothing.
    fn check(&self) -> Result<(), Trouble> {
        let name = self.node.file_name().unwrap_or_default();
        let sys = Path::new("/sys/block").join(name);
        for (file, wanted) in [("loop/dio", "1"), ("queue/write_cache", "write back")] {
            let path = sys.join(file);
            let said = fs::read_to_string(&path);
            let said = said.map_err(|error| Trouble::new("read", &path, &error))?;
            if said.trim() != wanted {
                let what = format!("says {:?}; the rig needs {wanted:?}", said.trim());
                return Err(Trouble { doing: format!("look at {}", path.display()), what });
            }
        }
        Ok(())
    }

    /// Mounts the file system that is on the device; its journal is replayed. Returns where.
    ///
    /// # Errors
    /// The kernel does not take it: it says why in its log.
    pub fn mount(&mut self, fs: FileSystem) -> Result<PathBuf, Trouble> {
        let point = self.point();
        let mut mount = Command::new("mount");
        mount.args(["-t", fs.name()]);
        if fs == FileSystem::Xfs {
            // Other cuts of the same file system may be mounted.
            mount.args(["-o", "nouuid"]);
        }
        run(mount.arg(&self.node).arg(&point))?;
        self.mounted = true;
        self.leave()?;
        Ok(point)
    }

    /// Lets the loop device go as soon as nobody uses it, and not before.
    fn leave(&mut self) -> Result<(), Trouble> {
        if !self.leaves {
            self.leaves = true;
            run(Command::new("losetup").arg("--detach").arg(&self.node))?;
        }
        Ok(())
    }

    fn point(&self) -> PathBuf {
        self.dir.path().join("disk")
    }

    /// What is being recorded.
    pub fn recording(&self) -> Recording {
        self.recording.clone()
    }

    /// Unmounts and detaches, and returns what the device holds.
    ///
    /// # Errors
    /// Something stays in use.
    pub fn detach(mut self) -> Result<Image, Trouble> {
        self.take_down()?;
        Ok(self.recording.image())
    }

    fn take_down(&mut self) -> Result<(), Trouble> {
        if self.mounted {
            until_free(&self.point())?;
            self.mounted = false;
        }
        self.leave()?;
        if let Some(session) = self.session.take() {
            let fuse = self.dir.path().join("fuse");
            until_free(&fuse)?;
            match session.join() {
                // It is unmounted, and how the last wait for a request ends depends on the moment.
                Err(error) if error.raw_os_error() == Some(Errno::CONNABORTED.raw_os_error()) => {}
                ended => {
                    ended.map_err(|error| Trouble::new("end the session of", &fuse, &error))?
                }
            }
        }
        Ok(())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        if let Err(trouble) = self.take_down() {
            eprintln!("{trouble}");
            // Out of sight now, and gone with the last user.
            let _ = unmount(self.point(), UnmountFlags::DETACH);
            let _ = unmount(self.dir.path().join("fuse"), UnmountFlags::DETACH);
        }
    }
}

/// Unmounts `point` as soon as nothing uses it.
fn until_free(point: &Path) -> Result<(), Trouble> {
    let began = Instant::now();
    loop {
        match unmount(point, UnmountFlags::empty()) {
            Ok(()) => return Ok(()),
            Err(Errno::BUSY) if began.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(Trouble::new("unmount", point, &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_bears_the_mark_of_xfs_and_the_superblock_of_ext4_must_stay_whole() {
        let hex: Vec<String> = XFS_MARK.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex.concat(), XFS_UUID.replace('-', ""));
        let mut bytes = vec![7; 8192];
        assert!(FileSystem::Xfs.survives_tearing(0, &bytes));
        bytes[5_000..5_016].copy_from_slice(XFS_MARK);
        assert!(!FileSystem::Xfs.survives_tearing(0, &bytes));
        assert!(FileSystem::Ext4.survives_tearing(4096, &bytes));
        assert!(!FileSystem::Ext4.survives_tearing(0, &bytes));
        assert!(!FileSystem::Ext4.survives_tearing(1024, &bytes[..1024]));
    }
}
