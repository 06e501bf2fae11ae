//! Prints the Wireshark dissector or the ImHex pattern, made from the field tables of `layout`:
//! `scripts/dissectors.sh` runs it.

mod hexpat;
mod lua;

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("wireshark") => print!("{}", lua::dissector()),
        Some("imhex") => print!("{}", hexpat::pattern()),
        _ => {
            eprintln!("usage: dissectors wireshark | imhex");
            std::process::exit(2);
        }
    }
}
