//! HTTP server of the metrics endpoint. It supports little more than one request. General servers
//! lack the required limits; tiny_http, for example, waits indefinitely for the rest of a request.
//!
//! One thread accepts connections and reads the heads of requests. Only a client with a valid token
//! gets a thread for its answer. Clients without a token therefore cannot exhaust threads, or keep
//! a slot for long. When all eight waiting slots are taken, a new client replaces the oldest one.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use mlprof_core::output::say;
use mlprof_events::own_thread;

use super::request::{self, BUSY, Form, Refusal};
use super::token::Token;
use super::{LISTENER, protobuf, restore_token, text};
use crate::descriptor::readable;
use crate::families::families_and_devices;
use crate::watcher::Watcher;

/// Maximum number of answers that are sent at once, and also of clients that have not sent a token
/// yet.
const MOST_CONNECTIONS: usize = 8;

/// Timeout for receiving a request.
const HEAD_PATIENCE: Duration = Duration::from_secs(2);

/// Timeout for sending an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Interval at which the token's file and the waiting clients are checked.
const LOOK: Duration = Duration::from_millis(2000);

/// Binds the port.
pub(super) fn bind(port: u16) -> io::Result<TcpListener> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Starts the server thread. Returns the address and the listening descriptor.
pub(super) fn listen(
    listener: TcpListener,
    token: Token,
    watcher: Arc<Watcher>,
) -> io::Result<(SocketAddr, i32)> {
    let (address, number) = (listener.local_addr()?, listener.as_raw_fd());
    own_thread::spawn("mlprof-metrics", move || serve(listener, &token, &watcher))?;
    Ok((address, number))
}

fn serve(listener: TcpListener, token: &Token, watcher: &Arc<Watcher>) {
    let number = listener.as_raw_fd();
    let mut waiting: VecDeque<Waiting> = VecDeque::new();
    loop {
        let now = Instant::now();
        let next = waiting.front().map_or(LOOK, |it| it.until.saturating_duration_since(now));
        let numbers = waiting.iter().map(|it| it.stream.as_raw_fd());
        let ready = readable(std::iter::once(number).chain(numbers), next.min(LOOK));
        // In the first iteration, the descriptor may not be stored yet.
        if LISTENER.number() >= 0 && !LISTENER.is_own() {
            // The program has closed all descriptors, so these numbers may already belong to its
            // own files and must not be closed.
            std::mem::forget((listener, waiting));
            say(format_args!(
                "mlprof: metrics are no longer available: the program has closed their port"
            ));
            return;
        }
        let mut place = 0;
        waiting.retain_mut(|client| {
            place += 1;
            match client.read(ready[place], token) {
                Progress::Waits => true,
                Progress::Ended => false,
                Progress::Asked(asked) => {
                    reply(client, asked, watcher);
                    false
                }
            }
        });
        if ready[0] {
            accept(&listener, &mut waiting);
        }
        restore_token(token);
    }
}

/// Accepts a connection. If all slots are taken, the client that has waited longest is rejected as
/// busy.
fn accept(listener: &TcpListener, waiting: &mut VecDeque<Waiting>) {
    match listener.accept() {
        Ok((stream, _)) => {
            if waiting.len() >= MOST_CONNECTIONS
                && let Some(oldest) = waiting.pop_front()
            {
                oldest.refuse(BUSY);
            }
            waiting.extend(Waiting::new(stream));
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
        // The process may have reached its limit of open files, which is usually temporary.
        Err(_) => std::thread::sleep(Duration::from_millis(100)),
    }
}

/// Answers a valid request in a new thread, and rejects any other request with the reason.
fn reply(client: &mut Waiting, asked: Result<Form, Refusal>, watcher: &Arc<Watcher>) {
    static ANSWERED: AtomicUsize = AtomicUsize::new(0);
    let (form, stream) = match (asked, client.stream.try_clone()) {
        (Err(refusal), _) => return client.refuse(refusal),
        (Ok(_), Err(_)) => return client.refuse(BUSY),
        (Ok(form), Ok(stream)) => (form, stream),
    };
    if ANSWERED.fetch_add(1, Ordering::SeqCst) >= MOST_CONNECTIONS {
        ANSWERED.fetch_sub(1, Ordering::SeqCst);
        return client.refuse(BUSY);
    }
    let watcher = watcher.clone();
    let work = move || {
        let work = AssertUnwindSafe(|| answer(&stream, form, &watcher));
        // If the answer fails, the client sees the connection close.
        let _ = catch_unwind(work);
        drop(stream);
        ANSWERED.fetch_sub(1, Ordering::SeqCst);
    };
    if own_thread::spawn("mlprof-metrics-door", work).is_err() {
        ANSWERED.fetch_sub(1, Ordering::SeqCst);
    }
}

fn answer(stream: &TcpStream, form: Form, watcher: &Watcher) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    stream.set_nonblocking(false)?;
    let answer = match form {
        Form::Text => {
            found(text::CONTENT_TYPE, text::write(&families_and_devices(watcher)).as_bytes())
        }
        Form::Protobuf => {
            found(protobuf::CONTENT_TYPE, &protobuf::write(&families_and_devices(watcher)))
        }
    };
    write(stream, &answer, until)
}

/// Client with an incomplete request.
struct Waiting {
    stream: TcpStream,
    head: Vec<u8>,
    until: Instant,
}

enum Progress {
    Waits,
    /// The client has disconnected, or has taken too long.
    Ended,
    Asked(Result<Form, Refusal>),
}

impl Waiting {
    fn new(stream: TcpStream) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        Some(Self { stream, head: Vec::new(), until: Instant::now() + HEAD_PATIENCE })
    }

    /// Reads the available bytes.
    fn read(&mut self, is_ready: bool, token: &Token) -> Progress {
        let mut part = [0; 1024];
        let read = if is_ready { (&self.stream).read(&mut part) } else { Ok(0) };
        match read {
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return Progress::Ended,
            Ok(0) if is_ready => return Progress::Ended,
            Ok(bytes) => {
                self.head.extend_from_slice(&part[..bytes]);
                if let Some(asked) = request::read(&self.head, token).filter(|_| bytes > 0) {
                    return Progress::Asked(asked);
                }
            }
        }
        if Instant::now() >= self.until { Progress::Ended } else { Progress::Waits }
    }

    fn refuse(&self, refusal: Refusal) {
        // The response fits into the socket's empty send buffer, so the write does not block.
        let _ = (&self.stream).write_all(&refused(refusal));
    }
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn write(mut stream: &TcpStream, mut answer: &[u8], until: Instant) -> io::Result<()> {
    while !answer.is_empty() {
        stream.set_write_timeout(Some(left(until)?))?;
        let bytes = stream.write(answer)?;
        answer = &answer[bytes..];
    }
    Ok(())
}

fn found(content_type: &str, body: &[u8]) -> Vec<u8> {
    response("200 OK", content_type, body)
}

fn refused(refusal: Refusal) -> Vec<u8> {
    let body = format!("{}\n", refusal.why);
    response(refusal.status, "text/plain; charset=utf-8", body.as_bytes())
}

fn response(status: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let client = TcpStream::connect(address).expect("it listens");
        (listener.accept().expect("somebody asks").0, client)
    }

    fn is_late(error: &io::Error) -> bool {
        matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
    }

    #[test]
    fn clients_that_do_not_read_are_dropped() {
        let (stream, client) = connected();
        // The answer exceeds the socket's buffers.
        let answer = vec![0; 64 << 20];
        let until = Instant::now() + Duration::from_millis(100);
        let error = write(&stream, &answer, until).expect_err("nobody reads");
        assert!(is_late(&error), "{error:?}");
        drop(client);
    }

    #[test]
    fn slow_requests_are_dropped() {
        let (stream, mut client) = connected();
        let mut waiting = Waiting::new(stream).expect("it is open");
        waiting.until = Instant::now() + Duration::from_millis(200);
        let asking = std::thread::spawn(move || {
            // The client sends single bytes of a head that never ends.
            while client.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let token = Token::of("secret");
        let ended = loop {
            let is_ready = readable([waiting.stream.as_raw_fd()], Duration::from_secs(60))[0];
            match waiting.read(is_ready, &token) {
                Progress::Waits => {}
                ended => break ended,
            }
        };
        assert!(matches!(ended, Progress::Ended) && Instant::now() >= waiting.until);
        drop(waiting);
        asking.join().expect("it ends");
    }

    #[test]
    fn the_longest_waiting_client_makes_room() {
        let listener = bind(0).expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut waiting = VecDeque::new();
        let mut connect = || {
            let client = TcpStream::connect(address).expect("it listens");
            readable([listener.as_raw_fd()], Duration::from_secs(60));
            accept(&listener, &mut waiting);
            client
        };
        let mut clients: Vec<_> = (0..=MOST_CONNECTIONS).map(|_| connect()).collect();
        let mut said = String::new();
        clients[0].read_to_string(&mut said).expect("it is told, and closed");
        assert!(said.starts_with("HTTP/1.1 503 "), "{said}");
        assert_eq!(waiting.len(), MOST_CONNECTIONS);
        let ask =
            b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\n\r\n";
        clients[MOST_CONNECTIONS].write_all(ask).expect("it is heard");
        let last = waiting.back_mut().expect("the last one");
        readable([last.stream.as_raw_fd()], Duration::from_secs(60));
        let progress = last.read(true, &Token::of("secret"));
        assert!(matches!(progress, Progress::Asked(Ok(Form::Text))));
    }
}
