//! A report also when the process is ended by a signal.

/// How long a program runs before its results are written for the first time.
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

    /// How often it is looked whether std handles faults, a millisecond apart.
    const LOOKS: u32 = 200;

    /// The address of our handler of SIGQUIT, if that is handled.
    static HANDLED: OnceLock<usize> = OnceLock::new();

    /// Whoever else reports before SIGINT, SIGTERM and SIGHUP end the process is first.
    static AT_THE_END: Mutex<Option<AtTheEnd>> = Mutex::new(None);

    fn set_at_the_end(last: Option<AtTheEnd>) {
        *AT_THE_END.lock().unwrap_or_else(PoisonError::into_inner) = last;
    }

    /// Calls `finish` with the signal when one comes that would end the process, then ends it so.
    /// Signals that the program handles or ignores before `main` are left alone; from a handler that
    /// it installs later on, its own exit is what brings the report. Meanwhile `spill` is called again
    /// and again, after a tenth of a second and then after what it says; `None`: no more.
    ///
    /// To be called once for each process: again in a forked child whose calls are measured.
    pub(in crate::spliced) fn watch(finish: fn(i32), spill: fn() -> Option<Duration>) {
        // First without the one of a forked child's parent, whose function is the same.
        set_at_the_end(None);
        set_at_the_end(Some(AtTheEnd::call(finish)));
        let started = crash::prepare().and_then(|told| {
            let mut waiting =
                Waiting { told, looks: 0..LOOKS, until_spill: Some(FIRST_SPILL), spill };
            own_thread::spawn("mlprof-signals", move || waiting.wait(finish))?;
            crash::watch();
            // Where the system drops the signal the program goes on, measured, as it does without
            // us.
            if interrupt::is_default(SIGQUIT) && !interrupt::drops_signals() {
                register(SIGQUIT)?;
                let _ = HANDLED.set(interrupt::handler(SIGQUIT));
            }
            Ok(())
        });
        if let Err(error) = started {
            output::say(format_args!(
                "mlprof: cannot watch for crashes: {error}. The results are written when the process ends by itself, and not before."
            ));
        }
    }

    /// Another copy of this crate finds signals as they were, and watches them.
    pub(in crate::spliced) fn leave() {
        set_at_the_end(None);
        crash::leave();
        if HANDLED.get() == Some(&interrupt::handler(SIGQUIT)) {
            // SAFETY: the default is what the signal did before; nothing else is done.
            unsafe { libc::signal(SIGQUIT, libc::SIG_DFL) };
        }
    }

    /// Has the system call [`handle`] for a signal.
    fn register(signal: c_int) -> io::Result<()> {
        let handler: extern "C" fn(c_int) = handle;
        // SAFETY: all-zero is a valid `sigaction`: no flags, and an empty set of signals.
        let mut action = unsafe { MaybeUninit::<libc::sigaction>::zeroed().assume_init() };
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
        // SAFETY: the action is whole and outlives the call. Its handler takes one argument, as is
        // right without SA_SIGINFO, and calls only what may be called in one.
        match unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    extern "C" fn handle(signal: c_int) {
        keeping_errno(|| {
            // A forked child may have no thread that would take it: there the signal does what it
            // does without us.
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

    /// What the thread that makes reports waits for.
    struct Waiting {
        told: Waiter,
        /// Whether std handles faults is still to be looked after.
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
                // Unless somebody else has taken the signal over.
                if HANDLED.get() == Some(&interrupt::handler(signal)) {
                    finish(signal);
                    end_by(signal);
                }
            }
        }

        /// The next signal.
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

        /// The next signal, if it comes in time.
        fn within(&mut self, time: Option<Duration>) -> io::Result<Option<i32>> {
            Ok(self.told.wait(time)?.map(|signal| signal as i32))
        }
    }
}
