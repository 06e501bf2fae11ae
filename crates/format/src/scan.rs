//! The one scan of a segment's bytes. Recovery, reads, the dump tool and the simulator share it.
//!
//! It is pure and streams: the caller feeds windows of the file, the scan says what it found and
//! where the next window has to begin. Nothing is remembered of the bytes, and no window is asked
//! for that is longer than the largest batch.

mod expect;

use crate::layout::batch_header;
use crate::{BATCH_HEADER_LEN, Batch, BatchHeader, FormatError, FormatErrorKind, UnverifiedBatch};

pub use expect::{Expect, Findings};

/// What the scan says about one place of the file.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// A batch that verifies and continues the log.
    Batch {
        /// Its first byte in the file.
        at: u64,
        /// The batch, borrowed from the window.
        batch: Batch<'a>,
        /// What is odd about it.
        findings: Findings,
    },
    /// The window is too short: it has to hold at least `len` bytes from [`Scan::position`] on,
    /// which may have moved. Never more than the file has left.
    NeedBytes {
        /// Bytes the next window has to hold.
        len: u64,
    },
    /// Damage at or above what is known to be durable: an interrupted write. Repeats for ever.
    Torn {
        /// First byte that is not part of the log.
        at: u64,
        /// What is wrong; its position is the file's.
        why: FormatError,
    },
    /// Damage below what is known to be durable. Repeats for ever.
    Corrupt {
        /// First byte of the damaged batch.
        at: u64,
        /// What is wrong; its position is the file's.
        why: FormatError,
    },
    /// The log ends here: the file does, or only zeros follow. Repeats for ever.
    End {
        /// One past the last batch's last byte.
        at: u64,
    },
}

/// Most bytes asked for at once while zeros are being passed over; shorter windows do as well.
const ZEROS_WINDOW: u64 = 256 * 1024;

/// A scan over a segment's bytes.
///
/// ```
/// use corelog_format::{BatchBuilder, Expect, Message, Scan, Step};
///
/// let mut builder = BatchBuilder::new();
/// builder.push(Message::new(b"hello"))?;
/// let file = builder.finish()?;
///
/// let mut scan = Scan::new(0, file.len() as u64, 0, Expect::default());
/// let mut window = 0;
/// let batches = loop {
///     let from = scan.position() as usize;
///     match scan.next(&file[from..(from + window).min(file.len())]) {
///         Step::NeedBytes { len } => window = len as usize,
///         Step::Batch { at, .. } => assert_eq!(at, 0),
///         Step::End { at } => break at,
///         Step::Torn { why, .. } | Step::Corrupt { why, .. } => return Err(why.into()),
///     }
/// };
/// assert_eq!(batches, file.len() as u64);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Scan {
    position: u64,
    file_len: u64,
    durable_to: u64,
    expect: Expect,
    checks: Checks,
    state: State,
}

/// Which checksums are compared; the layout and the place in the log always are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checks {
    /// None.
    Layout,
    /// Each batch's, over its header and the checksums that its frames state.
    Batch,
    /// Each batch's and each frame's.
    All,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// A batch, zeros or the end stand at `position`.
    Batches,
    /// Zeros from `from` up to `position`.
    Zeros {
        from: u64,
    },
    /// Over: damage or the end.
    Damaged {
        at: u64,
        why: FormatError,
    },
    Ended {
        at: u64,
    },
}

/// Where one look at a window led to.
enum Look<'a> {
    Batch(Batch<'a>),
    Need(u64),
    Zeros,
    Damage(FormatError),
    End,
}

impl Scan {
    /// A scan from byte `start` of a file of `file_len` bytes. Everything below `durable_to` was
    /// synced: what is missing or wrong there is corruption, and a write that was cut off can only
    /// stand above. `u64::MAX` means: whatever length the file has, all of it was.
    pub fn new(start: u64, file_len: u64, durable_to: u64, expect: Expect) -> Self {
        Scan {
            position: start,
            file_len,
            durable_to,
            expect,
            checks: Checks::All,
            state: State::Batches,
        }
    }

    /// The same scan without comparing checksums: only the layout and the place in the log count.
    #[must_use]
    pub fn layout_only(mut self) -> Self {
        self.checks = Checks::Layout;
        self
    }

    /// The same scan comparing each batch's own checksum, which covers its header and the checksums
    /// that its frames state, and none of the frames': their bytes may be anything.
    #[must_use]
    pub fn batch_checksum_only(mut self) -> Self {
        self.checks = Checks::Batch;
        self
    }

    /// The file position at which the window of the next call has to begin.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Goes on at `to` where zeros are being passed over: the file system says that a hole reaches as
    /// far, so nobody has to read it. Does nothing anywhere else, or backwards.
    pub fn pass_hole(&mut self, to: u64) {
        if let State::Zeros { .. } = self.state {
            self.position = to.clamp(self.position, self.file_len.max(self.position));
        }
    }

    /// The next step, from a window of the file that begins at [`Scan::position`]. Bytes behind
    /// the file's end are not looked at. Every call either moves on, asks for a longer window than
    /// it was given, or repeats the last word.
    pub fn next<'a>(&mut self, window: &'a [u8]) -> Step<'a> {
        let left = self.file_len.saturating_sub(self.position);
        let window = clip(window, left);
        match self.state {
            State::Batches => self.next_batch(window, left),
            State::Zeros { from } => self.pass_zeros(window, left, from),
            State::Damaged { at, why } => self.damage(at, why),
            State::Ended { at } => Step::End { at },
        }
    }

    fn next_batch<'a>(&mut self, window: &'a [u8], left: u64) -> Step<'a> {
        match look(window, left, self.checks) {
            Look::Need(len) => Step::NeedBytes { len },
            Look::Zeros => self.pass_zeros(window, left, self.position),
            Look::End => self.end(self.position),
            Look::Damage(why) => self.damage(self.position, why.inside(self.position)),
            Look::Batch(batch) => match self.expect.check(batch.header()) {
                Ok(time_went_back) => self.found(batch, time_went_back),
                Err(why) => self.damage(self.position, why.inside(self.position)),
            },
        }
    }

    fn found<'a>(&mut self, batch: Batch<'a>, time_went_back: bool) -> Step<'a> {
        let at = self.position;
        let header = batch.header();
        self.position += header.batch_length;
        self.expect.follow(header);
        let findings = Findings {
            deltas_not_index: !batch.deltas_are_index(),
            time_went_back,
            user_headers_malformed: !batch.user_headers_well_formed(),
        };
        Step::Batch { at, batch, findings }
    }

    /// Zeros stand from `from` up to the window. They are the end only if nothing follows.
    fn pass_zeros<'a>(&mut self, window: &'a [u8], left: u64, from: u64) -> Step<'a> {
        if let Some(place) = first_nonzero(window) {
            let kind = FormatErrorKind::NotZero { found: window[place] };
            let at = self.position + place as u64;
            return self.damage(from, FormatError::new(at, "zero_tail", kind));
        }
        self.position += window.len() as u64;
        let left = left - window.len() as u64;
        if left == 0 {
            return self.end(from);
        }
        self.state = State::Zeros { from };
        Step::NeedBytes { len: left.min(ZEROS_WINDOW) }
    }

    /// The log ends at `at`, unless more of it was durable.
    fn end<'a>(&mut self, at: u64) -> Step<'a> {
        let durable_to = if self.durable_to == u64::MAX { self.file_len } else { self.durable_to };
        if at < durable_to {
            let kind = FormatErrorKind::Truncated { needed: durable_to - at, have: 0 };
            return self.damage(at, FormatError::new(at, "batch_header", kind));
        }
        self.state = State::Ended { at };
        Step::End { at }
    }

    fn damage<'a>(&mut self, at: u64, why: FormatError) -> Step<'a> {
        self.state = State::Damaged { at, why };
        if at < self.durable_to { Step::Corrupt { at, why } } else { Step::Torn { at, why } }
    }
}

/// Looks at a window that begins where a batch should, with `left` bytes of the file.
fn look(window: &[u8], left: u64, checks: Checks) -> Look<'_> {
    let have = window.len() as u64;
    let header_need = left.min(BATCH_HEADER_LEN as u64);
    if left == 0 {
        return Look::End;
    }
    if have < header_need {
        return Look::Need(header_need);
    }
    // A header of zeros is no batch: its length would be 0. A zero in one field means nothing.
    if first_nonzero(&window[..header_need as usize]).is_none() {
        return Look::Zeros;
    }
    let header = match BatchHeader::parse(window) {
        Ok(header) => header,
        Err(why) => return Look::Damage(why),
    };
    if header.batch_length > left {
        let kind = FormatErrorKind::Truncated { needed: header.batch_length, have: left };
        let field = batch_header::BATCH_LENGTH;
        return Look::Damage(FormatError::new(field.at as u64, field.name, kind));
    }
    if have < header.batch_length {
        return Look::Need(header.batch_length);
    }
    let verified = UnverifiedBatch::split_first(window).and_then(|(batch, _)| match checks {
        Checks::Layout => batch.verify_layout(),
        Checks::Batch => batch.verify_batch_checksum(),
        Checks::All => batch.verify_stored(),
    });
    match verified {
        Ok(batch) => Look::Batch(batch),
        Err(why) => Look::Damage(why),
    }
}

fn clip(window: &[u8], left: u64) -> &[u8] {
    match usize::try_from(left) {
        Ok(left) if left < window.len() => &window[..left],
        _ => window,
    }
}

/// Index of the first byte that is not zero. Preallocated files end in megabytes of zeros, so whole chunks
/// are OR-ed, which the compiler turns into vector code.
pub fn first_nonzero(bytes: &[u8]) -> Option<usize> {
    const CHUNK: usize = 256;
    for (index, chunk) in bytes.chunks(CHUNK).enumerate() {
        if chunk.iter().fold(0, |all, byte| all | byte) != 0 {
            let inside = chunk.iter().position(|&byte| byte != 0)?;
            return Some(index * CHUNK + inside);
        }
    }
    None
}

/// Scans a whole file that is in memory: batches, then exactly one `Torn`, `Corrupt` or `End`.
pub fn scan(bytes: &[u8], durable_to: u64, expect: Expect) -> impl Iterator<Item = Step<'_>> {
    let mut scan = Scan::new(0, bytes.len() as u64, durable_to, expect);
    let mut over = false;
    std::iter::from_fn(move || {
        while !over {
            let window = bytes.get(scan.position() as usize..).unwrap_or_default();
            match scan.next(window) {
                // Only after zeros were passed over: the window always reaches the file's end.
                Step::NeedBytes { .. } => continue,
                step @ Step::Batch { .. } => return Some(step),
                last => {
                    over = true;
                    return Some(last);
                }
            }
        }
        None
    })
}
