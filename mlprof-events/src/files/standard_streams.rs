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
/// Those of the stream. A closed stream is none. A stream that is a file with a limit on its size takes
/// text of at most half of what the limit leaves: otherwise the program's own next line would end it.
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
    if let Some(limit) = size_limit() {
        check_room(&file, text.len() as u64, limit)?;
    }
    match super::bounded_write::write_all(&file, text) {
        // As the standard library has it: a program may run without its streams.
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => Ok(()),
        written => written,
    }
}

/// Returns the most bytes that a file may have (`ulimit -f`), if there is a limit.
#[cfg(unix)]
fn size_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid `rlimit` that lives until the call returns.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    #[allow(clippy::unnecessary_cast, reason = "FreeBSD's limits are signed")]
    (is_known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur as u64)
}

/// Refuses text that is longer than half of what `limit` leaves of a regular file.
#[cfg(unix)]
fn check_room(mut file: &std::fs::File, length: u64, limit: u64) -> io::Result<()> {
    use std::io::Seek;
    use std::os::fd::AsRawFd;

    let found = match file.metadata() {
        Ok(found) if found.is_file() => found,
        // Only files have such a limit; errors are those of the write.
        _ => return Ok(()),
    };
    // SAFETY: `F_GETFL` takes no argument and changes nothing; the descriptor is borrowed from `file`.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    let appends = flags >= 0 && flags & libc::O_APPEND != 0;
    let end = if appends { found.len() } else { file.stream_position()? };
    let left = limit.saturating_sub(end);
    if length <= left / 2 {
        return Ok(());
    }
    let reason = format!(
        "its {length} bytes would leave the program too little of the {left} bytes that the limit on the size \
         of files allows (ulimit -f)"
    );
    Err(io::Error::new(io::ErrorKind::FileTooLarge, reason))
}

/// Opens `/dev/null` in the place of those of the descriptors 0, 1 and 2 that are closed, as Rust's
/// runtime does before `main`. For functions that run earlier: a socket or a file that they opened
/// would have one of these numbers, and the program would print into it.
#[cfg(unix)]
pub fn occupy_standard_descriptors() {
    for number in 0..=2 {
        // SAFETY: `fcntl` reads the flags of a descriptor that may be closed.
        let is_closed = unsafe { libc::fcntl(number, libc::F_GETFD) } < 0;
        if is_closed {
            // SAFETY: a C string. The lowest number that is free, which is this one: the loop began
            // at 0. Inherited on purpose, as the standard descriptors are.
            unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
        }
    }
}

/// These systems give no numbers to streams.
#[cfg(not(unix))]
pub fn occupy_standard_descriptors() {}

#[cfg(not(unix))]
fn write(stream: &mut impl Write, text: &[u8]) -> io::Result<()> {
    stream.write_all(text)?;
    stream.flush()
}

#[cfg(all(test, unix, not(loom)))]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    #[test]
    fn text_leaves_the_program_half_of_what_a_limit_allows() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        let mut file = std::fs::File::create(&path).expect("created");
        let fits = |file: &std::fs::File, length| check_room(file, length, 2048).is_ok();
        assert!(fits(&file, 1024) && !fits(&file, 1025));
        file.write_all(&[b'x'; 1048]).expect("written");
        assert!(fits(&file, 500) && !fits(&file, 501));
        let appended = OpenOptions::new().append(true).open(&path).expect("opened");
        assert!(fits(&appended, 500) && !fits(&appended, 501), "its position is still 0");
        let (pipe, _writer) = io::pipe().expect("a pipe");
        let pipe = std::fs::File::from(std::os::fd::OwnedFd::from(pipe));
        assert!(fits(&pipe, 1 << 20), "pipes have no size");
    }
}
