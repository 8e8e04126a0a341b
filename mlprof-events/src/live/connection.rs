//! Reading and writing lines over a socket, and identification of the peer process.

use std::io::{self, BufRead, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use serde::Serialize;

/// Reads a line of at most `longest` bytes, without its line break. Returns `None` if the peer has
/// closed the connection.
///
/// # Errors
///
/// Returns [`InvalidData`](io::ErrorKind::InvalidData) if the line is longer; the rest of such a
/// line is not read. Also returns errors of the socket.
pub fn read_line(from: &mut impl BufRead, longest: u64) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    from.take(longest + 1).read_until(b'\n', &mut line)?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) if line.len() as u64 >= longest => {
            let message = format!("a line is longer than {longest} bytes");
            Err(io::Error::new(io::ErrorKind::InvalidData, message))
        }
        Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Writes a value as a line of JSON.
///
/// # Errors
///
/// Returns errors of the socket.
pub fn write_line(mut to: impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Process at the other end of a connection, as reported by the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Id of the process's user. In a user namespace all unmapped users share one id, see
    /// [`is_own_user`](super::is_own_user).
    pub user: u32,
    /// Process id in the PID namespace of the calling process. `None` if the process is not visible
    /// there, or the system does not report it.
    pub process: Option<u32>,
}

/// Returns the process at the other end: the one that connected, or that called `listen`.
///
/// # Errors
///
/// Returns errors of the system.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn peer(stream: &UnixStream) -> io::Result<Peer> {
    let mut peer = Credentials::default();
    let mut length = size_of::<Credentials>() as libc::socklen_t;
    // SAFETY: the descriptor is borrowed and open. `peer` and `length` are local and outlive the
    // call. `length` holds the size of `peer`, which has the layout of the kernel's `ucred`.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Peer { user: peer.user, process: u32::try_from(peer.process).ok().filter(|it| *it > 0) })
}

/// The kernel's `ucred`, which `libc` does not define for Android.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[repr(C)]
#[derive(Default)]
struct Credentials {
    process: i32,
    user: u32,
    _group: u32,
}

/// Returns the process at the other end: the one that connected, or that called `listen`.
///
/// # Errors
///
/// Returns errors of the system.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn peer(stream: &UnixStream) -> io::Result<Peer> {
    let (mut user, mut group) = (0, 0);
    // SAFETY: the descriptor is borrowed and open. Both pointers refer to local numbers that
    // outlive the call.
    let result = unsafe { libc::getpeereid(stream.as_raw_fd(), &raw mut user, &raw mut group) };
    if result == 0 { Ok(Peer { user, process: None }) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::own_user;

    #[test]
    fn lines_are_bounded() {
        let mut text = &b"one\n\nthree"[..];
        let mut line = || read_line(&mut text, 3);
        assert_eq!(line().expect("a line"), Some(b"one".to_vec()));
        assert_eq!(line().expect("a line"), Some(Vec::new()));
        let error = line().expect_err("five letters");
        assert_eq!(error.to_string(), "a line is longer than 3 bytes");
        assert_eq!(read_line(&mut &b""[..], 3).expect("the end"), None);
        let cut_off = read_line(&mut &b"on"[..], 3).expect_err("no end of the line");
        assert_eq!(cut_off.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn the_system_says_who_is_at_the_other_end() {
        let (one, _other) = UnixStream::pair().expect("a pair");
        let peer = peer(&one).expect("said");
        assert_eq!(peer.user, own_user());
        #[cfg(target_os = "linux")]
        assert_eq!(peer.process, Some(std::process::id()));
    }
}
