//! A disk that is full: sends are refused as what clients try again, polls go on, and sends go on when
//! there is space again. Needs root, as mounting does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::Client;
use crate::messages::{From, ME, batch, create, poll_body, polled, send_body, to};
use crate::running::Running;

/// What the disk has, bytes; and what of it somebody else takes.
const DISK_BYTES: u64 = 96 << 20;
const TAKEN_BYTES: u64 = 48 << 20;

/// Messages of a batch, and their payload.
const MESSAGES: u32 = 64;
const PAYLOAD: usize = 4000;

/// Until when space that has come back is used.
const PATIENCE: Duration = Duration::from_secs(20);

/// An ext4 of its own on a loop device; unmounted when this is dropped.
pub(crate) struct Disk {
    point: PathBuf,
    _directory: TempDir,
}

impl Disk {
    fn mount() -> Disk {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (image, point) = (directory.path().join("image"), directory.path().join("point"));
        fs::create_dir(&point).unwrap();
        fs::File::create(&image).unwrap().set_len(DISK_BYTES).unwrap();
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&image));
        run(Command::new("mount").args(["-o", "loop"]).args([&image, &point]));
        Disk { point, _directory: directory }
    }

    pub(crate) fn point(&self) -> &Path {
        &self.point
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // At once, whoever has files open there still; the loop device goes with the mount.
        let _ = Command::new("umount").arg("--lazy").arg(&self.point).status();
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn payload(number: u64) -> String {
    format!("{number:0PAYLOAD$}")
}

/// Sends the messages from `number` on; the status of the reply.
fn send(client: &mut Client, number: u64) -> u32 {
    let texts: Vec<String> = (number..number + u64::from(MESSAGES)).map(payload).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    client.ask(160, &send_body(&to(0), MESSAGES, &batch(&texts))).status()
}

/// Polls all there is, and compares it with what was sent; how many there are.
fn check(client: &mut Client) -> u64 {
    let mut next = 0;
    loop {
        let body = poll_body(&ME, Some(0), From::Offset(next), MESSAGES, false);
        let polled = polled(&client.question(100, &body));
        if polled.messages.is_empty() {
            return next;
        }
        for (offset, text) in polled.messages {
            assert_eq!((offset, text), (next, payload(next)));
            next += 1;
        }
    }
}

#[test]
fn a_full_disk_refuses_sends_and_nothing_else() {
    // Longer than the broker, which is dropped first.
    let disk = Disk::mount();
    let taken = disk.point().join("taken");
    run(Command::new("fallocate").arg("-l").arg(TAKEN_BYTES.to_string()).arg(&taken));
    let broker = Running::start_on(disk.point());
    let mut client = broker.log_in();
    create(&mut client, 1, &[]);
    let mut sent = 0;
    let status = loop {
        let status = send(&mut client, sent);
        if status != 0 {
            break status;
        }
        sent += u64::from(MESSAGES);
        assert!(sent * (PAYLOAD as u64) < DISK_BYTES, "the disk takes more than it has");
    };
    // "Not accepted, try again": clients do, with the same request.
    assert_eq!(status, 58);
    assert!(sent > 0, "there was no space from the start");
    assert_eq!(check(&mut client), sent, "polls go on");
    assert_eq!(send(&mut client, sent), 58, "it is full still");
    fs::remove_file(&taken).unwrap();
    let since = Instant::now();
    while send(&mut client, sent) != 0 {
        assert!(since.elapsed() < PATIENCE, "space has come back, and is not used");
        std::thread::sleep(Duration::from_millis(20));
    }
    sent += u64::from(MESSAGES);
    for _ in 0..16 {
        assert_eq!(send(&mut client, sent), 0);
        sent += u64::from(MESSAGES);
    }
    assert_eq!(check(&mut client), sent);
}
