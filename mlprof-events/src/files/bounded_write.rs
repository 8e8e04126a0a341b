//! Writes that neither wait forever nor terminate the process.
//!
//! A pipe without a reader makes writers wait, and a limit on the file size (`ulimit -f`)
//! terminates them with a signal. A profiler must do neither to a training run.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use super::signals::without_signals;

/// A file, device or pipe that is written in place.
#[derive(Debug)]
pub(super) struct BoundedFile(File);

impl BoundedFile {
    /// Opens `path` with `options` and additional flags of `open(2)`. A pipe without a reader is an
    /// error.
    pub(super) fn open(options: &mut OpenOptions, flags: i32, path: &Path) -> io::Result<Self> {
        #[cfg(unix)]
        {
            let flags = flags | libc::O_NONBLOCK | libc::O_NOCTTY;
            std::os::unix::fs::OpenOptionsExt::custom_flags(options, flags);
        }
        #[cfg(not(unix))]
        let _ = flags;
        options.open(path).map(Self).map_err(explained)
    }

    pub(super) fn file(&self) -> &File {
        &self.0
    }
}

impl Write for BoundedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write(&self.0, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes to an open file. If the write would block, waits for at most five seconds.
pub(super) fn write(mut file: &File, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match without_signals(|| file.write(bytes)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(file)?,
            written => return written.map_err(explained),
        }
    }
}

/// Writes all of `bytes`, waiting like [`write`].
pub(super) fn write_all(file: &File, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match write(file, bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Replaces the texts of some errors by clearer explanations.
fn explained(error: io::Error) -> io::Error {
    let reason = match error.kind() {
        io::ErrorKind::FileTooLarge => {
            "the file would exceed the limit on the size of files (`ulimit -f`)"
        }
        #[cfg(unix)]
        _ if error.raw_os_error() == Some(libc::ENXIO) => "this pipe has no reader",
        _ => return error,
    };
    io::Error::new(error.kind(), reason)
}

/// Maximum time without progress before a write to a pipe fails.
#[cfg(unix)]
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// Waits until the file is writable, for at most [`PATIENCE`].
#[cfg(unix)]
fn wait(file: &File) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    use std::time::Instant;

    let until = Instant::now() + PATIENCE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: the pointer refers to one local, initialised entry, and the count is 1. The
        // entry's descriptor stays open while `file` is borrowed.
        let ready = unsafe { libc::poll(&raw mut poll, 1, left.as_millis() as libc::c_int) };
        let error = io::Error::last_os_error();
        match ready {
            1.. => return Ok(()),
            0 => {
                let reason = format!("the pipe was not read for {} s", PATIENCE.as_secs());
                return Err(io::Error::new(io::ErrorKind::TimedOut, reason));
            }
            _ if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return Err(error),
        }
    }
}

#[cfg(not(unix))]
fn wait(_file: &File) -> io::Result<()> {
    Err(io::ErrorKind::WouldBlock.into())
}
