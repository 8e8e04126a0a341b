//! Runs the user's command as a child process, forwards signals to it, and records how it ended.

use std::io;
use std::process::{Command, ExitStatus};

/// Result of the finished command.
pub struct Ended {
    /// Exit status reported by the system.
    pub status: ExitStatus,
    /// Process id.
    pub process: u32,
    /// Process name at the end, as reported by the system. `exec` changes this name.
    pub name: String,
}

/// Runs the command until it ends. Termination signals that reach only this process are forwarded.
///
/// # Errors
///
/// Returns an error if the command cannot be started.
#[cfg(unix)]
pub fn run(command: &mut Command) -> io::Result<Ended> {
    unix::run(command)
}

/// Runs the command until it ends, without signal forwarding.
///
/// # Errors
///
/// Returns an error if the command cannot be started.
#[cfg(not(unix))]
pub fn run(command: &mut Command) -> io::Result<Ended> {
    let mut child = command.spawn()?;
    let process = child.id();
    Ok(Ended { status: child.wait()?, process, name: String::new() })
}

/// Ends this process by the same termination signal that ended the command. A shell continues its
/// script after Ctrl-C unless the program was killed by that signal. Other signals, such as those
/// of a crash, are not repeated.
pub fn die_of(status: ExitStatus) {
    #[cfg(unix)]
    unix::die_of(status);
    #[cfg(not(unix))]
    let _ = status;
}

#[cfg(unix)]
mod unix {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Command, ExitStatus};
    use std::ptr;
    use std::sync::atomic::{AtomicI32, Ordering};

    use super::Ended;

    /// Termination signals from a terminal, a supervisor or a user.
    const SIGNALS: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

    /// Target of forwarded signals, as in `kill`: the negated id of the child's process group, or 0
    /// for our own group.
    static TARGET: AtomicI32 = AtomicI32::new(NOBODY);
    /// Signal that arrived before the child was started, or 0.
    static EARLY: AtomicI32 = AtomicI32::new(0);

    const NOBODY: i32 = i32::MAX;
    const OUR_GROUP: i32 = 0;

    /// Runs the command and forwards signals to it. In the foreground of a terminal, the child
    /// stays in our process group, which Ctrl-C reaches. Otherwise the child has its own group, so
    /// that it receives each signal only once, from us.
    pub(super) fn run(command: &mut Command) -> io::Result<Ended> {
        let has_own_group = !is_in_foreground();
        if has_own_group {
            command.process_group(0);
            tie_to_this_process(command);
        }
        let before = SIGNALS.map(handle);
        let ended = spawn(command, has_own_group);
        TARGET.store(NOBODY, Ordering::SeqCst);
        for (signal, action) in SIGNALS.iter().zip(&before) {
            // SAFETY: `action` points to a valid `sigaction` that an earlier `sigaction` call
            // filled in. The pointer for the previous action may be null.
            unsafe { libc::sigaction(*signal, action, ptr::null_mut()) };
        }
        ended
    }

    pub(super) fn die_of(status: ExitStatus) {
        let Some(signal) = status.signal().filter(|signal| SIGNALS.contains(signal)) else {
            return;
        };
        // Only the command should dump its core, so the core size of this process is set to 0.
        let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `no_core` is initialised and outlives the `setrlimit` call, which does not keep
        // the pointer. `signal` installs the default action and `raise` takes an integer, so no
        // handler is referenced.
        unsafe {
            libc::setrlimit(libc::RLIMIT_CORE, &raw const no_core);
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
    }

    fn spawn(command: &mut Command, has_own_group: bool) -> io::Result<Ended> {
        let mut child = command.spawn()?;
        let process = child.id();
        let target = if has_own_group { -process.cast_signed() } else { OUR_GROUP };
        TARGET.store(target, Ordering::SeqCst);
        let early = EARLY.swap(0, Ordering::SeqCst);
        if early != 0 {
            // SAFETY: `kill` takes two integers and no pointers.
            unsafe { libc::kill(target, early) };
        }
        let name = name_at_the_end(process);
        // The system may reuse the id after `wait`, so no signal is forwarded to it any more.
        TARGET.store(NOBODY, Ordering::SeqCst);
        Ok(Ended { status: child.wait()?, process, name })
    }

    /// Returns `true` if Ctrl-C in the terminal reaches this process group.
    fn is_in_foreground() -> bool {
        let Ok(terminal) = File::open("/dev/tty") else { return false };
        // SAFETY: both functions take no pointers, and `terminal` keeps the descriptor open during
        // the call.
        unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) == libc::getpgrp() }
    }

    /// Makes the kernel kill the command when this process dies. A `SIGKILL` cannot be forwarded,
    /// so the command would otherwise keep running.
    #[cfg(target_os = "linux")]
    fn tie_to_this_process(command: &mut Command) {
        // SAFETY: the closure runs between `fork` and `exec`. It only makes the `prctl` system
        // call, which is async-signal-safe, and neither allocates nor locks.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn tie_to_this_process(_command: &mut Command) {}

    /// Waits until the process has ended, but does not reap it. The system keeps the name of a
    /// process until it is reaped.
    fn name_at_the_end(process: u32) -> String {
        // SAFETY: all-zero bytes are a valid `siginfo_t`. The pointer to it is valid for writes
        // during the call. `WNOWAIT` leaves the child to be reaped by `Child::wait`.
        let waited = || unsafe {
            let mut information: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PID, process, &raw mut information, libc::WEXITED | libc::WNOWAIT)
        };
        while waited() != 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {}
        let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        name.trim_end().to_owned()
    }

    /// Installs the handler for a signal and returns the previous action. An ignored signal stays
    /// ignored, as under `nohup`.
    fn handle(signal: libc::c_int) -> libc::sigaction {
        // SAFETY: all-zero bytes are a valid `sigaction`. Both pointers refer to local variables
        // that outlive the calls. `on_signal` has the signature that `SA_SIGINFO` requires, and it
        // only uses atomics and `kill`, which are async-signal-safe.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, ptr::null(), &raw mut before);
            if before.sa_sigaction != libc::SIG_IGN {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_signal as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                libc::sigaction(signal, &raw const action, ptr::null_mut());
            }
            before
        }
    }

    unsafe extern "C" fn on_signal(
        signal: libc::c_int,
        information: *mut libc::siginfo_t,
        _context: *mut libc::c_void,
    ) {
        let target = TARGET.load(Ordering::SeqCst);
        // SAFETY: `SA_SIGINFO` guarantees that the system passes a valid `siginfo_t` for the
        // duration of the handler. `si_pid` is always initialised memory, and it is meaningful if
        // `si_code` shows that a process sent the signal. `getpid` has no preconditions.
        let (is_sent, is_own) =
            unsafe { ((*information).si_code <= 0, (*information).si_pid() == libc::getpid()) };
        if target == NOBODY {
            if is_sent {
                EARLY.store(signal, Ordering::SeqCst);
            }
        } else if target != OUR_GROUP || (is_sent && !is_own) {
            // A signal from the terminal has already reached the whole group, so only signals sent
            // by a process are forwarded. SAFETY: `kill` takes two integers and no pointers.
            unsafe { libc::kill(target, signal) };
        }
    }
}
