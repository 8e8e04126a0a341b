//! Writes that neither wait for ever nor end the process.
//!
//! A pipe that nobody reads from makes writers wait, a limit on the size of files (`ulimit -f`) ends
//! them by a signal: neither is for a profiler to bring upon a training.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// A file, device or pipe that is written as one goes.
#[derive(Debug)]
pub(super) struct BoundedFile(File);

impl BoundedFile {
    /// Opens what is there, or makes it if `options` say so. A pipe without a reader is an error.
    pub(super) fn open(options: &mut OpenOptions, path: &Path) -> io::Result<Self> {
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(options, libc::O_NONBLOCK | libc::O_NOCTTY);
        options.open(path).map(Self).map_err(explained)
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

/// Writes to a file, which may be one that is [opened](BoundedFile::open) so that nothing waits.
pub(super) fn write(mut file: &File, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match without_signals(|| file.write(bytes)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(file)?,
            written => return written.map_err(explained),
        }
    }
}

/// In words that say what to do.
fn explained(error: io::Error) -> io::Error {
    let reason = match error.kind() {
        io::ErrorKind::FileTooLarge => {
            "the file would be larger than this process may make files (`ulimit -f`)"
        }
        #[cfg(unix)]
        _ if error.raw_os_error() == Some(libc::ENXIO) => "nobody reads from this pipe",
        _ => return error,
    };
    io::Error::new(error.kind(), reason)
}

/// How long a reader may take before it reads on.
#[cfg(unix)]
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// Waits until something can be written.
#[cfg(unix)]
fn wait(file: &File) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    use std::time::Instant;

    let until = Instant::now() + PATIENCE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
        // SAFETY: one entry, of an open file.
        let ready = unsafe { libc::poll(&raw mut poll, 1, left.as_millis() as libc::c_int) };
        let error = io::Error::last_os_error();
        match ready {
            1.. => return Ok(()),
            0 => {
                let reason = format!("nobody has read from it for {} s", PATIENCE.as_secs());
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

/// Does what would make the system send the signals SIGXFSZ or SIGPIPE to this thread: they do not
/// come, what caused them has failed with an error anyway. For the process they stay what they are.
#[cfg(unix)]
pub(super) fn without_signals<T>(write: impl FnOnce() -> T) -> T {
    let _held_back = signals::HeldBack::begin();
    write()
}

/// Other systems send none.
#[cfg(not(unix))]
pub(super) fn without_signals<T>(write: impl FnOnce() -> T) -> T {
    write()
}

#[cfg(unix)]
mod signals {
    use std::mem::MaybeUninit;
    use std::ptr;

    use libc::{c_int, sigset_t};

    const SIGNALS: [c_int; 2] = [libc::SIGXFSZ, libc::SIGPIPE];

    /// Until this is dropped [`SIGNALS`] do not reach this thread, and those that came are forgotten.
    pub(super) struct HeldBack {
        before: sigset_t,
        /// Those that have been waiting already, for somebody else.
        waited: [bool; 2],
    }

    fn set_of(signals: &[c_int]) -> sigset_t {
        let mut set = MaybeUninit::<sigset_t>::uninit();
        // SAFETY: room for a set, which `sigemptyset` fills; the numbers are those of signals.
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in signals {
                libc::sigaddset(set.as_mut_ptr(), *signal);
            }
            set.assume_init()
        }
    }

    fn waiting() -> [bool; 2] {
        let mut set = set_of(&[]);
        // SAFETY: room for a set.
        unsafe { libc::sigpending(&raw mut set) };
        // SAFETY: a set that was filled.
        SIGNALS.map(|signal| unsafe { libc::sigismember(&raw const set, signal) } == 1)
    }

    impl HeldBack {
        pub(super) fn begin() -> Self {
            let (held_back, mut before) = (set_of(&SIGNALS), set_of(&[]));
            // SAFETY: two sets.
            unsafe {
                libc::pthread_sigmask(libc::SIG_BLOCK, &raw const held_back, &raw mut before);
            }
            Self { before, waited: waiting() }
        }
    }

    impl Drop for HeldBack {
        fn drop(&mut self) {
            let now = waiting();
            for (index, signal) in SIGNALS.iter().enumerate() {
                if now[index] && !self.waited[index] {
                    forget(*signal);
                }
            }
            // SAFETY: the set that was there before.
            unsafe {
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
            }
        }
    }

    /// Takes a signal that waits for this thread.
    fn forget(signal: c_int) {
        let set = set_of(&[signal]);
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: a set and a time; nobody wants to know more of the signal.
            unsafe { libc::sigtimedwait(&raw const set, ptr::null_mut(), &raw const at_once) };
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        {
            let mut taken = 0;
            // SAFETY: a set with a signal that waits, and room for its number.
            unsafe { libc::sigwait(&raw const set, &raw mut taken) };
        }
    }
}
