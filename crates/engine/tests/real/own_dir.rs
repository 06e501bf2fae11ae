//! Where the tests of one run keep their files: two runs on one target must not meet.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// This process's directory below `base`, on the file system of the build, for directories that its
/// tests name. What ended processes have left there goes; what this one leaves stays, to be looked
/// into, until another run.
pub(crate) fn of_this_run(base: &Path) -> PathBuf {
    static LEFTOVERS: Once = Once::new();
    LEFTOVERS.call_once(|| {
        for entry in fs::read_dir(base).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let is_over = |pid: &str| !Path::new("/proc").join(pid).exists();
            if name.to_str().is_some_and(is_over) {
                // Another run may do the same, or a killed one have left a mount there.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    });
    let dir = base.join(std::process::id().to_string());
    fs::create_dir_all(&dir).expect("the target directory is writable");
    dir
}
