//! Files that get their final names when they are complete.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bounded_write::{self, BoundedFile};
use super::directory::Directory;
use super::temporary::{TemporaryFile, TemporaryFolder};
use super::{create_parent, durability, folder_of, target, without_signals};

/// Writes a file with the function `write`. The file gets its final name when it is complete. Until
/// then a reader finds the previous file, even if this process is killed. Missing directories are
/// created. The new file keeps the `rwx` bits of the file it replaces, if that belongs to the
/// effective user.
///
/// An unfinished file is named `.mlprof-….tmp` in the same folder. No other process uses that name,
/// not even in another container or on another machine. The next process that writes into the
/// folder removes such files of killed processes. It waits for a minute if locks show that no
/// process uses the file, otherwise for a day.
///
/// A device or a pipe is written directly, and one without a reader is an error. The error is
/// returned at once, or five seconds after the reader's last read. Exceeding the file size limit
/// (`ulimit -f`) is also an error and does not end the process. A symbolic link is replaced, unless
/// it belongs to the effective user or root and leads to a device or a pipe.
///
/// # Errors
///
/// Returns the error of `write`. Also fails if the file cannot be created or flushed to the disk.
/// After an error the previous file is unchanged.
pub fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    write(&mut file)?;
    file.finish()
}

/// Replaces the content of the file by exactly `content`, in the same way as [`write_file`].
///
/// # Errors
///
/// Returns the errors of [`write_file`].
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    write_file(path, |file| file.write_all(content))
}

/// Writes a complete file into an open folder, like [`write_file`], and replaces the regular file
/// with that name.
///
/// # Errors
///
/// Returns the errors of [`write_file`]. Also fails if `may_replace` returns an error for the
/// existing file, or if the name belongs to anything but a regular file of the effective user.
pub fn write_file_in(
    directory: &Arc<Directory>,
    name: &OsStr,
    may_replace: impl FnOnce(&mut fs::File) -> io::Result<()>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut mode = None;
    if let Some(mut earlier) = directory.open_regular(name)? {
        mode = Some(own_mode(&earlier)?);
        may_replace(&mut earlier)?;
    }
    let temporary = TemporaryFile::within(directory, mode)?;
    let mut file = WholeFile(Place::Beside { temporary, name: name.into() });
    write(&mut file)?;
    file.finish()
}

/// Returns the mode of a file of the effective user.
#[cfg(unix)]
fn own_mode(file: &fs::File) -> io::Result<u32> {
    use std::os::unix::fs::MetadataExt;

    let there = file.metadata()?;
    if there.uid() != super::effective_user() {
        let reason = format!("the file belongs to user {}", there.uid());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    Ok(there.mode() & 0o777)
}

#[cfg(not(unix))]
fn own_mode(_file: &fs::File) -> io::Result<u32> {
    Ok(0)
}

/// A file that gets its name when it is complete. Until [`finish`](Self::finish) a reader finds the
/// previous file, even if this process is killed. If it is dropped earlier, the unfinished file is
/// removed.
///
/// A device or a pipe has no such moment and is written directly.
#[derive(Debug)]
pub struct WholeFile(Place);

#[derive(Debug)]
enum Place {
    InPlace(BoundedFile),
    Beside { temporary: TemporaryFile, name: PathBuf },
}

impl WholeFile {
    /// Begins a file and creates missing directories.
    ///
    /// # Errors
    ///
    /// Returns errors of the file system.
    pub fn create(path: &Path) -> io::Result<Self> {
        create_parent(path)?;
        Ok(Self(match target::open_in_place(path)? {
            Some(file) => Place::InPlace(file),
            None => Place::Beside {
                temporary: TemporaryFile::beside(path)?,
                name: path.file_name().unwrap_or_default().into(),
            },
        }))
    }

    /// Flushes the file to the disk and gives it its name, replacing an older file.
    ///
    /// # Errors
    ///
    /// Returns errors of the file system. In that case the older file is unchanged.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        match self.0 {
            Place::InPlace(file) => durability::sync(file.file()),
            Place::Beside { temporary, name } => temporary.keep(&name).map(drop),
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

/// Runs `write` with a path to which it writes a file of its own. The path ends in the final name
/// of the file. This is for writers that cannot write to an open file. Only the file itself is
/// kept. If other users could exchange folders of the path, it leads through an open folder
/// (`/proc/self/fd/…`, Linux).
///
/// # Errors
///
/// Returns the errors of `write`. Also fails if the file cannot be renamed. In that case the
/// previous file is unchanged.
pub fn write_whole_at<E: From<io::Error>>(
    path: &Path,
    write: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput).map_err(io::Error::from)?;
    create_parent(path)?;
    let parent = Directory::open(folder_of(path))?;
    let folder = TemporaryFolder::within_open(&parent)?;
    without_signals(|| write(&folder.own_path().join(name)))?;
    Ok(folder.move_out(name, &parent, name)?)
}

#[cfg(all(test, target_os = "linux", not(loom)))]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// Returns the names of all entries in a folder.
    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).expect("a folder");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        names.map(|entry| name(entry).into_string().expect("text")).collect()
    }

    #[test]
    fn a_file_that_is_written_by_its_path_stays_in_the_folder_that_was_made_for_it() {
        let around = tempfile::tempdir().expect("a folder");
        let path = |name: &str| around.path().join(name);
        // A folder may be shared by a group, for example. Each of its users may rename its entries.
        fs::create_dir(path("shared")).expect("made");
        fs::set_permissions(path("shared"), PermissionsExt::from_mode(0o777)).expect("opened");
        for victim in ["home", "own"] {
            fs::create_dir(path(victim)).expect("made");
            fs::write(path(victim).join("weights"), "precious").expect("written");
        }
        write_whole_at(&path("shared/weights"), |temporary| {
            let [name] = &names(&path("shared"))[..] else { panic!("one folder") };
            let made = path("shared").join(name);
            fs::rename(&made, path("moved"))?;
            symlink(path("home"), &made)?;
            fs::write(temporary, "new")?;
            // When `write` returns, a folder of this user has taken the name.
            fs::remove_file(&made)?;
            fs::rename(path("own"), &made)
        })
        .expect("written");
        let read = |name: &str| fs::read_to_string(path(name)).expect("there");
        assert_eq!(
            (read("home/weights"), read("shared/weights")),
            ("precious".into(), "new".into())
        );
        let left: Vec<_> =
            names(&path("shared")).into_iter().filter(|it| it != "weights").collect();
        assert_eq!(left.len(), 1);
        assert_eq!(read(&format!("shared/{}/weights", left[0])), "precious", "it is not removed");
        assert!(!path("moved/weights").exists(), "it was moved out of the folder");
    }

    #[test]
    fn in_a_folder_of_ones_own_the_path_is_a_plain_one() {
        let folder = tempfile::tempdir().expect("a folder");
        write_whole_at(&folder.path().join("a.txt"), |temporary| {
            let is_below = temporary.starts_with(folder.path());
            assert!(is_below && temporary.ends_with("a.txt"), "{}", temporary.display());
            fs::write(temporary, "text")
        })
        .expect("written");
        assert_eq!(names(folder.path()), ["a.txt"]);
    }
}
