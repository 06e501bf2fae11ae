//! File names of a partition: the first offset in 20 digits, then what the file holds.

/// What a file of a partition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// Batches back to back: `.log`.
    Log,
    /// Index entries: `.index`.
    Index,
}

impl FileKind {
    const fn extension(self) -> &'static str {
        match self {
            FileKind::Log => ".log",
            FileKind::Index => ".index",
        }
    }
}

/// A u64 never has more digits.
const DIGITS: usize = 20;

/// Name of the segment whose first message has this offset.
pub fn segment_file_name(first_offset: u64) -> String {
    file_name(first_offset, FileKind::Log)
}

/// Name of that segment's index.
pub fn index_file_name(first_offset: u64) -> String {
    file_name(first_offset, FileKind::Index)
}

fn file_name(first_offset: u64, kind: FileKind) -> String {
    format!("{first_offset:0width$}{}", kind.extension(), width = DIGITS)
}

/// First offset and kind behind a file name; `None` for every name that the two functions above do
/// not make: copies, temporary files and whatever else a directory collects.
pub fn parse_file_name(name: &str) -> Option<(u64, FileKind)> {
    let (digits, extension) = name.split_at_checked(DIGITS)?;
    let kind =
        [FileKind::Log, FileKind::Index].into_iter().find(|kind| kind.extension() == extension)?;
    // `parse` alone would let a sign through.
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((digits.parse().ok()?, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_there_and_back() {
        for offset in [0, 1, 1_000, u64::from(u32::MAX) + 1, u64::MAX] {
            let log = segment_file_name(offset);
            let index = index_file_name(offset);
            assert_eq!(parse_file_name(&log), Some((offset, FileKind::Log)));
            assert_eq!(parse_file_name(&index), Some((offset, FileKind::Index)));
        }
        assert_eq!(segment_file_name(1_032), "00000000000000001032.log");
        assert_eq!(index_file_name(u64::MAX), "18446744073709551615.index");
    }

    #[test]
    fn other_names_are_not_ours() {
        let others = [
            "",
            ".log",
            "0.log",
            "0000000000000000000.log",
            "000000000000000000000.log",
            "00000000000000000000",
            "00000000000000000000.LOG",
            "00000000000000000000.log.gz",
            "00000000000000000000.log.tmp",
            "00000000000000000000.logs",
            "00000000000000000000index",
            "+0000000000000000001.log",
            "-0000000000000000001.log",
            " 0000000000000000001.log",
            "0000000000000000000a.log",
            "18446744073709551616.log",
            "99999999999999999999.index",
            "x0000000000000000000.log",
            "\u{0663}00000000000000000.log",
            "0000000000000000000\u{e9}.log",
            "lost+found",
            "../00000000000000000.log",
        ];
        for name in others {
            assert_eq!(parse_file_name(name), None, "{name:?}");
        }
    }
}
