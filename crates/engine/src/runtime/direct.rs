//! The start-up probe of O_DIRECT: one block written to the data directory and read back, before
//! the first segment needs it.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use corelog_io::BLOCK;
use rustix::fs::{MemfdFlags, Mode, OFlags};

/// What to do on a file system that refuses O_DIRECT.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DirectIo {
    /// Refuse to open: the numbers and the memory limits of this engine assume O_DIRECT.
    #[default]
    Required,
    /// Go on through the page cache. Everything keeps its meaning (a durable append still is), but
    /// memory use and speed are the kernel's; statistics say that it is so.
    Preferred,
}

/// The outcome of a probe.
#[derive(Debug)]
pub(super) struct Probed {
    /// True where O_DIRECT works.
    pub(super) direct: bool,
    /// A file of one block that glommio can open to learn about the device. It has no name any more.
    pub(super) file: OwnedFd,
}

/// The data directory cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum DirectIoError {
    /// The file system refuses O_DIRECT, and [`DirectIo::Required`] was asked for.
    Refused {
        /// The data directory.
        dir: PathBuf,
        /// Its file system, by name where the name is known.
        file_system: String,
        /// The step that was refused: "open", "write" or "read".
        step: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The probe failed for a reason of its own: no such directory, read-only, full, broken.
    Failed {
        /// The data directory.
        dir: PathBuf,
        /// The step that failed.
        step: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// Writes and reads one block in `dir`. The file is removed before this returns.
pub(super) fn probe(dir: &Path, wish: DirectIo) -> Result<Probed, DirectIoError> {
    match attempt(dir, OFlags::DIRECT) {
        Ok(file) => Ok(Probed { direct: true, file }),
        Err((step, source)) if source.raw_os_error() == Some(libc::EINVAL) => match wish {
            DirectIo::Required => {
                let file_system = file_system(dir);
                Err(DirectIoError::Refused { dir: dir.to_owned(), file_system, step, source })
            }
            DirectIo::Preferred => buffered(dir),
        },
        Err((step, source)) => Err(failed(dir, step, source)),
    }
}

/// The probe of a directory that is to be used through the page cache.
pub(super) fn buffered(dir: &Path) -> Result<Probed, DirectIoError> {
    attempt(dir, OFlags::empty()).map_err(|(step, source)| failed(dir, step, source))?;
    let file = memory_file().map_err(|source| failed(dir, "open", source))?;
    Ok(Probed { direct: false, file })
}

fn failed(dir: &Path, step: &'static str, source: io::Error) -> DirectIoError {
    DirectIoError::Failed { dir: dir.to_owned(), step, source }
}

/// Block by block through a file that is removed as soon as it is open.
fn attempt(dir: &Path, direct: OFlags) -> Result<OwnedFd, (&'static str, io::Error)> {
    let path = dir.join(format!(".probe-{}", std::process::id()));
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let opened = rustix::fs::open(&path, flags | direct, Mode::from_raw_mode(0o600));
    // Some file systems create the file and only then refuse the flag.
    let removed = std::fs::remove_file(&path);
    let file = opened.map_err(|e| ("open", e.into()))?;
    removed.map_err(|e| ("remove", e))?;
    let mut memory = vec![0x5A_u8; 2 * BLOCK];
    let start = memory.as_ptr().align_offset(BLOCK);
    let block = &mut memory[start..start + BLOCK];
    let written = rustix::io::pwrite(&file, block, 0).map_err(|e| ("write", e.into()))?;
    block.fill(0);
    let read = rustix::io::pread(&file, &mut *block, 0).map_err(|e| ("read", e.into()))?;
    if written != BLOCK || read != BLOCK || block.iter().any(|byte| *byte != 0x5A) {
        return Err(("compare", io::Error::other("the block did not come back as it was written")));
    }
    Ok(file)
}

/// A file in memory: glommio takes it as one that needs no O_DIRECT, whatever the data directory's
/// file system thinks of that.
fn memory_file() -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create("corelog-probe", MemfdFlags::CLOEXEC)?;
    rustix::io::pwrite(file.as_fd(), &[0; BLOCK], 0)?;
    Ok(file)
}

/// The name of the file system that holds `dir`.
fn file_system(dir: &Path) -> String {
    let Ok(stat) = rustix::fs::statfs(dir) else { return "unknown".to_owned() };
    let name = match stat.f_type as u32 {
        0x0000_EF53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683E => "btrfs",
        0x0102_1994 => "tmpfs",
        0x794C_7630 => "overlay",
        0x6573_5546 => "fuse",
        0x0000_6969 => "nfs",
        0x2FC1_2FC1 => "zfs",
        0x0000_F15F => "ecryptfs",
        0xF2F5_2010 => "f2fs",
        0x0102_1997 => "9p",
        other => return format!("type {other:#x}"),
    };
    name.to_owned()
}

impl fmt::Display for DirectIoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirectIoError::Refused { dir, file_system, step, source } => write!(
                f,
                "the file system of {} ({file_system}) refuses O_DIRECT at the first {step} \
                 ({source}): put the data directory on one that takes it (ext4, xfs, btrfs), or \
                 choose DirectIo::Preferred to go through the page cache",
                dir.display()
            ),
            DirectIoError::Failed { dir, step, source } => {
                write!(f, "cannot {step} a probe file in {}: {source}", dir.display())
            }
        }
    }
}

impl std::error::Error for DirectIoError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            DirectIoError::Refused { source, .. } | DirectIoError::Failed { source, .. } => {
                Some(source)
            }
        }
    }
}
