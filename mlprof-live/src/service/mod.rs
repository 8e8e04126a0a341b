//! Local endpoint: a Unix socket and its threads.

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

/// Folders for the socket, read from the environment when the process begins to listen. Background
/// threads do not read the environment.
static FOLDERS: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// Returns the folders for sockets and tokens. The first call must be where reading the environment
/// is safe.
pub(crate) fn remembered_folders() -> &'static [PathBuf] {
    FOLDERS.get_or_init(folders)
}

/// Makes this process listen on its socket.
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

/// Stops listening, because another copy of this crate takes over at the same path.
pub(crate) fn stop() {
    uncounted(socket::close);
}

/// Opens a new socket in a forked child when a stage begins there. The child inherits neither the
/// thread nor the socket of its parent.
fn listen_after_fork() {
    if !socket::is_of_this_process()
        && let Err(error) = start()
    {
        say(format_args!(
            "mlprof: live inspection is off in this forked process: {}",
            Chain(&error)
        ));
    }
}
