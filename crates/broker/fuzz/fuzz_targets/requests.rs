//! Requests of anything to a broker in this process, by a client that has logged in: each one is
//! answered or passed over, and the connection goes on.
//!
//! The input is requests behind each other: operation, code and length of the body (two bytes each),
//! body.
#![no_main]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use corelog_broker::{Broker, Config, RootPassword};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

const HEADER: usize = 256;
const PASSWORD: &str = "iggy";

struct Target {
    _broker: Broker,
    _directory: TempDir,
    socket: TcpStream,
    number: u64,
    client: u128,
}

static TARGET: OnceLock<Mutex<Target>> = OnceLock::new();

fuzz_target!(|input: &[u8]| {
    let mut target = TARGET.get_or_init(|| Mutex::new(Target::start())).lock().unwrap();
    target.log_in();
    let mut rest = input;
    // What one input does to the disk has an end.
    for _ in 0..16 {
        let Some((&[operation, c0, c1, l0, l1], behind)) = rest.split_first_chunk::<5>() else {
            break;
        };
        let code = u16::from_le_bytes([c0, c1]);
        let len = usize::from(u16::from_le_bytes([l0, l1])).min(behind.len());
        let (body, behind) = behind.split_at(len);
        target.ask(operation, u32::from(code), body);
        rest = behind;
    }
});

impl Target {
    fn start() -> Target {
        // Nobody drops it when the fuzzer ends: it goes where builds go.
        let builds = concat!(env!("CARGO_MANIFEST_DIR"), "/target");
        std::fs::create_dir_all(builds).unwrap();
        let directory = tempfile::tempdir_in(builds).unwrap();
        let mut config = Config::new(directory.path().join("data"));
        config.listen = ([127, 0, 0, 1], 0).into();
        config.password = Some(RootPassword::new(PASSWORD).unwrap());
        config.shards = Some(1);
        // Wrong passwords are part of what is tried.
        config.clients.failed_logins = u32::MAX;
        let broker = Broker::start(config).unwrap();
        let socket = TcpStream::connect(broker.listen()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Target { _broker: broker, _directory: directory, socket, number: 0, client: 1 }
    }

    /// A login holds as long as nothing has ended it: a question tells.
    fn log_in(&mut self) {
        if self.exchange(&self.frame(2, 201, &[]))[216] != 40 {
            return;
        }
        let mut body = 11_264_u32.to_le_bytes().to_vec();
        for text in ["fuzz", "1", "iggy", PASSWORD] {
            body.push(text.len() as u8);
            body.extend_from_slice(text.as_bytes());
        }
        body.extend_from_slice(&[0; 4]);
        self.client += 1;
        let reply = self.exchange(&self.frame(1, 0, &body));
        assert_eq!(reply[60], 8, "no login");
    }

    fn frame(&self, operation: u8, code: u32, body: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; HEADER];
        frame[48..52].copy_from_slice(&((HEADER + body.len()) as u32).to_le_bytes());
        frame[60] = 5;
        frame[128..144].copy_from_slice(&self.client.to_le_bytes());
        if operation != 1 {
            frame[168..176].copy_from_slice(&self.number.max(1).to_le_bytes());
            frame[184] = 1;
        }
        frame[176] = operation;
        frame[196..200].copy_from_slice(&code.to_le_bytes());
        frame.extend_from_slice(body);
        frame
    }

    /// Sends a frame and a greeting, and waits for the greeting's answer.
    fn ask(&mut self, operation: u8, code: u32, body: &[u8]) {
        self.number += 1;
        let mut frames = self.frame(operation, code, body);
        let mut greeting = self.frame(2, 1, &[]);
        let mark = (1 << 50) + self.number;
        greeting[160..168].copy_from_slice(&mark.to_le_bytes());
        frames.extend(greeting);
        let mut reply = self.exchange(&frames);
        while reply[192..200] != mark.to_le_bytes() {
            reply = self.receive();
        }
    }

    fn exchange(&mut self, frames: &[u8]) -> Vec<u8> {
        self.socket.write_all(frames).unwrap();
        self.receive()
    }

    /// The header of the next reply; its body is passed over.
    fn receive(&mut self) -> Vec<u8> {
        let mut header = vec![0; HEADER];
        self.socket.read_exact(&mut header).expect("the broker goes on answering");
        let size = u32::from_le_bytes(header[48..52].try_into().unwrap()) as usize;
        let mut body = vec![0; size - HEADER];
        self.socket.read_exact(&mut body).expect("a reply is whole");
        header
    }
}
