//! Reads and writes with a common deadline.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Connection whose reads and writes fail after a deadline, regardless of their number. A client
/// that sends or receives single bytes therefore cannot occupy a slot for longer.
pub(super) struct Timed<'stream> {
    stream: &'stream UnixStream,
    until: Cell<Instant>,
}

impl<'stream> Timed<'stream> {
    pub(super) fn new(stream: &'stream UnixStream, within: Duration) -> Self {
        Self { stream, until: Cell::new(Instant::now() + within) }
    }

    /// Sets a new deadline for the next reads and writes.
    pub(super) fn allow(&self, within: Duration) {
        self.until.set(Instant::now() + within);
    }

    pub(super) fn stream(&self) -> &'stream UnixStream {
        self.stream
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.get().saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for &Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        let mut stream = self.stream;
        stream.read(buffer)
    }
}

impl Write for &Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        let mut stream = self.stream;
        stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn is_late(error: &io::Error) -> bool {
        matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock)
    }

    #[test]
    fn a_byte_now_and_then_does_not_move_the_deadline() {
        let (here, there) = UnixStream::pair().expect("a pair");
        let timed = Timed::new(&here, Duration::from_millis(200));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut there = &there;
                while there.write_all(b"x").is_ok() {
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let error = (&timed).read_to_end(&mut Vec::new()).expect_err("it never ends");
            assert!(is_late(&error), "{error:?}");
            here.shutdown(std::net::Shutdown::Both).expect("open");
        });
        let (here, there) = UnixStream::pair().expect("a pair");
        let timed = Timed::new(&here, Duration::ZERO);
        timed.allow(Duration::from_millis(200));
        let answer = vec![0; 64 << 20];
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut there = &there;
                while !is_over.load(Ordering::Relaxed) && there.read(&mut [0; 16]).is_ok() {
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            let error = (&timed).write_all(&answer).expect_err("it is taken too slowly");
            is_over.store(true, Ordering::Relaxed);
            assert!(is_late(&error), "{error:?}");
        });
    }
}
