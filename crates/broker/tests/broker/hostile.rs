//! Frames of anything: a hundred thousand of them, from a seed, at a broker process that has to go
//! on answering, and to stay as small as it was.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::Command;

use crate::client::{Client, HEADER, join, name, named};
use crate::messages::{From, ME, batch, create, poll_body, send_body, to, topic};
use crate::program::{Program, address, resident, started, terminate};

/// Frames of each of the clients.
const FRAMES: usize = 25_000;
const CLIENTS: u64 = 4;
/// Frames that are sent before their answers are looked at.
const IN_ONE_GO: usize = 50;

/// SplitMix64: the same frames every time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}

/// Requests that are sound, as something to begin with.
fn sound() -> Vec<(u8, u32, Vec<u8>)> {
    let group = join([&topic(), &named("g")]);
    let ids = join([&[1, 4, 0, 0, 0, 0], &[1, 4, 0, 0, 0, 0]]);
    let options = join([&[2, 13, 0, 0, 0], b"enforce_fsync", &[3, 1, 0, 0, 0, 1]]);
    let offset = join([&ME, &topic(), &[1, 0, 0, 0, 0]]);
    let named_topic = join([&named("s"), &4_u32.to_le_bytes(), &name("t"), &options]);
    let mut all = vec![
        (128, 0, name("s")),
        (129, 0, join([&named("s"), &name("s")])),
        (130, 0, named("s")),
        (131, 0, named("s")),
        (132, 0, named_topic),
        (133, 0, join([&ids, &name("orders"), &[]])),
        (134, 0, join([&named("s"), &named("t")])),
        (135, 0, join([&named("s"), &named("t")])),
        (136, 0, join([&ids, &1_u32.to_le_bytes()])),
        (137, 0, join([&ids, &1_u32.to_le_bytes()])),
        (138, 0, join([&ids, &0_u32.to_le_bytes(), &1_u32.to_le_bytes()])),
        (139, 0, join([&topic(), &name("g")])),
        (140, 0, join([&ids, &[1, 4, 9, 0, 0, 0]])),
        (148, 0, group.clone()),
        (149, 0, group.clone()),
        (160, 0, send_body(&to(0), 2, &batch(&["a", "b"]))),
        (160, 0, send_body(&[1, 0], 1, &batch(&["c"]))),
        (161, 0, join([&offset, &0_u64.to_le_bytes(), &[1]])),
        (162, 0, join([&offset, &[1]])),
    ];
    let questions: [(u32, Vec<u8>); 16] = [
        (10, vec![]),
        (12, vec![]),
        (13, vec![1]),
        (20, vec![]),
        (21, vec![0; 4]),
        (22, vec![]),
        (31, ids[..6].to_vec()),
        (100, poll_body(&ME, Some(0), From::Next, 10, true)),
        (100, poll_body(&[2, 2, 1, b'g'], None, From::First, 9, true)),
        (102, join([&ids, &0_u32.to_le_bytes(), &[0]])),
        (120, offset),
        (200, ids[..6].to_vec()),
        (300, ids.clone()),
        (301, ids[..6].to_vec()),
        (600, group.clone()),
        (606, group),
    ];
    all.extend(questions.map(|(code, body)| (2, code, body)));
    all
}

/// A frame of anything: a sound one, bent more or less. Whole at any rate: one that is none ends the
/// connection, which other tests look at.
fn frame(random: &mut Random, client: &Client, sound: &[(u8, u32, Vec<u8>)]) -> Vec<u8> {
    let (mut operation, mut code, mut body) = random.pick(sound);
    if random.below(4) == 0 {
        operation = random.next() as u8;
    }
    if random.below(8) == 0 {
        code = random.pick(&[0, 1, 41, 601, 201, 38, 11, 4711]);
    }
    // Changes that are made take the disk's time: most of these are cut, and are none.
    if (128..160).contains(&operation) && random.below(40) != 0 {
        body.truncate(random.below(body.len().max(1)));
    }
    for _ in 0..random.below(4) {
        match random.below(5) {
            0 if !body.is_empty() => {
                let at = random.below(body.len());
                body[at] = random.pick(&[0, 1, 2, 4, 127, 128, 254, 255]);
            }
            1 if !body.is_empty() => body.truncate(random.below(body.len())),
            2 if body.len() >= 4 => {
                let at = random.below(body.len() - 3);
                let long = random.pick(&[0_u32, 1, 255, 1 << 16, 1 << 31, u32::MAX]);
                body[at..at + 4].copy_from_slice(&long.to_le_bytes());
            }
            3 => body.extend((0..random.below(200)).map(|at| at as u8)),
            _ => {}
        }
    }
    // A logout is asked for now and then only, or most of it would be strangers'.
    if matches!(operation, 1 | 3) && random.below(50) != 0 {
        operation = 2;
    }
    let mut frame = client.frame(operation, code, &body);
    // A new number each, and a checksum that is none of the body's is refused before anything else.
    frame[168..176].copy_from_slice(&random.next().to_le_bytes());
    frame[144..160].fill(0);
    if random.below(10) == 0 {
        let at = random.pick(&[0, 48 + 12, 61, 70, 128, 144, 160, 177, 184, 192, 200, 255]);
        frame[at] ^= random.next() as u8;
    }
    frame
}

/// Sends frames in runs with a greeting behind each, and reads until its answer is there.
fn attack(client: &mut Client, seed: u64) {
    let (mut random, sound) = (Random(seed), sound());
    for run in 0..(FRAMES / IN_ONE_GO) as u64 {
        let mut bytes = Vec::new();
        for _ in 0..IN_ONE_GO {
            bytes.extend(frame(&mut random, client, &sound));
        }
        let mut greeting = client.frame(2, 1, &[]);
        let mark = (1 << 40) + run;
        greeting[160..168].copy_from_slice(&mark.to_le_bytes());
        bytes.extend(&greeting);
        let mut out: TcpStream = client.socket();
        std::thread::scope(|scope| {
            scope.spawn(move || out.write_all(&bytes).unwrap());
            loop {
                let reply = client.try_receive();
                let reply = reply.unwrap_or_else(|e| panic!("seed {seed}, run {run}: {e}"));
                assert!(matches!(reply.command(), 8 | 13), "seed {seed}, run {run}: {reply:?}");
                if reply.header[192..200] == mark.to_le_bytes() {
                    break;
                }
            }
        });
        // Whoever was put out or has logged out comes again.
        if client.question(201, &[]).status() == 40 {
            client.log_in("iggy").done();
        }
    }
}

#[test]
fn a_hundred_thousand_frames_of_anything_are_answered_or_passed_over() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let quiet = |command: &mut Command| {
        command.args(["--log-level", "error"]);
    };
    let mut process: Program = started(directory.path(), quiet);
    let address = address(&mut process);
    let mut owner = Client::connect(address);
    owner.log_in("iggy").done();
    create(&mut owner, 2, &[]);
    let before = resident(&process);
    std::thread::scope(|scope| {
        for seed in 1..=CLIENTS {
            scope.spawn(move || {
                let mut client = Client::connect(address);
                client.log_in("iggy").done();
                attack(&mut client, seed);
            });
        }
    });
    let grown = resident(&process).saturating_sub(before);
    assert!(grown < 256 << 10, "{grown} KiB more than before");
    assert_eq!(owner.question(1, &[]).status(), 0);
    owner.log_in("iggy").done();
    assert_eq!(owner.question(10, &[]).status(), 0);
    let said = terminate(process);
    assert!(!said.contains("panicked"), "{said}");
}

/// Rubbish instead of frames, from many: each connection is ended or waits, and that is all.
#[test]
fn rubbish_ends_its_own_connection() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut process: Program = started(directory.path(), |_| ());
    let address = address(&mut process);
    let mut random = Random(7);
    for _ in 0..300 {
        let mut socket = TcpStream::connect(address).unwrap();
        let mut bytes: Vec<u8> = (0..random.below(2000)).map(|_| random.next() as u8).collect();
        if random.below(2) == 0 && bytes.len() >= HEADER {
            // One that may be a frame, of any length.
            let size = random.pick(&[0_u32, 255, 256, 300, 1 << 20, 64 << 20, (64 << 20) + 1]);
            bytes[48..52].copy_from_slice(&size.to_le_bytes());
        }
        // It may be ended before all is sent.
        let _ = socket.write_all(&bytes);
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        match socket.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
    let mut client = Client::connect(address);
    client.log_in("iggy").done();
    let said = terminate(process);
    assert!(!said.contains("panicked"), "{said}");
}
