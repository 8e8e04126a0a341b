//! Writing to disk.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::bounded_write::{self, BoundedFile};
use super::temporary::TemporaryFile;

/// Adds `text` to the end of the file, which is made with its directories if need be. In one
/// write, so that processes that share a file do not mix their lines.
pub(super) fn append(path: &Path, text: &str) -> io::Result<()> {
    create_parent(path)?;
    let mut file = BoundedFile::open(OpenOptions::new().append(true).create(true), path)?;
    file.write_all(text.as_bytes())
}

/// Makes the file hold exactly `content`: a reader finds either what it held before or all of
/// `content`, even if this process is killed in between.
pub(super) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    write_whole(path, |file| file.write_all(content))
}

/// Has `write` write a file that a reader finds only when it is whole; see [`WholeFile`].
pub(super) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut WholeFile) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    write(&mut file)?;
    file.finish()
}

/// A file that has its name only when it is whole: until [`finish`](Self::finish) a reader finds
/// what was there before, also if this process is killed. Dropped before, it was never there.
///
/// A device or a pipe has no such moment; it is written as one goes.
#[derive(Debug)]
pub(super) struct WholeFile(Place);

#[derive(Debug)]
enum Place {
    InPlace(BoundedFile),
    Beside { temporary: TemporaryFile, path: PathBuf },
}

impl WholeFile {
    /// Begins a file; its directories are made if need be.
    fn create(path: &Path) -> io::Result<Self> {
        create_parent(path)?;
        Ok(Self(if is_written_in_place(path) {
            Place::InPlace(BoundedFile::open(OpenOptions::new().write(true), path)?)
        } else {
            Place::Beside { temporary: TemporaryFile::beside(path)?, path: path.to_owned() }
        }))
    }

    /// Gives the file its name, in place of an older one.
    fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        match self.0 {
            Place::InPlace(_) => Ok(()),
            Place::Beside { temporary, path } => temporary.rename(&path),
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Place::InPlace(file) => file.write(bytes),
            Place::Beside { temporary, .. } => bounded_write::write(&temporary.file, bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Place::InPlace(file) => file.flush(),
            Place::Beside { temporary, .. } => temporary.file.flush(),
        }
    }
}

/// A device, a pipe, or one of the process's own open files by its name there (`/dev/stdout`):
/// nothing can take its place.
fn is_written_in_place(path: &Path) -> bool {
    let is_open_file = || {
        let is_link = fs::symlink_metadata(path).is_ok_and(|there| there.is_symlink());
        cfg!(unix) && is_link && (path.starts_with("/dev") || path.starts_with("/proc"))
    };
    fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir()) || is_open_file()
}

/// Has `write` write a file of its own to the path that it is given, which ends in the name that the
/// file gets when it is whole. For those who cannot write to what is open; nothing else that they
/// leave beside it is kept.
///
/// # Errors
///
/// Those of `write`, and if the file cannot get its name; there is then the one that was there before.
pub fn write_whole_at<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput).map_err(io::Error::from)?;
    let folder = super::TemporaryFolder::within(path.parent().unwrap_or(Path::new("")))?;
    let temporary = folder.path().join(name);
    bounded_write::without_signals(|| write(&temporary))?;
    // Windows has what is written only by whoever may write.
    let file = OpenOptions::new().read(true).write(cfg!(windows)).open(&temporary)?;
    // What `write` did not report: files are often closed without a look at the outcome.
    file.sync_all()?;
    if let Some(permissions) = super::temporary::permissions_of(path) {
        file.set_permissions(permissions)?;
    }
    drop(file);
    Ok(fs::rename(&temporary, path)?)
}

fn create_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => fs::create_dir_all(parent),
        _ => Ok(()),
    }
}
