//! How writes and syncs end: what reaches the file, what becomes durable, what stays in doubt.

use std::io;

use super::fault::errno;
use super::names::Ino;
use super::state::{DiskState, Ending, Verdict, stale};
use super::versions::Order;
use crate::BLOCK;

impl DiskState {
    /// A write ends: what reaches the file, and whether it counts as durable.
    pub(super) fn end_write(&mut self, ino: Ino, dsync: bool, ending: Ending) -> io::Result<()> {
        let now = self.tick();
        let Some(write) = self.tree.content_mut(ino).take_in_flight(ending.id) else {
            return Ok(()); // An empty write was never in flight.
        };
        let mut at = write.at;
        match ending.verdict {
            Verdict::LoseWrite => return Ok(()),
            Verdict::Fail(errno) => {
                self.land_some(ino, at, &write.bytes, now);
                return Err(io::Error::from_raw_os_error(errno));
            }
            Verdict::Ended { power: false, .. } => {
                self.land_some(ino, at, &write.bytes, now);
                return Err(stale());
            }
            // The cut that follows chooses among old and new, sector by sector.
            Verdict::Ended { power: true, .. } => {
                self.land_what_fits(ino, at, &write.bytes, now);
                return Err(stale());
            }
            Verdict::MisdirectWrite(by) => {
                at = at.saturating_add_signed(by.saturating_mul(BLOCK as i64));
            }
            Verdict::Run | Verdict::FlipRead => {}
        }
        let landed = self.land_what_fits(ino, at, &write.bytes, now);
        // Space is the file system's matter: a device that errs in the place knows of none, and
        // answers Ok. What found no space there is lost.
        let errs_in_place = matches!(ending.verdict, Verdict::MisdirectWrite(_));
        if landed < write.bytes.len() && !errs_in_place {
            return Err(io::Error::from_raw_os_error(errno::ENOSPC));
        }
        if dsync && landed != 0 {
            self.tree.content_mut(ino).commit_write(at, landed);
        }
        Ok(())
    }

    /// Lands the first blocks that there is space for; answers their bytes.
    fn land_what_fits(&mut self, ino: Ino, at: u64, bytes: &[u8], now: Order) -> usize {
        let first = at / BLOCK as u64;
        let mut fits = 0;
        while fits < bytes.len() {
            let block = first + (fits / BLOCK) as u64;
            if self.tree.content(ino).needs_space(block) {
                if self.used + BLOCK as u64 > self.limits.capacity {
                    break;
                }
                self.used += BLOCK as u64;
            }
            fits += BLOCK;
        }
        if fits != 0 {
            self.tree.content_mut(ino).land(at, &bytes[..fits], now);
        }
        fits
    }

    fn land_some(&mut self, ino: Ino, at: u64, bytes: &[u8], now: Order) {
        let mut rng = self.rng.fork();
        let content = self.tree.content_mut(ino);
        let before = content.space();
        content.land_some(at, bytes, now, &mut rng);
        self.used += content.space() - before;
    }

    /// A sync of a file ends.
    pub(super) fn end_sync(&mut self, ino: Ino, ending: Ending) -> io::Result<()> {
        let content = self.tree.content_mut(ino);
        match ending.verdict {
            Verdict::Fail(errno) => {
                content.doubt_before(ending.begun);
                Err(io::Error::from_raw_os_error(errno))
            }
            Verdict::Ended { landed, .. } => {
                if landed {
                    content.commit_before(ending.begun);
                }
                Err(stale())
            }
            _ => {
                content.commit_before(ending.begun);
                Ok(())
            }
        }
    }

    /// A sync of a directory ends.
    pub(super) fn end_sync_dir(&mut self, dir: Ino, ending: Ending) -> io::Result<()> {
        match ending.verdict {
            Verdict::Fail(errno) => {
                self.tree.doubt_before(dir, ending.begun);
                Err(io::Error::from_raw_os_error(errno))
            }
            Verdict::Ended { landed, .. } => {
                if landed {
                    self.tree.commit_before(dir, ending.begun);
                }
                Err(stale())
            }
            _ => {
                self.tree.commit_before(dir, ending.begun);
                self.collect();
                Ok(())
            }
        }
    }
}
