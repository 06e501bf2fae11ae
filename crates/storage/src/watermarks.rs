//! How far a partition has come: four offsets in a fixed order, moved by one asserting setter.

/// `start <= durable <= written <= appended`. Each is the first offset that is NOT yet in the set,
/// so an empty partition that begins at 0 has four zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Watermarks {
    start: u64,
    durable: u64,
    written: u64,
    appended: u64,
}

impl Watermarks {
    pub(crate) fn new(start: u64, end: u64) -> Self {
        assert!(start <= end, "a log cannot start ({start}) behind its end ({end})");
        Watermarks { start, durable: end, written: end, appended: end }
    }

    /// First retained offset.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Everything below survives power loss.
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Everything below is in the device and survives the death of our process.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Everything below has its offset and is in memory. The next batch gets this offset.
    pub fn appended(&self) -> u64 {
        self.appended
    }

    pub(crate) fn set_start(&mut self, to: u64) {
        self.set(Watermarks { start: to, ..*self });
    }

    pub(crate) fn set_appended(&mut self, to: u64) {
        self.set(Watermarks { appended: to, ..*self });
    }

    pub(crate) fn set_written(&mut self, to: u64) {
        self.set(Watermarks { written: to, ..*self });
    }

    pub(crate) fn set_durable(&mut self, to: u64) {
        self.set(Watermarks { durable: to, ..*self });
    }

    /// The only place that changes a watermark: none goes back, and the order holds.
    fn set(&mut self, to: Watermarks) {
        let forward = self.start <= to.start
            && self.durable <= to.durable
            && self.written <= to.written
            && self.appended <= to.appended;
        let ordered =
            to.start <= to.durable && to.durable <= to.written && to.written <= to.appended;
        assert!(forward && ordered, "watermarks may not go from {self:?} to {to:?}");
        *self = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_move_forward_in_order() {
        let mut marks = Watermarks::new(5, 10);
        marks.set_appended(20);
        marks.set_written(15);
        marks.set_durable(15);
        assert_eq!(
            (marks.start(), marks.durable(), marks.written(), marks.appended()),
            (5, 15, 15, 20)
        );
    }

    #[test]
    #[should_panic(expected = "watermarks may not go")]
    fn durable_never_passes_written() {
        let mut marks = Watermarks::new(0, 10);
        marks.set_appended(20);
        marks.set_durable(11);
    }

    #[test]
    #[should_panic(expected = "watermarks may not go")]
    fn nothing_goes_back() {
        Watermarks::new(0, 10).set_appended(9);
    }
}
