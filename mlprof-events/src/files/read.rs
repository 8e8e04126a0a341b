//! Reads of regular files with a size limit.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::Path;

/// Returns `true` if `path` is a regular file or a link to one.
pub fn is_regular(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| there.is_file())
}

/// Opens a regular file that another process may have created. Links are followed.
///
/// # Errors
///
/// Fails if the file cannot be opened or is not a regular file. Reading a pipe would wait, and
/// opening a device may have side effects.
pub fn open_regular(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(not_regular());
    }
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
    }
    let file = options.open(path)?;
    // Another file may have taken the path since the first check.
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular()) }
}

/// Opens a file that a user named on a command line. It may be a pipe, on which reads wait.
///
/// # Errors
///
/// Fails if the file cannot be opened.
pub fn open_input(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Reads a regular file of at most `most` bytes.
///
/// # Errors
///
/// Returns the errors of [`open_regular`]. Also fails if the file is longer or cannot be read.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let length = file.metadata()?.len();
    if length > most {
        return Err(too_long(most));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    // The limit applies again, because the file may grow while it is read.
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_long(most)) } else { Ok(bytes) }
}

/// Reads a regular file of at most `most` bytes as UTF-8.
///
/// # Errors
///
/// Returns the errors of [`read`]. Also fails if the file is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.utf8_error().to_string()))
}

pub(super) fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")
}

fn too_long(most: u64) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {most} bytes"))
}

#[cfg(all(test, unix, not(loom)))]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_regular_files_up_to_a_size_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, "12345").expect("written");
        assert_eq!(read_text(&path, 5).expect("it fits"), "12345");
        let error = read(&path, 4).expect_err("too long").to_string();
        assert_eq!(error, "it has more than 4 bytes");
        fs::write(&path, b"\xff").expect("written");
        assert!(read_text(&path, 5).is_err());
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
        for other in [pipe.as_path(), folder.path(), Path::new("/dev/zero")] {
            let error = read(other, 5).expect_err("not a file").to_string();
            assert_eq!(error, "it is not a regular file", "{}", other.display());
        }
    }
}
