//! The program itself: what it prints, how it is stopped, what it refuses.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use crate::client::{Client, name};
use crate::messages::{From, ME, create, poll_body, polled, send, to};

/// A process that goes with the test, however that ends.
pub(crate) struct Program(pub(crate) Child);

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

/// A program with a known password, on one shard.
pub(crate) fn started(data: &Path, change: impl FnOnce(&mut Command)) -> Program {
    let mut command = program(data, Some("iggy"));
    change(&mut command);
    Program(command.spawn().unwrap())
}

/// Waits until the program listens, and answers where.
pub(crate) fn address(process: &mut Program) -> SocketAddr {
    let mut line = String::new();
    BufReader::new(process.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").expect("it did not start");
    address.parse().unwrap()
}

/// Waits until the program listens, and connects.
fn connect(process: &mut Program) -> Client {
    Client::connect(address(process))
}

/// Asks the program to end.
pub(crate) fn signal(process: &Program, signal: Signal) {
    kill_process(Pid::from_child(&process.0), signal).unwrap();
}

/// Asks the program to end, and answers what it said on standard error.
pub(crate) fn terminate(process: Program) -> String {
    signal(&process, Signal::TERM);
    ended(process)
}

/// Waits for its end, which has to be in order, and answers what it said on standard error.
pub(crate) fn ended(mut process: Program) -> String {
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
    // It is said before the program says that it listens.
    let errors = BufReader::new(process.0.stderr.take().unwrap());
    let mut lines = errors.lines().map(Result::unwrap);
    let line = lines.find(|line| line.contains("password of user iggy is")).unwrap();
    let password = line.rsplit(' ').next().unwrap();
    let mut client = connect(&mut process);
    assert_eq!(client.log_in("iggy").eviction(), 9);
    client.log_in(password).done();
    client.ask(128, &name("s")).done();
    signal(&process, Signal::INT);
    assert!(process.0.wait().unwrap().success());
    // It is kept, and not said again; a given one takes its place.
    let mut process = Program(program(directory.path(), None).spawn().unwrap());
    connect(&mut process).log_in(password).done();
    let said = terminate(process);
    assert!(!said.contains(password) && !said.contains("password of user"), "{said}");
    let mut process = started(directory.path(), |_| ());
    let mut client = connect(&mut process);
    assert_eq!(client.log_in(password).eviction(), 9);
    client.log_in("iggy").done();
    assert!(terminate(process).contains("password_changed"));
}

/// It is on no command line and in no file but as a hash.
#[test]
fn a_password_is_not_written_down() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let secret = "not-to-be-found-anywhere";
    let mut process = Program(program(directory.path(), Some(secret)).spawn().unwrap());
    connect(&mut process).log_in(secret).done();
    let line = std::fs::read(format!("/proc/{}/cmdline", process.0.id())).unwrap();
    let has = |bytes: &[u8]| bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
    assert!(!has(&line));
    let said = terminate(process);
    assert!(!said.contains(secret), "{said}");
    let mut looked_at = 0;
    for entry in std::fs::read_dir(directory.path()).unwrap().flatten() {
        if entry.path().is_file() {
            assert!(!has(&std::fs::read(entry.path()).unwrap()), "{:?}", entry.path());
            looked_at += 1;
        }
    }
    assert!(looked_at >= 3, "the lock, the catalog, the hash");
}

#[test]
fn what_holds_is_printed_and_what_is_unknown_is_told_by_line() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = directory.path().join("broker.toml");
    let run = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let mut command = program(&directory.path().join("data"), Some("top-secret"));
        command.arg("--config").arg(&file).arg("--print-config").output().unwrap()
    };
    let output = run("idle_timeout = \"7s\"\n");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("idle_timeout = \"7s\" # line 1 of the file"), "{text}");
    assert!(text.contains("shards = 1 # --shards") && !text.contains("top-secret"), "{text}");
    assert!(!directory.path().join("data").exists(), "nothing was started");
    let output = run("\nidle_time = \"7s\"\n");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("broker.toml:2: unknown key \"idle_time\""), "{text}");
}

#[test]
fn logs_are_lines_of_json_where_that_is_asked_for() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut process = started(directory.path(), |command| {
        command.args(["--log-format", "json"]);
    });
    let mut client = connect(&mut process);
    assert_eq!(client.log_in("wrong").eviction(), 9);
    client.log_in("iggy").done();
    let said = terminate(process);
    let lines = said.lines().map(|line| -> serde_json::Value {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
    });
    let events: Vec<String> = lines.map(|line| line["event"].as_str().unwrap().into()).collect();
    let expected = ["engine_opened", "broker_listening", "login_refused", "logged_in"];
    let expected = expected.iter().chain(&["broker_draining", "broker_stopped", "engine_closed"]);
    let mut rest = events.iter();
    for name in expected {
        assert!(rest.any(|event| event == name), "{name} in {events:?}");
    }
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

/// Memory of the process, KiB.
pub(crate) fn resident(process: &Program) -> u64 {
    told(process, "status", |text| {
        let line = text.lines().find(|line| line.starts_with("VmRSS"))?;
        line.split_whitespace().nth(1)?.parse().ok()
    })
}

/// A number of the process, from a file below /proc.
fn told(process: &Program, file: &str, pick: impl Fn(&str) -> Option<u64>) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/{file}", process.0.id())).unwrap();
    pick(&text).expect("the kernel tells it")
}

/// Who has not logged in cannot fill the broker's memory.
#[test]
fn a_stranger_s_frames_are_not_kept() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut process = Program(program(directory.path(), Some("iggy")).spawn().unwrap());
    let address = connect(&mut process).socket().peer_addr().unwrap();
    let before = resident(&process);
    let body = vec![7; 60 << 20];
    let strangers: Vec<Client> = (0..4)
        .map(|_| {
            let mut client = Client::connect(address);
            let frame = client.frame(160, 0, &body);
            client.send_raw(&frame[..frame.len() - 1]);
            client
        })
        .collect();
    let grown = resident(&process).saturating_sub(before);
    assert!(grown < 60 << 10, "{grown} KiB more for 4 frames of 60 MiB");
    for mut client in strangers {
        client.send_raw(&[7]);
        assert_eq!(client.receive().eviction(), 1);
        client.log_in("iggy").done();
    }
    terminate(process);
}

/// Descriptors that are used up are waited for, and not asked for again and again.
#[test]
fn a_process_without_descriptors_rests_and_goes_on() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut process = Program(program(directory.path(), Some("iggy")).spawn().unwrap());
    let mut first = connect(&mut process);
    first.log_in("iggy").done();
    let address = first.socket().peer_addr().unwrap();
    let pid = Some(Pid::from_child(&process.0));
    let open = std::fs::read_dir(format!("/proc/{}/fd", process.0.id())).unwrap().count() as u64;
    let full = Rlimit { current: Some(open + 2), ..getrlimit(Resource::Nofile) };
    let old = prlimit(pid, Resource::Nofile, full).unwrap();
    let mut waiting: Vec<Client> = (0..10).map(|_| Client::connect(address)).collect();
    // User and system time, hundredths of a second.
    let ticks = |process: &Program| {
        told(process, "stat", |text| {
            let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
            Some(fields[11].parse::<u64>().ok()? + fields[12].parse::<u64>().ok()?)
        })
    };
    let before = ticks(&process);
    std::thread::sleep(std::time::Duration::from_secs(1));
    let used = ticks(&process) - before;
    // Asking again and again takes as much of a core as there is.
    assert!(used < 25, "{used} hundredths of a second spent on nothing");
    assert_eq!(first.question(1, &[]).status(), 0, "others are served");
    prlimit(pid, Resource::Nofile, old).unwrap();
    for client in &mut waiting {
        client.log_in("iggy").done();
    }
    assert!(terminate(process).contains("no connection accepted"));
}

/// Half of the descriptors is the engine's.
#[test]
fn connections_leave_descriptors_for_the_engine() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 120; exec \"$0\" \"$@\""]);
    let broker = program(directory.path(), None);
    command.arg(broker.get_program()).args(broker.get_args()).env("CORELOG_ROOT_PASSWORD", "iggy");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = Program(command.spawn().unwrap());
    let mut clients = vec![connect(&mut process)];
    let address = clients[0].socket().peer_addr().unwrap();
    clients.extend((1..60).map(|_| Client::connect(address)));
    for client in &mut clients {
        client.log_in("iggy").done();
    }
    let mut late = Client::connect(address);
    let ended = late.try_receive().unwrap_err().kind();
    assert_ne!(ended, std::io::ErrorKind::WouldBlock, "it was let in");
    create(&mut clients[0], 8, &[]);
    assert_eq!(send(&mut clients[0], &to(7), &["x"]).status(), 0);
    drop(clients);
    drop(process);
}
