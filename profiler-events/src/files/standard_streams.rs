//! Standard output and standard error.

use std::io::{self, Write};

/// One of the process's streams for text. Written to, it [prints](print) each piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StandardStream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

impl Write for StandardStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        print(*self, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints text, behind what the program itself has printed before. No signal reaches the program:
/// not where nobody reads the stream any more, nor where it is a file that must not grow (`ulimit
/// -f`).
///
/// The text goes past the standard library's buffer. It would keep what could not be written, and
/// write it again when the process ends, where nothing blocks the signal.
///
/// # Errors
///
/// Those of the stream. A closed stream is none.
pub fn print(stream: StandardStream, text: &[u8]) -> io::Result<()> {
    match stream {
        StandardStream::Output => {
            let mut stream = io::stdout().lock();
            super::without_signals(|| stream.flush())?;
            write(&mut stream, text)
        }
        StandardStream::Error => write(&mut io::stderr().lock(), text),
    }
}

#[cfg(unix)]
fn write(stream: &mut impl std::os::fd::AsRawFd, text: &[u8]) -> io::Result<()> {
    use std::fs::File;
    use std::mem::ManuallyDrop;
    use std::os::fd::FromRawFd;

    // SAFETY: the `File` is never dropped, so it does not close the stream's descriptor; it is used
    // only while `stream` is borrowed.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(stream.as_raw_fd()) });
    match super::bounded_write::write_all(&file, text) {
        // As the standard library has it: a program may run without its streams.
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => Ok(()),
        written => written,
    }
}

#[cfg(not(unix))]
fn write(stream: &mut impl Write, text: &[u8]) -> io::Result<()> {
    stream.write_all(text)?;
    stream.flush()
}
