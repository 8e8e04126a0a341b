//! Checks the other end of a connection.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// Returns `true` if the peer has disconnected. Data that it has sent is not consumed.
pub(super) fn has_gone(stream: &UnixStream) -> bool {
    let mut byte = 0_u8;
    // SAFETY: `byte` is a local variable that is valid for a write of one byte during the call. The
    // stream keeps the descriptor open.
    let read = unsafe {
        libc::recv(
            stream.as_raw_fd(),
            (&raw mut byte).cast(),
            1,
            libc::MSG_PEEK | libc::MSG_DONTWAIT,
        )
    };
    match read {
        0 => true,
        1.. => false,
        _ => !matches!(
            io::Error::last_os_error().kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_closed_peer_is_detected() {
        let (here, there) = UnixStream::pair().expect("a pair");
        assert!(!has_gone(&here));
        (&there).write_all(b"x").expect("written");
        assert!(!has_gone(&here), "it has something to say");
        drop(there);
        let mut byte = [0];
        std::io::Read::read_exact(&mut &here, &mut byte).expect("what it said");
        assert!(has_gone(&here));
    }
}
