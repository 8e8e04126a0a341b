//! Descriptors of this crate, in programs that close all descriptors or fork.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

/// A descriptor that this crate has opened, and the file behind it. A program that becomes a daemon
/// closes all descriptors; from then on the number may be that of a file of its own.
///
/// Written by the thread that opens and closes the file. The inode is stored before the number, so
/// whoever reads a number reads the inode that belongs to it or to a later file.
pub(crate) struct Descriptor {
    number: AtomicI32,
    inode: AtomicU64,
}

impl Descriptor {
    pub(crate) const fn none() -> Self {
        Self { number: AtomicI32::new(-1), inode: AtomicU64::new(0) }
    }

    /// Remembers an open descriptor.
    pub(crate) fn set(&self, number: RawFd) {
        self.inode.store(inode(number).unwrap_or_default(), Ordering::SeqCst);
        self.number.store(number, Ordering::SeqCst);
    }

    /// Remembers an open descriptor if there is none, and returns whether it does.
    pub(crate) fn set_if_none(&self, number: RawFd) -> bool {
        // Nobody looks at the inode of a number that is not there, and only one thread of each
        // endpoint calls this.
        if self.number.load(Ordering::SeqCst) >= 0 {
            return false;
        }
        self.set(number);
        true
    }

    /// Forgets it, which does not close it, and returns its number; -1 if there was none.
    pub(crate) fn take(&self) -> RawFd {
        self.number.swap(-1, Ordering::SeqCst)
    }

    pub(crate) fn number(&self) -> RawFd {
        self.number.load(Ordering::SeqCst)
    }

    /// Returns whether the number still refers to the file that it was opened for.
    pub(crate) fn is_own(&self) -> bool {
        let number = self.number();
        number >= 0 && inode(number) == Some(self.inode.load(Ordering::SeqCst))
    }

    /// Closes a forked child's copy of it. Safe where only system calls are allowed.
    pub(crate) fn close_in_child(&self) {
        let is_own = self.is_own();
        let number = self.take();
        if is_own {
            // SAFETY: the number refers to the child's copy of a socket of this crate, which only
            // threads of the parent use; no thread of the child does.
            unsafe { libc::close(number) };
        }
    }
}

/// Inode of a socket; `None` if it is not the number of one.
fn inode(number: RawFd) -> Option<u64> {
    // SAFETY: a plain structure, for which all-zero is valid.
    let mut found: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `found` is writable during the call; any number may be passed.
    let result = unsafe { libc::fstat(number, &raw mut found) };
    let is_socket = result == 0 && found.st_mode & libc::S_IFMT == libc::S_IFSOCK;
    is_socket.then_some(found.st_ino as u64)
}

/// Waits until one of these descriptors can be read or is closed; returns for each whether it is.
/// Waits shorter if a signal comes.
pub(crate) fn readable(numbers: impl IntoIterator<Item = RawFd>, within: Duration) -> Vec<bool> {
    let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut all: Vec<libc::pollfd> = numbers.into_iter().map(entry).collect();
    let milliseconds = libc::c_int::try_from(within.as_millis()).unwrap_or(libc::c_int::MAX);
    // SAFETY: the array holds as many entries as its length says, and lives until the call returns.
    let result = unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, milliseconds) };
    if result < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
        // There may be no memory for it: that passes.
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
        // What a program that closes all descriptors does, and then opens its own. Both numbers
        // stay open, so no other test gets them. SAFETY: both are open numbers; `one` still owns
        // its number afterwards.
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
    fn what_can_be_read_is_seen_and_so_is_what_is_closed() {
        let pairs = [UnixStream::pair(), UnixStream::pair(), UnixStream::pair()];
        let [quiet, mut speaks, closes] = pairs.map(|pair| pair.expect("a pair"));
        io::Write::write_all(&mut speaks.1, b"x").expect("written");
        drop(closes.1);
        let numbers = [quiet.0.as_raw_fd(), speaks.0.as_raw_fd(), closes.0.as_raw_fd()];
        assert_eq!(readable(numbers, Duration::from_secs(60)), [false, true, true]);
        assert_eq!(readable([quiet.0.as_raw_fd()], Duration::ZERO), [false]);
    }
}
