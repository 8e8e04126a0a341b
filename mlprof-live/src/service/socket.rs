//! The socket of this process: made, made again where it was removed, removed at the end, and not a
//! forked child's.

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

/// So many may ask at once.
pub(super) const MOST_CONNECTIONS: usize = 16;

/// How often the process looks whether its socket is still there. The system removes
/// `/run/user/{user}` at the user's last logout, and a training may go on.
const LOOK: Duration = Duration::from_secs(2);

/// The process that listens; 0 if none does.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// What a forked child has to close: as long as it has them open, nobody sees that its parent is gone.
static LISTENER: Descriptor = Descriptor::none();
static CONNECTIONS: [Descriptor; MOST_CONNECTIONS] =
    [const { Descriptor::none() }; MOST_CONNECTIONS];
/// The socket's file, which is removed at the end.
static FILE: OwnFile = OwnFile::none();

/// Whether this process listens, and not only the one that it is a forked child of.
pub(super) fn is_of_this_process() -> bool {
    PROCESS.load(Ordering::SeqCst) == std::process::id()
}

/// Makes the socket, if there is none, in the first of the folders that can be used, and the thread
/// that answers there.
pub(super) fn listen(folders: &'static [PathBuf]) -> Result<(), Error> {
    static LISTENING: Mutex<()> = Mutex::new(());
    let _listening = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
    if is_of_this_process() {
        return Ok(());
    }
    let listener = make(folders)?;
    own_thread::spawn("mlprof-live", move || serve(listener, folders)).map_err(|error| {
        // The socket was closed with the work of the thread.
        let path = FILE.path().unwrap_or_default();
        FILE.remove();
        LISTENER.take();
        Error::Socket { path, source: error }
    })?;
    static AT_END: Once = Once::new();
    AT_END.call_once(|| {
        // SAFETY: both functions do only what may be done in such handlers, and stay as long as the
        // library does. They fail only without memory: then the socket stays, which `mlprof ps`
        // removes.
        unsafe {
            libc::pthread_atfork(None, None, Some(forked));
            libc::atexit(exiting);
        }
    });
    PROCESS.store(std::process::id(), Ordering::SeqCst);
    Ok(())
}

/// Makes the socket.
fn make(folders: &[PathBuf]) -> Result<UnixListener, Error> {
    let identity = ProcessIdentity::own();
    // A child that is forked in between would keep it open.
    apart_from_forks(|| {
        in_first_usable(folders, |folder| match make_in(folder, &identity) {
            // Another copy of this crate has it: there is no use in a second socket elsewhere.
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

/// Ends what [`listen`] began: the socket is gone, and the thread ends.
pub(super) fn close() {
    if !is_of_this_process() {
        return;
    }
    PROCESS.store(0, Ordering::SeqCst);
    FILE.remove();
    let is_own = LISTENER.is_own();
    let listener = LISTENER.take();
    if is_own {
        // SAFETY: `shutdown` takes two integers. The thread that waits at this socket has it open,
        // and closes it when this has woken it.
        unsafe { libc::shutdown(listener, libc::SHUT_RDWR) };
    }
}

extern "C" fn exiting() {
    if is_of_this_process() {
        recorded::deliver_at_exit();
        FILE.remove();
    }
}

/// In a child, which has only the thread that forked.
extern "C" fn forked() {
    tallies::forked();
    // In a namespace of its own the child may have its parent's number.
    PROCESS.store(0, Ordering::SeqCst);
    LISTENER.close_in_child();
    CONNECTIONS.iter().for_each(Descriptor::close_in_child);
}

fn serve(mut listener: UnixListener, folders: &'static [PathBuf]) {
    let mut said = false;
    loop {
        let number = listener.as_raw_fd();
        let is_ready = readable([number], LOOK)[0];
        // Somebody has had it listen no more.
        if LISTENER.number() != number {
            return;
        }
        let is_own = LISTENER.is_own();
        if is_own && is_ready {
            match listener.accept() {
                Ok((stream, _)) => welcome(stream),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // There may be no more files to be opened: that passes.
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        } else if !is_own || !FILE.is_there() {
            match make(folders) {
                Ok(again) => {
                    let before = std::mem::replace(&mut listener, again);
                    if !is_own {
                        // The program has closed all descriptors: the number may be one of its own
                        // by now.
                        std::mem::forget(before);
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut said, true) {
                        say(format_args!(
                            "mlprof: nobody can look in any more, as the socket was removed: {error}"
                        ));
                    }
                    std::thread::sleep(LOOK);
                }
            }
        }
    }
}

/// Somebody has connected.
fn welcome(stream: UnixStream) {
    // Where connections are as their listener is.
    if stream.set_nonblocking(false).is_err() {
        return;
    }
    let refuse = |message: String| {
        let _ = stream.set_nonblocking(true);
        // Into the system's own buffer, which is empty. Whoever does not hear it sees the
        // connection close.
        let _ = write_line(&stream, &Answer::Error { message });
    };
    let peer = match peer(&stream) {
        // Root may do anything anyway.
        Ok(peer) if may_ask(peer.user, is_own_user) => peer,
        _ => return refuse("this process belongs to another user".to_owned()),
    };
    let Some(place) = Place::take(&stream) else {
        return refuse(format!("{MOST_CONNECTIONS} others ask this process at this moment"));
    };
    // Where there is no thread for it the connection closes.
    let _ = own_thread::spawn("mlprof-live-door", move || {
        connection::serve(&stream, peer);
        drop(place);
        drop(stream);
    });
}

fn may_ask(user: u32, is_own: impl Fn(u32) -> bool) -> bool {
    is_own(user) || user == 0
}

/// One of the connections that there may be.
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
