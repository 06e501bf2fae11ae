//! Whole transfers out of single calls that may be cut short or interrupted.

use std::io;

use corelog_io::BLOCK;

/// How many calls one transfer may take before it counts as failed: each of them moves forward or
/// was interrupted, so only something broken gets there.
const CALLS_MAX: usize = 1024;

/// The bytes of a read: as one call brought them, or put together from several.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Whole<R> {
    /// The usual case.
    One(R),
    /// The rare one.
    Joined(Vec<u8>),
}

/// The bytes of `[at, at + len)` as far as the file goes, by calls of `once(at, len)`.
///
/// A call of full length is complete. Any other may have been cut short, anywhere: the rest is asked
/// for again from the last whole block on, as O_DIRECT wants it, and only an answer that brings
/// nothing more says that the file has ended. Believing less would take a short read for the end of
/// a log, and a recovery would cut what follows.
pub(super) async fn read_all<R: AsRef<[u8]>>(
    at: u64,
    len: usize,
    once: impl AsyncFn(u64, usize) -> io::Result<R>,
) -> io::Result<Whole<R>> {
    let first = uninterrupted(&once, at, len).await?;
    let mut joined = Vec::new();
    for _ in 0..CALLS_MAX {
        let done = joined.len().max(first.as_ref().len());
        if done >= len {
            break;
        }
        let from = done / BLOCK * BLOCK;
        let more = uninterrupted(&once, at + from as u64, len - from).await?;
        let Some(new) = more.as_ref().get(done - from..).filter(|new| !new.is_empty()) else {
            break;
        };
        if joined.is_empty() {
            joined.reserve_exact(len);
            joined.extend_from_slice(first.as_ref());
        }
        joined.extend_from_slice(new);
    }
    Ok(if joined.is_empty() { Whole::One(first) } else { Whole::Joined(joined) })
}

async fn uninterrupted<R>(
    once: &impl AsyncFn(u64, usize) -> io::Result<R>,
    at: u64,
    len: usize,
) -> io::Result<R> {
    for _ in 1..CALLS_MAX {
        match once(at, len).await {
            Err(e) if is_interruption(&e) => {}
            other => return other,
        }
    }
    once(at, len).await
}

/// Has `len` bytes written by calls of `once(done)`, which writes all that follows the first `done`
/// bytes, or less, and answers how much that was.
pub(super) async fn write_all(
    len: usize,
    once: impl AsyncFn(usize) -> io::Result<usize>,
) -> io::Result<()> {
    let (mut done, mut last) = (0, None);
    for _ in 0..CALLS_MAX {
        match once(done).await {
            // Whole blocks only: one that was cut in the middle is written again.
            Ok(count) => match count / BLOCK * BLOCK {
                0 => {
                    let text = "the device took no further block";
                    return Err(io::Error::new(io::ErrorKind::WriteZero, text));
                }
                moved => done += moved,
            },
            Err(e) if is_interruption(&e) => last = Some(e),
            Err(e) => return Err(e),
        }
        if done >= len {
            return Ok(());
        }
    }
    // As for a read: the last interruption itself.
    Err(last.unwrap_or_else(|| {
        io::Error::new(io::ErrorKind::WriteZero, "the device took a few blocks at a time only")
    }))
}

/// What says nothing about the file: the same call is made again.
fn is_interruption(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const B: usize = BLOCK;

    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done,
            Poll::Pending => panic!("nothing here waits"),
        }
    }

    fn errno(number: i32) -> io::Error {
        io::Error::from_raw_os_error(number)
    }

    fn file(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at / B) as u8).collect()
    }

    /// Reads `[0, len)` of a file of `size` bytes; each call is cut to the next of `cuts`, 0 for an
    /// interruption. Answers how many calls there were, and the bytes.
    fn read(size: usize, len: usize, cuts: &[usize]) -> (usize, Whole<Vec<u8>>) {
        let (file, calls) = (file(size), RefCell::new(0));
        let once = async |at: u64, len: usize| {
            let cut = cuts.get(*calls.borrow()).copied();
            *calls.borrow_mut() += 1;
            if cut == Some(0) {
                return Err(errno(libc::EINTR));
            }
            let from = (at as usize).min(size);
            let to = (from + len.min(cut.unwrap_or(len))).min(size);
            Ok(file[from..to].to_vec())
        };
        let whole = now(read_all(0, len, once)).expect("it reads");
        (calls.take(), whole)
    }

    #[test]
    fn reads() {
        let f = file(9 * B);
        type Case = (usize, usize, &'static [usize], usize, Whole<Vec<u8>>);
        let cases: [Case; 10] = [
            // Complete at once.
            (9 * B, 4 * B, &[], 1, Whole::One(f[..4 * B].to_vec())),
            // The end, wherever it is, is asked about.
            (2 * B + 7, 4 * B, &[], 2, Whole::One(f[..2 * B + 7].to_vec())),
            (2 * B, 4 * B, &[], 2, Whole::One(f[..2 * B].to_vec())),
            (0, 4 * B, &[], 2, Whole::One(vec![])),
            // Cut short in the middle, once, twice, and at the last piece of the file.
            (9 * B, 4 * B, &[B], 2, Whole::Joined(f[..4 * B].to_vec())),
            (9 * B, 8 * B, &[B, 3 * B], 3, Whole::Joined(f[..8 * B].to_vec())),
            // Inside of blocks, which looks like the end of the file.
            (9 * B, 4 * B, &[B + 512], 2, Whole::Joined(f[..4 * B].to_vec())),
            (4 * B + 9, 8 * B, &[7, B + 7, B - 1], 5, Whole::Joined(f[..4 * B + 9].to_vec())),
            (4 * B + 9, 8 * B, &[B], 3, Whole::Joined(f[..4 * B + 9].to_vec())),
            // Interrupted before anything and in between.
            (9 * B, 4 * B, &[0, B, 0], 4, Whole::Joined(f[..4 * B].to_vec())),
        ];
        for (size, len, cuts, calls, want) in cases {
            assert_eq!(read(size, len, cuts), (calls, want), "{size} {len} {cuts:?}");
        }
    }

    /// Writes `len` bytes; each call answers the next of `answers`, then all that is left. Answers
    /// from where each call wrote.
    fn write(len: usize, answers: &[Result<usize, i32>]) -> (Vec<usize>, io::Result<()>) {
        let calls = RefCell::new(Vec::new());
        let once = async |done: usize| {
            let answer = answers.get(calls.borrow().len()).copied();
            calls.borrow_mut().push(done);
            answer.unwrap_or(Ok(len - done)).map_err(errno)
        };
        let result = now(write_all(len, once));
        (calls.take(), result)
    }

    #[test]
    fn writes() {
        type Case = (&'static [Result<usize, i32>], &'static [usize]);
        let cases: [Case; 4] = [
            (&[], &[0]),
            (&[Ok(B)], &[0, B]),
            // A block that was cut in the middle is written again from its start.
            (&[Ok(2 * B + 512), Ok(B)], &[0, 2 * B, 3 * B]),
            (&[Err(libc::EINTR), Ok(B), Err(libc::EAGAIN)], &[0, 0, B, B]),
        ];
        for (answers, calls) in cases {
            let (from, result) = write(4 * B, answers);
            assert_eq!(from, calls, "{answers:?}");
            result.expect("it writes");
        }
    }

    #[test]
    fn what_cannot_go_on_is_an_error() {
        // The rest of a write that was cut short says why.
        let (from, result) = write(4 * B, &[Ok(2 * B), Err(libc::ENOSPC)]);
        assert_eq!(from, [0, 2 * B]);
        assert_eq!(result.expect_err("no space").raw_os_error(), Some(libc::ENOSPC));
        let (_, result) = write(4 * B, &[Ok(B), Ok(B - 1)]);
        assert_eq!(result.expect_err("no block").kind(), io::ErrorKind::WriteZero);
        // Not for ever: then the error is the one that the last call gave, for both.
        let (from, result) = write(B, &[Err(libc::EINTR); CALLS_MAX]);
        assert_eq!(from.len(), CALLS_MAX);
        assert_eq!(result.expect_err("interrupted").raw_os_error(), Some(libc::EINTR));
        let (from, result) = write((CALLS_MAX + 1) * B, &[Ok(B); CALLS_MAX]);
        assert_eq!(from.len(), CALLS_MAX);
        assert_eq!(result.expect_err("too slow").kind(), io::ErrorKind::WriteZero);
        let once = async |_, _| Err::<Vec<u8>, _>(errno(libc::EIO));
        let error = now(read_all(0, B, once)).expect_err("an error ends it");
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
        let once = async |_, _| Err::<Vec<u8>, _>(errno(libc::EINTR));
        let error = now(read_all(0, B, once)).expect_err("interrupted");
        assert_eq!(error.raw_os_error(), Some(libc::EINTR));
    }
}
