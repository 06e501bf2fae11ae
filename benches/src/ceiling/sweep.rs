//! The `ceiling` command: the disk alone, by block size and depth, rounds interleaved.

use std::io::{self, Write};
use std::time::Duration;

use serde_json::{Value, json};

use super::{Ceiling, CeilingError, Granted, Many, Shape, Step, Synced};
use crate::args::CeilingArgs;
use crate::latency::Latency;
use crate::machine::Machine;
use crate::report::{SCHEMA, ended_name, percentiles, program};
use crate::run::Ended;
use crate::size;
use crate::stats::{mb_per_s, median};

/// Requests of one measurement at most: small blocks need fewer bytes for a steady figure.
const REQUESTS_MAX: u64 = 16_384;

/// Longest that the synced writes of a round go on.
const SYNCED_BUDGET: Duration = Duration::from_secs(2);

/// All figures of a sweep.
#[derive(Debug)]
pub(crate) struct Sweep {
    pub(crate) cells: Vec<Cell>,
    pub(crate) synced: Synced,
    many: Vec<ManyCell>,
    /// None when not one measurement was whole.
    pub(crate) granted: Option<Granted>,
    /// Rounds that are whole.
    rounds: u32,
    pub(crate) ended: Ended,
}

/// Synced writes of one size at one depth by one method.
#[derive(Debug, Clone)]
struct ManyCell {
    many: Many,
    per_s: Vec<f64>,
    latency: Latency,
}

/// One block size at one depth.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    shape: Shape,
    bytes: u64,
    write_mb_per_s: Vec<f64>,
    read_mb_per_s: Vec<f64>,
}

/// Bytes that one measurement of this shape moves.
fn bytes_of(shape: Shape, total: u64) -> u64 {
    total.min(REQUESTS_MAX * shape.block as u64 * shape.rings as u64)
}

/// The most that a sweep has on disk at once.
pub(crate) fn space_needed(args: &CeilingArgs) -> u64 {
    let block_max = args.blocks.iter().map(|block| block.0).max().unwrap_or(0);
    // Rounded up to a whole block on each ring, and the file of the synced writes.
    // They stay from round to round; those of one size and depth share a file.
    let synced: u64 = args.synced().iter().map(|many| many.bytes()).sum();
    let sequential = args.total.0.saturating_add(block_max * u64::from(args.rings));
    sequential.saturating_add(synced).saturating_add(16 << 20)
}

/// Measures every cell once a round, so that a device that drifts drifts for all of them. `note` is
/// called as each round begins, with its number from 0.
pub(crate) fn measure(
    ceiling: &Ceiling,
    args: &CeilingArgs,
    note: &mut dyn FnMut(u32),
) -> Result<Sweep, CeilingError> {
    let cell = |shape| Cell {
        shape,
        bytes: bytes_of(shape, args.total.0),
        write_mb_per_s: Vec::new(),
        read_mb_per_s: Vec::new(),
    };
    let cells: Vec<Cell> = args.shapes().into_iter().map(cell).collect();
    let many = |many| ManyCell { many, per_s: Vec::new(), latency: Latency::default() };
    let many: Vec<ManyCell> = args.synced().into_iter().map(many).collect();
    let mut sweep = Sweep {
        cells,
        synced: Synced::default(),
        many,
        granted: None,
        rounds: 0,
        ended: Ended::Complete,
    };
    for round in 0..args.rounds {
        note(round);
        match sweep.round(ceiling, args) {
            Ok(()) => sweep.rounds += 1,
            // What was measured until then counts.
            Err(error) if error.step == Step::Interrupted => {
                sweep.ended = Ended::Interrupted;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(sweep)
}

impl Sweep {
    /// Measures every cell once.
    fn round(&mut self, ceiling: &Ceiling, args: &CeilingArgs) -> Result<(), CeilingError> {
        for cell in &mut self.cells {
            let wrote = ceiling.write_once(cell.bytes, cell.shape)?;
            let read = ceiling.read_once(cell.bytes, cell.shape)?;
            ceiling.remove_files(cell.shape.rings)?;
            cell.write_mb_per_s.push(mb_per_s(wrote.bytes, wrote.elapsed));
            cell.read_mb_per_s.push(mb_per_s(read.bytes, read.elapsed));
            self.granted = Some(wrote.granted);
        }
        if args.synced_samples > 0 {
            self.synced.merge(&ceiling.synced_once(args.synced_samples, SYNCED_BUDGET)?);
        }
        for cell in &mut self.many {
            let measured = ceiling.synced_many(cell.many, args.synced_time.0)?;
            cell.per_s.push(measured.per_s);
            cell.latency.merge(&measured.latency);
        }
        Ok(())
    }

    /// Whether nothing at all was measured.
    pub(crate) fn is_empty(&self) -> bool {
        self.granted.is_none()
    }

    /// The table for people.
    pub(crate) fn print(&self, machine: &Machine, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", machine.line())?;
        writeln!(
            out,
            "raw io_uring, O_DIRECT, fresh allocated files, one request = one block; {}; medians \
             of {} rounds{}\n",
            self.granted.map_or_else(|| "nothing measured".to_owned(), describe),
            self.rounds,
            if self.ended == Ended::Interrupted { " (then stopped)" } else { "" },
        )?;
        writeln!(out, "{:>9} {:>6} {:>14} {:>14}", "block", "depth", "write MB/s", "read MB/s")?;
        for cell in self.cells.iter().filter(|cell| !cell.read_mb_per_s.is_empty()) {
            writeln!(
                out,
                "{:>9} {:>6} {:>14.0} {:>14.0}",
                size::human_block(cell.shape.block as u64),
                cell.shape.depth,
                median(&cell.write_mb_per_s).unwrap_or(0.0),
                median(&cell.read_mb_per_s).unwrap_or(0.0),
            )?;
        }
        if self.synced.dsync.count() > 0 {
            writeln!(out, "\n4 KiB synced write, one at a time, on written blocks")?;
            for (name, latency) in
                [("RWF_DSYNC", &self.synced.dsync), ("write+fdatasync", &self.synced.linked)]
            {
                writeln!(
                    out,
                    "{name:>16}  p50 {:.0} us  p99 {:.0} us  max {:.0} us  ({} samples)",
                    latency.percentile_us(50.0),
                    latency.percentile_us(99.0),
                    latency.max_us(),
                    latency.count(),
                )?;
            }
        }
        self.print_many(out)
    }

    fn print_many(&self, out: &mut dyn Write) -> io::Result<()> {
        let measured = || self.many.iter().filter(|cell| !cell.per_s.is_empty());
        if measured().next().is_none() {
            return Ok(());
        }
        writeln!(out, "\nsynced writes, many in flight on one file, on written blocks")?;
        writeln!(
            out,
            "{:>9} {:>6} {:>16} {:>10} {:>10} {:>10} {:>10}",
            "block", "depth", "method", "a second", "MB/s", "p50 us", "p99 us"
        )?;
        for ManyCell { many, per_s, latency } in measured() {
            let per_s = median(per_s).unwrap_or(0.0);
            writeln!(
                out,
                "{:>9} {:>6} {:>16} {per_s:>10.0} {:>10.1} {:>10.0} {:>10.0}",
                size::human_block(many.block as u64),
                many.depth,
                many.method.name(),
                per_s * many.block as f64 / 1e6,
                latency.percentile_us(50.0),
                latency.percentile_us(99.0),
            )?;
        }
        Ok(())
    }

    /// The same as JSON.
    pub(crate) fn to_json(&self, machine: &Machine) -> Value {
        let cell = |cell: &Cell| {
            json!({
                "block_bytes": cell.shape.block,
                "depth": cell.shape.depth,
                "rings": cell.shape.rings,
                "bytes": cell.bytes,
                "write_mb_per_s": median(&cell.write_mb_per_s),
                "read_mb_per_s": median(&cell.read_mb_per_s),
                "rounds": {
                    "write_mb_per_s": cell.write_mb_per_s,
                    "read_mb_per_s": cell.read_mb_per_s,
                },
            })
        };
        let many = |cell: &ManyCell| {
            json!({
                "block_bytes": cell.many.block,
                "depth": cell.many.depth,
                "method": cell.many.method.name(),
                "writes_per_s": median(&cell.per_s),
                "latency_us": percentiles(&cell.latency),
                "rounds": { "writes_per_s": cell.per_s },
            })
        };
        let (method, best) = self.synced.best();
        let measured = best.count() > 0;
        json!({
            "schema": SCHEMA,
            "program": program(),
            "machine": machine.to_json(),
            "ended": ended_name(self.ended),
            "rounds": self.rounds,
            "granted": self.granted.map(granted_json),
            "sweep": self.cells.iter().map(cell).collect::<Vec<_>>(),
            "synced_sweep": self.many.iter().map(many).collect::<Vec<_>>(),
            "sync_write_p50_us": measured.then(|| best.percentile_us(50.0)),
            "sync_write_p99_us": measured.then(|| best.percentile_us(99.0)),
            "sync_write_method": measured.then(|| method.name()),
        })
    }
}

/// What the kernel granted, for people.
pub(crate) fn describe(granted: Granted) -> String {
    let Granted { deferred_taskrun, registered_buffers, pages } = granted;
    format!(
        "buffers {} on {} pages, task work {}",
        if registered_buffers { "registered" } else { "not registered (memlock limit)" },
        pages.name(),
        if deferred_taskrun { "deferred" } else { "not deferred" },
    )
}

/// What the kernel granted, as JSON.
pub(crate) fn granted_json(granted: Granted) -> Value {
    json!({
        "deferred_taskrun": granted.deferred_taskrun,
        "registered_buffers": granted.registered_buffers,
        "buffer_pages": granted.pages.name(),
    })
}
