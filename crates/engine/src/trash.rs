//! Removes what lies in the trash, on a thread of its own, so that neither a change of the catalog
//! nor a shard waits for the space of large files to be given back.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use crate::data_dir::{DataDir, sync_dir};

/// The trash of one data directory.
pub(crate) struct Trash {
    dir: DataDir,
    /// Lives that this catalog gave from here on; what is older in the trash is not ours to remove.
    first_life: u64,
    stop: Arc<AtomicBool>,
    remover: Mutex<Option<JoinHandle<()>>>,
}

impl Trash {
    pub(crate) fn new(dir: DataDir, first_life: u64) -> Trash {
        Trash { dir, first_life, stop: Arc::default(), remover: Mutex::default() }
    }

    /// Begins to remove what lies there. What cannot be removed now is tried again the next time.
    pub(crate) fn empty(&self) {
        let mut remover = self.remover.lock().unwrap_or_else(PoisonError::into_inner);
        if self.stop.load(Ordering::Relaxed) {
            return;
        }
        let before = remover.take();
        let (dir, first_life, stop) = (self.dir.clone(), self.first_life, Arc::clone(&self.stop));
        let spawned = thread::Builder::new().name("corelog-trash".to_owned()).spawn(move || {
            // The one before it may have looked before the newest came.
            if let Some(before) = before {
                let _ = before.join();
            }
            remove_all(&dir, first_life, &stop);
        });
        // Without a thread it stays there until the next time.
        *remover = spawned.ok();
    }

    /// Ends it, between two files.
    pub(crate) fn close(&self) {
        self.stop.store(true, Ordering::Relaxed);
        let remover = self.remover.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(remover) = remover {
            let _ = remover.join();
        }
    }
}

impl Drop for Trash {
    fn drop(&mut self) {
        self.close();
    }
}

fn remove_all(dir: &DataDir, first_life: u64, stop: &AtomicBool) {
    let trash = dir.trash();
    let Ok(entries) = fs::read_dir(&trash) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let life = name.to_str().and_then(DataDir::trashed_life);
        if life.is_none_or(|life| life < first_life) {
            continue;
        }
        // File by file, so that a close does not wait for all of a large directory. Links are not
        // followed.
        for file in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let _ = fs::remove_file(file.path());
        }
        let _ = fs::remove_dir_all(entry.path());
    }
    let _ = sync_dir(&trash);
}
