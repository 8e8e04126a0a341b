//! The port, and who is answered there. Hardly more than one request is answered: so it is written here, with bounds that
//! servers for anything do not have (tiny_http waits for ever for the rest of a request).

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use profiler_events::own_thread;

use super::request::{self, BUSY, Form, Refusal};
use super::token::Token;
use super::{protobuf, text};
use crate::families::families_and_devices;
use crate::watcher::Watcher;

/// So many may ask at once.
const MOST_CONNECTIONS: usize = 8;

/// A request and its answer may take so long, together.
const PATIENCE: Duration = Duration::from_secs(10);

/// Listens, and answers from threads of ours: where, and the descriptor.
pub(super) fn listen(
    port: u16,
    token: Token,
    watcher: Arc<Watcher>,
) -> io::Result<(SocketAddr, i32)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    let (address, number) = (listener.local_addr()?, listener.as_raw_fd());
    own_thread::spawn("mlprof-metrics", move || serve(&listener, &Arc::new(token), &watcher))?;
    Ok((address, number))
}

fn serve(listener: &TcpListener, token: &Arc<Token>, watcher: &Arc<Watcher>) {
    static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);
    loop {
        let Ok((stream, _)) = listener.accept() else {
            // There may be no more files to be opened: that passes.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        if CONNECTIONS.fetch_add(1, Ordering::SeqCst) >= MOST_CONNECTIONS {
            CONNECTIONS.fetch_sub(1, Ordering::SeqCst);
            // Into the system's own buffer, which is empty.
            let _ = stream.set_nonblocking(true);
            let _ = (&stream).write_all(&refused(BUSY));
            continue;
        }
        let (token, watcher) = (token.clone(), watcher.clone());
        let work = move || {
            let work = AssertUnwindSafe(|| answer(&stream, &token, &watcher));
            // Whoever is not answered sees the connection close.
            let _ = catch_unwind(work);
            CONNECTIONS.fetch_sub(1, Ordering::SeqCst);
        };
        if own_thread::spawn("mlprof-metrics-door", work).is_err() {
            CONNECTIONS.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn answer(stream: &TcpStream, token: &Token, watcher: &Watcher) -> io::Result<()> {
    let until = Instant::now() + PATIENCE;
    let asked = read(stream, token, until)?;
    let answer = match asked {
        Ok(Form::Text) => {
            found(text::CONTENT_TYPE, text::write(&families_and_devices(watcher)).as_bytes())
        }
        Ok(Form::Protobuf) => {
            found(protobuf::CONTENT_TYPE, &protobuf::write(&families_and_devices(watcher)))
        }
        Err(refusal) => refused(refusal),
    };
    write(stream, &answer, until)
}

fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn read(
    mut stream: &TcpStream,
    token: &Token,
    until: Instant,
) -> io::Result<Result<Form, Refusal>> {
    let (mut head, mut part) = (Vec::new(), [0; 1024]);
    loop {
        stream.set_read_timeout(Some(left(until)?))?;
        let bytes = stream.read(&mut part)?;
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&part[..bytes]);
        if let Some(asked) = request::read(&head, token) {
            return Ok(asked);
        }
    }
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
    fn who_does_not_read_is_dropped() {
        let (stream, client) = connected();
        // More than the system keeps for somebody.
        let answer = vec![0; 64 << 20];
        let until = Instant::now() + Duration::from_millis(100);
        let error = write(&stream, &answer, until).expect_err("nobody reads");
        assert!(is_late(&error), "{error:?}");
        drop(client);
    }

    #[test]
    fn who_asks_too_slowly_is_dropped() {
        let (stream, mut client) = connected();
        let until = Instant::now() + Duration::from_millis(200);
        let asking = std::thread::spawn(move || {
            // A byte now and then, of a head that has no end.
            while client.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let error = read(&stream, &Token::of("secret"), until).expect_err("no whole request");
        assert!(is_late(&error), "{error:?}");
        drop(stream);
        asking.join().expect("it ends");
    }
}
