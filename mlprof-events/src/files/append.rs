//! Adding to the end of files.

use std::io::{self, Write};
use std::path::Path;

use super::{create_parent, durability, target};

/// Adds `text` to the end of a file, which is created with its folders if need be, and flushes it
/// to the disk. It is one write, so that processes that share a file do not mix their lines.
///
/// # Errors
///
/// Those of the file system, and if `path` is a link, a pipe or a hard link that another user may
/// have made: see the [module](super).
pub fn append(path: &Path, text: &[u8]) -> io::Result<()> {
    create_parent(path)?;
    let mut file = target::open_to_append(path)?;
    file.write_all(text)?;
    durability::sync(file.file())
}

/// Adds a line to a file in one write, and creates the file for its user alone if it is not there.
/// Failures are not reported.
///
/// Makes only system calls, so a signal handler may call it.
#[cfg(unix)]
pub fn append_in_handler(path: &std::ffi::CStr, line: &[u8]) {
    let flags = libc::O_WRONLY
        | libc::O_APPEND
        | libc::O_CREAT
        | libc::O_CLOEXEC
        | libc::O_NOFOLLOW
        | libc::O_NONBLOCK
        | libc::O_NOCTTY;
    // SAFETY: `path` is a C string, and the mode is the variadic argument that `O_CREAT` reads.
    let file = unsafe { libc::open(path.as_ptr(), flags, 0o600) };
    if file >= 0 {
        // SAFETY: the descriptor has just been opened and is closed once, and the pointer and the
        // length are those of a slice.
        super::without_signals(|| unsafe {
            libc::write(file, line.as_ptr().cast(), line.len());
            libc::close(file);
        });
    }
}
