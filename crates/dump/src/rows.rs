//! Lines for batches and messages, for people and as NDJSON: what `show`, `follow` and `extract`
//! print.

use std::io::{self, Write};
use std::path::Path;

use corelog_format::{BatchHeader, Frame};

use crate::args::Payload;
use crate::base64;
use crate::json::{self, Object, Out};
use crate::render::{self, HumanHeaders};
use crate::style::{Colour, Style};
use crate::time::Utc;

/// The version of these lines.
const SCHEMA: u64 = 1;

/// What a line looks like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// A line for each message, not for each batch.
    pub(crate) messages: bool,
    /// JSON objects, not text.
    pub(crate) ndjson: bool,
    /// How payloads are printed.
    pub(crate) payload: Payload,
}

/// A batch at file position `at`.
pub(crate) fn batch(
    out: &mut dyn Write,
    path: &Path,
    at: u64,
    header: &BatchHeader,
    shape: Shape,
    style: Style,
) -> io::Result<()> {
    if shape.ndjson {
        let mut object = Object::begin(out)?;
        object.number("schema", SCHEMA)?;
        object.text("path", &path.to_string_lossy())?;
        object.number("position", at)?;
        render::batch_fields(&mut object, header)?;
        object.end()?;
        return out.write_all(b"\n");
    }
    let name = |name| style.paint(Colour::Name, name);
    writeln!(
        out,
        "@{at} {} {}..{} {} {} {} {} {} {} {} {} {} {} {} {}",
        name("offsets"),
        header.base_offset,
        header.base_offset.saturating_add(u64::from(header.message_count)),
        name("time"),
        style.paint(Colour::Stamped, Utc(header.base_timestamp)),
        name("messages"),
        header.message_count,
        name("bytes"),
        style.paint(Colour::Size, header.batch_length),
        name("partition"),
        header.partition_id,
        name("origin"),
        Utc(header.origin_timestamp),
        name("sum"),
        style.paint(Colour::Sum, format_args!("{:#018x}", header.batch_checksum)),
    )
}

/// One message. `at` is the file position of its batch.
pub(crate) fn message(
    out: &mut dyn Write,
    at: u64,
    header: &BatchHeader,
    frame: &Frame<'_>,
    shape: Shape,
    style: Style,
) -> io::Result<()> {
    if shape.ndjson {
        let mut object = Object::begin(out)?;
        object.number("schema", SCHEMA)?;
        object.number("partition_id", header.partition_id)?;
        object.number("batch_position", at)?;
        object.number("base_timestamp", header.base_timestamp)?;
        render::message_fields(&mut object, header, frame)?;
        render::stored_headers(object.field("user_headers")?, frame.user_headers())?;
        json_payload(&mut object, frame.payload(), shape.payload)?;
        object.end()?;
        return out.write_all(b"\n");
    }
    let name = |name| style.paint(Colour::Name, name);
    write!(
        out,
        "{} {} {} {} {} {} {} {} {} {}",
        name("offset"),
        render::offset(header, frame),
        name("time"),
        style.paint(Colour::Stamped, Utc(header.base_timestamp)),
        name("origin"),
        Utc(render::origin(header, frame)),
        name("id"),
        frame.id(),
        name("payload"),
        style.paint(Colour::Size, frame.payload().len()),
    )?;
    if !frame.user_headers().is_empty() {
        write!(out, " {} {}", name("headers"), HumanHeaders(frame.user_headers()))?;
    }
    human_payload(out, frame.payload(), shape.payload, style)?;
    out.write_all(b"\n")
}

/// `"payload_encoding"` and `"payload"`, where payloads are wanted.
fn json_payload(object: &mut Object<'_>, payload: &[u8], shape: Payload) -> io::Result<()> {
    let encoding = match shape {
        Payload::None => return Ok(()),
        Payload::Text => "text",
        Payload::Hex => "hex",
        Payload::Base64 => "base64",
    };
    object.text("payload_encoding", encoding)?;
    let out = object.field("payload")?;
    match shape {
        Payload::Hex => json::hex(out, payload),
        Payload::Text => json::text(out, &String::from_utf8_lossy(payload)),
        Payload::Base64 | Payload::None => {
            out.write_all(b"\"")?;
            base64::write(out, payload)?;
            out.write_all(b"\"")
        }
    }
}

fn human_payload(out: Out<'_>, payload: &[u8], shape: Payload, style: Style) -> io::Result<()> {
    match shape {
        Payload::None => return Ok(()),
        // Debug escapes what could drive a terminal.
        Payload::Text => {
            let text = String::from_utf8_lossy(payload);
            return write!(out, " {}", style.paint(Colour::Data, format_args!("{text:?}")));
        }
        Payload::Hex | Payload::Base64 => out.write_all(b" ")?,
    }
    match shape {
        Payload::Hex => json::raw_hex(out, payload),
        _ => base64::write(out, payload),
    }
}
