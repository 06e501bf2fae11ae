//! Walks verified batches of one segment file, read for nobody else: what recovery does.

use std::ops::Range;
use std::rc::Rc;

use corelog_format::{BatchHeader, Expect, Findings, FormatError, FormatErrorKind, Scan, Step};
use corelog_io::{File, IoError, align_down, align_up};

/// A batch that verified and continues the log, and the buffer it stands in.
pub(crate) struct Found<S> {
    pub(crate) at: u64,
    pub(crate) header: BatchHeader,
    pub(crate) findings: Findings,
    pub(crate) bytes: S,
    pub(crate) range: Range<usize>,
}

/// Bytes that are not a batch of this log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Damage {
    pub(crate) at: u64,
    pub(crate) why: FormatError,
    /// True where everything there was known to be durable.
    pub(crate) below_mark: bool,
}

/// Why a walk stopped early.
#[derive(Debug)]
pub(crate) enum ReadFault {
    Io(IoError),
    Damage(Damage),
}

impl ReadFault {
    /// True where it is about the bytes that were asked for: others may be read all the same.
    pub(crate) fn is_of_place(&self) -> bool {
        match self {
            ReadFault::Io(error) => error.is_unreadable(),
            ReadFault::Damage(_) => true,
        }
    }
}

/// A walk over a segment's batches.
pub(crate) struct Walker<F: File> {
    file: Rc<F>,
    scan: Scan,
    /// The file's bytes from the position on, as far as they were read.
    window: Option<(u64, F::Bytes)>,
    /// End of what may be read; `u64::MAX` where only the file knows.
    end: u64,
    read_bytes: usize,
    pub(crate) bytes_read: u64,
}

impl<F: File> Walker<F> {
    /// Walks `file` from `start` to `end`; `durable_to` and `expect` as in [`Scan::new`]. Reads
    /// `read_bytes` at a time, more where a batch is longer.
    pub(crate) fn new(
        file: Rc<F>,
        start: u64,
        end: u64,
        durable_to: u64,
        expect: Expect,
        read_bytes: usize,
    ) -> Self {
        let scan = Scan::new(start, end, durable_to, expect);
        Walker { file, scan, window: None, end, read_bytes, bytes_read: 0 }
    }

    /// Does not compare checksums, only the layout and the place in the log.
    pub(crate) fn layout_only(mut self) -> Self {
        self.scan = self.scan.layout_only();
        self
    }

    /// Position of the next batch, or where the walk stopped.
    pub(crate) fn position(&self) -> u64 {
        self.scan.position()
    }

    /// The next batch; `None` at the end of the log in this file.
    pub(crate) async fn next(&mut self) -> Result<Option<Found<F::Bytes>>, ReadFault> {
        loop {
            let position = self.scan.position();
            let (bytes, from) = match &self.window {
                Some((start, bytes)) => (Some(bytes), (position - start) as usize),
                None => (None, 0),
            };
            let window = bytes.and_then(|b| b.as_ref().get(from..)).unwrap_or_default();
            let damage = |at, why, below_mark| ReadFault::Damage(Damage { at, why, below_mark });
            match self.scan.next(window) {
                Step::Batch { at, batch, findings } => {
                    let header = *batch.header();
                    let range = from..from + batch.bytes().len();
                    let bytes = bytes.expect("a batch stands in a window").clone();
                    return Ok(Some(Found { at, header, findings, bytes, range }));
                }
                Step::End { .. } => return Ok(None),
                Step::Torn { at, why } => return Err(damage(at, why, false)),
                Step::Corrupt { at, why } => return Err(damage(at, why, true)),
                Step::NeedBytes { len } => self.read(len).await?,
            }
        }
    }

    /// Makes the window hold at least `len` bytes from the scan's position on.
    async fn read(&mut self, len: u64) -> Result<(), ReadFault> {
        let position = self.scan.position();
        let start = align_down(position);
        let needed = align_up(position.saturating_add(len)) - start;
        let wanted = needed.max(self.read_bytes as u64).min(align_up(self.end).max(start) - start);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        self.window = None;
        let bytes = match self.file.read_at(start, wanted).await {
            // A sector ahead may be the one that cannot be read: only the batch itself counts.
            Err(error) if error.is_unreadable() && needed < wanted as u64 => {
                self.read_bytes = 0;
                self.file.read_at(start, needed as usize).await
            }
            read => read,
        };
        let bytes = bytes.map_err(ReadFault::Io)?;
        self.bytes_read += bytes.as_ref().len() as u64;
        let have = (start + bytes.as_ref().len() as u64).saturating_sub(position);
        self.window = Some((start, bytes));
        if have < len {
            // The file is shorter than the log says it is.
            let kind = FormatErrorKind::Truncated { needed: len, have };
            let why = FormatError::new(position, "batch_header", kind);
            return Err(ReadFault::Damage(Damage { at: position, why, below_mark: true }));
        }
        Ok(())
    }
}
