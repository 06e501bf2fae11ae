//! A client of the tests: frames by hand, no crate of the broker or of the reference.

use corelog::format::checksum::xxh3;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Length of a header.
pub(crate) const HEADER: usize = 256;

static CLIENTS: AtomicU64 = AtomicU64::new(1);

pub(crate) struct Client {
    socket: TcpStream,
    pub(crate) id: u128,
    session: u64,
    request: u64,
}

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) header: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        // A test that waits for ever says nothing.
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let id = u128::from(CLIENTS.fetch_add(1, Ordering::Relaxed)) | 1 << 100;
        Client { socket, id, session: 0, request: 0 }
    }

    /// Another handle of the connection.
    pub(crate) fn socket(&self) -> TcpStream {
        self.socket.try_clone().unwrap()
    }

    /// Sends bytes as they are.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// As [`Client::send_raw`]; false where the connection has ended.
    pub(crate) fn send_raw_or_end(&mut self, bytes: &[u8]) -> bool {
        self.socket.write_all(bytes).is_ok()
    }

    /// As [`Client::question`], of a connection that may have ended.
    pub(crate) fn try_question(&mut self, code: u32, body: &[u8]) -> std::io::Result<Reply> {
        let frame = self.frame(2, code, body);
        self.socket.write_all(&frame)?;
        self.try_receive()
    }

    /// As [`Client::ask`], of a connection that may have ended.
    pub(crate) fn try_ask(&mut self, operation: u8, body: &[u8]) -> std::io::Result<Reply> {
        let frame = self.frame(operation, 0, body);
        self.socket.write_all(&frame)?;
        self.try_receive()
    }

    /// The next frame.
    pub(crate) fn receive(&mut self) -> Reply {
        self.try_receive().unwrap()
    }

    pub(crate) fn try_receive(&mut self) -> std::io::Result<Reply> {
        let mut header = vec![0; HEADER];
        self.socket.read_exact(&mut header)?;
        let size = u32::from_le_bytes(header[48..52].try_into().unwrap()) as usize;
        let mut body = vec![0; size - HEADER];
        self.socket.read_exact(&mut body)?;
        Ok(Reply { header, body })
    }

    /// The frame of an operation.
    pub(crate) fn frame(&self, operation: u8, code: u32, body: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; HEADER];
        frame[48..52].copy_from_slice(&((HEADER + body.len()) as u32).to_le_bytes());
        frame[60] = 5;
        frame[128..144].copy_from_slice(&self.id.to_le_bytes());
        if !matches!(operation, 2 | 160..) {
            frame[144..160].copy_from_slice(&u128::from(xxh3(body)).to_le_bytes());
        }
        if operation != 1 {
            frame[168..176].copy_from_slice(&self.request.max(1).to_le_bytes());
            frame[184..192].copy_from_slice(&self.session.max(1).to_le_bytes());
        }
        frame[176] = operation;
        frame[196..200].copy_from_slice(&code.to_le_bytes());
        frame.extend_from_slice(body);
        frame
    }

    /// An operation and its reply. Each change has a number of its own.
    pub(crate) fn ask(&mut self, operation: u8, body: &[u8]) -> Reply {
        if (128..160).contains(&operation) || operation == 3 {
            self.request += 1;
        }
        let frame = self.frame(operation, 0, body);
        self.send_raw(&frame);
        self.receive()
    }

    /// A question and its reply.
    pub(crate) fn question(&mut self, code: u32, body: &[u8]) -> Reply {
        let frame = self.frame(2, code, body);
        self.send_raw(&frame);
        self.receive()
    }

    pub(crate) fn log_in(&mut self, password: &str) -> Reply {
        let mut body = 11_264_u32.to_le_bytes().to_vec();
        for text in ["test", "1.0", "iggy", password] {
            body.push(text.len() as u8);
            body.extend_from_slice(text.as_bytes());
        }
        body.extend_from_slice(&[0; 4]);
        self.request = 0;
        let reply = self.ask(1, &body);
        if reply.body.len() > 16 {
            self.session = u64::from_le_bytes(reply.body[8..16].try_into().unwrap());
        }
        reply
    }
}

impl Client {
    /// Ends the login and begins another one with the same client id.
    pub(crate) fn log_out_and_in(&mut self) {
        assert_eq!(self.ask(3, &[]).status(), 0);
        self.log_in(crate::running::PASSWORD).done();
    }
}

impl Reply {
    /// `command`: 8 a reply, 13 an eviction.
    pub(crate) fn command(&self) -> u8 {
        self.header[60]
    }

    pub(crate) fn operation(&self) -> u8 {
        self.header[208]
    }

    pub(crate) fn status(&self) -> u32 {
        u32::from_le_bytes(self.header[216..220].try_into().unwrap())
    }

    /// Why a client was put out.
    pub(crate) fn eviction(&self) -> u8 {
        assert_eq!(self.command(), 13, "no eviction: {self:?}");
        self.header[255]
    }

    /// The code in the result section; 0 for success.
    pub(crate) fn result(&self) -> u32 {
        assert_eq!((self.command(), self.status()), (8, 0), "{self:?}");
        let number = |at: usize| u32::from_le_bytes(self.body[at..at + 4].try_into().unwrap());
        if number(0) == 0 { 0 } else { number(8) }
    }

    /// The payload behind a result section that says success.
    pub(crate) fn done(&self) -> &[u8] {
        assert_eq!(self.result(), 0, "{self:?}");
        &self.body[4..]
    }
}

/// An identifier by name, as the wire has it.
pub(crate) fn named(name: &str) -> Vec<u8> {
    let mut bytes = vec![2, name.len() as u8];
    bytes.extend_from_slice(name.as_bytes());
    bytes
}

/// A name, as the wire has it.
pub(crate) fn name(name: &str) -> Vec<u8> {
    named(name)[1..].to_vec()
}

/// Pieces of a body, put together.
pub(crate) fn join<const N: usize>(pieces: [&[u8]; N]) -> Vec<u8> {
    pieces.concat()
}
