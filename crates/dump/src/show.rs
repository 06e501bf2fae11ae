//! `show`: the batches or messages that are selected, one line each, as the walk finds them.

use corelog_format::{Batch, Frame};

use crate::discover::Partition;
use crate::failure::Failure;
use crate::rows::{self, Shape};
use crate::select::Selection;
use crate::session::Session;
use crate::visit::{At, Order, each_batch};
use crate::walk::Flow;

/// Which lines, and how many of them.
#[derive(Debug)]
pub(crate) struct Rows {
    /// What is selected.
    pub(crate) selection: Selection,
    /// What a line looks like.
    pub(crate) shape: Shape,
    /// In which order.
    pub(crate) order: Order,
    /// Lines that are still to be passed over.
    pub(crate) skip: u64,
    /// Lines that may still be printed.
    pub(crate) limit: u64,
}

/// Prints the segments of all partitions. Memory does not grow with what is printed.
pub(crate) fn run(
    session: &mut Session,
    partitions: &[Partition],
    mut rows: Rows,
) -> Result<(), Failure> {
    if rows.limit == 0 {
        return Ok(());
    }
    let selection = rows.selection.clone();
    let order = rows.order;
    each_batch(session, partitions, &selection, order, &mut |session, at, batch| {
        rows.print(session, at, &batch)?;
        Ok(if rows.limit == 0 { Flow::Stop } else { Flow::Continue })
    })
}

impl Rows {
    /// Prints what is selected of a batch.
    pub(crate) fn print(
        &mut self,
        session: &mut Session,
        at: At<'_>,
        batch: &Batch<'_>,
    ) -> Result<(), Failure> {
        if !self.shape.messages {
            if self.selection.takes_some_of(batch) && self.is_due() {
                let (path, shape) = (&at.segment.path, self.shape);
                let style = session.style;
                rows::batch(&mut session.out, path, at.position, batch.header(), shape, style)?;
            }
            return Ok(());
        }
        match self.order {
            Order::Forwards => self.messages(session, at, batch, batch.frames()),
            Order::Backwards => {
                let frames: Vec<Frame<'_>> = batch.frames().collect();
                self.messages(session, at, batch, frames.into_iter().rev())
            }
        }
    }

    fn messages<'f>(
        &mut self,
        session: &mut Session,
        at: At<'_>,
        batch: &Batch<'_>,
        frames: impl Iterator<Item = Frame<'f>>,
    ) -> Result<(), Failure> {
        let header = batch.header();
        for frame in frames {
            if self.limit == 0 {
                break;
            }
            if self.selection.takes(header, &frame) && self.is_due() {
                let (shape, style) = (self.shape, session.style);
                rows::message(&mut session.out, at.position, header, &frame, shape, style)?;
            }
        }
        Ok(())
    }

    /// Counts a line that is selected: whether it is printed.
    fn is_due(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        self.limit -= 1;
        true
    }
}
