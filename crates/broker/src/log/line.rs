//! One event as a line: text for people, or a JSON object. What clients sent may stand in a field,
//! so nothing of it can end a line or move a cursor.

use std::fmt::{self, Write};
use std::time::SystemTime;

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata};

use super::LogFormat;

/// Longest value of a field, characters; names of the SDK may be long, and paths.
const VALUE_MAX: usize = 1024;

/// The line of `event`, with its end.
pub(super) fn line(event: &Event<'_>, format: LogFormat, now: SystemTime) -> String {
    let mut fields = Fields { format, message: String::new(), others: String::new() };
    event.record(&mut fields);
    let mut line = String::with_capacity(160);
    let written = match format {
        LogFormat::Text => text(&mut line, event.metadata(), &fields, now),
        LogFormat::Json => json(&mut line, event.metadata(), &fields, now),
    };
    written.expect("a string takes everything");
    line
}

fn text(out: &mut String, of: &Metadata<'_>, fields: &Fields, now: SystemTime) -> fmt::Result {
    let time = humantime::format_rfc3339_micros(now);
    write!(out, "{time} {:>5} {} {}: {}", of.level(), of.target(), of.name(), fields.message)?;
    writeln!(out, "{}", fields.others)
}

fn json(out: &mut String, of: &Metadata<'_>, fields: &Fields, now: SystemTime) -> fmt::Result {
    let time = humantime::format_rfc3339_micros(now);
    write!(out, r#"{{"time":"{time}","level":"{}","target":"{}""#, of.level(), of.target())?;
    write!(out, r#","event":"{}","message":"{}""#, of.name(), fields.message)?;
    writeln!(out, "{}}}", fields.others)
}

/// The fields of an event, as they stand in its line.
struct Fields {
    format: LogFormat,
    message: String,
    others: String,
}

impl Fields {
    /// A value that is no number.
    fn text(&mut self, field: &Field, value: &dyn fmt::Display) {
        let mut escaped = Escaped { format: self.format, out: String::new(), left: VALUE_MAX };
        // Cut off where it is too long.
        let _ = write!(escaped, "{value}");
        let (value, name, others) = (escaped.out, field.name(), &mut self.others);
        if name == "message" {
            self.message = value;
            return;
        }
        let bare = !value.is_empty() && !value.contains([' ', '=']);
        let written = match self.format {
            LogFormat::Json => write!(others, r#","{name}":"{value}""#),
            LogFormat::Text if bare => write!(others, " {name}={value}"),
            LogFormat::Text => write!(others, r#" {name}="{value}""#),
        };
        written.expect("a string takes everything");
    }

    fn number(&mut self, field: &Field, value: &dyn fmt::Display) {
        let (name, others) = (field.name(), &mut self.others);
        let written = match self.format {
            LogFormat::Json => write!(others, r#","{name}":{value}"#),
            // Nothing was kept back, mostly.
            LogFormat::Text if name == "suppressed" && value.to_string() == "0" => Ok(()),
            LogFormat::Text => write!(others, " {name}={value}"),
        };
        written.expect("a string takes everything");
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, &format_args!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.number(field, &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.number(field, &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.number(field, &value);
    }
}

/// What is written into it stays on its line, inside of its quotes, and has an end.
struct Escaped {
    format: LogFormat,
    out: String,
    left: usize,
}

impl Write for Escaped {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for char in text.chars() {
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
            match char {
                '"' | '\\' => self.out.extend(['\\', char]),
                char if char.is_control() => match self.format {
                    LogFormat::Json => write!(self.out, "\\u{:04x}", u32::from(char))?,
                    LogFormat::Text => self.out.extend(char.escape_default()),
                },
                char => self.out.push(char),
            }
        }
        Ok(())
    }
}
