//! The only module that creates, replaces, appends to and reads files.
//!
//! mlprof writes into folders that other users, containers and machines may share, and it does so
//! on the threads of a training run. Every crate of the workspace therefore goes through this
//! module, and a structure test enforces that. Its rules:
//!
//! * **Complete files.** [`write_file`] and its siblings write to an exclusive temporary file in
//!   the same folder. They flush it to the disk, check every error, and then rename it. A reader
//!   sees the old file or the new one. The rename replaces a symbolic link and never follows it.
//! * **Permissions.** A new file keeps the `rwx` bits of the file that it replaces, if that is a
//!   regular file of the effective user. It never keeps the setuid, setgid or sticky bit.
//! * **Links.** Output that is written in place (text reports, pipes, devices) follows a symbolic
//!   link only under two conditions. The link belongs to the effective user or root, and it leads
//!   to a file of the effective user. Links in `/dev` and `/proc` to the process's own open files
//!   (`/dev/stdout`) are also followed.
//! * **Folders.** Another user may be able to exchange folders of a path. Output that must be
//!   written by its path ([`write_whole_at`]) then goes through an open folder on Linux; other
//!   systems trust the path. Temporary folders are removed only if they contain the mark that their
//!   creator left in them.
//! * **Pipes and devices.** Opening never blocks, a write fails after five seconds without a
//!   reader, and a pipe of another user is refused. Reads accept regular files only.
//! * **Signals.** `SIGXFSZ` and `SIGPIPE` never reach the program. Such writes fail with an error.
//! * **Limits.** Every read has a size limit, and every listing of a shared folder has a limit on
//!   entries and time.
//! * **Descriptors** that stay open for a long time are used and closed only while they still refer
//!   to the original file. Programs that become daemons close all descriptors, so the number may be
//!   reused.

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

/// Returns the folder that contains `path`, or the current folder for a bare name.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Creates the folder that contains `path` and its missing parents.
fn create_parent(path: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder_of(path))
}

/// Returns the id of the effective user, who owns the files that this process creates.
#[cfg(unix)]
fn effective_user() -> u32 {
    // SAFETY: `geteuid` takes no arguments, changes no state and cannot fail.
    unsafe { libc::geteuid() }
}
