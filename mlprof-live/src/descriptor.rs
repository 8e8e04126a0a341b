//! File descriptors of this crate, in programs that close all descriptors or fork.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

/// Descriptor opened by this crate, together with the identity of its file. A program that becomes
/// a daemon may close all descriptors, and the number may then belong to one of its own files.
///
/// Single writer: the thread that opens and closes the file. It stores the inode before the number.
/// A reader that loads the number therefore sees the matching inode, or that of a later file.
pub(crate) struct Descriptor {
    number: AtomicI32,
    inode: AtomicU64,
}

impl Descriptor {
    pub(crate) const fn none() -> Self {
        Self { number: AtomicI32::new(-1), inode: AtomicU64::new(0) }
    }

    /// Stores an open descriptor.
    pub(crate) fn set(&self, number: RawFd) {
        self.inode.store(inode(number).unwrap_or_default(), Ordering::SeqCst);
        self.number.store(number, Ordering::SeqCst);
    }

    /// Stores an open descriptor if none is stored. Returns `true` if it was stored.
    pub(crate) fn set_if_none(&self, number: RawFd) -> bool {
        // Readers ignore the inode while the number is -1. Only one thread of each endpoint calls
        // this method, so the check and the store cannot race.
        if self.number.load(Ordering::SeqCst) >= 0 {
            return false;
        }
        self.set(number);
        true
    }

    /// Removes the stored descriptor without closing it. Returns its number, or -1 if none was
    /// stored.
    pub(crate) fn take(&self) -> RawFd {
        self.number.swap(-1, Ordering::SeqCst)
    }

    pub(crate) fn number(&self) -> RawFd {
        self.number.load(Ordering::SeqCst)
    }

    /// Returns `true` if the number still refers to the file for which it was stored.
    pub(crate) fn is_own(&self) -> bool {
        let number = self.number();
        number >= 0 && inode(number) == Some(self.inode.load(Ordering::SeqCst))
    }

    /// Closes the copy of the descriptor in a forked child. This method is async-signal-safe.
    pub(crate) fn close_in_child(&self) {
        let is_own = self.is_own();
        let number = self.take();
        if is_own {
            // SAFETY: `is_own` has checked that the number refers to the child's copy of this
            // crate's socket. Only threads of the parent use this socket, and the child has none of
            // them, so no code of the child uses the number.
            unsafe { libc::close(number) };
        }
    }
}

/// Returns the inode of a socket, or `None` if the number does not refer to a socket.
fn inode(number: RawFd) -> Option<u64> {
    // SAFETY: all-zero bytes are a valid `libc::stat`, which contains only integers.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `found` is valid for writes during the call. `fstat` accepts any descriptor number
    // and reports invalid ones as an error.
    let result = unsafe { libc::fstat(number, &raw mut found) };
    let is_socket = result == 0 && found.st_mode & libc::S_IFMT == libc::S_IFSOCK;
    is_socket.then_some(found.st_ino as u64)
}

/// Waits until a descriptor is readable or closed, and returns for each of them if it is. A signal
/// may end the wait early.
pub(crate) fn readable(numbers: impl IntoIterator<Item = RawFd>, within: Duration) -> Vec<bool> {
    let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut all: Vec<libc::pollfd> = numbers.into_iter().map(entry).collect();
    let milliseconds = libc::c_int::try_from(within.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the pointer and the length belong to the same `Vec` of initialised `pollfd`s. It is
    // borrowed exclusively and lives until the call returns.
    let result = unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, milliseconds) };
    if result < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
        // `poll` may fail temporarily, for example without free memory, so the thread sleeps
        // instead of spinning.
        std::thread::sleep(within.min(Duration::from_millis(100)));
    }
    all.iter().map(|entry| result > 0 && entry.revents != 0).collect()
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, IntoRawFd};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_number_that_is_another_files_is_not_ones_own() {
        let (one, two) = UnixStream::pair().expect("a pair");
        let number = one.as_raw_fd();
        let descriptor = Descriptor::none();
        assert!(!descriptor.is_own());
        assert!(descriptor.set_if_none(number) && !descriptor.set_if_none(two.as_raw_fd()));
        assert!(descriptor.is_own());
        // A program that closes all descriptors and opens its own files has the same effect as
        // `dup2`. Both numbers stay open, so no other test can reuse them. SAFETY: `dup2` takes two
        // open descriptors, and `one` still owns its number afterwards.
        assert_eq!(unsafe { libc::dup2(two.as_raw_fd(), number) }, number);
        assert!(!descriptor.is_own());
        descriptor.close_in_child();
        assert_eq!(descriptor.number(), -1);
        assert!(inode(one.into_raw_fd()).is_some(), "what is the program's own is not closed");
        let own = Descriptor::none();
        let number = two.into_raw_fd();
        own.set(number);
        own.close_in_child();
        assert_eq!(own.number(), -1);
    }

    #[test]
    fn readable_and_closed_descriptors_are_detected() {
        let pairs = [UnixStream::pair(), UnixStream::pair(), UnixStream::pair()];
        let [quiet, mut speaks, closes] = pairs.map(|pair| pair.expect("a pair"));
        io::Write::write_all(&mut speaks.1, b"x").expect("written");
        drop(closes.1);
        let numbers = [quiet.0.as_raw_fd(), speaks.0.as_raw_fd(), closes.0.as_raw_fd()];
        assert_eq!(readable(numbers, Duration::from_secs(60)), [false, true, true]);
        assert_eq!(readable([quiet.0.as_raw_fd()], Duration::ZERO), [false]);
    }
}
