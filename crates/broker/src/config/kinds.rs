//! Values of options: text to values, and back as they are written in a file.

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use bytesize::ByteSize;
use corelog::machine::{DirectIo, Runtime};

/// A value of one kind.
pub(super) trait Kind: Sized {
    /// # Errors
    /// What is wrong with `text`, and what would be right.
    fn parse(text: &str) -> Result<Self, String>;

    /// As it stands in a file; `None` where that says it by saying nothing.
    fn show(&self) -> Option<String>;
}

/// Bytes.
pub(super) struct Size(pub(super) usize);
/// What [`FromStr`] reads and [`Display`] writes.
pub(super) struct Word<T>(pub(super) T);
/// A number that may be open.
pub(super) struct Open(pub(super) usize);

fn quoted(text: impl Display) -> Option<String> {
    let mut out = String::from("\"");
    for char in text.to_string().chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            char if char.is_control() => out.push_str(&format!("\\u{:04x}", u32::from(char))),
            char => out.push(char),
        }
    }
    out.push('"');
    Some(out)
}

impl Kind for PathBuf {
    fn parse(text: &str) -> Result<PathBuf, String> {
        if text.is_empty() { Err("a path is expected".to_owned()) } else { Ok(text.into()) }
    }

    fn show(&self) -> Option<String> {
        quoted(self.display())
    }
}

impl Kind for SocketAddr {
    fn parse(text: &str) -> Result<SocketAddr, String> {
        text.parse().map_err(|_| format!("{text:?} is no address: write 127.0.0.1:8090, [::]:8090"))
    }

    fn show(&self) -> Option<String> {
        quoted(self)
    }
}

impl Kind for usize {
    fn parse(text: &str) -> Result<usize, String> {
        text.parse().map_err(|_| format!("{text:?} is no whole number"))
    }

    fn show(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Kind for Open {
    fn parse(text: &str) -> Result<Open, String> {
        usize::parse(text).map(Open)
    }

    fn show(&self) -> Option<String> {
        (self.0 != usize::MAX).then(|| self.0.to_string())
    }
}

impl<T: Kind> Kind for Option<T> {
    fn parse(text: &str) -> Result<Option<T>, String> {
        T::parse(text).map(Some)
    }

    fn show(&self) -> Option<String> {
        self.as_ref().and_then(T::show)
    }
}

impl Kind for Size {
    fn parse(text: &str) -> Result<Size, String> {
        let wrong =
            || format!("{text:?} is no size: write 64MiB, 1 GiB, 500 kB or a number of bytes");
        let size = ByteSize::from_str(text).map_err(|_| wrong())?;
        usize::try_from(size.as_u64()).map(Size).map_err(|_| wrong())
    }

    fn show(&self) -> Option<String> {
        let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        let unit = units.into_iter().find(|(bytes, _)| self.0 > 0 && self.0.is_multiple_of(*bytes));
        match unit {
            Some((bytes, unit)) => quoted(format_args!("{}{unit}", self.0 / bytes)),
            None => Some(self.0.to_string()),
        }
    }
}

impl Kind for Duration {
    fn parse(text: &str) -> Result<Duration, String> {
        let time = humantime::parse_duration(text);
        time.map_err(|_| format!("{text:?} is no time: write 30s, 500ms, 5min"))
    }

    fn show(&self) -> Option<String> {
        quoted(humantime::format_duration(*self))
    }
}

impl<T: FromStr<Err: Display> + Display> Kind for Word<T> {
    fn parse(text: &str) -> Result<Word<T>, String> {
        text.parse().map(Word).map_err(|error| format!("{text:?}: {error}"))
    }

    fn show(&self) -> Option<String> {
        quoted(&self.0)
    }
}

impl Kind for Runtime {
    fn parse(text: &str) -> Result<Runtime, String> {
        Word::parse(text).map(|Word(runtime)| runtime)
    }

    fn show(&self) -> Option<String> {
        Word(*self).show()
    }
}

impl Kind for DirectIo {
    fn parse(text: &str) -> Result<DirectIo, String> {
        match text {
            "required" => Ok(DirectIo::Required),
            "preferred" => Ok(DirectIo::Preferred),
            _ => Err(format!("{text:?}: expected one of required, preferred")),
        }
    }

    fn show(&self) -> Option<String> {
        quoted(match self {
            DirectIo::Preferred => "preferred",
            _ => "required",
        })
    }
}

/// CPUs by number: `0,2-5`.
impl Kind for Vec<usize> {
    fn parse(text: &str) -> Result<Vec<usize>, String> {
        /// No machine has more.
        const MAX: usize = 1 << 16;
        let wrong = || format!("{text:?} names no CPUs: write 0,2-5");
        let mut cpus = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.trim().parse::<usize>().ok().filter(|cpu| *cpu < MAX);
            let (first, last) = number(first).zip(number(last)).ok_or_else(wrong)?;
            if first > last {
                return Err(wrong());
            }
            cpus.extend(first..=last);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(cpus)
    }

    fn show(&self) -> Option<String> {
        let all: Vec<String> = self.iter().map(usize::to_string).collect();
        quoted(all.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_shown() {
        let size = |text| Size::parse(text).map(|size| size.show().unwrap());
        assert_eq!(size("64MiB").unwrap(), "\"64MiB\"");
        assert_eq!(size("1 GiB").unwrap(), "\"1GiB\"");
        assert_eq!(size("500 kB").unwrap(), "500000");
        assert_eq!(size("0").unwrap(), "0");
        assert!(size("many").is_err() && size("-1").is_err());
        let time = |text| Duration::parse(text).map(|time| time.show().unwrap());
        assert_eq!(time("90s").unwrap(), "\"1m 30s\"");
        assert!(time("30").is_err(), "a time has a unit");
        assert_eq!(Vec::parse("4,0-2,1").unwrap(), [0, 1, 2, 4]);
        for wrong in ["", "a", "3-1", "1,", "0-9999999"] {
            assert!(Vec::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(PathBuf::from("a\"b\\c\n").show().unwrap(), r#""a\"b\\c\u000a""#);
        assert!(SocketAddr::parse("localhost").unwrap_err().contains("127.0.0.1:8090"));
        assert_eq!(Option::<usize>::parse("3").unwrap(), Some(3));
        assert_eq!((None::<usize>.show(), Open(usize::MAX).show()), (None, None));
    }
}
