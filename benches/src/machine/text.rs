//! Small kernel files: reading them, and the shapes their texts have.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

/// The text of a small kernel file without its last newline; None when absent, unreadable or empty.
pub(super) fn read(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?.trim_end().to_owned();
    (!text.is_empty()).then_some(text)
}

/// The same as a number.
pub(super) fn read_number(path: impl AsRef<Path>) -> Option<u64> {
    read(path)?.parse().ok()
}

/// The value after `name:` on the first line that begins with it.
pub(super) fn field(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

/// Bytes of `123 kB`, which the kernel means as KiB.
pub(super) fn kib(text: &str) -> Option<u64> {
    text.strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The word in brackets of a kernel choice such as `always [madvise] never`.
pub(super) fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    Some(rest.split_once(']')?.0.to_owned())
}

/// A limit that may be none at all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Limit<T> {
    /// At most this.
    At(T),
    /// No limit.
    Max,
}

impl<T: Copy + PartialOrd> Limit<T> {
    /// The stricter one.
    pub(super) fn min(self, other: Limit<T>) -> Limit<T> {
        match (self, other) {
            (Limit::At(a), Limit::At(b)) => Limit::At(if b < a { b } else { a }),
            (Limit::Max, other) | (other, Limit::Max) => other,
        }
    }

    /// True when the limit is known to be below `value`.
    pub(crate) fn is_below(self, value: T) -> bool {
        matches!(self, Limit::At(at) if at < value)
    }
}

impl<T: Into<Value>> Limit<T> {
    /// A number, or `"max"`.
    pub(super) fn json(self) -> Value {
        match self {
            Limit::At(at) => at.into(),
            Limit::Max => json!("max"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_texts() {
        assert_eq!(chosen("always [madvise] never").as_deref(), Some("madvise"));
        assert_eq!(chosen("none"), None);
        assert_eq!(kib("24684096 kB"), Some(25_276_514_304));
        assert_eq!(field("a : 1\nmodel name\t: X Y\n", "model name").as_deref(), Some("X Y"));
        assert_eq!(field("model names: X", "model name"), None);
        assert_eq!(read("/no/such/file"), None);
    }

    #[test]
    fn the_stricter_limit_wins() {
        assert_eq!(Limit::At(3).min(Limit::At(2)), Limit::At(2));
        assert_eq!(Limit::Max.min(Limit::At(2)), Limit::At(2));
        assert_eq!(Limit::<u64>::Max.min(Limit::Max), Limit::Max);
        assert!(Limit::At(2).is_below(3) && !Limit::At(3).is_below(3));
        assert!(!Limit::Max.is_below(u64::MAX));
    }
}
