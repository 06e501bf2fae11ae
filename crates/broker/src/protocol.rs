//! The protocol that is spoken here.

/// 0.11.0, as a login carries it: `major << 20 | minor << 10 | patch`.
pub(crate) const VERSION: u32 = 11 << 10;

/// The oldest that may log in: the same without its patches.
pub(crate) const VERSION_MIN: u32 = 11 << 10;

/// Of the reference server that speaks it: clients read features from it.
pub(crate) const SERVER_VERSION: &str = "0.9.0-edge.5";

/// The same as a number, three digits each for minor and patch.
pub(crate) const SERVER_VERSION_NUMBER: u32 = 9_000;

/// Whether a client of this version is understood: from the oldest on, and not of a later minor.
pub(crate) const fn is_spoken(version: u32) -> bool {
    version >= VERSION_MIN && version >> 10 <= VERSION >> 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patches_do_not_matter_and_minors_do() {
        assert_eq!(VERSION, 11_264);
        assert!(is_spoken(11 << 10) && is_spoken((11 << 10) + 9));
        assert!(!is_spoken(10 << 10) && !is_spoken(12 << 10) && !is_spoken(1 << 20));
    }
}
