//! `docs/format.md` shows the field tables that the code works with, or this test fails.

use corelog_format::layout::{self, Field};

const DOCUMENT: &str = include_str!("../../../docs/format.md");

/// Every fixed record, by the name that its table carries in the document.
const TABLES: [(&str, &[Field]); 8] = [
    ("batch_header", &layout::batch_header::FIELDS),
    ("frame_header", &layout::frame_header::FIELDS),
    ("index_entry", &layout::index_entry::FIELDS),
    ("offset_record", &layout::offset_record::FIELDS),
    ("manifest", &layout::manifest::FIELDS),
    ("clock_record", &layout::clock_record::FIELDS),
    ("offset_table", &layout::offset_table::FIELDS),
    ("offset_entry", &layout::offset_entry::FIELDS),
];

fn rendered(fields: &[Field]) -> String {
    let head = "| Offset | Size | Field | Type | Meaning |\n| --- | --- | --- | --- | --- |\n";
    let row = |field: &Field| {
        let Field { at, size, name, kind, meaning } = field;
        format!("| {at} | {size} | {name} | {kind} | {meaning} |\n")
    };
    fields.iter().map(row).fold(head.to_owned(), |table, row| table + &row)
}

/// The table behind the line `<!-- fields: NAME -->`: all lines up to the next blank one.
fn documented(name: &str) -> String {
    let marker = format!("<!-- fields: {name} -->\n");
    let mut parts = DOCUMENT.split(&marker);
    let (_, Some(after), None) = (parts.next(), parts.next(), parts.next()) else {
        panic!("docs/format.md must hold the line {marker:?} once");
    };
    after.lines().take_while(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_document_shows_the_tables_of_the_code() {
    for (name, fields) in TABLES {
        let (expected, found) = (rendered(fields), documented(name));
        assert!(found == expected, "docs/format.md, {name}: make the table this:\n{expected}");
    }
}

#[test]
fn the_document_marks_no_table_that_is_not_checked() {
    for line in DOCUMENT.lines().filter(|line| line.starts_with("<!-- fields:")) {
        let checked = TABLES.iter().any(|(name, _)| line == format!("<!-- fields: {name} -->"));
        assert!(checked, "{line} names no table of layout.rs");
    }
}
