//! Ctrl-C as a flag: phases look at it between operations, and files are removed on the way out.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

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

/// The user asked to stop; not a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interrupted;
