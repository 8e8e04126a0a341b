//! Creation of new files.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

use super::bounded_write::write_all;

/// Creates a file with `content` if the path does not exist, not even as a link. The file is not
/// flushed to the disk, because it can be created again if it is lost.
///
/// # Errors
///
/// Returns errors of the file system. Also fails if the path exists.
pub fn create_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    write_all(&file, content)
}

/// Creates a file for a secret that only its user may read. The path must not exist, not even as a
/// link.
///
/// # Errors
///
/// Returns errors of the file system. Also fails if the path exists. A file that could not be
/// written is removed.
pub fn create_private(path: &Path, secret: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file: File = options.open(path)?;
    let written = write_all(&file, secret);
    if written.is_err() {
        // Only the first error is returned.
        let _ = fs::remove_file(path);
    }
    written
}

/// Creates `link` as a symbolic link to the file or folder `original`. On systems without symbolic
/// links it creates a copy of a file. The path `link` must not exist.
///
/// # Errors
///
/// Returns errors of the file system.
pub fn link_or_copy(original: &Path, link: &Path) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::symlink(original, link);
    #[cfg(not(unix))]
    return fs::copy(original, link).map(drop);
}
