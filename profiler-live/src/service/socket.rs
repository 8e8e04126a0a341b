//! The socket of this process: made, removed at its end, and not a forked child's.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

use profiler_events::forking::Mutex;
use profiler_events::live::{Answer, own_user, peer_user, write_line};
use profiler_events::own_thread;

use super::{connection, recorded};
use crate::tallies;

/// So many may ask at once.
pub(super) const MOST_CONNECTIONS: usize = 16;

/// The process that listens; 0 if none does.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// What a forked child has to close: as long as it has them open, nobody sees that its parent is gone.
static LISTENER: AtomicI32 = AtomicI32::new(-1);
static CONNECTIONS: [AtomicI32; MOST_CONNECTIONS] =
    [const { AtomicI32::new(-1) }; MOST_CONNECTIONS];
/// What is removed at the end: a text of C's, which is never freed.
static PATH: AtomicPtr<libc::c_char> = AtomicPtr::new(std::ptr::null_mut());

/// Whether this process listens, and not only the one that it is a forked child of.
pub(super) fn is_of_this_process() -> bool {
    PROCESS.load(Ordering::SeqCst) == std::process::id()
}

/// Makes the socket, if there is none, and the thread that answers there.
pub(super) fn listen(path: &Path) -> io::Result<()> {
    static LISTENING: Mutex<()> = Mutex::new(());
    let _listening = LISTENING.lock().unwrap_or_else(PoisonError::into_inner);
    if is_of_this_process() {
        return Ok(());
    }
    let text = CString::new(path.as_os_str().as_bytes())?;
    // What is there has been left by a process that had the same number.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    let number = listener.as_raw_fd();
    LISTENER.store(number, Ordering::SeqCst);
    own_thread::spawn("mlprof-live", move || serve(&listener))
        .inspect_err(|_| LISTENER.store(-1, Ordering::SeqCst))?;
    if PATH.swap(text.into_raw(), Ordering::SeqCst).is_null() {
        // SAFETY: the functions do only what may be done there, and are there as long as the library is. They fail
        // only without memory: then the socket stays, which `mlprof ps` removes.
        unsafe {
            libc::pthread_atfork(None, None, Some(forked));
            libc::atexit(exiting);
        }
    }
    PROCESS.store(std::process::id(), Ordering::SeqCst);
    Ok(())
}

/// Ends what [`listen`] began: the socket is gone, and the thread ends.
pub(super) fn close() {
    if !is_of_this_process() {
        return;
    }
    PROCESS.store(0, Ordering::SeqCst);
    remove();
    let listener = LISTENER.swap(-1, Ordering::SeqCst);
    // SAFETY: the thread that waits there has it open, and closes it when this has woken it.
    unsafe { libc::shutdown(listener, libc::SHUT_RDWR) };
}

/// Removes the file of the socket.
fn remove() {
    let path = PATH.load(Ordering::SeqCst);
    if !path.is_null() {
        // SAFETY: a text of C's that is never freed.
        unsafe { libc::unlink(path) };
    }
}

extern "C" fn exiting() {
    if is_of_this_process() {
        recorded::deliver_at_exit();
        remove();
    }
}

/// In a child, which has only the thread that forked.
extern "C" fn forked() {
    tallies::forked();
    let close = |number: RawFd| {
        if number >= 0 {
            // SAFETY: the child's copies of what its parent listens and answers by; nobody uses them here, as the
            // threads that do so are the parent's.
            unsafe { libc::close(number) };
        }
    };
    close(LISTENER.swap(-1, Ordering::SeqCst));
    CONNECTIONS.iter().for_each(|place| close(place.swap(-1, Ordering::SeqCst)));
}

fn serve(listener: &UnixListener) {
    loop {
        match listener.accept() {
            Ok((stream, _)) => welcome(stream),
            // Somebody has had it listen no more.
            Err(_) if LISTENER.load(Ordering::SeqCst) != listener.as_raw_fd() => return,
            // There may be no more files to be opened: that passes.
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Somebody has connected.
fn welcome(stream: UnixStream) {
    if connection::set_patience(&stream).is_err() {
        return;
    }
    let refuse = |message: String| {
        // Whoever does not hear it sees the connection close.
        let _ = write_line(&stream, &Answer::Error { message });
    };
    match peer_user(&stream) {
        // Root may do anything anyway.
        Ok(user) if may_ask(user, own_user()) => {}
        _ => return refuse("this process belongs to another user".to_owned()),
    }
    let Some(place) = Place::take(&stream) else {
        return refuse(format!("{MOST_CONNECTIONS} others ask this process at this moment"));
    };
    // Where there is no thread for it the connection closes.
    let _ = own_thread::spawn("mlprof-live-door", move || {
        connection::serve(&stream);
        drop(place);
        drop(stream);
    });
}

fn may_ask(user: u32, own: u32) -> bool {
    user == own || user == 0
}

/// One of the connections that there may be.
struct Place(usize);

impl Place {
    fn take(stream: &UnixStream) -> Option<Self> {
        let number = stream.as_raw_fd();
        let is_free = |place: &AtomicI32| {
            place.compare_exchange(-1, number, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        };
        CONNECTIONS.iter().position(is_free).map(Self)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        CONNECTIONS[self.0].store(-1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_user_and_root_may_ask() {
        assert!(may_ask(1000, 1000) && may_ask(0, 1000));
        assert!(!may_ask(1001, 1000) && !may_ask(1000, 0));
    }
}
