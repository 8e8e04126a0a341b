//! The one module that creates, replaces, appends to and reads files.
//!
//! mlprof writes into folders that other users, containers and machines may share, and it does so
//! on the threads of a training. Every crate of the workspace therefore goes through this module,
//! which a structure test enforces. Its rules:
//!
//! * **Complete files.** [`write_file`] and its siblings write to an exclusive temporary file in the
//!   same folder, flush it to the disk, check every error, and then rename it. A reader sees the old file
//!   or the new one. The rename takes the place of a symbolic link and never follows it.
//! * **Permissions.** A new file keeps the `rwx` bits of the file that it replaces, never setuid,
//!   setgid or sticky, and only if that file is a regular file of the effective user.
//! * **Links.** What is written in place (text reports, pipes, devices) follows a symbolic link only if
//!   the link belongs to the effective user or root and leads to a file of the effective user. The
//!   links in `/dev` and `/proc` to the process's own open files (`/dev/stdout`) are followed, too.
//! * **Folders.** What is written by its path ([`write_whole_at`]) goes through an open folder where
//!   another user could exchange folders of the path (Linux; elsewhere the path is trusted). Temporary
//!   folders are removed only with the mark that their maker has left in them.
//! * **Pipes and devices.** Nothing waits for them: opening never blocks, a write fails after five
//!   seconds without a reader, and a pipe of another user is refused. Reads accept regular files only.
//! * **Signals.** `SIGXFSZ` and `SIGPIPE` never reach the program: such writes fail with an error.
//! * **Bounds.** Every read has a size limit, and every look through a shared folder a limit on entries
//!   and time.
//! * **Descriptors** that stay open for long are used and closed only while they still refer to the file
//!   that they were opened for: programs that become daemons close all of them.

mod append;
mod bounded_write;
mod claim;
mod directory;
mod durability;
mod growing;
mod guarded;
mod leftovers;
mod listing;
mod new_file;
mod permissions;
mod read;
mod signals;
mod standard_streams;
mod target;
mod temporary;
mod temporary_name;
mod whole;

pub use self::append::append;
#[cfg(unix)]
pub use self::append::append_in_handler;
pub use self::claim::ClaimedName;
pub use self::directory::Directory;
pub use self::growing::GrowingFile;
pub use self::listing::{Listing, list};
pub use self::new_file::{create_new, create_private, link_or_copy};
pub use self::read::{is_regular, open_input, open_regular, read, read_text};
pub use self::signals::without_signals;
pub use self::standard_streams::{StandardStream, occupy_standard_descriptors, print};
pub use self::target::refuse_link_of_others;
pub use self::temporary::TemporaryFolder;
pub use self::temporary_name::is_temporary;
pub use self::whole::{WholeFile, replace, write_file, write_file_in, write_whole_at};

use std::io;
use std::path::Path;

/// The folder that `path` lies in; the current one for a bare name.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Creates the folder that `path` lies in, and those above it, where they are missing.
fn create_parent(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder_of(path))
}

/// The user that files of this process belong to.
#[cfg(unix)]
fn effective_user() -> u32 {
    // SAFETY: `geteuid` takes no arguments, changes nothing and cannot fail.
    unsafe { libc::geteuid() }
}
