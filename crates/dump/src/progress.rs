//! How far a long file is read: one line on standard error, where that is a terminal.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::failure::Shown;
use crate::units::Bytes;

/// Files up to this length are read before anybody wonders.
const LONG_BYTES: u64 = 1 << 30;

const EVERY: Duration = Duration::from_millis(200);

/// The progress over one file.
#[derive(Debug)]
pub(crate) struct Progress {
    path: PathBuf,
    len: u64,
    began: Instant,
    said: Option<Instant>,
    calls: u32,
}

impl Progress {
    /// Progress over a file of `len` bytes, if that is worth a line and anybody could see it.
    pub(crate) fn of(path: &Path, len: u64) -> Option<Progress> {
        let shown = len > LONG_BYTES && std::io::stderr().is_terminal();
        let path = path.to_path_buf();
        shown.then(|| Progress { path, len, began: Instant::now(), said: None, calls: 0 })
    }

    /// The file is read up to `at`.
    pub(crate) fn reached(&mut self, at: u64) {
        // A clock is read for one in a few windows, which may be as small as a batch.
        self.calls = self.calls.wrapping_add(1);
        if !self.calls.is_multiple_of(64) {
            return;
        }
        let now = Instant::now();
        if now - self.said.unwrap_or(self.began) < EVERY {
            return;
        }
        self.said = Some(now);
        let seconds = (now - self.began).as_secs_f64();
        let rate = Bytes((at as f64 / seconds) as u64);
        let percent = at as f64 * 100.0 / self.len as f64;
        let (path, len) = (Shown(&self.path), Bytes(self.len));
        let _ = write!(std::io::stderr(), "\r\x1b[K{path}: {percent:.1} % of {len}, {rate}/s");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.said.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}
