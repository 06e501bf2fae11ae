//! Who asks for metrics: HTTP/1 with two paths, on threads of its own. A slow client costs one of
//! the threads for two seconds, and no client costs more memory than a request may be long.

use std::fmt::Write as _;
use std::future::Future;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use corelog::Client;

use super::broker;
use super::recorder::Published;
use super::text::Families;
use crate::shared::Shared;

/// Requests are served side by side on so many threads.
const THREADS: usize = 2;

/// Longest request, bytes.
const REQUEST_MAX: usize = 8 << 10;

/// Time for a request to come, and for an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time for the shards to tell their figures.
const FIGURES_MAX: Duration = Duration::from_secs(2);

/// Serves metrics until it is dropped.
pub(crate) struct Exporter {
    address: SocketAddr,
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    shared: Arc<Shared>,
    published: Mutex<Published>,
    is_over: AtomicBool,
}

impl Exporter {
    /// Serves on `listener`.
    ///
    /// # Errors
    /// There are no threads for it.
    pub(crate) fn start(
        listener: TcpListener,
        client: Client,
        shared: Arc<Shared>,
    ) -> io::Result<Exporter> {
        let address = listener.local_addr()?;
        let (published, is_over) = (Mutex::default(), AtomicBool::new(false));
        let inner = Arc::new(Inner { client, shared, published, is_over });
        let exporter = Exporter { address, inner };
        for _ in 0..THREADS {
            let (listener, inner) = (listener.try_clone()?, Arc::clone(&exporter.inner));
            let thread = thread::Builder::new().name("broker-metrics".to_owned());
            thread.spawn(move || serve(&listener, &inner))?;
        }
        Ok(exporter)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.inner.is_over.store(true, Ordering::Release);
        for _ in 0..THREADS {
            // They wait for connections: here is one each. One that serves a slow client ends behind
            // it, and nobody waits for that.
            let _ = TcpStream::connect_timeout(&self.address, PATIENCE);
        }
    }
}

fn serve(listener: &TcpListener, inner: &Inner) {
    while !inner.is_over.load(Ordering::Acquire) {
        match listener.accept() {
            Ok((socket, _)) if !inner.is_over.load(Ordering::Acquire) => {
                // Who does not take his answer gets none.
                let _ = answer(socket, inner);
            }
            Ok(_) => {}
            Err(_) => thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn answer(mut socket: TcpStream, inner: &Inner) -> io::Result<()> {
    let end = Instant::now() + PATIENCE;
    let request = request(&mut socket, end)?;
    let (status, kind, body) = match request.as_deref().map(parsed) {
        Some(Ok("/metrics")) => match inner.metrics() {
            Ok(text) => ("200 OK", "text/plain; version=0.0.4; charset=utf-8", text),
            Err(why) => {
                inner.shared.events.scrape_failed(&why);
                ("503 Service Unavailable", TEXT, format!("{why}\n"))
            }
        },
        Some(Ok("/health")) => match inner.shared.is_stopping() {
            false => ("200 OK", TEXT, "serving\n".to_owned()),
            true => ("503 Service Unavailable", TEXT, "stopping\n".to_owned()),
        },
        Some(Ok(_)) => ("404 Not Found", TEXT, "there are /metrics and /health\n".to_owned()),
        Some(Err(status)) => (status, TEXT, String::new()),
        None => ("431 Request Header Fields Too Large", TEXT, String::new()),
    };
    let mut head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n");
    let _ = write!(head, "Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    send(&mut socket, head.as_bytes(), Instant::now() + PATIENCE)?;
    send(&mut socket, body.as_bytes(), Instant::now() + PATIENCE)?;
    // What the client may have sent besides would reset the connection, and the answer with it.
    socket.shutdown(Shutdown::Write)?;
    while Instant::now() < end && socket.read(&mut [0; 512])? > 0 {}
    Ok(())
}

const TEXT: &str = "text/plain; charset=utf-8";

/// The head of a request, up to its empty line; `None` where it is too long.
fn request(socket: &mut TcpStream, end: Instant) -> io::Result<Option<Vec<u8>>> {
    let mut head = Vec::new();
    let mut some = [0; 1024];
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        if head.len() > REQUEST_MAX {
            return Ok(None);
        }
        socket.set_read_timeout(Some(left(end)?))?;
        match socket.read(&mut some)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            got => head.extend_from_slice(&some[..got]),
        }
    }
    Ok(Some(head))
}

/// The path that is asked for, without its query, or the status of the refusal.
fn parsed(head: &[u8]) -> Result<&str, &'static str> {
    const BAD: &str = "400 Bad Request";
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| BAD)?;
    let mut words = line.split(' ');
    let (method, path, version) = (words.next(), words.next(), words.next());
    match (method, path, version, words.next()) {
        (Some(method), Some(path), Some("HTTP/1.0" | "HTTP/1.1"), None) => match method {
            "GET" => Ok(path.split('?').next().unwrap_or_default()),
            _ => Err("405 Method Not Allowed"),
        },
        _ => Err(BAD),
    }
}

fn send(socket: &mut TcpStream, mut bytes: &[u8], end: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        socket.set_write_timeout(Some(left(end)?))?;
        let gone = socket.write(bytes)?;
        bytes = &bytes[gone..];
    }
    Ok(())
}

fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

impl Inner {
    fn metrics(&self) -> Result<String, String> {
        let stats = within(FIGURES_MAX, self.client.totals())
            .ok_or("a shard did not tell its figures in time")?
            .map_err(|error| error.to_string())?;
        let mut broker = Families::default();
        broker::put(&mut broker, &self.shared);
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(published.take(&stats, |engine| format!("{engine}{broker}")))
    }
}

/// What `future` answers, where it does so in time.
fn within<T>(time: Duration, future: impl Future<Output = T>) -> Option<T> {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let (end, mut future) = (Instant::now() + time, pin!(future));
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(answer);
        }
        thread::park_timeout(left(end).ok()?);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_strictly() {
        assert_eq!(parsed(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), Ok("/metrics"));
        assert_eq!(parsed(b"GET /metrics?a=b HTTP/1.0\r\n\r\n"), Ok("/metrics"));
        assert_eq!(parsed(b"POST /metrics HTTP/1.1\r\n\r\n"), Err("405 Method Not Allowed"));
        for bad in ["GET /metrics\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n", "GET / HTTP/2\r\n\r\n", ""] {
            assert_eq!(parsed(bad.as_bytes()), Err("400 Bad Request"), "{bad}");
        }
        assert_eq!(parsed(b"GET /\xff HTTP/1.1\r\n\r\n"), Err("400 Bad Request"));
    }

    #[test]
    fn a_figure_that_does_not_come_is_not_waited_for() {
        assert_eq!(within(Duration::from_millis(5), std::future::pending::<()>()), None);
        assert_eq!(within(Duration::from_secs(9), std::future::ready(7)), Some(7));
    }
}
