//! Floods at a broker process: requests whose answers nobody takes, and connections that come and
//! go. It stays as small as it was, and the others are served.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use tempfile::TempDir;

use crate::client::Client;
use crate::messages::{create, send, to};
use crate::program::{Program, address, resident, started, terminate};

/// A process, where it listens, and one who works on it.
fn broker(flags: &[&str]) -> (TempDir, Program, SocketAddr, Client) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut process = started(directory.path(), |command| {
        command.args(["--log-level", "error"]).args(flags);
    });
    let address = address(&mut process);
    let mut owner = Client::connect(address);
    owner.log_in("iggy").done();
    create(&mut owner, 2, &[]);
    assert_eq!(send(&mut owner, &to(0), &["x"]).status(), 0);
    (directory, process, address, owner)
}

/// Descriptors that the process has.
fn descriptors(process: &Program) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", process.0.id())).unwrap().count()
}

/// Sends the frame until the sockets are full, or this many bytes are on their way.
fn flood(client: &Client, frame: &[u8], most: usize) -> usize {
    let mut socket = client.socket();
    socket.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let frames = frame.repeat(200);
    let mut sent = 0;
    while sent < most {
        match socket.write(&frames[sent % frames.len()..]) {
            Ok(bytes) => sent += bytes,
            Err(_) => break,
        }
    }
    sent
}

#[test]
fn who_asks_without_end_and_takes_no_answer_is_not_listened_to() {
    /// Sockets hold some megabytes each way, whatever the kernel's limits are.
    const MOST: usize = 200 << 20;
    let (_directory, process, address, mut owner) = broker(&[]);
    let before = resident(&process);
    let floods: Vec<_> = (0..6)
        .map(|number| {
            let mut client = Client::connect(address);
            client.log_in("iggy").done();
            // Pings, and questions whose answers are longer than they.
            let frame = client.frame(2, if number % 2 == 0 { 1 } else { 10 }, &[]);
            std::thread::spawn(move || (flood(&client, &frame, MOST), client))
        })
        .collect();
    for number in 0..200 {
        assert_eq!(send(&mut owner, &to(number % 2), &["y"]).status(), 0, "others are served");
    }
    for flood in floods {
        let (sent, _client) = flood.join().unwrap();
        assert!(sent > 0 && sent < MOST, "{sent} bytes were taken");
    }
    let grown = resident(&process).saturating_sub(before);
    assert!(grown < 64 << 10, "{grown} KiB more than before");
    assert_eq!(owner.question(1, &[]).status(), 0);
    let said = terminate(process);
    assert!(!said.contains("panicked"), "{said}");
}

#[test]
fn connections_that_come_and_go_leave_nothing() {
    const CONNECTIONS: usize = 3000;
    let (_directory, process, address, mut owner) = broker(&[]);
    let come_and_go = |connections: usize| {
        for number in 0..connections {
            let mut client = Client::connect(address);
            match number % 4 {
                // Nothing, a half header, a header whose body does not come, and a whole question.
                0 => {}
                1 => client.send_raw(&[5; 100]),
                2 => client.send_raw(&client.frame(160, 0, &[7; 100_000])[..300]),
                _ => assert_eq!(client.question(1, &[]).status(), 0),
            }
        }
        // Ends are noticed a little later.
        std::thread::sleep(Duration::from_millis(500));
    };
    come_and_go(200);
    let (memory, files) = (resident(&process), descriptors(&process));
    come_and_go(CONNECTIONS);
    let (grown, more) = (resident(&process).saturating_sub(memory), descriptors(&process));
    assert!(grown < 16 << 10, "{grown} KiB more than before");
    assert!(more <= files + 8, "{more} descriptors, {files} before");
    assert_eq!(owner.question(1, &[]).status(), 0);
    assert!(TcpStream::connect(address).is_ok());
    let said = terminate(process);
    assert!(!said.contains("panicked"), "{said}");
}
