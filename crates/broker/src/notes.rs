//! What the operator is told: lines that no shard waits for, and never a flood of them.
//!
//! Standard error may be a pipe that nobody reads, and clients can provoke notes as fast as they
//! send. So a thread of its own writes, a bounded queue stands before it, and what is too much is
//! counted instead.

use std::fmt;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

/// Notes of one second; more are counted.
const PER_SECOND: u64 = 20;

/// Notes that wait for the writer.
const WAITING_MAX: usize = 64;

/// Where notes go. The writer ends when this is dropped.
pub(crate) struct Notes {
    lines: SyncSender<String>,
    began: Instant,
    pace: Pace,
}

impl Notes {
    /// Begins to write notes to `out`.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(crate) fn start(mut out: impl Write + Send + 'static) -> io::Result<Notes> {
        let (lines, waiting) = sync_channel::<String>(WAITING_MAX);
        let write = move || {
            for line in waiting {
                // There is nobody to tell that nobody can be told.
                let _ = out.write_all(line.as_bytes());
            }
        };
        thread::Builder::new().name("broker-notes".to_owned()).spawn(write)?;
        Ok(Notes { lines, began: Instant::now(), pace: Pace::default() })
    }

    /// Tells `what`, or counts it where there is too much to tell. Never waits.
    pub(crate) fn note(&self, what: fmt::Arguments<'_>) {
        let Some(left_out) = self.pace.admits(self.began.elapsed().as_secs()) else { return };
        let line = match left_out {
            0 => format!("corelog-broker: {what}\n"),
            more => format!("corelog-broker: ({more} notes were left out) {what}\n"),
        };
        if self.lines.try_send(line).is_err() {
            self.pace.left_out.fetch_add(left_out + 1, Ordering::Relaxed);
        }
    }
}

/// How many notes there were, and how many there may be. A few more than that do no harm, so that
/// nothing here is exact where threads meet.
#[derive(Default)]
struct Pace {
    second: AtomicU64,
    in_second: AtomicU64,
    left_out: AtomicU64,
}

impl Pace {
    /// Whether there may be one in second `now`, and how many were left out before it.
    fn admits(&self, now: u64) -> Option<u64> {
        if self.second.swap(now, Ordering::Relaxed) != now {
            self.in_second.store(0, Ordering::Relaxed);
        }
        if self.in_second.fetch_add(1, Ordering::Relaxed) < PER_SECOND {
            return Some(self.left_out.swap(0, Ordering::Relaxed));
        }
        self.left_out.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A reader of standard error that reads when it is told to.
    struct Slow {
        go: Receiver<()>,
        lines: Sender<String>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.go.recv();
            let _ = self.lines.send(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_too_much_is_counted() {
        let pace = Pace::default();
        let told = |now: u64| (0..100).filter_map(|_| pace.admits(now)).collect::<Vec<u64>>();
        assert_eq!(told(0), [0; 20]);
        let next = told(1);
        assert_eq!((next.len(), next[0], next[1]), (20, 80, 0));
    }

    #[test]
    fn nobody_waits_for_who_does_not_read() {
        let ((go, may), (lines, read)) = (channel(), channel());
        let notes = Notes::start(Slow { go: may, lines }).unwrap();
        for second in 0..10 {
            // As many as are let through, many seconds long.
            notes.pace.second.store(u64::MAX - second, Ordering::Relaxed);
            (0..PER_SECOND).for_each(|number| notes.note(format_args!("{second}.{number}")));
        }
        drop(go);
        drop(notes);
        let lines: Vec<String> = read.iter().collect();
        assert_eq!(lines[0], "corelog-broker: 0.0\n");
        assert!(lines.len() <= WAITING_MAX + 1, "{} lines were kept", lines.len());
    }
}
