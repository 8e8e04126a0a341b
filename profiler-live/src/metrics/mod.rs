//! Prometheus' door: metrics of the training at a port of this machine, `GET /metrics`.
//!
//! Counts and durations are of the whole process: they never go back. Steps are counted by the watcher, actions by a Simple
//! profiler that is put beside whatever measures, from the moment that the door is open. The loss is the one that the trainer
//! has read last, where it says so.

mod protobuf;
mod request;
mod server;
mod text;
mod token;

use std::ffi::CString;
use std::io;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

use profiler_core::output::say;
use profiler_events::environment::Port;
use profiler_events::forking::Mutex;
use profiler_events::live::{check, folder};
use profiler_events::uncounted;

use crate::Error;
use crate::families;
use crate::shared::{self, door_is_open};
use token::{Token, Wish};

/// Where this process answers.
static OPEN: Mutex<Option<SocketAddr>> = Mutex::new(None);
/// The process that does; 0 if none does.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// What a forked child has to close.
static LISTENER: AtomicI32 = AtomicI32::new(-1);
/// The token's file, which is removed at the end: a text of C's, which is never freed.
static TOKEN: AtomicPtr<libc::c_char> = AtomicPtr::new(std::ptr::null_mut());

/// Has the process answer Prometheus at `127.0.0.1:port` from here on, to the end, and count steps and actions; port 0: any
/// that is free. Where it answers. If it does so already nothing changes. A forked child does not.
///
/// Whoever asks must send the token that is in the file `{process number}.token` beside the sockets, which only its user can
/// read (`authorization` with `credentials_file`, in Prometheus' configuration). `MLPROF_METRICS_TOKEN` names another file with
/// a token of one's own, or says `off`.
///
/// *Cost*: a Simple profiler's, per scope; where another one measures they are in each other's way, which costs more.
///
/// # Errors
///
/// If the port is taken, or there is no place for the token that is this user's own.
pub fn metrics(port: u16) -> Result<SocketAddr, Error> {
    uncounted(|| {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(address) = *open {
            return Ok(address);
        }
        profiler_events::forking::watch();
        families::remember();
        let of_port = |error| Error::Port { port, error };
        let (token, file) = token()?;
        door_is_open(|| ());
        // The door is open, so it is there.
        let Some(watcher) = shared::watcher() else {
            return Err(of_port(io::ErrorKind::NotConnected.into()));
        };
        let (address, listener) = server::listen(port, token, watcher.clone()).map_err(of_port)?;
        watcher.count_actions();
        LISTENER.store(listener, Ordering::SeqCst);
        PROCESS.store(std::process::id(), Ordering::SeqCst);
        let text = file.and_then(|file| CString::new(file.as_os_str().as_bytes()).ok());
        TOKEN.store(text.map_or(std::ptr::null_mut(), CString::into_raw), Ordering::SeqCst);
        // SAFETY: the functions do only what may be done there, and are there as long as the library is. They fail only
        // without memory: then the file stays.
        unsafe {
            libc::pthread_atfork(None, None, Some(forked));
            libc::atexit(exiting);
        }
        *open = Some(address);
        Ok(address)
    })
}

/// Who may ask, and the file that is made for it.
fn token() -> Result<(Token, Option<PathBuf>), Error> {
    match Wish::of_environment() {
        Wish::Off => Ok((Token::OFF, None)),
        Wish::In(path) => match Token::read(&path) {
            Ok(token) => Ok((token, None)),
            Err(error) => Err(Error::Token { path, error }),
        },
        Wish::Random => {
            let folder = folder();
            check(&folder, true)?;
            let path = folder.join(format!("{}.token", std::process::id()));
            match Token::write(&path) {
                Ok(token) => Ok((token, Some(path))),
                Err(error) => Err(Error::Token { path, error }),
            }
        }
    }
}

/// Opens the door, and says where it is.
pub(crate) fn start(port: Port) {
    match metrics(port.0) {
        Ok(address) => {
            say(format_args!("mlprof: metrics are at http://{address}/metrics{}", hint()))
        }
        Err(error) => say(format_args!("mlprof: there are no metrics: {error}")),
    }
}

/// What must be known besides the address.
fn hint() -> String {
    match Wish::of_environment() {
        Wish::Off => ", for everybody on this machine".to_owned(),
        Wish::In(path) => format!(", with the token in {}", path.display()),
        Wish::Random => {
            let path = folder().join(format!("{}.token", std::process::id()));
            format!(", with the token in {}", path.display())
        }
    }
}

/// In a child, which has only the thread that forked.
extern "C" fn forked() {
    let listener = LISTENER.swap(-1, Ordering::SeqCst);
    if listener >= 0 {
        // SAFETY: the child's copy of what its parent listens by; nobody uses it here, as the thread that does is the parent's.
        unsafe { libc::close(listener) };
    }
}

extern "C" fn exiting() {
    let path = TOKEN.load(Ordering::SeqCst);
    if PROCESS.load(Ordering::SeqCst) == std::process::id() && !path.is_null() {
        // SAFETY: a text of C's that is never freed.
        unsafe { libc::unlink(path) };
    }
}
