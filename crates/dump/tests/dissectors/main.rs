//! The Wireshark dissector and the ImHex pattern: made from the field tables, checked in as made, and
//! tried. Needs tshark (Debian: `apt-get install tshark`); without it the tests fail.

#[path = "../../../format/examples/dissectors/hexpat.rs"]
mod hexpat;
#[path = "../../../format/examples/dissectors/lua.rs"]
mod lua;
mod pcap;
mod tshark;

use corelog_format::layout::{Field, batch_header, frame_header};

const LUA: &str = include_str!("../../../../scripts/dissectors/corelog.lua");
const HEXPAT: &str = include_str!("../../../../scripts/dissectors/corelog.hexpat");

#[test]
fn what_is_checked_in_is_what_the_tables_make() {
    let make = "run scripts/dissectors.sh";
    assert!(LUA == lua::dissector(), "corelog.lua is not what the field tables make: {make}");
    assert!(HEXPAT == hexpat::pattern(), "corelog.hexpat is not what they make: {make}");
}

/// Name, offset and size of each field of a struct of the pattern, by the widths of its types.
fn fields_of(name: &str) -> Vec<(String, usize, usize)> {
    let begin = format!("struct {name} {{\n");
    let text = HEXPAT.split(&begin).nth(1).expect("the struct");
    let (mut fields, mut at) = (Vec::new(), 0);
    for line in text.split("};").next().expect("its end").lines() {
        let mut words = line.split_whitespace();
        let kind = words.next().expect("a type");
        let name = words.next().expect("a name");
        let width = match kind {
            "u8" => 1,
            "u32" => 4,
            "u64" => 8,
            "u128" => 16,
            other => panic!("no width of {other}"),
        };
        let (name, count) = match name.split_once('[') {
            Some((name, count)) => (name, count.trim_end_matches(']').parse().expect("a count")),
            None => (name, 1),
        };
        fields.push((name.to_string(), at, width * count));
        at += width * count;
    }
    fields
}

#[test]
fn the_pattern_reads_each_field_where_the_table_has_it() {
    let table = |fields: &[Field]| -> Vec<(String, usize, usize)> {
        fields.iter().map(|f| (f.name.to_string(), f.at, f.size)).collect()
    };
    assert_eq!(fields_of("BatchHeader"), table(&batch_header::FIELDS));
    assert_eq!(fields_of("FrameHeader"), table(&frame_header::FIELDS));
}
