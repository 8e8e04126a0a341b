//! The local door: a Unix socket, and the threads that answer there.

pub(crate) mod answers;
mod connection;
mod peer;
pub(crate) mod recorded;
mod socket;
mod timed;

use mlprof_events::error_chain::Chain;
use std::path::PathBuf;
use std::sync::{Once, OnceLock};

use mlprof_core::output::say;
use mlprof_events::live::folders;
use mlprof_events::uncounted;

use crate::Error;
use crate::launch;
use crate::shared::door_is_open;

/// Folders where the socket can be, as the environment was when the process began to listen:
/// threads of ours do not look at it.
static FOLDERS: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// Folders for sockets and tokens. The first call must be where the environment may be looked at.
pub(crate) fn remembered_folders() -> &'static [PathBuf] {
    FOLDERS.get_or_init(folders)
}

/// Has this process listen.
pub(crate) fn start() -> Result<(), Error> {
    uncounted(|| {
        mlprof_events::forking::watch();
        let folders = remembered_folders();
        launch::remember();
        socket::listen(folders)?;
        static OPEN: Once = Once::new();
        OPEN.call_once(|| door_is_open(listen_after_fork));
        Ok(())
    })
}

/// Has it listen no more: another copy of this crate does so, at the same place.
pub(crate) fn stop() {
    uncounted(socket::close);
}

/// A forked child has neither its parent's thread nor its socket: it gets its own when a stage begins in it.
fn listen_after_fork() {
    if !socket::is_of_this_process()
        && let Err(error) = start()
    {
        say(format_args!("mlprof: nobody can look into this forked process: {}", Chain(&error)));
    }
}
