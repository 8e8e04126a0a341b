//! Access to a folder that stays the same folder even if its path changes.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::guarded::GuardedFile;

/// An open folder. Files in it are created, opened, renamed and removed relative to its descriptor.
/// Neither a link nor another folder that takes its path can redirect these operations.
///
/// On systems other than Unix it is only a path.
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
    /// Fails if the path does not exist, is not a folder, or may not be entered.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Ok(Self { path: path.to_owned(), folder: open_folder(path)? })
    }

    /// Returns the path that the folder was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the regular file with this name for reading. Returns `None` if the name does not
    /// exist.
    ///
    /// # Errors
    ///
    /// Fails if the name belongs to something other than a regular file (a link, a pipe, a folder),
    /// or if the file cannot be read.
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

    /// Flag for looking up names in a folder without permission to list it.
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

    /// Converts the result of a system call to `Err` with the system's last error if it is
    /// negative.
    fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
    }

    impl Directory {
        fn descriptor(&self) -> io::Result<RawFd> {
            let folder = self.folder.as_ref().ok_or(io::ErrorKind::NotADirectory)?;
            folder.get().map(File::as_raw_fd)
        }

        /// Returns the metadata of the folder itself, such as its owner and mode.
        ///
        /// # Errors
        ///
        /// Fails if the program has closed the folder's descriptor.
        pub fn metadata(&self) -> io::Result<fs::Metadata> {
            let folder = self.folder.as_ref().ok_or(io::ErrorKind::NotADirectory)?;
            folder.get()?.metadata()
        }

        /// Returns the folder's current path without links, as the kernel reports it.
        ///
        /// # Errors
        ///
        /// Fails if `/proc` is not mounted or the system does not have it.
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
            // SAFETY: `folder` stays open while `self` is borrowed. `name` is a C string that
            // outlives the call. The mode is the variadic argument that `O_CREAT` reads.
            let number =
                unsafe { libc::openat(folder, name.as_ptr(), flags, mode as libc::c_uint) };
            let number = checked(number)?;
            // SAFETY: `openat` has just returned this open descriptor, and it has no other owner.
            Ok(File::from(unsafe { OwnedFd::from_raw_fd(number) }))
        }

        pub(super) fn open_to_read(&self, name: &OsStr) -> io::Result<File> {
            self.open_at(name, libc::O_RDONLY, 0)
        }

        /// Creates a new file for writing. Fails if the name exists.
        pub(in crate::files) fn create_new(&self, name: &OsStr, mode: u32) -> io::Result<File> {
            self.open_at(name, libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL, mode)
        }

        /// Moves a file to a name in another folder or in this one, replacing an older file.
        pub(in crate::files) fn rename(
            &self,
            from: &OsStr,
            into: &Self,
            to: &OsStr,
        ) -> io::Result<()> {
            let (from, to) = (c_string(from)?, c_string(to)?);
            let (folder, into) = (self.descriptor()?, into.descriptor()?);
            // SAFETY: both descriptors stay open while the folders are borrowed. Both names are C
            // strings that outlive the call.
            checked(unsafe { libc::renameat(folder, from.as_ptr(), into, to.as_ptr()) }).map(drop)
        }

        /// Creates a new folder with access for this user only.
        pub(in crate::files) fn create_folder(&self, name: &OsStr) -> io::Result<()> {
            let (folder, name) = (self.descriptor()?, c_string(name)?);
            // SAFETY: `folder` stays open while `self` is borrowed. `name` is a C string that
            // outlives the call.
            checked(unsafe { libc::mkdirat(folder, name.as_ptr(), 0o700) }).map(drop)
        }

        /// Opens a folder inside this one without following a link.
        pub(in crate::files) fn open_folder(&self, name: &OsStr) -> io::Result<Self> {
            let file = self.open_at(name, libc::O_RDONLY | libc::O_DIRECTORY, 0)?;
            let folder = GuardedFile::new(file)?;
            Ok(Self { path: self.path.join(name), folder: Some(folder) })
        }

        /// Locks the folder for as long as it is open. Returns `true` on success.
        pub(in crate::files) fn try_lock(&self) -> bool {
            let folder = self.folder.as_ref().and_then(|folder| folder.get().ok());
            folder.is_some_and(|folder| folder.try_lock().is_ok())
        }

        /// Returns `true` if the folder's path still leads to it.
        pub(in crate::files) fn is_at_its_path(&self) -> bool {
            let identity = |found: fs::Metadata| (found.dev(), found.ino());
            let there = fs::symlink_metadata(&self.path).map(identity);
            there.is_ok_and(|there| self.metadata().map(identity).is_ok_and(|own| own == there))
        }

        /// Returns a path to the folder through its descriptor, which is valid in this process
        /// only. Returns `None` if the system has no such paths.
        pub(in crate::files) fn path_by_descriptor(&self) -> Option<PathBuf> {
            let path = PathBuf::from(format!("/proc/self/fd/{}", self.descriptor().ok()?));
            let is_linux = cfg!(any(target_os = "linux", target_os = "android"));
            // The path does not exist if `/proc` is not mounted.
            (is_linux && path.join(".").is_dir()).then_some(path)
        }

        /// Removes a file.
        pub(in crate::files) fn remove(&self, name: &OsStr) -> io::Result<()> {
            let (folder, name) = (self.descriptor()?, c_string(name)?);
            // SAFETY: `folder` stays open while `self` is borrowed. `name` is a C string that
            // outlives the call.
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

    /// Creates a new file for writing. Fails if the name exists.
    pub(in crate::files) fn create_new(&self, name: &OsStr, _mode: u32) -> io::Result<File> {
        fs::OpenOptions::new().write(true).create_new(true).open(self.path.join(name))
    }

    /// Moves a file to a name in another folder or in this one, replacing an older file.
    pub(in crate::files) fn rename(&self, from: &OsStr, into: &Self, to: &OsStr) -> io::Result<()> {
        fs::rename(self.path.join(from), into.path.join(to))
    }

    /// Creates a new folder.
    pub(in crate::files) fn create_folder(&self, name: &OsStr) -> io::Result<()> {
        fs::create_dir(self.path.join(name))
    }

    /// Opens a folder inside this one.
    pub(in crate::files) fn open_folder(&self, name: &OsStr) -> io::Result<Self> {
        Self::open(&self.path.join(name))
    }

    /// Returns `false`, because this system does not lock folders.
    pub(in crate::files) fn try_lock(&self) -> bool {
        false
    }

    /// Returns `true`, because a folder is only a path on this system.
    pub(in crate::files) fn is_at_its_path(&self) -> bool {
        true
    }

    /// Returns `None`, because this system has no paths through descriptors.
    pub(in crate::files) fn path_by_descriptor(&self) -> Option<PathBuf> {
        None
    }

    /// Removes a file.
    pub(in crate::files) fn remove(&self, name: &OsStr) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }
}
