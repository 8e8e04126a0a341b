//! The thread that does what a signal handler may not: it waits to be told.

use std::io::{self, Read};
use std::os::fd::IntoRawFd;
use std::os::raw::c_int;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::end::end_by;
use super::{REQUESTS, announce, reports, say};
use profiler_events::own_thread;

/// A report that is not delivered by then keeps nobody any longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The process that the thread belongs to; 0 if there is none. A forked child has no thread.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Where the handler writes.
static TELLER: AtomicI32 = AtomicI32::new(-1);

/// What the thread is told to do, as one byte.
#[derive(Clone, Copy)]
pub(super) enum Task {
    /// Say that a request was heard.
    Announce,
    /// Deliver all reports, and end the process by this signal.
    End(c_int),
}

/// Makes sure that there is a thread in this process.
pub(super) fn start() -> io::Result<()> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if is_of_this_process() {
        return Ok(());
    }
    let (told, teller) = UnixStream::pair()?;
    // The handler never waits.
    teller.set_nonblocking(true)?;
    own_thread::spawn("mlprof-interrupt", move || serve(told))?;
    // For the rest of the process: a handler may be about to write to it.
    TELLER.store(teller.into_raw_fd(), Ordering::SeqCst);
    PROCESS.store(std::process::id(), Ordering::SeqCst);
    Ok(())
}

/// Whether the thread belongs to this process, and not to the one that this is a forked child of.
/// May be called in a handler.
pub(super) fn is_of_this_process() -> bool {
    PROCESS.load(Ordering::SeqCst) == std::process::id()
}

/// Tells the thread. May be called in a handler.
pub(super) fn tell(task: Task) {
    let byte = match task {
        Task::Announce => 0,
        Task::End(signal) => signal as u8,
    };
    let teller = TELLER.load(Ordering::SeqCst);
    // SAFETY: writes one byte that is there; the descriptor is open for the rest of the process.
    unsafe { libc::write(teller, (&raw const byte).cast(), 1) };
}

fn serve(mut told: UnixStream) {
    let mut byte = [0_u8];
    while told.read_exact(&mut byte).is_ok() {
        match byte[0] {
            0 => announce(REQUESTS.load(Ordering::SeqCst)),
            signal => end(c_int::from(signal)),
        }
    }
}

fn end(signal: c_int) {
    let deliver = move || {
        let name = name(signal);
        say(&format!("{name}: the report comes first; a second signal ends the process at once"));
        reports::deliver_all(signal);
    };
    if !is_over_within(PATIENCE, deliver) {
        say("the report cannot be delivered: it is given up");
    }
    end_by(signal);
}

/// Whether `work` was over in time. It goes on, on a thread of its own, if it was not.
fn is_over_within(patience: Duration, work: impl FnOnce() + Send + 'static) -> bool {
    let (sender, receiver) = mpsc::channel::<()>();
    let worker = own_thread::spawn("mlprof-report", move || {
        let _until_over = sender;
        work();
    });
    // Nothing is sent: the channel closes when the work is over, and when there is no thread.
    worker.is_ok() && receiver.recv_timeout(patience) != Err(mpsc::RecvTimeoutError::Timeout)
}

fn name(signal: c_int) -> &'static str {
    match signal {
        libc::SIGINT => "interrupted (SIGINT)",
        libc::SIGTERM => "told to end (SIGTERM)",
        _ => "the terminal has gone (SIGHUP)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_not_waited_for() {
        let (_never, forever) = mpsc::channel::<()>();
        assert!(!is_over_within(Duration::from_millis(20), move || {
            let _ = forever.recv();
        }));
        assert!(is_over_within(PATIENCE, || ()));
        assert!(is_over_within(PATIENCE, || panic!("a report that panics")));
    }
}
