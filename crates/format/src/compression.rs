//! The `compression_algorithm` of a topic, by code and by name (encodings.md, "Compression").

/// What a topic says about its payloads. Nothing is compressed by it: clients may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// Code 1, `none`.
    #[default]
    None,
    /// Code 2, `gzip`.
    Gzip,
}

impl Compression {
    /// The code byte.
    pub const fn code(self) -> u8 {
        match self {
            Compression::None => 1,
            Compression::Gzip => 2,
        }
    }

    /// The name, as the server writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
        }
    }

    /// The algorithm of a code; every other code is refused.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Compression::None),
            2 => Some(Compression::Gzip),
            _ => None,
        }
    }

    /// The algorithm of a name in upper, lower or mixed case; every other text is refused.
    pub fn from_name(name: &str) -> Option<Self> {
        [Compression::None, Compression::Gzip]
            .into_iter()
            .find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_names_go_both_ways_and_nothing_else_passes() {
        for code in 0..=u8::MAX {
            let algorithm = Compression::from_code(code);
            assert_eq!(algorithm.map(Compression::code), matches!(code, 1 | 2).then_some(code));
            let named = algorithm.map(|known| Compression::from_name(known.name()));
            assert_eq!(named, algorithm.map(Some));
        }
        assert_eq!(Compression::from_name("GzIP"), Some(Compression::Gzip));
        assert_eq!(Compression::from_name("NONE"), Some(Compression::None));
        for wrong in ["", "gzip ", "zstd", "1", "gz\u{131}p"] {
            assert_eq!(Compression::from_name(wrong), None, "{wrong:?}");
        }
    }
}
