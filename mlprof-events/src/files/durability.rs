//! Flushing files to the disk.

use std::fs::File;
use std::io;

/// Flushes a file to the disk. Network file systems and quotas report a lack of space only at this
/// point.
///
/// Pipes, devices and some file systems do not support flushing and refuse it, which does not count
/// as an error.
pub(super) fn sync(file: &File) -> io::Result<()> {
    match file.sync_all() {
        Err(error) if has_nothing_to_flush(&error) => Ok(()),
        synced => synced,
    }
}

fn has_nothing_to_flush(error: &io::Error) -> bool {
    #[cfg(unix)]
    let is_refused = matches!(
        error.raw_os_error(),
        Some(libc::EINVAL | libc::ENOSYS | libc::ENOTSUP | libc::EROFS)
    );
    #[cfg(not(unix))]
    let is_refused = false;
    is_refused || error.kind() == io::ErrorKind::Unsupported
}
