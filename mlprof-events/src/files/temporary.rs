//! Temporary files and folders with unique, unpredictable names, in the folder of the final file.
//!
//! Processes that share a folder may run on different machines, or in containers, where they may
//! have equal process ids. So names are never assumed to be free. The file system is asked to
//! create a new entry, without following a link.
//!
//! A temporary entry stays locked until it is complete. The lock shows which entries a killed
//! process left behind. The next process that writes into the folder removes them.

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

/// Number of names to try. Random names never collide this often by chance.
const TRIES: usize = 16;

/// A new file in the folder of its final name. It is removed when this value is dropped.
#[derive(Debug)]
pub(super) struct TemporaryFile {
    pub(super) file: File,
    entry: Entry,
}

/// Name of a file that is removed on drop, unless it was renamed.
#[derive(Debug)]
struct Entry {
    folder: Arc<Directory>,
    name: String,
}

impl Drop for Entry {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // A failure is ignored, because the next process removes the file.
            let _ = self.folder.remove(self.name.as_ref());
        }
    }
}

impl TemporaryFile {
    /// Creates a file in the folder of `target`, because a rename works only within one file
    /// system. The file gets the mode of the file that it will replace.
    pub(super) fn beside(target: &Path) -> io::Result<Self> {
        let folder = Arc::new(Directory::open(folder_of(target))?);
        let made = Self::within(&folder, permissions::kept_mode(target))?;
        clear_leftovers(folder_of(target), &made.entry.name);
        Ok(made)
    }

    /// Creates a file in an open folder. It gets `mode`, which is the mode of the file that it will
    /// replace.
    pub(super) fn within(folder: &Arc<Directory>, mode: Option<u32>) -> io::Result<Self> {
        // The file must not have more permissions than its final mode, even for a moment.
        let create = |name: &str| folder.create_new(name.as_ref(), mode.unwrap_or(0o666));
        let (file, name) = with_new_name(create)?;
        // If the file system does not support locks, the age of the file decides.
        let _ = file.try_lock();
        let made = Self { file, entry: Entry { folder: folder.clone(), name } };
        if let Some(mode) = mode {
            permissions::set_mode(&made.file, mode)?;
        }
        Ok(made)
    }

    /// Flushes the file to the disk and renames it to `target`, replacing an older file. Returns
    /// the file for further writes.
    pub(super) fn keep(self, target: &Path) -> io::Result<File> {
        let Self { file, mut entry } = self;
        durability::sync(&file)?;
        let name = target.file_name().unwrap_or(OsStr::new(""));
        // The file stays locked until then, except on systems that do not rename an open file.
        #[cfg(not(unix))]
        drop(file);
        entry.folder.rename(entry.name.as_ref(), &entry.folder, name)?;
        entry.name.clear();
        #[cfg(not(unix))]
        let file = fs::OpenOptions::new().append(true).open(entry.folder.path().join(name))?;
        Ok(file)
    }
}

/// Path of a file that is removed on drop.
#[derive(Debug)]
pub(super) struct RemovedPath(pub(super) PathBuf);

impl Drop for RemovedPath {
    fn drop(&mut self) {
        // A failure cannot be handled here.
        let _ = fs::remove_file(&self.0);
    }
}

/// A new folder with a unique name. The folder and its content are removed on drop.
///
/// A folder that a killed process left behind is removed when the next one is created in the same
/// parent.
#[derive(Debug)]
pub struct TemporaryFolder {
    /// Folder handle, open and locked as long as the folder exists.
    folder: Directory,
    own_path: PathBuf,
}

impl TemporaryFolder {
    /// Creates a new folder in `parent`, which is created if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns errors of the file system.
    pub fn within(parent: &Path) -> io::Result<Self> {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        fs::create_dir_all(parent)?;
        Self::within_open(&Directory::open(parent)?)
    }

    /// Creates a new folder in an open folder.
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
        // This file marks the folder as one of ours, in case it is left behind.
        made.folder.create_new(name.as_ref(), 0o600)?;
        clear_leftovers(parent.path(), &name);
        Ok(made)
    }

    /// Returns the path of the folder, which other processes can also use.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path by which this process writes into the folder. If another user could replace
    /// the folder by another one or by a link, the path leads through the open folder
    /// (`/proc/self/fd/…`, Linux). Otherwise, and on other systems, it is [`path`](Self::path).
    pub fn own_path(&self) -> &Path {
        &self.own_path
    }

    /// Flushes the file `name` to the disk and moves it to the name `to` in `folder`, which must be
    /// on the same file system. It replaces an older file and takes over its permissions.
    ///
    /// # Errors
    ///
    /// Returns errors of the file system. Also fails if `name` is not a regular file.
    pub fn move_out(&self, name: &OsStr, folder: &Directory, to: &OsStr) -> io::Result<()> {
        let file = self.folder.open_regular(name)?;
        let file = file.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        // Windows flushes only files that are open for writing.
        #[cfg(windows)]
        let file = {
            drop(file);
            fs::OpenOptions::new().write(true).open(self.path().join(name))?
        };
        // This reports errors that the writer missed, because many programs close files without
        // checking the result.
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
        // Another user may have moved the folder and put a folder of this user in its place.
        if self.folder.is_at_its_path() {
            // If the removal fails, another process removes the folder later.
            let _ = fs::remove_dir_all(self.path());
        }
    }
}

/// Creates something new with `make` under a random name, and returns the result and the name. The
/// name is short, because the final name may have the maximum length.
fn with_new_name<T>(make: impl Fn(&str) -> io::Result<T>) -> io::Result<(T, String)> {
    let mut tries = 0;
    loop {
        // The hasher is seeded with the system's random numbers.
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
