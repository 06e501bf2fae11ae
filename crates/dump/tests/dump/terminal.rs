//! Standard error as a terminal: the progress over a long file, which is for people and nobody else.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Stdio;

use corelog_format::admit;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::support::{Scratch, batch, binary, dump};

/// Longer than a GiB, so that there is something to wait for.
const LONG: u64 = 3 << 30;
const PAYLOAD_BYTES: usize = 1 << 20;

/// Batches of one message of zeros each, which the file system need not store.
fn long_log(scratch: &Scratch) -> PathBuf {
    let path = scratch.file("00000000000000000000.log", b"");
    let file = File::options().write(true).open(&path).expect("opened");
    let one = batch(0, 0, 1, &[vec![0; PAYLOAD_BYTES]]);
    let mut admitted = admit(&one).expect("our own");
    let len = one.len() as u64;
    for number in 0..LONG / len {
        let header = admitted.stamp(0, number, 1 + number);
        let front = [&header, &one[header.len()..header.len() + 48]].concat();
        file.write_all_at(&front, number * len).expect("written");
    }
    file.set_len(LONG / len * len).expect("sparse");
    path
}

#[test]
fn progress_is_shown_on_a_terminal_and_taken_away_again() {
    let scratch = Scratch::new();
    let path = long_log(&scratch);
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&master).and_then(|()| unlockpt(&master)).expect("unlocked");
    let name = ptsname(&master, Vec::new()).expect("a name");
    let name = name.to_str().expect("UTF-8");
    let terminal = File::options().read(true).write(true).open(name).expect("opened");
    let mut child = binary()
        .args(["verify", "--json"])
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(terminal)
        .spawn()
        .expect("it starts");
    let mut shown = Vec::new();
    let mut master = File::from(master);
    // A terminal that nobody has open any more answers EIO.
    match master.read_to_end(&mut shown) {
        Err(error) if error.raw_os_error() != Some(5) || error.kind() == ErrorKind::NotFound => {
            panic!("{error}")
        }
        _ => {}
    }
    let mut out = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut out).expect("UTF-8");
    assert!(child.wait().expect("it ends").success());
    let shown = String::from_utf8(shown).expect("UTF-8");
    let clear = "\r\u{1b}[K";
    assert!(shown.starts_with(clear) && shown.ends_with(clear), "{shown:?}");
    assert!(shown.contains(" % of ") && shown.contains("/s"), "{shown:?}");
    assert!(!out.contains(" % of ") && out.contains("\"verdict\":\"clean\""), "{out:?}");
    // Where it is none nobody is told anything.
    let ran = dump(["verify", path.to_str().expect("UTF-8")]).expect(0);
    assert_eq!(ran.err, "");
}
