//! The file, in TOML: options by their keys, flat. What is not known in it is refused.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::ConfigError;
use super::options;

/// Longest file, bytes.
const LEN_MAX: u64 = 1 << 20;

/// A value in the file.
pub(super) struct Entry {
    /// The option's place in the table.
    pub(super) option: usize,
    pub(super) line: usize,
    pub(super) text: String,
}

/// All values of the file at `path`.
///
/// # Errors
/// It cannot be read, is no TOML, or has something that is no option.
pub(super) fn read(path: &Path) -> Result<Vec<Entry>, ConfigError> {
    let failed = |line, why| ConfigError::File { path: path.to_owned(), line, why };
    let mut text = String::new();
    let file = File::open(path).and_then(|file| file.take(LEN_MAX + 1).read_to_string(&mut text));
    file.map_err(|error| failed(None, error.to_string()))?;
    if text.len() as u64 > LEN_MAX {
        return Err(failed(None, format!("longer than {LEN_MAX} bytes")));
    }
    parse(&text).map_err(|(line, why)| failed(Some(line), why))
}

fn parse(text: &str) -> Result<Vec<Entry>, (usize, String)> {
    let line_at = |at: usize| text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        (line_at(at), error.message().to_owned())
    })?;
    let mut pairs: Vec<_> = table.get_ref().iter().collect();
    // The first mistake in the file is the one that is told.
    pairs.sort_unstable_by_key(|(key, _)| key.span().start);
    let entries = pairs.into_iter().map(|(key, value)| {
        let (line, key) = (line_at(key.span().start), key.get_ref());
        let option = options::find(key).ok_or_else(|| (line, unknown(key)))?;
        let text = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => i128::from_str_radix(number.as_str(), number.radix())
                .map_err(|_| (line, format!("{key}: too large a number")))?
                .to_string(),
            other => {
                let kind = other.type_str();
                return Err((line, format!("{key}: {kind} where a string or a number belongs")));
            }
        };
        Ok(Entry { option, line, text })
    });
    entries.collect()
}

fn unknown(key: &str) -> String {
    match key {
        "root_password" | "password" => format!(
            "unknown key {key:?}: the password comes from CORELOG_ROOT_PASSWORD, never from a file"
        ),
        _ => format!("unknown key {key:?}: corelog-broker --help lists the options"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> (usize, String) {
        parse(text).err().expect("something is wrong with it")
    }

    #[test]
    fn values_are_told_with_their_lines() {
        let text =
            "# a broker\nlisten = \"127.0.0.1:1\"\n\nshards = 0x2\nframe_bytes = \"1 MiB\"\n";
        let entries = parse(text).unwrap();
        let told = entries
            .iter()
            .map(|entry| (options::OPTIONS[entry.option].key, entry.line, entry.text.as_str()));
        let expected =
            [("listen", 2, "127.0.0.1:1"), ("shards", 4, "2"), ("frame_bytes", 5, "1 MiB")];
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_wrong_is_told_by_name_and_line() {
        let (line, why) = refused("shards = 1\n\nzeta = 1\nlisen = \"x\"\n");
        assert_eq!((line, why.contains("\"zeta\"")), (3, true), "{why}");
        let (line, why) = refused("\nroot_password = \"secret\"\n");
        assert_eq!(line, 2);
        assert!(why.contains("CORELOG_ROOT_PASSWORD") && !why.contains("secret"), "{why}");
        assert_eq!(refused("[engine]\nshards = 1\n").0, 1);
        assert_eq!(refused("shards = 1\nshards = 2\n").0, 2);
        assert_eq!(refused("shards = 1\nlisten = \n").0, 2);
        assert!(refused("shards = [1]").1.contains("array"));
        assert!(refused("shards = true").1.contains("boolean"));
        assert!(refused("shards = 1.5").1.contains("float"));
    }
}
