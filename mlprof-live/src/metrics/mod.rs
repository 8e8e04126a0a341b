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

use std::io;
use std::net::SocketAddr;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};

use mlprof_core::output::say;
use mlprof_events::environment::Port;
use mlprof_events::forking::Mutex;
use mlprof_events::live::{ProcessIdentity, TOKEN, in_first_usable};
use mlprof_events::uncounted;

use crate::Error;
use crate::descriptor::Descriptor;
use crate::families;
use crate::own_file::OwnFile;
use crate::service::remembered_folders;
use crate::shared::{self, door_is_open};
use token::{Token, Wish};

/// Where this process answers.
static OPEN: Mutex<Option<SocketAddr>> = Mutex::new(None);
/// The process that does; 0 if none does.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// What a forked child has to close.
static LISTENER: Descriptor = Descriptor::none();
/// The token's file, if this process has made it: it is removed at the end.
static TOKEN_FILE: OwnFile = OwnFile::none();

/// Has the process answer Prometheus at `127.0.0.1:port` from here on, to the end, and count steps and actions; port 0: any
/// that is free. Where it answers. If it does so already nothing changes. A forked child does not.
///
/// Whoever asks must send the token that is in a file of this process beside the sockets, which is
/// named on standard error and which only its user can read (`authorization` with
/// `credentials_file`, in Prometheus' configuration). `MLPROF_METRICS_TOKEN` names another file
/// with a token of one's own, or says `off`.
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
        mlprof_events::forking::watch();
        families::remember();
        let of_port = |error| Error::Port { port, source: error };
        let wish = Wish::of_environment();
        let named = wish.named()?;
        // The port first: whoever cannot have it leaves no token behind.
        let bound = server::bind(port).map_err(of_port)?;
        let token = match named {
            Some(token) => token,
            None => make_token(&Token::random())?,
        };
        door_is_open(|| ());
        // The door is open, so it is there.
        let Some(watcher) = shared::watcher() else {
            return Err(of_port(io::ErrorKind::NotConnected.into()));
        };
        let (address, listener) =
            server::listen(bound, token, watcher.clone()).map_err(of_port).inspect_err(|_| {
                TOKEN_FILE.remove();
            })?;
        watcher.count_actions();
        LISTENER.set(listener);
        PROCESS.store(std::process::id(), Ordering::SeqCst);
        // SAFETY: both functions do only what may be done in such handlers, and stay as long as the
        // library does. They fail only without memory: then the file stays, which `mlprof ps`
        // removes.
        unsafe {
            libc::pthread_atfork(None, None, Some(forked));
            libc::atexit(exiting);
        }
        *open = Some(address);
        Ok(address)
    })
}

/// Writes a token to the file of this process, in the first of the folders that can be used, and
/// returns it.
fn make_token(token: &Token) -> Result<Token, Error> {
    let name = ProcessIdentity::own().file_name(TOKEN);
    in_first_usable(remembered_folders(), |folder| {
        let path = folder.join(&name);
        token.write(&path)?;
        TOKEN_FILE.set(&path)
    })?;
    Ok(token.clone())
}

/// Writes the token again if its file was removed, as the system does at the user's last logout.
fn restore_token(token: &Token) {
    if !TOKEN_FILE.is_there() {
        // If there is no place for it now, there may be one later.
        let _ = make_token(token);
    }
}

/// Opens the door, and says where it is.
pub(crate) fn start(port: Port) {
    match metrics(port.0) {
        Ok(address) => {
            say(format_args!("mlprof: metrics are at http://{address}/metrics{}", hint()))
        }
        Err(error) => say(format_args!("mlprof: there are no metrics: {error:?}")),
    }
}

/// What must be known besides the address.
fn hint() -> String {
    match Wish::of_environment() {
        Wish::Off => ", for everybody on this machine".to_owned(),
        Wish::In(path) => format!(", with the token in {}", path.display()),
        Wish::Random => {
            let path = TOKEN_FILE.path().unwrap_or_default();
            format!(", with the token in {}", path.display())
        }
    }
}

/// In a child, which has only the thread that forked.
extern "C" fn forked() {
    PROCESS.store(0, Ordering::SeqCst);
    LISTENER.close_in_child();
}

extern "C" fn exiting() {
    if PROCESS.load(Ordering::SeqCst) == std::process::id() {
        TOKEN_FILE.remove();
    }
}
