//! Prometheus endpoint: metrics of the training at a local port, `GET /metrics`.
//!
//! Counts and durations cover the whole process and never decrease. The watcher counts steps. From
//! the moment when the endpoint opens, an additional Simple profiler counts actions. The loss is
//! the last value that the trainer read, if it reports one.

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
use token::{Token, TokenPolicy};

/// Address of this process's endpoint.
static OPEN: Mutex<Option<SocketAddr>> = Mutex::new(None);
/// Id of the process that serves the endpoint, or 0.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Descriptor that a forked child closes.
static LISTENER: Descriptor = Descriptor::none();
/// Path of the token's file if this process created it. The file is removed at the end.
static TOKEN_FILE: OwnFile = OwnFile::none();

/// Starts to serve metrics at `127.0.0.1:port` until the process ends, and to count steps and
/// actions. Port 0 selects a free port. Returns the address. If the endpoint is already open,
/// nothing changes. A forked child does not serve metrics.
///
/// Requests must contain a token. The process writes it to a file beside the sockets that only its
/// user can read, and prints the path on standard error. In Prometheus' configuration, this is
/// `authorization` with `credentials_file`. `MLPROF_METRICS_TOKEN` sets the path of another file
/// with an existing token, or `off` to disable the check.
///
/// *Cost*: that of a Simple profiler per scope. If another profiler also measures, the two slow
/// each other down.
///
/// # Errors
///
/// Returns an error if the port is taken, or if no folder owned by this user can hold the token.
pub fn metrics(port: u16) -> Result<SocketAddr, Error> {
    uncounted(|| {
        let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(address) = *open {
            return Ok(address);
        }
        mlprof_events::forking::watch();
        families::remember();
        let of_port = |error| Error::Port { port, source: error };
        let wish = TokenPolicy::of_environment();
        let named = wish.named()?;
        // The port is bound first, so that a failure leaves no token file behind.
        let bound = server::bind(port).map_err(of_port)?;
        let token = match named {
            Some(token) => token,
            None => make_token(&Token::random())?,
        };
        door_is_open(|| ());
        // An open endpoint has created the watcher.
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
        // SAFETY: both handlers are `extern "C"` functions of this library and stay valid while it
        // is loaded. `forked` only uses atomics and system calls, as required in a forked child.
        // The registrations fail only if memory is exhausted. The file then remains, and `mlprof
        // ps` removes it.
        unsafe {
            libc::pthread_atfork(None, None, Some(forked));
            libc::atexit(exiting);
        }
        *open = Some(address);
        Ok(address)
    })
}

/// Writes a token to this process's file, in the first usable folder, and returns it.
fn make_token(token: &Token) -> Result<Token, Error> {
    let name = ProcessIdentity::own().file_name(TOKEN);
    in_first_usable(remembered_folders(), |folder| {
        let path = folder.join(&name);
        token.write(&path)?;
        TOKEN_FILE.set(&path)
    })?;
    Ok(token.clone())
}

/// Writes the token again if its file was removed, which the system does when the user logs out
/// completely.
fn restore_token(token: &Token) {
    if !TOKEN_FILE.is_there() {
        // If no folder is usable now, a later attempt may succeed.
        let _ = make_token(token);
    }
}

/// Opens the endpoint and prints its address.
pub(crate) fn start(port: Port) {
    match metrics(port.0) {
        Ok(address) => {
            say(format_args!("mlprof: metrics are at http://{address}/metrics{}", hint()))
        }
        Err(error) => say(format_args!("mlprof: metrics are not available: {error:?}")),
    }
}

/// Returns the part of the message that explains the token.
fn hint() -> String {
    match TokenPolicy::of_environment() {
        TokenPolicy::Off => ", without a token for all users of this machine".to_owned(),
        TokenPolicy::In(path) => format!(", with the token in {}", path.display()),
        TokenPolicy::Random => {
            let path = TOKEN_FILE.path().unwrap_or_default();
            format!(", with the token in {}", path.display())
        }
    }
}

/// Runs in a forked child, which only has the forking thread.
extern "C" fn forked() {
    PROCESS.store(0, Ordering::SeqCst);
    LISTENER.close_in_child();
}

extern "C" fn exiting() {
    if PROCESS.load(Ordering::SeqCst) == std::process::id() {
        TOKEN_FILE.remove();
    }
}
