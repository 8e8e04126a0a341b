//! Prints reports while burn's terminal dashboard controls the terminal.
//!
//! On a terminal, burn's default renderer (its feature `tui`) draws on the alternate screen until
//! it is dropped. The renderer is part of the result, so this is long after the fit has ended.
//! Output printed meanwhile would be overdrawn and lost with that screen. A report is therefore
//! printed on the main screen, where it is visible after the dashboard closes.

/// RAII guard that switches to the main screen while it lives. It has no effect if no dashboard
/// controls the terminal.
///
/// *Cost*: one system call if standard output is not a terminal.
pub(crate) struct MainScreen {
    #[cfg(unix)]
    _open: Option<unix::Open<std::io::StdoutLock<'static>>>,
}

impl MainScreen {
    pub(crate) fn show() -> Self {
        Self {
            // Standard output stays locked, so that the dashboard cannot draw meanwhile. The lock
            // is reentrant, so this thread can still print.
            #[cfg(unix)]
            _open: unix::Open::of(libc::STDOUT_FILENO, || std::io::stdout().lock()),
        }
    }
}

#[cfg(unix)]
mod unix {
    use std::io::Write;
    use std::mem::MaybeUninit;
    use std::os::fd::RawFd;

    const LEAVE_ALTERNATE_SCREEN: &[u8] = b"\x1b[?1049l";
    const ENTER_ALTERNATE_SCREEN: &[u8] = b"\x1b[?1049h";

    /// RAII guard for a terminal in raw mode. Until it is dropped, the terminal shows its main
    /// screen and translates line breaks.
    pub(super) struct Open<W: Write> {
        terminal: RawFd,
        raw: libc::termios,
        output: W,
    }

    impl<W: Write> Open<W> {
        /// Switches `terminal` to its main screen. Returns `None` if it is not a terminal or not in
        /// raw mode, because no dashboard uses it then.
        pub(super) fn of(terminal: RawFd, output: impl FnOnce() -> W) -> Option<Self> {
            let mut settings = MaybeUninit::uninit();
            // SAFETY: the pointer refers to a local `termios` that is valid for writes. `tcgetattr`
            // accepts any file descriptor and fails for non-terminals. `assume_init` is reached
            // only if it returned 0, after it has initialised the struct.
            let raw: libc::termios = unsafe {
                if libc::tcgetattr(terminal, settings.as_mut_ptr()) != 0 {
                    return None;
                }
                settings.assume_init()
            };
            if raw.c_oflag & libc::OPOST != 0 {
                return None;
            }
            let mut open = Self { terminal, raw, output: output() };
            let mut breaks_lines = raw;
            breaks_lines.c_oflag |= libc::OPOST | libc::ONLCR;
            open.write(LEAVE_ALTERNATE_SCREEN);
            open.set(&breaks_lines);
            Some(open)
        }

        /// Writes and flushes `bytes`. Errors are ignored, because a terminal that cannot be
        /// written to shows nothing anyway.
        fn write(&mut self, bytes: &[u8]) {
            let _ = self.output.write_all(bytes).and_then(|()| self.output.flush());
        }

        fn set(&self, settings: &libc::termios) {
            // SAFETY: the reference points to an initialised `termios` from `tcgetattr` with at
            // most two changed flags. `tcsetattr` accepts any file descriptor. `TCSADRAIN` waits
            // until pending output was written with the old settings.
            unsafe { libc::tcsetattr(self.terminal, libc::TCSADRAIN, settings) };
        }
    }

    impl<W: Write> Drop for Open<W> {
        fn drop(&mut self) {
            let _ = self.output.flush();
            self.set(&self.raw);
            self.write(ENTER_ALTERNATE_SCREEN);
        }
    }

    #[cfg(test)]
    mod tests {
        #![allow(clippy::unwrap_used)]

        use std::fs::File;
        use std::io::Read;
        use std::os::fd::{AsRawFd, FromRawFd};

        use super::*;

        /// Opens a pseudo-terminal and returns both ends: the controlling end, which reads the
        /// output, and the program's end.
        fn terminal() -> (File, File) {
            let (mut shown, mut written) = (-1, -1);
            let none = std::ptr::null_mut();
            // SAFETY: the two integers are local and valid for writes, and null is allowed for the
            // other pointers. On success `openpty` stores two open file descriptors, which only the
            // returned `File`s own.
            unsafe {
                let failed =
                    libc::openpty(&mut shown, &mut written, none, none.cast(), none.cast());
                assert_eq!(failed, 0);
                (File::from_raw_fd(shown), File::from_raw_fd(written))
            }
        }

        fn settings(terminal: &File) -> libc::termios {
            let mut settings = MaybeUninit::uninit();
            // SAFETY: the pointer refers to a local `termios`. The assertion ensures that
            // `tcgetattr` has initialised it.
            unsafe {
                assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), settings.as_mut_ptr()), 0);
                settings.assume_init()
            }
        }

        #[test]
        fn a_report_goes_to_the_main_screen_with_whole_lines() {
            let (mut shown, written) = terminal();
            let mut raw = settings(&written);
            // SAFETY: `raw` is an initialised local `termios`, and the file descriptor of the
            // test's terminal is open.
            unsafe {
                libc::cfmakeraw(&mut raw);
                let failed = libc::tcsetattr(written.as_raw_fd(), libc::TCSANOW, &raw);
                assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
            }
            let reader = std::thread::spawn(move || {
                let mut all = Vec::new();
                let mut byte = [0];
                while !all.ends_with(ENTER_ALTERNATE_SCREEN) {
                    shown.read_exact(&mut byte).unwrap();
                    all.push(byte[0]);
                }
                (all, shown)
            });
            let open = Open::of(written.as_raw_fd(), || written.try_clone().unwrap()).unwrap();
            (&written).write_all(b"FIT Profiler Report\n|  rows\n").unwrap();
            drop(open);
            // The other end stays open, because a terminal with only one end has no settings.
            let (all, _shown) = reader.join().unwrap();
            let expected = "\x1b[?1049lFIT Profiler Report\r\n|  rows\r\n\x1b[?1049h";
            assert_eq!(String::from_utf8_lossy(&all), expected);
            assert_eq!(settings(&written).c_oflag & libc::OPOST, 0, "raw again");
        }

        #[test]
        fn a_terminal_that_nobody_has_is_left_alone() {
            let (_shown, written) = terminal();
            assert!(Open::of(written.as_raw_fd(), || written.try_clone().unwrap()).is_none());
            let file = tempfile::tempfile().unwrap();
            assert!(Open::of(file.as_raw_fd(), || file.try_clone().unwrap()).is_none());
        }
    }
}
