//! Printing to standard output and standard error.

use std::io::{self, Write};

/// A standard stream of the process for text. Each write to it [prints](print) one piece.
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

/// Prints text after the program's own earlier output. The program receives no signal, even if the
/// stream is a pipe without a reader or a file at its size limit (`ulimit -f`).
///
/// The text bypasses the standard library's buffer. That buffer would keep text that could not be
/// written and write it again at process exit, where the signal is not blocked.
///
/// # Errors
///
/// Returns the errors of the stream. A closed stream is not an error. If the stream is a file with
/// a size limit, the text may use at most half of the remaining space. Otherwise the program's own
/// next line could end the program.
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

    // SAFETY: the descriptor is open while `stream` is borrowed, and `file` is used only during
    // that time. `ManuallyDrop` keeps the `File` from closing the descriptor, which it does not
    // own.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(stream.as_raw_fd()) });
    if let Some(limit) = size_limit() {
        check_room(&file, text.len() as u64, limit)?;
    }
    match super::bounded_write::write_all(&file, text) {
        // A closed stream is ignored, as in the standard library, because a program may run without
        // its streams.
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => Ok(()),
        written => written,
    }
}

/// Returns the maximum size of a file in bytes (`ulimit -f`), if there is a limit.
#[cfg(unix)]
fn size_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid `rlimit` that outlives the call.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    #[allow(clippy::unnecessary_cast, reason = "FreeBSD's limits are signed")]
    (is_known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur as u64)
}

/// Returns an error if the text is longer than half of the space that `limit` leaves in a regular
/// file.
#[cfg(unix)]
fn check_room(mut file: &std::fs::File, length: u64, limit: u64) -> io::Result<()> {
    use std::io::Seek;
    use std::os::fd::AsRawFd;

    let found = match file.metadata() {
        Ok(found) if found.is_file() => found,
        // Only regular files have such a limit. An error here is ignored, because the write reports
        // it.
        _ => return Ok(()),
    };
    // SAFETY: `F_GETFL` takes no argument and changes no state. The descriptor is borrowed from
    // `file`.
    let flags = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) };
    let appends = flags >= 0 && flags & libc::O_APPEND != 0;
    let end = if appends { found.len() } else { file.stream_position()? };
    let left = limit.saturating_sub(end);
    if length <= left / 2 {
        return Ok(());
    }
    let reason = format!(
        "its {length} bytes would leave the program too few of the {left} bytes within the limit \
         on the size of files (ulimit -f)"
    );
    Err(io::Error::new(io::ErrorKind::FileTooLarge, reason))
}

/// Opens `/dev/null` for each of the descriptors 0, 1 and 2 that is closed, as Rust's runtime does
/// before `main`. Functions that run before `main` need this. Otherwise a socket or file that they
/// open could get one of these numbers, and the program would print into it.
#[cfg(unix)]
pub fn occupy_standard_descriptors() {
    for number in 0..=2 {
        // SAFETY: `F_GETFD` takes a number, which may be that of a closed descriptor, and only
        // reads its flags.
        let is_closed = unsafe { libc::fcntl(number, libc::F_GETFD) } < 0;
        if is_closed {
            // SAFETY: the path is a NUL-terminated C string. `open` returns the lowest free number,
            // which is `number` because the loop starts at 0. The descriptor is inherited on
            // purpose, like the standard descriptors.
            unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) };
        }
    }
}

/// Returns at once, because streams have no numbers on these systems.
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
