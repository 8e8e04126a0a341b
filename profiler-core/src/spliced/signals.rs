//! Report when a signal ends the process.

/// Run time before the results are written for the first time.
#[cfg(any(target_os = "linux", test))]
pub(super) const FIRST_SPILL: std::time::Duration = std::time::Duration::from_millis(100);

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::time::Duration;

    pub(in crate::spliced) fn watch(_finish: fn(i32), _spill: fn() -> Option<Duration>) {}
    pub(in crate::spliced) fn leave() {}
    pub(in crate::spliced) fn name(_signal: i32) -> Option<&'static str> {
        None
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::{leave, name, watch};

#[cfg(target_os = "linux")]
pub(super) use linux::{leave, name, watch};

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::c_int;
    use std::io;
    use std::mem::MaybeUninit;
    use std::ops::Range;
    use std::sync::{Mutex, OnceLock, PoisonError};
    use std::time::Duration;

    use libc::SIGQUIT;

    use super::FIRST_SPILL;
    use crate::interrupt::{self, AtTheEnd, Waiter, end_by};
    use crate::output;
    use crate::spliced::crash;
    use mlprof_events::errno::keeping_errno;
    use mlprof_events::own_thread;

    /// Number of checks, one millisecond apart, for std's fault handlers.
    const LOOKS: u32 = 200;

    /// Address of the profiler's SIGQUIT handler, if it is installed.
    static HANDLED: OnceLock<usize> = OnceLock::new();

    /// Registration of the final report for SIGINT, SIGTERM and SIGHUP. Other code that reports
    /// before these signals end the process runs first.
    static AT_THE_END: Mutex<Option<AtTheEnd>> = Mutex::new(None);

    fn set_at_the_end(last: Option<AtTheEnd>) {
        *AT_THE_END.lock().unwrap_or_else(PoisonError::into_inner) = last;
    }

    /// Watches for signals that would end the process. Calls `finish` with such a signal and then
    /// ends the process by it. Signals that the program handles or ignores before `main` are left
    /// alone. If the program installs a handler later, the report is made when that handler exits.
    /// Meanwhile `spill` is called repeatedly, first after a tenth of a second and then after the
    /// time that it returned. `None` stops it.
    ///
    /// Must be called once per process, and again in a forked child with measured calls.
    pub(in crate::spliced) fn watch(finish: fn(i32), spill: fn() -> Option<Duration>) {
        // A forked child first removes its parent's registration, which has the same function.
        set_at_the_end(None);
        set_at_the_end(Some(AtTheEnd::call(finish)));
        let started = crash::prepare().and_then(|told| {
            let mut waiting =
                Waiting { told, looks: 0..LOOKS, until_spill: Some(FIRST_SPILL), spill };
            own_thread::spawn("mlprof-signals", move || waiting.wait(finish))?;
            crash::watch();
            // If the system drops the signal, the program continues and stays measured, as it would
            // without the profiler.
            if interrupt::is_default(SIGQUIT) && !interrupt::drops_signals() {
                register(SIGQUIT)?;
                let _ = HANDLED.set(interrupt::handler(SIGQUIT));
            }
            Ok(())
        });
        if let Err(error) = started {
            output::say(format_args!(
                "mlprof: cannot handle crashes: {error}. Results are written only when the process \
                 ends normally."
            ));
        }
    }

    /// Restores the signals, because another copy of this crate will watch them.
    pub(in crate::spliced) fn leave() {
        set_at_the_end(None);
        crash::leave();
        if HANDLED.get() == Some(&interrupt::handler(SIGQUIT)) {
            // SAFETY: the call only restores the default action, which the signal had before.
            unsafe { libc::signal(SIGQUIT, libc::SIG_DFL) };
        }
    }

    /// Installs [`handle`] as the handler of a signal.
    fn register(signal: c_int) -> io::Result<()> {
        let handler: extern "C" fn(c_int) = handle;
        // SAFETY: an all-zero `sigaction` is valid: no flags and an empty signal set.
        let mut action = unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() };
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        // SAFETY: the action is fully initialised and outlives the call. The handler has one
        // argument, as required without SA_SIGINFO, and is async-signal-safe.
        match unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    extern "C" fn handle(signal: c_int) {
        keeping_errno(|| {
            // A forked child may lack the thread that would make the report. The signal then has
            // its default effect.
            if !crash::is_of_this_process() {
                end_by(signal);
            }
            crash::wake(signal);
        });
    }

    /// Returns the name of a signal that this module or [`crash`] handles.
    pub(in crate::spliced) fn name(signal: c_int) -> Option<&'static str> {
        Some(match signal {
            libc::SIGABRT => "SIGABRT",
            libc::SIGBUS => "SIGBUS",
            libc::SIGFPE => "SIGFPE",
            libc::SIGHUP => "SIGHUP",
            libc::SIGILL => "SIGILL",
            libc::SIGINT => "SIGINT",
            libc::SIGQUIT => "SIGQUIT",
            libc::SIGSEGV => "SIGSEGV",
            libc::SIGTERM => "SIGTERM",
            _ => return None,
        })
    }

    /// State of the thread that makes reports.
    struct Waiting {
        told: Waiter,
        /// Remaining checks for std's fault handlers.
        looks: Range<u32>,
        until_spill: Option<Duration>,
        spill: fn() -> Option<Duration>,
    }

    impl Waiting {
        fn wait(&mut self, finish: fn(i32)) {
            while let Ok(signal) = self.next() {
                if crash::is_crash(signal) {
                    finish(signal);
                    crash::reported();
                    continue;
                }
                // The signal is left alone if other code has replaced the handler.
                if HANDLED.get() == Some(&interrupt::handler(signal)) {
                    finish(signal);
                    end_by(signal);
                }
            }
        }

        /// Waits for the next signal and returns it.
        fn next(&mut self) -> io::Result<i32> {
            while let Some(look) = self.looks.next() {
                if let Some(signal) = self.within(Some(Duration::from_millis(1)))? {
                    return Ok(signal);
                }
                if crash::watch_faults(look + 1 == LOOKS) {
                    self.looks = 0..0;
                }
            }
            loop {
                if let Some(signal) = self.within(self.until_spill)? {
                    return Ok(signal);
                }
                self.until_spill = (self.spill)();
            }
        }

        /// Returns the next signal if it arrives within `time`.
        fn within(&mut self, time: Option<Duration>) -> io::Result<Option<i32>> {
            Ok(self.told.wait(time)?.map(|signal| signal as i32))
        }
    }
}
