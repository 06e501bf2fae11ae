//! A thread that writes lines. Standard error may be a pipe that nobody reads: who logs never waits
//! for it, and what does not fit into the queue is counted instead.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Lines that wait for the thread.
const WAITING_MAX: usize = 256;

/// How long the end of a process waits for its last lines.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// Where lines go. The thread ends when the last of these is dropped.
#[derive(Clone)]
pub(super) struct Writer {
    waiting: SyncSender<Piece>,
    lost: Arc<AtomicU64>,
}

enum Piece {
    Line(String),
    /// Answered when everything before it is written.
    Flush(SyncSender<()>),
}

impl Writer {
    /// Begins to write lines to `out`.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(super) fn start(out: impl Write + Send + 'static) -> io::Result<Writer> {
        let (waiting, pieces) = sync_channel(WAITING_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&lost);
        thread::Builder::new()
            .name("broker-log".to_owned())
            .spawn(move || write(out, &pieces, &counted))?;
        Ok(Writer { waiting, lost })
    }

    /// Writes `line`, which ends with a new line, or counts it where too many wait. Never waits.
    pub(super) fn line(&self, line: String) {
        if self.waiting.try_send(Piece::Line(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until what was given so far is written, [`FLUSH_MAX`] at most.
    pub(super) fn flush(&self) {
        let (done, written) = sync_channel(1);
        let end = Instant::now() + FLUSH_MAX;
        let mut piece = Piece::Flush(done);
        while let Err(TrySendError::Full(again)) = self.waiting.try_send(piece) {
            if Instant::now() >= end {
                return;
            }
            piece = again;
            thread::sleep(Duration::from_millis(1));
        }
        let _ = written.recv_timeout(end.saturating_duration_since(Instant::now()));
    }
}

fn write(mut out: impl Write, pieces: &Receiver<Piece>, lost: &AtomicU64) {
    for piece in pieces {
        // Errors are not looked at: there is nobody to tell that nobody can be told.
        match piece {
            Piece::Line(line) => drop(out.write_all(line.as_bytes())),
            Piece::Flush(done) => drop(done.try_send(())),
        }
        match lost.swap(0, Ordering::Relaxed) {
            0 => {}
            lines => drop(writeln!(out, "({lines} lines of the log were lost)")),
        }
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
    fn nobody_waits_for_who_does_not_read() {
        let ((go, may), (lines, read)) = (channel(), channel());
        let writer = Writer::start(Slow { go: may, lines }).unwrap();
        for number in 0..10 * WAITING_MAX {
            writer.line(format!("{number}\n"));
        }
        drop(go);
        drop(writer);
        let lines: Vec<String> = read.iter().collect();
        assert_eq!(lines[0], "0\n");
        let told = lines.iter().filter(|line| line.parse::<f64>().is_err()).count();
        assert!(lines.len() - told <= WAITING_MAX + 2, "{} lines were kept", lines.len());
        assert!(lines.concat().contains("of the log were lost"));
    }

    #[test]
    fn a_flush_waits_for_what_came_before() {
        let ((go, may), (lines, read)) = (channel(), channel());
        let writer = Writer::start(Slow { go: may, lines }).unwrap();
        writer.line("last words\n".to_owned());
        drop(go);
        writer.flush();
        assert_eq!(read.try_recv().unwrap(), "last words\n");
    }
}
