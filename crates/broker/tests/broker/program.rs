//! The program itself: what it prints, how it is stopped, what it refuses.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::{Client, name};
use crate::messages::{From, ME, create, poll_body, polled, send, to};

/// A process that goes with the test, however that ends.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // It has ended already where all went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program(data: &Path, password: Option<&str>) -> Command {
    listening_on("127.0.0.1:0", data, password)
}

fn listening_on(address: &str, data: &Path, password: Option<&str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_corelog-broker"));
    command.arg("--data").arg(data).args(["--listen", address, "--shards", "1"]);
    command.env_remove("CORELOG_ROOT_PASSWORD").stdout(Stdio::piped()).stderr(Stdio::piped());
    command.envs(password.map(|password| ("CORELOG_ROOT_PASSWORD", password)));
    command
}

/// Waits until the program listens, and connects.
fn connect(process: &mut Program) -> Client {
    let mut line = String::new();
    BufReader::new(process.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").expect("it did not start");
    Client::connect(address.parse().unwrap())
}

/// Asks the program to end, and answers what it said on standard error.
fn terminate(mut process: Program) -> String {
    kill_process(Pid::from_child(&process.0), Signal::TERM).unwrap();
    let mut said = String::new();
    process.0.stderr.as_mut().unwrap().read_to_string(&mut said).unwrap();
    let status = process.0.wait().unwrap();
    assert!(status.success(), "{status}: {said}");
    said
}

#[test]
fn it_ends_in_order_and_has_everything_the_next_time() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let start = || Program(program(directory.path(), Some("iggy")).spawn().unwrap());
    let mut process = start();
    let mut client = connect(&mut process);
    client.log_in("iggy").done();
    create(&mut client, 1, &[]);
    for number in 0..100 {
        assert_eq!(send(&mut client, &to(0), &[&number.to_string()]).status(), 0);
    }
    terminate(process);
    let mut process = start();
    let mut client = connect(&mut process);
    client.log_in("iggy").done();
    let all = polled(&client.question(100, &poll_body(&ME, Some(0), From::First, 1000, false)));
    assert_eq!((all.messages.len(), all.last_offset), (100, 99));
    terminate(process);
}

#[test]
fn a_password_is_made_up_where_none_is_given() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut process = Program(program(directory.path(), None).spawn().unwrap());
    // It is said before the program listens.
    let mut line = String::new();
    let mut errors = BufReader::new(process.0.stderr.take().unwrap());
    errors.read_line(&mut line).unwrap();
    let password = line.trim().rsplit(' ').next().unwrap();
    let mut client = connect(&mut process);
    assert_eq!(client.log_in("iggy").eviction(), 9);
    client.log_in(password).done();
    client.ask(128, &name("s")).done();
    kill_process(Pid::from_child(&process.0), Signal::INT).unwrap();
    assert!(process.0.wait().unwrap().success());
}

#[test]
fn what_it_cannot_work_with_is_said_at_once() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let said = |mut command: Command| {
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said(program(directory.path(), Some("ab"))).contains("3 to 100"));
    // An address that somebody has, and a directory.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let text = said(listening_on(&address, directory.path(), Some("iggy")));
    assert!(text.contains(&format!("cannot listen on {address}")), "{text}");
    let mut process = Program(program(directory.path(), Some("iggy")).spawn().unwrap());
    drop(connect(&mut process));
    let text = said(program(directory.path(), Some("iggy")));
    assert!(text.contains("open in another engine"), "{text}");
    terminate(process);
}
