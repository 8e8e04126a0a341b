//! Appending to files.

use std::io::{self, Write};
use std::path::Path;

use super::{create_parent, durability, target};

/// Appends `text` to a file and flushes it to the disk. The file and its folders are created if
/// they do not exist. The text is passed to the system as one write, so that processes that share a
/// file do not mix their lines.
///
/// # Errors
///
/// Returns errors of the file system. Also fails if `path` is a link, a pipe or a hard link that
/// another user may have made: see the [module](super).
pub fn append(path: &Path, text: &[u8]) -> io::Result<()> {
    create_parent(path)?;
    let mut file = target::open_to_append(path)?;
    file.write_all(text)?;
    durability::sync(file.file())
}

/// Appends a line to a file in one write. If the file does not exist, creates it with access for
/// its user only. Failures are not reported.
///
/// The function only makes system calls, so a signal handler may call it.
#[cfg(unix)]
pub fn append_in_handler(path: &std::ffi::CStr, line: &[u8]) {
    let flags = libc::O_WRONLY
        | libc::O_APPEND
        | libc::O_CREAT
        | libc::O_CLOEXEC
        | libc::O_NOFOLLOW
        | libc::O_NONBLOCK
        | libc::O_NOCTTY;
    // SAFETY: `path` is a NUL-terminated C string that outlives the call. The mode is the variadic
    // argument that `O_CREAT` reads.
    let file = unsafe { libc::open(path.as_ptr(), flags, 0o600) };
    if file >= 0 {
        // SAFETY: `file` is a descriptor that this function opened, and it is closed once. The
        // pointer and length describe the slice `line`, which outlives the call.
        super::without_signals(|| unsafe {
            libc::write(file, line.as_ptr().cast(), line.len());
            libc::close(file);
        });
    }
}
