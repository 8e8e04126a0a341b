//! A report also when the process is told to end by SIGINT or SIGTERM.

#[cfg(not(unix))]
pub(super) fn watch(_finish: fn()) {}

#[cfg(unix)]
pub(super) use unix::watch;

#[cfg(unix)]
mod unix {
    use std::io::{self, Read};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::low_level;

    use crate::interrupt;

    /// Calls `finish` when a signal comes that would end the process, then ends it so. Signals that
    /// the program handles or ignores before `main` are left alone; from a handler that it installs
    /// later on, its own exit is what brings the report.
    pub(in crate::spliced) fn watch(finish: fn()) {
        let signals: Vec<_> =
            [SIGINT, SIGTERM].into_iter().filter(|signal| interrupt::is_default(*signal)).collect();
        if signals.is_empty() {
            return;
        }
        let started = UnixStream::pair().and_then(|(told, teller)| {
            for signal in &signals {
                register(*signal, &teller)?;
            }
            let handlers = signals.iter().map(|signal| (*signal, interrupt::handler(*signal)));
            let handlers: Vec<_> = handlers.collect();
            let thread = std::thread::Builder::new().name("mlprof-signals".to_owned());
            thread.spawn(move || wait(told, &handlers, finish))?;
            // The handlers write to it for the rest of the process.
            std::mem::forget(teller);
            Ok(())
        });
        if let Err(error) = started {
            eprintln!("mlprof: after Ctrl-C there will be no report: {error}");
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

    fn wait(mut told: UnixStream, handlers: &[(i32, usize)], finish: fn()) {
        let mut byte = [0_u8];
        while told.read_exact(&mut byte).is_ok() {
            let signal = i32::from(byte[0]);
            // Somebody else has taken the signal over, or a training loop ends its step first.
            let is_ours = handlers.contains(&(signal, interrupt::handler(signal)));
            if !is_ours || interrupt::is_watched() {
                continue;
            }
            finish();
            let _ = low_level::emulate_default_handler(signal);
        }
    }
}
