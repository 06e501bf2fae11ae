//! SIZE on the command line: bytes with decimal (K, M, G, T) or binary (KiB or Ki, ..) units.

use std::str::FromStr;

/// A number of bytes as a user writes it: `4096`, `64KiB`, `2G`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let unit_bytes: u64 = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kb" => 1000,
            "m" | "mb" => 1_000_000,
            "g" | "gb" => 1_000_000_000,
            "t" | "tb" => 1_000_000_000_000,
            "ki" | "kib" => 1 << 10,
            "mi" | "mib" => 1 << 20,
            "gi" | "gib" => 1 << 30,
            "ti" | "tib" => 1 << 40,
            _ => return Err(format!("`{unit}` is no unit; {EXAMPLES}")),
        };
        if number.is_empty() {
            return Err(format!("no number; {EXAMPLES}"));
        }
        number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(unit_bytes))
            .map(Size)
            .ok_or_else(|| format!("more than {} bytes", u64::MAX))
    }
}

const EXAMPLES: &str = "write 4096, 64KiB or 64Ki (1024), 2G or 2GB (10^9)";

/// Bytes for people: the largest unit of three digits before the point, decimal.
pub(crate) fn human(bytes: u64) -> String {
    const UNITS: [(&str, u64); 4] =
        [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000), ("KB", 1000)];
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.2} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

/// A block size for people: binary where it is whole, as block sizes are.
pub(crate) fn human_block(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match UNITS.iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_and_binary_units() {
        for (text, bytes) in [
            ("0", 0),
            ("1", 1),
            ("512B", 512),
            ("1K", 1000),
            ("1kB", 1000),
            ("3M", 3_000_000),
            ("2G", 2_000_000_000),
            ("1T", 1_000_000_000_000),
            ("1Ki", 1024),
            ("64KiB", 65_536),
            ("256mib", 268_435_456),
            ("4GiB", 4_294_967_296),
            ("1TiB", 1 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "G",
            "-1",
            "+1",
            "1.5G",
            "1 G",
            "0x10",
            "1KKiB",
            "1Q",
            "18446744073709551616",
            "99999999999G",
        ] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_for_people() {
        assert_eq!(human(999), "999 B");
        assert_eq!(human(1_048_256), "1.05 MB");
        assert_eq!(human(4_500_000_000), "4.50 GB");
        assert_eq!(human_block(4096), "4 KiB");
        assert_eq!(human_block(1 << 20), "1 MiB");
        assert_eq!(human_block(1_500), "1500 B");
    }
}
