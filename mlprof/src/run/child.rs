//! The command as a process of its own: signals reach it, and how it ended is seen.

use std::io;
use std::process::{Command, ExitStatus};

/// How the command ended.
pub struct Ended {
    /// As the system tells.
    pub status: ExitStatus,
    /// Its number.
    pub process: u32,
    /// What the system called it in the end; `exec` changes it.
    pub name: String,
}

/// Runs the command until it ends. A signal that tells this process alone to end is handed on.
///
/// # Errors
///
/// If it cannot be run.
#[cfg(unix)]
pub fn run(command: &mut Command) -> io::Result<Ended> {
    unix::run(command)
}

/// As above, without signals.
///
/// # Errors
///
/// If it cannot be run.
#[cfg(not(unix))]
pub fn run(command: &mut Command) -> io::Result<Ended> {
    let mut child = command.spawn()?;
    let process = child.id();
    Ok(Ended { status: child.wait()?, process, name: String::new() })
}

/// Ends this process by the signal that has ended the command, if that is one of those that tell
/// programs to end: a shell goes on with its script after Ctrl-C unless what it runs has died of it.
/// Other signals are not this process's, which is no part of a crash.
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

    /// What a terminal, a supervisor or a user tells a program to end with.
    const SIGNALS: [libc::c_int; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

    /// To whom signals go on, as `kill` takes it: a group of the child's own, or 0 for ours.
    static TARGET: AtomicI32 = AtomicI32::new(NOBODY);
    /// One that came before there was a child.
    static EARLY: AtomicI32 = AtomicI32::new(0);

    const NOBODY: i32 = i32::MAX;
    const OUR_GROUP: i32 = 0;

    /// In the foreground of a terminal the child stays in our group, which is whom Ctrl-C reaches;
    /// everywhere else it has its own, so that it gets each signal once: from us.
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
            // SAFETY: the action is one that the system gave.
            unsafe { libc::sigaction(*signal, action, ptr::null_mut()) };
        }
        ended
    }

    pub(super) fn die_of(status: ExitStatus) {
        let Some(signal) = status.signal().filter(|signal| SIGNALS.contains(signal)) else {
            return;
        };
        // What dumps its core is the command.
        let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the limit is there during the call; the signal does what it does by default.
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
            // SAFETY: only sends a signal.
            unsafe { libc::kill(target, early) };
        }
        let name = name_at_the_end(process);
        Ok(Ended { status: child.wait()?, process, name })
    }

    /// Whether Ctrl-C of a terminal reaches this process's group.
    fn is_in_foreground() -> bool {
        let Ok(terminal) = File::open("/dev/tty") else { return false };
        // SAFETY: only asks, of a descriptor that is open.
        unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) == libc::getpgrp() }
    }

    /// Whoever kills our group by a signal that nobody can hand on means the command as well.
    #[cfg(target_os = "linux")]
    fn tie_to_this_process(command: &mut Command) {
        // SAFETY: the one system call may be made between `fork` and `exec`.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn tie_to_this_process(_command: &mut Command) {}

    /// Waits until the process has ended, and leaves it to be waited for: until then the system
    /// knows its name.
    fn name_at_the_end(process: u32) -> String {
        // SAFETY: all-zero is a valid `siginfo_t`, which is filled; nothing is taken away.
        let waited = || unsafe {
            let mut information: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PID, process, &raw mut information, libc::WEXITED | libc::WNOWAIT)
        };
        while waited() != 0 && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted {}
        let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
        name.trim_end().to_owned()
    }

    /// Takes a signal, unless it is ignored, as under `nohup`; what was done with it before.
    fn handle(signal: libc::c_int) -> libc::sigaction {
        // SAFETY: all-zero is a valid action; the system fills and reads it during the calls, and
        // the handler does only what handlers may do.
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
        // SAFETY: the system passes it, good for as long as the handler runs; of a signal that a
        // process sent it says which.
        let (is_sent, is_own) =
            unsafe { ((*information).si_code <= 0, (*information).si_pid() == libc::getpid()) };
        if target == NOBODY {
            if is_sent {
                EARLY.store(signal, Ordering::SeqCst);
            }
        } else if target != OUR_GROUP || (is_sent && !is_own) {
            // What comes from the terminal has reached the whole group.
            // SAFETY: only sends a signal.
            unsafe { libc::kill(target, signal) };
        }
    }
}
