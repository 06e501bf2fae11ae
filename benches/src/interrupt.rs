//! Ctrl-C as a flag: phases look at it between operations, and files are removed on the way out.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// A stop that takes longer is explained.
const STOP_IS_SLOW: Duration = Duration::from_secs(2);

/// How often it is looked whether there is one.
const STOP_LOOK: Duration = Duration::from_millis(100);

/// Whether the user asked to stop. Clones share one flag.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// A flag that SIGINT and SIGTERM raise; a second signal ends the process at once.
    pub fn on_signals() -> io::Result<Interrupt> {
        let raised = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // First registered, first run: it looks at the flag before the next line raises it.
            flag::register_conditional_shutdown(signal, 130, Arc::clone(&raised))?;
            flag::register(signal, Arc::clone(&raised))?;
        }
        Ok(Interrupt(raised))
    }

    /// Until the answer is dropped: where a stop takes long, calls `tell` once. What an engine is
    /// doing, as opening a thousand partitions, cannot be broken off; the user can.
    pub(crate) fn when_slow(&self, tell: impl FnOnce() + Send + 'static) -> Slow {
        let over = Arc::new(AtomicBool::new(false));
        let (raised, is_over) = (self.clone(), Arc::clone(&over));
        thread::spawn(move || {
            let mut since = None;
            while !is_over.load(Ordering::Relaxed) {
                if raised.is_raised() {
                    let since = *since.get_or_insert_with(Instant::now);
                    if since.elapsed() > STOP_IS_SLOW {
                        return tell();
                    }
                }
                thread::sleep(STOP_LOOK);
            }
        });
        Slow(over)
    }

    /// True once the user asked to stop.
    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Ends a phase once the user asked to stop.
    pub fn check(&self) -> Result<(), Interrupted> {
        if self.is_raised() { Err(Interrupted) } else { Ok(()) }
    }

    /// Raises the flag by hand.
    #[cfg(test)]
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Somebody looks whether a stop takes long.
#[derive(Debug)]
pub(crate) struct Slow(Arc<AtomicBool>);

impl Drop for Slow {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The user asked to stop; not a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stopped")
    }
}

impl std::error::Error for Interrupted {}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_slow_stop_is_told_once_and_one_that_ended_never() {
        let interrupt = Interrupt::default();
        let (tell, told) = mpsc::channel();
        let ended = {
            let tell = tell.clone();
            interrupt.when_slow(move || tell.send("ended").unwrap())
        };
        drop(ended);
        let _slow = interrupt.when_slow(move || tell.send("slow").unwrap());
        assert!(told.recv_timeout(2 * STOP_LOOK).is_err(), "nobody stopped");
        interrupt.raise();
        // Both senders are gone once both threads have ended.
        assert_eq!(told.iter().collect::<Vec<_>>(), ["slow"]);
    }
}
