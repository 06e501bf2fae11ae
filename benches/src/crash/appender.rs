//! Starts the process that appends, and kills it.

use std::env;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::child::{ANSWER_LEN, ChildArgs, write_sent};
use crate::args::APPEND_UNTIL_KILLED;
use crate::interrupt::{Interrupt, Interrupted};
use crate::plan::Sent;
use crate::run::Settings;
use crate::run_error::RunError;

/// How often the answers are counted.
const LOOK: Duration = Duration::from_micros(200);

/// A process that appends to an engine's data directory, which is closed and has the topics.
#[derive(Debug)]
pub(crate) struct Appender<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) data: &'a Path,
    pub(crate) round: u32,
    /// How many it sends if it lives so long.
    pub(crate) batches: u64,
    /// It is killed once so many were answered.
    pub(crate) kill_after: u64,
}

/// What is known of a process that was killed.
#[derive(Debug)]
pub(crate) struct Killed {
    /// What was there before, and what it was answered for.
    pub(crate) acked: Sent,
}

impl Appender<'_> {
    /// Starts it behind what was `sent` before, and kills it.
    pub(crate) fn run_and_kill(
        &self,
        sent: &Sent,
        interrupt: &Interrupt,
    ) -> Result<Killed, RunError> {
        let failed = |source: io::Error| RunError::Engine {
            doing: "running the process that is to be killed".to_owned(),
            source: source.into(),
        };
        let mut child = Command::new(env::current_exe().map_err(failed)?)
            .arg(APPEND_UNTIL_KILLED)
            .args(self.args().to_words())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is for this process, which then ends the other one.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let mut stdin = child.stdin.take().expect("piped");
        let mut stdout = child.stdout.take().expect("piped");
        let told = write_sent(sent, self.settings.partitions, &mut stdin);
        let answers = AtomicU64::new(0);
        let (ended, acked) = thread::scope(|scope| {
            let listener = scope.spawn(|| listen(&mut stdout, sent.clone(), &answers));
            let ended = told.and_then(|()| self.wait_and_kill(&mut child, &answers, interrupt));
            // Whatever happened: the listener waits for the end of the pipe.
            let _ = child.kill();
            let _ = child.wait();
            (ended, listener.join().expect("the listener panicked"))
        });
        match ended.map_err(failed)? {
            End::Killed => Ok(Killed { acked: acked.map_err(failed)? }),
            End::Stopped => Err(Interrupted.into()),
            End::ByItself(status) => {
                Err(failed(io::Error::other(format!("it ended by itself: {status}"))))
            }
        }
    }

    fn wait_and_kill(
        &self,
        child: &mut Child,
        answers: &AtomicU64,
        interrupt: &Interrupt,
    ) -> io::Result<End> {
        loop {
            if answers.load(Ordering::Relaxed) >= self.kill_after {
                child.kill()?;
                return Ok(End::Killed);
            }
            if interrupt.is_raised() {
                return Ok(End::Stopped);
            }
            if let Some(status) = child.try_wait()? {
                return Ok(End::ByItself(status.to_string()));
            }
            thread::sleep(LOOK);
        }
    }

    fn args(&self) -> ChildArgs {
        let Settings { runtime, shards, partitions, producers, in_flight, ack, seed, .. } =
            *self.settings;
        let sizes = &self.settings.sizes;
        ChildArgs {
            data: self.data.to_owned(),
            seed,
            round: self.round,
            batches: self.batches,
            shards,
            partitions,
            producers,
            in_flight,
            messages_from: sizes.messages.start,
            messages_to: sizes.messages.end,
            payload_from: sizes.payload.start,
            payload_to: sizes.payload.end,
            headers: sizes.headers,
            entropy_percent: sizes.entropy_percent,
            ack,
            runtime,
        }
    }
}

/// How the process ended.
enum End {
    Killed,
    Stopped,
    ByItself(String),
}

/// Takes answers until the pipe ends. The last one may have been cut off by the kill.
fn listen(from: &mut impl Read, mut acked: Sent, answers: &AtomicU64) -> io::Result<Sent> {
    let mut answer = [0; ANSWER_LEN];
    loop {
        match from.read_exact(&mut answer) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(acked),
            Err(error) => return Err(error),
        }
        let [p0, p1, a, b, c, d, e, f, g, h] = answer;
        let producer = u16::from_le_bytes([p0, p1]);
        let partition = u32::from_le_bytes([a, b, c, d]);
        let sequence = u32::from_le_bytes([e, f, g, h]);
        // A log keeps the order: with this one all before it of the same producer are there.
        acked.raise(producer, partition, sequence + 1);
        answers.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_in_any_order_and_one_that_was_cut_off_is_none() {
        let answer = |producer: u16, partition: u32, sequence: u32| {
            let mut bytes = producer.to_le_bytes().to_vec();
            bytes.extend(partition.to_le_bytes());
            bytes.extend(sequence.to_le_bytes());
            bytes
        };
        let bytes = [answer(1, 2, 5), answer(1, 2, 4), answer(0, 0, 0), answer(0, 0, 1)].concat();
        let answers = AtomicU64::new(0);
        let acked = listen(&mut &bytes[..bytes.len() - 1], Sent::nothing(2, 3), &answers).unwrap();
        assert_eq!((acked.batches(2), acked.batches(0)), (&[0, 6][..], &[1, 0][..]));
        assert_eq!(answers.into_inner(), 3);
    }
}
