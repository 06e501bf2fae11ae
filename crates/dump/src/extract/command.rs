//! Payloads through a command: one process of the shell, fed until it or the selection ends.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdin, Command, ExitStatus, Stdio};

use crate::args::Framing;
use crate::discover::Partition;
use crate::failure::Failure;
use crate::select::Selection;
use crate::session::Session;
use crate::visit::{Order, each_batch};
use crate::walk::Flow;

/// Feeds the payloads of what is selected to `command`, whose output is ours. What it has not read
/// yet waits in the pipe and in 64 KiB of ours, so a slow command slows us down, no more.
pub(super) fn feed(
    session: &mut Session,
    partitions: &[Partition],
    selection: &Selection,
    command: &str,
    framing: Framing,
) -> Result<(), Failure> {
    let failed = |doing: &str, error: io::Error| Failure::Command {
        command: command.to_string(),
        why: format!("cannot {doing}: {error}"),
    };
    session.out.flush()?;
    let mut child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|error| failed("start the shell", error))?;
    let Some(stdin) = child.stdin.take() else {
        return Err(failed("feed it", io::Error::other("no pipe")));
    };
    let mut feeder = Some(BufWriter::with_capacity(1 << 16, stdin));
    let walked = each_batch(session, partitions, selection, Order::Forwards, &mut |_, _, batch| {
        let header = batch.header();
        for frame in batch.frames().filter(|frame| selection.takes(header, frame)) {
            let Some(pipe) = &mut feeder else { return Ok(Flow::Stop) };
            match put(pipe, frame.payload(), framing) {
                Ok(()) => {}
                // It has seen enough.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => close(&mut feeder),
                Err(error) => return Err(failed("feed it", error)),
            }
        }
        Ok(Flow::Continue)
    });
    let fed = match feeder.take().map(|mut pipe| pipe.flush()) {
        Some(Err(error)) if error.kind() != ErrorKind::BrokenPipe => Err(failed("feed it", error)),
        _ => Ok(()),
    };
    // Its pipe is closed: it ends, whatever happened to us.
    let status = child.wait().map_err(|error| failed("wait for it", error))?;
    walked?;
    fed?;
    match said(status) {
        None => Ok(()),
        Some(why) => session.fail(Failure::Command { command: command.to_string(), why }),
    }
}

fn put(pipe: &mut impl Write, payload: &[u8], framing: Framing) -> io::Result<()> {
    match framing {
        Framing::Length => {
            // A payload's length is a u32 in its frame.
            let len = u32::try_from(payload.len()).map_err(io::Error::other)?;
            pipe.write_all(&len.to_le_bytes())?;
            pipe.write_all(payload)
        }
        Framing::Line => {
            pipe.write_all(payload)?;
            pipe.write_all(b"\n")
        }
    }
}

/// Lets go of a pipe that nobody reads, with what is left in its buffer.
fn close(feeder: &mut Option<BufWriter<ChildStdin>>) {
    if let Some(pipe) = feeder.take() {
        drop(pipe.into_parts());
    }
}

/// What is wrong with how a command ended.
fn said(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("it ended with exit code {code}")),
        (None, Some(signal)) => Some(format!("it was ended by signal {signal}")),
        (None, None) => Some(format!("it ended with {status}")),
    }
}
