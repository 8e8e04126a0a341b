//! What is in the making: files and folders with names that nobody else has or can guess, in the
//! folder of what they are to become.
//!
//! Processes that share a folder may run in containers, where they have the same numbers, or on
//! different machines. So a name is never taken for granted: the file system is asked to make what
//! was not there, and follows no link for that. What is being made is locked for as long; so what a
//! killed process has left can be told, and is cleared away by the next process that writes into
//! the folder.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::directory::Directory;
use super::leftovers::clear_leftovers;
use super::temporary_name::{this_machine, with_number};
use super::{durability, folder_of, permissions};

/// Names are tried until one is free; that many are never taken by chance.
const TRIES: usize = 16;

/// A new file in the folder of the one that it is to become; gone when this is dropped.
#[derive(Debug)]
pub(super) struct TemporaryFile {
    pub(super) file: File,
    entry: Entry,
}

/// The name of a file that is removed when this is dropped, unless it was renamed.
#[derive(Debug)]
struct Entry {
    folder: Arc<Directory>,
    name: String,
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // Nothing can be done if that fails; the next process clears it away.
            let _ = self.folder.remove(self.name.as_ref());
        }
    }
}

impl TemporaryFile {
    /// A file in the folder of `target`: a rename works only within one file system. It keeps the
    /// mode of the file that it will replace.
    pub(super) fn beside(target: &Path) -> io::Result<Self> {
        let folder = Arc::new(Directory::open(folder_of(target))?);
        let made = Self::within(&folder, permissions::kept_mode(target))?;
        clear_leftovers(folder_of(target), &made.entry.name);
        Ok(made)
    }

    /// A file in an open folder, which gets `mode`: that of the file that it will replace.
    pub(super) fn within(folder: &Arc<Directory>, mode: Option<u32>) -> io::Result<Self> {
        // Never more permissions than it will have, not even for a moment.
        let create = |name: &str| folder.create_new(name.as_ref(), mode.unwrap_or(0o666));
        let (file, name) = with_new_name(create)?;
        // Where locks do not work, age tells what is left over.
        let _ = file.try_lock();
        let made = Self { file, entry: Entry { folder: folder.clone(), name } };
        if let Some(mode) = mode {
            permissions::set_mode(&made.file, mode)?;
        }
        Ok(made)
    }

    /// Flushes the file to the disk and gives it the name of `target`, in place of an older file.
    /// Returns the file, to be written on.
    pub(super) fn keep(self, target: &Path) -> io::Result<File> {
        let Self { file, mut entry } = self;
        durability::sync(&file)?;
        let name = target.file_name().unwrap_or(OsStr::new(""));
        // Locked until then, except on systems that do not rename a file that is open.
        #[cfg(not(unix))]
        drop(file);
        entry.folder.rename(entry.name.as_ref(), &entry.folder, name)?;
        entry.name.clear();
        #[cfg(not(unix))]
        let file = fs::OpenOptions::new().append(true).open(entry.folder.path().join(name))?;
        Ok(file)
    }
}

/// The path of a file that is gone when this is dropped.
#[derive(Debug)]
pub(super) struct RemovedPath(pub(super) PathBuf);

impl Drop for RemovedPath {
    fn drop(&mut self) {
        // Nothing can be done if that fails.
        let _ = fs::remove_file(&self.0);
    }
}

/// A new folder that nobody else knows; gone with all that is in it when this is dropped.
///
/// One that a killed process has left is cleared away when the next one is made in the same folder.
#[derive(Debug)]
pub struct TemporaryFolder {
    /// Open, and locked, for as long as it is there.
    folder: Directory,
    own_path: PathBuf,
}

impl TemporaryFolder {
    /// A new folder in `parent`, which is made if need be.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn within(parent: &Path) -> io::Result<Self> {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        fs::create_dir_all(parent)?;
        Self::within_open(&Directory::open(parent)?)
    }

    /// A new folder in an open one.
    pub(super) fn within_open(parent: &Directory) -> io::Result<Self> {
        let ((), name) = with_new_name(|name| parent.create_folder(name.as_ref()))?;
        let folder = parent.open_folder(name.as_ref())?;
        folder.try_lock();
        let by_descriptor = match permissions::is_private(parent.path()) {
            true => None,
            false => folder.path_by_descriptor(),
        };
        let own_path = by_descriptor.unwrap_or_else(|| folder.path().to_owned());
        let made = Self { folder, own_path };
        // By which it is known for one of ours when it is left over.
        made.folder.create_new(name.as_ref(), 0o600)?;
        clear_leftovers(parent.path(), &name);
        Ok(made)
    }

    /// The path of the folder, for other processes, too.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The path by which this process writes into the folder. Where another user could put another
    /// folder or a link in its place, it leads through the open folder (`/proc/self/fd/…`, Linux);
    /// otherwise, and on other systems, it is [`path`](Self::path).
    pub fn own_path(&self) -> &Path {
        &self.own_path
    }

    /// Flushes the file of this name to the disk and moves it to the name `to` in `folder`, on the
    /// same file system, in place of an older file, whose permissions it gets.
    ///
    /// # Errors
    ///
    /// Those of the file system, and if `name` is not a regular file.
    pub fn move_out(&self, name: &OsStr, folder: &Directory, to: &OsStr) -> io::Result<()> {
        let file = self.folder.open_regular(name)?;
        let file = file.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        // Windows flushes only what is open for writing.
        #[cfg(windows)]
        let file = {
            drop(file);
            fs::OpenOptions::new().write(true).open(self.path().join(name))?
        };
        // What its writer did not report: files are often closed without a look at the outcome.
        durability::sync(&file)?;
        if let Some(mode) = permissions::kept_mode(&folder.path().join(to)) {
            permissions::set_mode(&file, mode)?;
        }
        drop(file);
        self.folder.rename(name, folder, to)
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // Another user may have moved it, and put a folder of this user in its place.
        if self.folder.is_at_its_path() {
            // What cannot be removed now is tried again by others, when it is old.
            let _ = fs::remove_dir_all(self.path());
        }
    }
}

/// Makes something that was not there, under a name that is short: the name of what it becomes may
/// be as long as names can be. Returns what `make` made, and its name.
fn with_new_name<T>(make: impl Fn(&str) -> io::Result<T>) -> io::Result<(T, String)> {
    let mut tries = 0;
    loop {
        // The system's own random numbers are behind it.
        let random = RandomState::new().build_hasher().finish();
        let name = with_number(this_machine(), random);
        match make(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => {
                tries += 1;
            }
            made => return made.map(|made| (made, name)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_name_that_is_taken_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let tried = RefCell::new(Vec::new());
        let (_file, name) = with_new_name(|name| {
            let path = folder.path().join(name);
            tried.borrow_mut().push(path.clone());
            if tried.borrow().len() < 3 {
                fs::write(&path, "another's").expect("written");
            }
            File::create_new(path)
        })
        .expect("the third name is free");
        let path = folder.path().join(name);
        let tried = tried.into_inner();
        assert_eq!((tried.len(), &tried[2]), (3, &path));
        let read = |path: &PathBuf| fs::read_to_string(path).expect("there");
        assert_eq!([read(&tried[0]), read(&tried[1]), read(&path)], ["another's", "another's", ""]);
        let names: HashSet<_> = tried.iter().collect();
        assert_eq!(names.len(), 3, "no name twice");
    }
}
