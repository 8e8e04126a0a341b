//! Printing while burn's terminal dashboard has the terminal.
//!
//! burn's default renderer on a terminal (its feature `tui`) draws on the alternate screen until it
//! is dropped, which is long after a fit has ended: it is part of the result. What is printed
//! meanwhile would be drawn over, and gone with that screen. So a report is printed on the main
//! screen, where it stands when the dashboard closes.

/// The main screen, for as long as this lives; nothing where no dashboard has the terminal.
///
/// *Cost*: one system call if standard output is no terminal.
pub(crate) struct MainScreen {
    #[cfg(unix)]
    _open: Option<unix::Open<std::io::StdoutLock<'static>>>,
}

impl MainScreen {
    pub(crate) fn show() -> Self {
        Self {
            // Locked, so that the dashboard draws nothing in between; this thread may still print.
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

    /// A terminal in raw mode that shows its main screen and breaks lines, until this is dropped.
    pub(super) struct Open<W: Write> {
        terminal: RawFd,
        raw: libc::termios,
        output: W,
    }

    impl<W: Write> Open<W> {
        /// `None` if `terminal` is none, or is not in raw mode: then no dashboard has it.
        pub(super) fn of(terminal: RawFd, output: impl FnOnce() -> W) -> Option<Self> {
            let mut settings = MaybeUninit::uninit();
            // SAFETY: `tcgetattr` fills the settings, or fails: for what is no terminal, too.
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

        /// A terminal that cannot be written to shows nothing, whatever we do.
        fn write(&mut self, bytes: &[u8]) {
            let _ = self.output.write_all(bytes).and_then(|()| self.output.flush());
        }

        fn set(&self, settings: &libc::termios) {
            // SAFETY: the settings are those that `tcgetattr` gave, but for two flags. Waits until
            // what was written has been taken with the settings before.
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

        /// The two ends of a terminal: what is shown, and what a program writes to.
        fn terminal() -> (File, File) {
            let (mut shown, mut written) = (-1, -1);
            let none = std::ptr::null_mut();
            // SAFETY: fills the two numbers with open files that nobody else owns.
            unsafe {
                let failed =
                    libc::openpty(&mut shown, &mut written, none, none.cast(), none.cast());
                assert_eq!(failed, 0);
                (File::from_raw_fd(shown), File::from_raw_fd(written))
            }
        }

        fn settings(terminal: &File) -> libc::termios {
            let mut settings = MaybeUninit::uninit();
            // SAFETY: `tcgetattr` fills the settings of a terminal.
            unsafe {
                assert_eq!(libc::tcgetattr(terminal.as_raw_fd(), settings.as_mut_ptr()), 0);
                settings.assume_init()
            }
        }

        #[test]
        fn a_report_goes_to_the_main_screen_with_whole_lines() {
            let (mut shown, written) = terminal();
            let mut raw = settings(&written);
            // SAFETY: changes settings in memory, and then those of our own terminal.
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
            // Kept open: a terminal with one end has no settings.
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
