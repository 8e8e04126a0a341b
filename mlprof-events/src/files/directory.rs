//! A folder that stays the same one, whatever happens to its path.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::guarded::GuardedFile;

/// An open folder. Files are created, opened, renamed and removed in it by its descriptor, so that
/// neither a link nor another folder that takes its path can lead them elsewhere.
///
/// Outside of Unix it is a path.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    #[cfg_attr(not(unix), expect(dead_code, reason = "there are no descriptors"))]
    folder: Option<GuardedFile>,
}

impl Directory {
    /// Opens a folder, following links.
    ///
    /// # Errors
    ///
    /// If it is not there, is not a folder, or may not be entered.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(Self { path: path.to_owned(), folder: open_folder(path)? })
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the regular file of this name for reading; `None` if nothing has the name.
    ///
    /// # Errors
    ///
    /// If something else than a regular file has it (a link, a pipe, a folder), or the file cannot
    /// be read.
    pub fn open_regular(&self, name: &OsStr) -> io::Result<Option<File>> {
        match self.open_to_read(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Ok(file) if !file.metadata()?.is_file() => Err(super::read::not_regular()),
            opened => opened.map(Some),
        }
    }
}

#[cfg(unix)]
mod unix {
    use std::ffi::CString;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

    use super::*;

    /// Looking up names in a folder needs no permission to list it.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const LOOK_UP_ONLY: libc::c_int = libc::O_PATH;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const LOOK_UP_ONLY: libc::c_int = 0;

    pub(super) fn open_folder(path: &Path) -> io::Result<Option<GuardedFile>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).custom_flags(LOOK_UP_ONLY | libc::O_DIRECTORY);
        options.open(path).and_then(GuardedFile::new).map(Some)
    }

    fn c_string(name: &OsStr) -> io::Result<CString> {
        Ok(CString::new(name.as_bytes())?)
    }

    /// The error of a system call that returned this.
    fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
    }

    impl Directory {
        fn descriptor(&self) -> io::Result<RawFd> {
            let folder = self.folder.as_ref().ok_or(io::ErrorKind::NotADirectory)?;
            folder.get().map(File::as_raw_fd)
        }

        /// What is known of the folder itself: its owner and its mode.
        ///
        /// # Errors
        ///
        /// If the program has closed its descriptor.
        pub fn metadata(&self) -> io::Result<fs::Metadata> {
            let folder = self.folder.as_ref().ok_or(io::ErrorKind::NotADirectory)?;
            folder.get()?.metadata()
        }

        /// The folder's path without links, as the kernel knows it now.
        ///
        /// # Errors
        ///
        /// If `/proc` is not mounted, or the system has none.
        pub fn real_path(&self) -> io::Result<PathBuf> {
            let number = self.descriptor()?;
            #[cfg(any(target_os = "linux", target_os = "android"))]
            return fs::read_link(format!("/proc/self/fd/{number}"));
            #[cfg(not(any(target_os = "linux", target_os = "android")))]
            {
                let _ = number;
                Err(io::ErrorKind::Unsupported.into())
            }
        }

        fn open_at(&self, name: &OsStr, flags: libc::c_int, mode: u32) -> io::Result<File> {
            let (folder, name) = (self.descriptor()?, c_string(name)?);
            let flags =
                flags | libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
            // SAFETY: `folder` is open while `self` is borrowed, `name` is a C string that lives
            // until the call returns, and the mode is given as the variadic argument that `O_CREAT`
            // reads.
            let number =
                unsafe { libc::openat(folder, name.as_ptr(), flags, mode as libc::c_uint) };
            let number = checked(number)?;
            // SAFETY: `openat` has just returned this descriptor, and nothing else owns it.
            Ok(File::from(unsafe { OwnedFd::from_raw_fd(number) }))
        }

        pub(super) fn open_to_read(&self, name: &OsStr) -> io::Result<File> {
            self.open_at(name, libc::O_RDONLY, 0)
        }

        /// Creates a file that was not there, to be written.
        pub(in crate::files) fn create_new(&self, name: &OsStr, mode: u32) -> io::Result<File> {
            self.open_at(name, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, mode)
        }

        /// Moves a file to a name in another folder, or in this one, in place of an older file.
        pub(in crate::files) fn rename(
            &self,
            from: &OsStr,
            into: &Self,
            to: &OsStr,
        ) -> io::Result<()> {
            let (from, to) = (c_string(from)?, c_string(to)?);
            let (folder, into) = (self.descriptor()?, into.descriptor()?);
            // SAFETY: both folders are open while they are borrowed, and both names are C strings
            // that live until the call returns.
            checked(unsafe { libc::renameat(folder, from.as_ptr(), into, to.as_ptr()) }).map(drop)
        }

        /// Creates a folder that was not there, for this user alone.
        pub(in crate::files) fn create_folder(&self, name: &OsStr) -> io::Result<()> {
            let (folder, name) = (self.descriptor()?, c_string(name)?);
            // SAFETY: `folder` is open while `self` is borrowed, and `name` is a C string that
            // lives until the call returns.
            checked(unsafe { libc::mkdirat(folder, name.as_ptr(), 0o700) }).map(drop)
        }

        /// Opens a folder in this one, not through a link.
        pub(in crate::files) fn open_folder(&self, name: &OsStr) -> io::Result<Self> {
            let file = self.open_at(name, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
            let folder = GuardedFile::new(file)?;
            Ok(Self { path: self.path.join(name), folder: Some(folder) })
        }

        /// Locks the folder for as long as it is open. Returns whether that worked.
        pub(in crate::files) fn try_lock(&self) -> bool {
            let folder = self.folder.as_ref().and_then(|folder| folder.get().ok());
            folder.is_some_and(|folder| folder.try_lock().is_ok())
        }

        /// Whether its path still leads to it.
        pub(in crate::files) fn is_at_its_path(&self) -> bool {
            let identity = |found: fs::Metadata| (found.dev(), found.ino());
            let there = fs::symlink_metadata(&self.path).map(identity);
            there.is_ok_and(|there| self.metadata().map(identity).is_ok_and(|own| own == there))
        }

        /// A path to the folder by its descriptor, for this process alone; `None` where the system
        /// has none.
        pub(in crate::files) fn path_by_descriptor(&self) -> Option<PathBuf> {
            let path = PathBuf::from(format!("/proc/self/fd/{}", self.descriptor().ok()?));
            let is_linux = cfg!(any(target_os = "linux", target_os = "android"));
            // Not without `/proc`.
            (is_linux && path.join(".").is_dir()).then_some(path)
        }

        /// Removes a file.
        pub(in crate::files) fn remove(&self, name: &OsStr) -> io::Result<()> {
            let (folder, name) = (self.descriptor()?, c_string(name)?);
            // SAFETY: `folder` is open while `self` is borrowed, and `name` is a C string that
            // lives until the call returns.
            checked(unsafe { libc::unlinkat(folder, name.as_ptr(), 0) }).map(drop)
        }
    }
}

#[cfg(unix)]
use unix::open_folder;

#[cfg(not(unix))]
fn open_folder(path: &Path) -> io::Result<Option<GuardedFile>> {
    if fs::metadata(path)?.is_dir() { Ok(None) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

#[cfg(not(unix))]
impl Directory {
    fn open_to_read(&self, name: &OsStr) -> io::Result<File> {
        File::open(self.path.join(name))
    }

    /// Creates a file that was not there, to be written.
    pub(in crate::files) fn create_new(&self, name: &OsStr, _mode: u32) -> io::Result<File> {
        fs::OpenOptions::new().write(true).create_new(true).open(self.path.join(name))
    }

    /// Moves a file to a name in another folder, or in this one, in place of an older file.
    pub(in crate::files) fn rename(&self, from: &OsStr, into: &Self, to: &OsStr) -> io::Result<()> {
        fs::rename(self.path.join(from), into.path.join(to))
    }

    /// Creates a folder that was not there.
    pub(in crate::files) fn create_folder(&self, name: &OsStr) -> io::Result<()> {
        fs::create_dir(self.path.join(name))
    }

    /// Opens a folder in this one.
    pub(in crate::files) fn open_folder(&self, name: &OsStr) -> io::Result<Self> {
        Self::open(&self.path.join(name))
    }

    /// Locks the folder for as long as it is open. Returns whether that worked.
    pub(in crate::files) fn try_lock(&self) -> bool {
        false
    }

    /// Whether its path still leads to it.
    pub(in crate::files) fn is_at_its_path(&self) -> bool {
        true
    }

    /// A path to the folder by its descriptor; there is none.
    pub(in crate::files) fn path_by_descriptor(&self) -> Option<PathBuf> {
        None
    }

    /// Removes a file.
    pub(in crate::files) fn remove(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }
}
