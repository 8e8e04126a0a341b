//! Files that were not there before.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use super::bounded_write::write_all;

/// Creates a file with `content` where nothing has been, not even a link. It is not flushed to the
/// disk: this is for files that are made anew where they are missing.
///
/// # Errors
///
/// Those of the file system, and if something is there.
pub fn create_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    write_all(&file, content)
}

/// Creates a file for a secret, which nobody but its user may read, where nothing has been, not
/// even a link.
///
/// # Errors
///
/// Those of the file system, and if something is there. A file that could not be written is
/// removed.
pub fn create_private(path: &Path, secret: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file: File = options.open(path)?;
    let written = write_all(&file, secret);
    if written.is_err() {
        // Only the first error matters.
        let _ = fs::remove_file(path);
    }
    written
}

/// Makes `link` stand for the file or folder `original`: as a symbolic link, or as a copy of a file
/// where the system has none. Nothing may be there.
///
/// # Errors
///
/// Those of the file system.
pub fn link_or_copy(original: &Path, link: &Path) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::symlink(original, link);
    #[cfg(not(unix))]
    return fs::copy(original, link).map(drop);
}
