//! A report also when the process is ended by a signal.

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    pub(in crate::spliced) fn watch(_finish: fn(i32)) {}
    pub(in crate::spliced) fn leave() {}
}

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::{leave, watch};

#[cfg(target_os = "linux")]
pub(super) use linux::{leave, watch};

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{self, Read};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::sync::OnceLock;
    use std::time::Duration;

    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    use signal_hook::low_level;

    use crate::spliced::crash;
    use crate::{interrupt, own_thread};

    /// How often it is looked whether std handles faults, a millisecond apart.
    const LOOKS: u32 = 200;

    /// What we handle: signals, and the addresses of their handlers.
    static HANDLED: OnceLock<Vec<(i32, usize)>> = OnceLock::new();

    /// Calls `finish` with the signal when one comes that would end the process, then ends it so.
    /// Signals that the program handles or ignores before `main` are left alone; from a handler that
    /// it installs later on, its own exit is what brings the report.
    pub(in crate::spliced) fn watch(finish: fn(i32)) {
        let signals = [SIGINT, SIGTERM, SIGHUP, SIGQUIT].into_iter();
        let signals: Vec<_> = signals.filter(|signal| interrupt::is_default(*signal)).collect();
        let started = UnixStream::pair().and_then(|(told, teller)| {
            for signal in &signals {
                register(*signal, &teller)?;
            }
            let handlers = signals.iter().map(|signal| (*signal, interrupt::handler(*signal)));
            let handlers = HANDLED.get_or_init(|| handlers.collect());
            own_thread::spawn("mlprof-signals", move || wait(told, handlers, finish))?;
            crash::watch(teller.as_raw_fd());
            // The handlers write to it for the rest of the process.
            std::mem::forget(teller);
            Ok(())
        });
        if let Err(error) = started {
            eprintln!("mlprof: after Ctrl-C or a crash there will be no report: {error}");
        }
    }

    /// Another copy of this crate finds signals as they were, and watches them.
    pub(in crate::spliced) fn leave() {
        crash::leave();
        for (signal, address) in HANDLED.get().into_iter().flatten() {
            if interrupt::handler(*signal) == *address {
                // SAFETY: the default is what the signal did before; nothing else is done.
                unsafe { libc::signal(*signal, libc::SIG_DFL) };
            }
        }
    }

    fn register(signal: i32, teller: &UnixStream) -> io::Result<()> {
        let descriptor = teller.as_raw_fd();
        let process = std::process::id();
        let handler = move || {
            // A forked child has no thread that would read it: there the signal does what it does
            // without us.
            if std::process::id() != process {
                let _ = low_level::emulate_default_handler(signal);
                return;
            }
            let byte = signal as u8;
            // SAFETY: writes one byte that is there; the descriptor is open for the rest of the
            // process.
            unsafe { libc::write(descriptor, (&raw const byte).cast(), 1) };
        };
        // SAFETY: `getpid`, `write` and `emulate_default_handler` may be called in a handler.
        unsafe { low_level::register(signal, handler) }.map(|_| ())
    }

    fn wait(mut told: UnixStream, handlers: &[(i32, usize)], finish: fn(i32)) {
        let mut looks = 0..LOOKS;
        while let Ok(signal) = next(&mut told, &mut looks) {
            if crash::is_crash(signal) {
                finish(signal);
                crash::reported();
                continue;
            }
            // Somebody else has taken the signal over, or a training loop ends its step first.
            let is_ours = handlers.contains(&(signal, interrupt::handler(signal)));
            let is_awaited = [SIGINT, SIGTERM].contains(&signal) && interrupt::is_watched();
            if !is_ours || is_awaited {
                continue;
            }
            finish(signal);
            let _ = low_level::emulate_default_handler(signal);
        }
    }

    /// The next signal. Until std handles faults, that is looked after.
    fn next(told: &mut UnixStream, looks: &mut std::ops::Range<u32>) -> io::Result<i32> {
        let mut byte = [0_u8];
        while let Some(look) = looks.next() {
            told.set_read_timeout(Some(Duration::from_millis(1)))?;
            match told.read_exact(&mut byte) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(|()| i32::from(byte[0])),
            }
            if crash::watch_faults(look + 1 == LOOKS) {
                *looks = 0..0;
            }
        }
        told.set_read_timeout(None)?;
        told.read_exact(&mut byte).map(|()| i32::from(byte[0]))
    }
}
