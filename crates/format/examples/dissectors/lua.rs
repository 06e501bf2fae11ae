//! The Wireshark dissector: tables of fields from `layout`, between two parts that do not change.

use std::fmt::Write;

use corelog_format::HeaderKind;
use corelog_format::layout::{Field, batch_header, frame_header};

/// The whole script.
pub(crate) fn dissector() -> String {
    let mut script = String::from(include_str!("head.lua"));
    table(&mut script, "BATCH", "batch", &batch_header::FIELDS, batch_header::LEN);
    table(&mut script, "FRAME", "message", &frame_header::FIELDS, frame_header::LEN);
    script.push_str("\nlocal KINDS = {\n");
    for kind in HeaderKind::ALL {
        writeln!(script, "  [{}] = \"{}\",", kind.code(), kind.name()).expect("a String grows");
    }
    script.push_str("}\n\n");
    script.push_str(include_str!("body.lua"));
    script
}

/// One record's fields: offset, size, name, and what Wireshark calls their type.
fn table(script: &mut String, name: &str, prefix: &str, fields: &[Field], len: usize) {
    writeln!(script, "\nlocal {name}_LEN = {len}\nlocal {name} = {{").expect("a String grows");
    for Field { at, size, name, kind, meaning } in fields {
        let make = match (*kind, name.ends_with("checksum")) {
            // A number, but nobody reads it as one.
            ("u64", true) => "ProtoField.uint64(ID, TITLE, base.HEX, nil, nil, NOTE)",
            ("u64", false) => "ProtoField.uint64(ID, TITLE, base.DEC, nil, nil, NOTE)",
            ("u32", _) => "ProtoField.uint32(ID, TITLE, base.DEC, nil, nil, NOTE)",
            _ => "ProtoField.bytes(ID, TITLE, base.NONE, NOTE)",
        };
        let note = meaning.replace('`', "'");
        let make = make
            .replace("ID", &format!("\"corelog.{prefix}.{name}\""))
            .replace("TITLE", &format!("\"{name}\""))
            .replace("NOTE", &format!("\"{note}\""));
        let read = match *kind {
            "u64" | "u32" => "add_le",
            _ => "add",
        };
        writeln!(script, "  {{ at = {at}, size = {size}, name = \"{name}\", add = \"{read}\",")
            .and_then(|()| writeln!(script, "    field = {make} }},"))
            .expect("a String grows");
    }
    script.push_str("}\n");
}
