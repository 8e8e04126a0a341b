//! Socket of this process. It is restored if its file is removed, removed when the process ends,
//! and not shared with forked children.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Once, PoisonError};
use std::time::Duration;

use mlprof_core::output::say;
use mlprof_events::forking::{Mutex, apart_from_forks};
use mlprof_events::live::{
    self, Answer, ProcessIdentity, in_first_usable, is_own_user, peer, socket_of, write_line,
};
use mlprof_events::own_thread;

use super::{connection, recorded};
use crate::descriptor::{Descriptor, readable};
use crate::own_file::OwnFile;
use crate::{Error, tallies};

/// Maximum number of concurrent connections.
pub(super) const MOST_CONNECTIONS: usize = 16;

/// Interval at which the process checks its socket file. The system removes `/run/user/{user}` when
/// the user logs out completely, although a training may continue.
const LOOK: Duration = Duration::from_secs(2);

/// Id of the process that listens, or 0.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Descriptors that a forked child closes. If the child kept them open, clients would not notice
/// the parent's end.
static LISTENER: Descriptor = Descriptor::none();
static CONNECTIONS: [Descriptor; MOST_CONNECTIONS] =
    [const { Descriptor::none() }; MOST_CONNECTIONS];
/// Path of the socket file, which is removed when the process ends.
static FILE: OwnFile = OwnFile::none();

/// Returns `true` if this process listens, and not only its parent.
pub(super) fn is_of_this_process() -> bool {
    PROCESS.load(Ordering::SeqCst) == std::process::id()
}

/// Creates the socket in the first usable folder and starts its thread, unless this process already
/// listens.
pub(super) fn listen(folders: &'static [PathBuf]) -> Result<(), Error> {
    static LISTENING: Mutex<()> = Mutex::new(());
    let _listening = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
    if is_of_this_process() {
        return Ok(());
    }
    let listener = make(folders)?;
    own_thread::spawn("mlprof-live", move || serve(listener, folders)).map_err(|error| {
        // The listener was moved into the thread's closure, which was dropped, so the socket is
        // already closed.
        let path = FILE.path().unwrap_or_default();
        FILE.remove();
        LISTENER.take();
        Error::Socket { path, source: error }
    })?;
    static AT_END: Once = Once::new();
    AT_END.call_once(|| {
        // SAFETY: both handlers are `extern "C"` functions of this library and stay valid while it
        // is loaded. `forked` only uses atomics and system calls, as required in a forked child.
        // The registrations fail only if memory is exhausted. The socket file then remains, and
        // `mlprof ps` removes it.
        unsafe {
            libc::pthread_atfork(None, None, Some(forked));
            libc::atexit(exiting);
        }
    });
    PROCESS.store(std::process::id(), Ordering::SeqCst);
    Ok(())
}

/// Creates the socket.
fn make(folders: &[PathBuf]) -> Result<UnixListener, Error> {
    let identity = ProcessIdentity::own();
    // Forks are blocked meanwhile, because a forked child would keep the new socket open.
    apart_from_forks(|| {
        in_first_usable(folders, |folder| match make_in(folder, &identity) {
            // Another copy of this crate owns the socket, so a second one in another folder would
            // be useless.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                Ok(Err(Error::Socket { path: socket_of(folder, &identity), source: error }))
            }
            made => made.map(Ok),
        })?
    })
}

fn make_in(folder: &Path, identity: &ProcessIdentity) -> io::Result<UnixListener> {
    let listener = live::listen(folder, identity)?;
    listener.set_nonblocking(true)?;
    FILE.set(&socket_of(folder, identity))?;
    LISTENER.set(listener.as_raw_fd());
    Ok(listener)
}

/// Removes the socket and ends the thread that [`listen`] started.
pub(super) fn close() {
    if !is_of_this_process() {
        return;
    }
    PROCESS.store(0, Ordering::SeqCst);
    FILE.remove();
    let is_own = LISTENER.is_own();
    let listener = LISTENER.take();
    if is_own {
        // SAFETY: `shutdown` takes two integers and no pointers. The server thread owns the open
        // descriptor, and closes it only after this call has woken the thread.
        unsafe { libc::shutdown(listener, libc::SHUT_RDWR) };
    }
}

extern "C" fn exiting() {
    if is_of_this_process() {
        recorded::deliver_at_exit();
        FILE.remove();
    }
}

/// Runs in a forked child, which only has the forking thread.
extern "C" fn forked() {
    tallies::forked();
    // The id alone would be ambiguous, because a child in a new PID namespace may have its parent's
    // process id.
    PROCESS.store(0, Ordering::SeqCst);
    LISTENER.close_in_child();
    CONNECTIONS.iter().for_each(Descriptor::close_in_child);
}

fn serve(mut listener: UnixListener, folders: &'static [PathBuf]) {
    let mut said = false;
    loop {
        let number = listener.as_raw_fd();
        let is_ready = readable([number], LOOK)[0];
        // `close` was called.
        if LISTENER.number() != number {
            return;
        }
        let is_own = LISTENER.is_own();
        if is_own && is_ready {
            match listener.accept() {
                Ok((stream, _)) => welcome(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The process may have reached its limit of open files, which is usually temporary.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        } else if !is_own || !FILE.is_there() {
            match make(folders) {
                Ok(again) => {
                    let before = std::mem::replace(&mut listener, again);
                    if !is_own {
                        // The program has closed all descriptors, so this number may already belong
                        // to its own file and must not be closed.
                        std::mem::forget(before);
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut said, true) {
                        say(format_args!(
                            "mlprof: live inspection is off, because the socket was removed: {error}"
                        ));
                    }
                    std::thread::sleep(LOOK);
                }
            }
        }
    }
}

/// Accepts or rejects a new connection.
fn welcome(stream: UnixStream) {
    // On some systems, a connection inherits the listener's non-blocking mode.
    if stream.set_nonblocking(false).is_err() {
        return;
    }
    let refuse = |message: String| {
        let _ = stream.set_nonblocking(true);
        // The message fits into the socket's empty send buffer. If the write fails, the client sees
        // the connection close.
        let _ = write_line(&stream, &Answer::Error { message });
    };
    let peer = match peer(&stream) {
        // Root is accepted, because it can control any process anyway.
        Ok(peer) if may_ask(peer.user, is_own_user) => peer,
        _ => return refuse("this process belongs to another user".to_owned()),
    };
    let Some(place) = Place::take(&stream) else {
        return refuse(format!(
            "the process already has {MOST_CONNECTIONS} connections; try again later"
        ));
    };
    // If no thread can be started, the connection closes.
    let _ = own_thread::spawn("mlprof-live-door", move || {
        connection::serve(&stream, peer);
        drop(place);
        drop(stream);
    });
}

fn may_ask(user: u32, is_own: impl Fn(u32) -> bool) -> bool {
    is_own(user) || user == 0
}

/// Index of a connection slot.
struct Place(usize);

impl Place {
    fn take(stream: &UnixStream) -> Option<Self> {
        let number = stream.as_raw_fd();
        CONNECTIONS.iter().position(|place| place.set_if_none(number)).map(Self)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        CONNECTIONS[self.0].take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_user_and_root_may_ask() {
        let is_own = |own: u32| move |user: u32| user == own;
        assert!(may_ask(1000, is_own(1000)) && may_ask(0, is_own(1000)));
        assert!(!may_ask(1001, is_own(1000)) && !may_ask(1000, is_own(0)));
    }
}
