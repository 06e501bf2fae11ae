//! What a broker stands beside: an echo, and a server that does nothing. Each is a process of its
//! own with one thread, so that its CPU time can be told from that of the clients.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::shape::{HEADER, Shape};
use crate::window::{Limit, Outcome, Requests, measure};

/// First word of the command line of such a process.
pub const SERVE: &str = "--serve";

/// Places in a request's header: its length; its operation, and a question's code.
const SIZE: usize = 48;
const OPERATION: usize = 176;
const CODE: usize = 196;
/// A send; a question, and the one that polls.
const SEND: u8 = 160;
const QUESTION: u8 = 2;
const POLL: u32 = 100;

/// Such a process, which ends when this is dropped.
pub struct Peer {
    process: Child,
    _output: BufReader<ChildStdout>,
    address: String,
}

impl Peer {
    /// One that does nothing with sends and polls, and gives everything else to `broker`.
    pub fn nothing(broker: &str) -> Peer {
        Peer::start(&["nothing", broker])
    }

    fn start(args: &[&str]) -> Peer {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .arg(SERVE)
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        Peer { process, _output: output, address: line.trim().to_owned() }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // Dead already is as good.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The frames of a shape, there and back, without anything in them.
pub async fn echo(shape: &Shape, limit: &Limit) -> Outcome {
    let (request, reply) = shape.frames();
    let peer = Peer::start(&["echo", &request.to_string(), &reply.to_string()]);
    let mut clients = Vec::new();
    for _ in 0..shape.clients {
        let socket = TcpStream::connect(peer.address()).await.unwrap();
        socket.set_nodelay(true).unwrap();
        clients.push(Echo { socket, request: vec![1; request], reply: vec![0; reply] });
    }
    measure(limit, peer.pid(), shape.payload(), clients).await.0
}

struct Echo {
    socket: TcpStream,
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl Requests for Echo {
    async fn request(&mut self) {
        self.socket.write_all(&self.request).await.unwrap();
        self.socket.read_exact(&mut self.reply).await.unwrap();
    }
}

/// The other process: `echo REQUEST REPLY`, or `nothing BROKER`.
pub fn serve(args: &[String]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let args = args.to_vec();
    runtime.block_on(async move {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        loop {
            let socket = listener.accept().await.unwrap().0;
            socket.set_nodelay(true).unwrap();
            match &*args[0] {
                "echo" => tokio::spawn(answer(socket, args[1].clone(), args[2].clone())),
                _ => tokio::spawn(answer_nothing(socket, args[1].clone())),
            };
        }
    });
}

async fn answer(mut socket: TcpStream, request: String, reply: String) {
    let mut request = vec![0; request.parse().unwrap()];
    let reply = vec![1; reply.parse().unwrap()];
    while socket.read_exact(&mut request).await.is_ok() {
        if socket.write_all(&reply).await.is_err() {
            return;
        }
    }
}

/// The first send and the first poll of a connection are the broker's; later ones get its answers.
async fn answer_nothing(mut client: TcpStream, broker: String) {
    let mut broker = TcpStream::connect(broker).await.unwrap();
    broker.set_nodelay(true).unwrap();
    let mut frame = Vec::new();
    let mut answers: [Option<Vec<u8>>; 2] = [None, None];
    while receive(&mut client, &mut frame).await {
        let code = u32::from_le_bytes(frame[CODE..CODE + 4].try_into().unwrap());
        let kept = match (frame[OPERATION], code) {
            (SEND, _) => Some(&mut answers[0]),
            (QUESTION, POLL) => Some(&mut answers[1]),
            _ => None,
        };
        if let Some(Some(answer)) = &kept {
            if client.write_all(answer).await.is_err() {
                return;
            }
            continue;
        }
        let mut answer = Vec::new();
        broker.write_all(&frame).await.unwrap();
        assert!(receive(&mut broker, &mut answer).await);
        if client.write_all(&answer).await.is_err() {
            return;
        }
        if let Some(kept) = kept {
            *kept = Some(answer);
        }
    }
}

/// Receives a frame; false where the other side has ended.
async fn receive(socket: &mut TcpStream, frame: &mut Vec<u8>) -> bool {
    frame.resize(frame.len().max(HEADER), 0);
    if socket.read_exact(&mut frame[..HEADER]).await.is_err() {
        return false;
    }
    let size = u32::from_le_bytes(frame[SIZE..SIZE + 4].try_into().unwrap()) as usize;
    frame.resize(size, 0);
    socket.read_exact(&mut frame[HEADER..]).await.is_ok()
}
