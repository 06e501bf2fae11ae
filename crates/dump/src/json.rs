//! JSON written as it comes: objects and lists that never stand in memory as a whole.

use std::io::{self, Write};

/// Where JSON goes.
pub(crate) type Out<'w> = &'w mut dyn Write;

/// An object that is being written. Dropped without [`Object::end`] it stays open, which only
/// happens on the way out with an I/O error.
pub(crate) struct Object<'w> {
    out: Out<'w>,
    empty: bool,
}

impl<'w> Object<'w> {
    /// Opens an object.
    pub(crate) fn begin(out: Out<'w>) -> io::Result<Object<'w>> {
        out.write_all(b"{")?;
        Ok(Object { out, empty: true })
    }

    /// Writes the name; the caller writes exactly one value to what comes back.
    /// `name` is one of ours, plain ASCII without quotes.
    pub(crate) fn field(&mut self, name: &'static str) -> io::Result<Out<'_>> {
        if !self.empty {
            self.out.write_all(b",")?;
        }
        self.empty = false;
        write!(self.out, "\"{name}\":")?;
        Ok(self.out)
    }

    /// A number.
    pub(crate) fn number(&mut self, name: &'static str, value: u64) -> io::Result<()> {
        let out = self.field(name)?;
        write!(out, "{value}")
    }

    /// A number that may be missing.
    pub(crate) fn maybe(&mut self, name: &'static str, value: Option<u64>) -> io::Result<()> {
        match value {
            Some(value) => self.number(name, value),
            None => self.field(name)?.write_all(b"null"),
        }
    }

    /// True or false.
    pub(crate) fn flag(&mut self, name: &'static str, value: bool) -> io::Result<()> {
        let out = self.field(name)?;
        write!(out, "{value}")
    }

    /// A string.
    pub(crate) fn text(&mut self, name: &'static str, value: &str) -> io::Result<()> {
        text(self.field(name)?, value)
    }

    /// Bytes as a string of lower-case hex.
    pub(crate) fn hex(&mut self, name: &'static str, value: &[u8]) -> io::Result<()> {
        hex(self.field(name)?, value)
    }

    /// A number too wide for JSON readers, as a decimal string.
    pub(crate) fn decimal(
        &mut self,
        name: &'static str,
        value: impl std::fmt::Display,
    ) -> io::Result<()> {
        let out = self.field(name)?;
        write!(out, "\"{value}\"")
    }

    /// Closes the object.
    pub(crate) fn end(self) -> io::Result<()> {
        self.out.write_all(b"}")
    }
}

/// A list that is being written; as for [`Object`].
pub(crate) struct List<'w> {
    out: Out<'w>,
    empty: bool,
}

impl<'w> List<'w> {
    /// Opens a list.
    pub(crate) fn begin(out: Out<'w>) -> io::Result<List<'w>> {
        out.write_all(b"[")?;
        Ok(List { out, empty: true })
    }

    /// Writes the comma where one is due; the caller writes exactly one value to what comes back.
    pub(crate) fn item(&mut self) -> io::Result<Out<'_>> {
        if !self.empty {
            self.out.write_all(b",")?;
        }
        self.empty = false;
        Ok(self.out)
    }

    /// Closes the list.
    pub(crate) fn end(self) -> io::Result<()> {
        self.out.write_all(b"]")
    }
}

/// A string with its quotes, escaped.
pub(crate) fn text(out: Out<'_>, value: &str) -> io::Result<()> {
    serde_json::to_writer(out, value).map_err(io::Error::from)
}

/// Bytes as lower-case hex in quotes.
pub(crate) fn hex(out: Out<'_>, bytes: &[u8]) -> io::Result<()> {
    out.write_all(b"\"")?;
    raw_hex(out, bytes)?;
    out.write_all(b"\"")
}

/// Bytes as lower-case hex, without quotes.
pub(crate) fn raw_hex(out: Out<'_>, bytes: &[u8]) -> io::Result<()> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for chunk in bytes.chunks(128) {
        let mut pairs = [0u8; 256];
        for (pair, byte) in pairs.chunks_exact_mut(2).zip(chunk) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        out.write_all(&pairs[..chunk.len() * 2])?;
    }
    Ok(())
}

/// A float: a number where JSON has one, else `"NaN"`, `"Infinity"` or `"-Infinity"`.
/// A float32 is widened first, which is exact, so both kinds print the value that they hold.
pub(crate) fn float(out: Out<'_>, value: f64) -> io::Result<()> {
    match value {
        v if v.is_nan() => out.write_all(b"\"NaN\""),
        f64::INFINITY => out.write_all(b"\"Infinity\""),
        f64::NEG_INFINITY => out.write_all(b"\"-Infinity\""),
        v => serde_json::to_writer(out, &v).map_err(io::Error::from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(f: impl FnOnce(Out<'_>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        f(&mut out).expect("a Vec takes everything");
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    #[test]
    fn objects_and_lists_nest() {
        let json = written(|out| {
            let mut object = Object::begin(out)?;
            object.number("a", 1)?;
            object.maybe("b", None)?;
            let mut list = List::begin(object.field("c")?)?;
            text(list.item()?, "x\"\n")?;
            hex(list.item()?, &[0, 0xAB])?;
            list.end()?;
            object.decimal("d", u128::MAX)?;
            object.end()
        });
        assert_eq!(
            json,
            r#"{"a":1,"b":null,"c":["x\"\n","00ab"],"d":"340282366920938463463374607431768211455"}"#
        );
    }

    #[test]
    fn floats_that_json_lacks_are_strings() {
        assert_eq!(written(|o| float(o, f64::NAN)), "\"NaN\"");
        assert_eq!(written(|o| float(o, f64::INFINITY)), "\"Infinity\"");
        assert_eq!(written(|o| float(o, f64::NEG_INFINITY)), "\"-Infinity\"");
        assert_eq!(written(|o| float(o, -0.0)), "-0.0");
        assert_eq!(written(|o| float(o, f64::from(0.1_f32))), "0.10000000149011612");
    }

    #[test]
    fn hex_of_more_than_a_chunk() {
        let bytes: Vec<u8> = (0..=255).chain(0..=3).collect();
        let expected: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(written(|o| hex(o, &bytes)), format!("\"{expected}\""));
    }
}
