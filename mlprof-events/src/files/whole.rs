//! Files that get their names when they are complete.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bounded_write::{self, BoundedFile};
use super::directory::Directory;
use super::temporary::{TemporaryFile, TemporaryFolder};
use super::{create_parent, durability, folder_of, target, without_signals};

/// Has `write` write a file that has its name only when it is whole: until then a reader finds what
/// was there before, also if this process is killed. Directories are made if need be. A file that
/// is replaced hands its permissions on: `rwx` bits, and only if it belongs to the effective user.
///
/// Until then it has a name that no other process takes, also not one in another container or on
/// another machine: `.mlprof-….tmp` in the same folder. What a killed process has left of that kind
/// is removed by the next one that writes into the folder: after a minute, where the system knows
/// that nobody is at work on it, else after a day.
///
/// A device or a pipe is written as one goes. One that nobody reads from is an error: at once, or
/// five seconds after its last reader has read. A limit on the size of files (`ulimit -f`) is an
/// error, too, and not the end of the process. A symbolic link is replaced, unless it belongs to
/// the effective user or root and leads to a device or a pipe.
///
/// # Errors
///
/// What `write` says, or if the file cannot be made or flushed to the disk; then nothing has
/// changed.
pub fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    write(&mut file)?;
    file.finish()
}

/// Makes the file hold exactly `content`, as [`write_file`] does.
///
/// # Errors
///
/// Those of [`write_file`].
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    write_file(path, |file| file.write_all(content))
}

/// Writes a whole file into an open folder, as [`write_file`] does, in place of the regular file of
/// that name.
///
/// # Errors
///
/// Those of [`write_file`], and if something else than a regular file of the effective user has the
/// name, or `may_replace` returns an error for the file that has it.
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

/// The mode of a file of the effective user.
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

/// A file that has its name only when it is whole: until [`finish`](Self::finish) a reader finds
/// what was there before, also if this process is killed. Dropped before, it was never there.
///
/// A device or a pipe has no such moment; it is written as one goes.
#[derive(Debug)]
pub struct WholeFile(Place);

#[derive(Debug)]
enum Place {
    InPlace(BoundedFile),
    Beside { temporary: TemporaryFile, name: PathBuf },
}

impl WholeFile {
    /// Begins a file; its directories are made if need be.
    ///
    /// # Errors
    ///
    /// Those of the file system.
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

    /// Flushes the file to the disk and gives it its name, in place of an older one.
    ///
    /// # Errors
    ///
    /// Those of the file system; the older file is then what it was.
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

/// Has `write` write a file of its own to the path that it is given, which ends in the name that
/// the file gets when it is whole. For those who cannot write to what is open; nothing else that
/// they leave beside it is kept. Where other users could exchange folders of the path, it leads
/// through an open folder (`/proc/self/fd/…`, Linux).
///
/// # Errors
///
/// Those of `write`, and if the file cannot get its name; there is then the one that was there
/// before.
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

    /// Names in a folder.
    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).expect("a folder");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        names.map(|entry| name(entry).into_string().expect("text")).collect()
    }

    #[test]
    fn a_file_that_is_written_by_its_path_stays_in_the_folder_that_was_made_for_it() {
        let around = tempfile::tempdir().expect("a folder");
        let path = |name: &str| around.path().join(name);
        // Of a group, say: each of its users may rename what is in there.
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
            // By the end a folder of this user's own has its name.
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
