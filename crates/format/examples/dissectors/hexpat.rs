//! The ImHex pattern: a struct for each record, its fields from `layout`.

use std::fmt::Write;

use corelog_format::HeaderKind;
use corelog_format::layout::{Field, batch_header, frame_header};

/// The whole pattern.
pub(crate) fn pattern() -> String {
    let mut text = String::from(include_str!("head.hexpat"));
    record(&mut text, "BatchHeader", &batch_header::FIELDS);
    record(&mut text, "FrameHeader", &frame_header::FIELDS);
    text.push_str("enum Kind : u8 {\n");
    for kind in HeaderKind::ALL {
        writeln!(text, "    {:?} = {},", kind, kind.code()).expect("a String grows");
    }
    text.push_str("};\n\n");
    text.push_str(include_str!("body.hexpat"));
    text
}

/// One record as a struct.
fn record(text: &mut String, name: &str, fields: &[Field]) {
    writeln!(text, "struct {name} {{").expect("a String grows");
    for Field { at, size, name, kind, meaning } in fields {
        let (kind, array) = match *kind {
            "bytes" => ("u8", format!("[{size}]")),
            number => (number, String::new()),
        };
        let note = meaning.replace('"', "'");
        writeln!(text, "    {kind} {name}{array} [[comment(\"{note}\")]]; // {at}")
            .expect("a String grows");
    }
    text.push_str("};\n\n");
}
