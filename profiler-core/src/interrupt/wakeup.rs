//! Wakes an mlprof thread from a signal handler.
//!
//! The Linux version uses no file descriptor. A daemon that closes all open descriptors would close
//! it, and the program might then reuse its number.

use std::io;
use std::time::Duration;

/// Channel from signal handlers to one waiting thread. It transmits numbers below 32, and each is
/// kept until the thread takes it.
pub(crate) struct Wakeup(system::Bell);

/// Receiving side of a [`Wakeup`].
pub(crate) struct Waiter(system::Ear);

impl Wakeup {
    pub(crate) const fn new() -> Self {
        Self(system::Bell::new())
    }

    /// Discards unread numbers and creates the receiving side. It must be called once per process,
    /// before the first handler is installed.
    pub(crate) fn prepare(&'static self) -> io::Result<Waiter> {
        self.0.prepare().map(Waiter)
    }

    /// Sends `number` to the thread. Returns `false` if the thread cannot be reached.
    /// Async-signal-safe.
    pub(crate) fn ring(&self, number: u32) -> bool {
        self.0.ring(number)
    }
}

impl Waiter {
    /// Returns the smallest unread number, or `None` if none arrives in time.
    pub(crate) fn wait(&mut self, time: Option<Duration>) -> io::Result<Option<u32>> {
        self.0.wait(time)
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::io;
    use std::ptr;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};

    /// Bit set of unread numbers.
    ///
    /// *Invariants*:
    ///
    /// - Handlers set bits with `Release`. The only waiting thread takes them with `Acquire`, so it
    ///   sees everything that a handler stored before setting the bit.
    /// - The thread sleeps only while the kernel finds the word 0. A handler wakes it after setting
    ///   a bit, so no wake-up is lost.
    pub(super) struct Bell(AtomicU32);

    pub(super) struct Ear(&'static Bell);

    impl Bell {
        pub(super) const fn new() -> Self {
            Self(AtomicU32::new(0))
        }

        #[expect(clippy::unnecessary_wraps, reason = "elsewhere it can fail")]
        pub(super) fn prepare(&'static self) -> io::Result<Ear> {
            self.0.store(0, Ordering::Relaxed);
            Ok(Ear(self))
        }

        pub(super) fn ring(&self, number: u32) -> bool {
            self.0.fetch_or(1 << (number & 31), Ordering::Release);
            // SAFETY: `FUTEX_WAKE` only uses the word's address, and `self` outlives the call. A
            // system call is async-signal-safe.
            unsafe {
                let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
                libc::syscall(libc::SYS_futex, self.0.as_ptr(), operation, 1);
            }
            true
        }
    }

    impl Ear {
        pub(super) fn wait(&mut self, time: Option<Duration>) -> io::Result<Option<u32>> {
            // A deadline beyond the range of the clock is the same as none.
            let deadline = time.and_then(|time| Instant::now().checked_add(time));
            loop {
                let rung = self.0.0.load(Ordering::Acquire);
                if rung != 0 {
                    let number = rung.trailing_zeros();
                    self.0.0.fetch_and(!(1 << number), Ordering::Acquire);
                    return Ok(Some(number));
                }
                let left =
                    deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
                if left.is_some_and(|left| left.is_zero()) {
                    return Ok(None);
                }
                self.sleep(left);
            }
        }

        /// Sleeps until the word is not 0, `time` is over, or a spurious wake-up occurs.
        fn sleep(&self, time: Option<Duration>) {
            let time = time.map(|time| libc::timespec {
                tv_sec: time.as_secs().try_into().unwrap_or(libc::time_t::MAX),
                tv_nsec: time.subsec_nanos().into(),
            });
            let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
            // SAFETY: the word lives as long as `self`. The timeout is null, or points to a
            // `timespec` that outlives the call.
            unsafe {
                let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
                libc::syscall(libc::SYS_futex, self.0.0.as_ptr(), operation, 0, time);
            }
        }
    }
}

/// Implementation with a pair of sockets. Each use checks them first, because the program may have
/// closed and reused their descriptors.
#[cfg(all(unix, not(target_os = "linux")))]
mod system {
    use std::io::{self, Read};
    use std::mem::{ManuallyDrop, MaybeUninit};
    use std::os::fd::{AsRawFd, IntoRawFd, RawFd};
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
    use std::time::Duration;

    pub(super) struct Bell {
        descriptor: AtomicI32,
        /// Inode of the socket, which identifies it.
        inode: AtomicU64,
    }

    pub(super) struct Ear {
        /// Never closed, because the descriptor may belong to the program by then.
        socket: ManuallyDrop<UnixStream>,
        inode: u64,
    }

    impl Bell {
        pub(super) const fn new() -> Self {
            Self { descriptor: AtomicI32::new(-1), inode: AtomicU64::new(0) }
        }

        pub(super) fn prepare(&'static self) -> io::Result<Ear> {
            let (socket, teller) = UnixStream::pair()?;
            // A handler must never wait.
            teller.set_nonblocking(true)?;
            let inode = inode(socket.as_raw_fd()).ok_or_else(io::Error::last_os_error)?;
            let own = teller.into_raw_fd();
            self.inode.store(self::inode(own).unwrap_or(0), Ordering::SeqCst);
            self.descriptor.store(own, Ordering::SeqCst);
            Ok(Ear { socket: ManuallyDrop::new(socket), inode })
        }

        pub(super) fn ring(&self, number: u32) -> bool {
            let descriptor = self.descriptor.load(Ordering::SeqCst);
            if inode(descriptor) != Some(self.inode.load(Ordering::SeqCst)) {
                return false;
            }
            let byte = number as u8;
            // SAFETY: the pointer refers to one initialised local byte. `write` is
            // async-signal-safe.
            unsafe { libc::write(descriptor, (&raw const byte).cast(), 1) == 1 }
        }
    }

    impl Ear {
        pub(super) fn wait(&mut self, time: Option<Duration>) -> io::Result<Option<u32>> {
            if inode(self.socket.as_raw_fd()) != Some(self.inode) {
                return Err(io::ErrorKind::NotConnected.into());
            }
            let mut byte = [0_u8];
            self.socket.set_read_timeout(time)?;
            match self.socket.read_exact(&mut byte) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                read => read.map(|()| Some(u32::from(byte[0]))),
            }
        }
    }

    /// Returns the inode of a socket. Async-signal-safe.
    fn inode(descriptor: RawFd) -> Option<u64> {
        let mut of_it = MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: the pointer refers to a local `stat` that the call fills. All-zero is a valid
        // `stat`.
        let of_it = unsafe {
            if libc::fstat(descriptor, of_it.as_mut_ptr()) != 0 {
                return None;
            }
            of_it.assume_init()
        };
        (of_it.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(of_it.st_ino as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_takes_each_number_once_and_comes_back_in_time() {
        static WAKEUP: Wakeup = Wakeup::new();
        let mut waiter = WAKEUP.prepare().expect("a thread's end");
        let short = Some(Duration::from_millis(5));
        assert_eq!(waiter.wait(short).expect("it can wait"), None);
        let ringing = std::thread::spawn(|| assert!(WAKEUP.ring(15) && WAKEUP.ring(2)));
        ringing.join().expect("no panic");
        let mut taken = [(); 2].map(|()| waiter.wait(None).expect("it can wait"));
        taken.sort_unstable();
        assert_eq!(taken, [Some(2), Some(15)]);
        assert_eq!(waiter.wait(short).expect("it can wait"), None);
        // The second case is a thread that already sleeps.
        let ringing = std::thread::spawn(|| {
            std::thread::sleep(Duration::from_millis(20));
            WAKEUP.ring(0)
        });
        assert_eq!(waiter.wait(Some(Duration::from_secs(60))).expect("it can wait"), Some(0));
        assert!(ringing.join().expect("no panic"));
    }
}
