//! Resolution of output paths, and the check that the process may write to them in place.

use std::fs::{self, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::bounded_write::BoundedFile;

/// Maximum number of links in a chain.
#[cfg(unix)]
const MOST_LINKS: usize = 16;

/// Type of the entry that a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nothing,
    File,
    /// A pipe, a device or a socket.
    Special,
    /// One of the process's own open files, by its name in `/dev` or `/proc`.
    #[cfg_attr(not(unix), expect(dead_code, reason = "links are not followed"))]
    OpenFile,
    Folder,
}

/// Entry at the end of a chain of trusted links.
struct Target {
    path: PathBuf,
    kind: Kind,
    /// Set if the path was reached through links.
    #[cfg_attr(not(unix), expect(dead_code, reason = "links are not looked at"))]
    is_linked: bool,
}

/// Opens a file for appending and creates it if it does not exist.
///
/// # Errors
///
/// Returns errors of the file system. Also fails if a link or its target belongs to another user.
pub(super) fn open_to_append(path: &Path) -> io::Result<BoundedFile> {
    let target = target_of(path)?;
    let mut options = OpenOptions::new();
    options.append(true);
    if matches!(target.kind, Kind::Nothing | Kind::File) {
        options.create(true);
    }
    target.open(&mut options)
}

/// Opens a pipe, a device or one of the process's own open files for writing. Returns `None` for
/// every path that can be replaced by another file.
pub(super) fn open_in_place(path: &Path) -> io::Result<Option<BoundedFile>> {
    match target_of(path) {
        Ok(target) if matches!(target.kind, Kind::Special | Kind::OpenFile) => {
            target.open(OpenOptions::new().write(true)).map(Some)
        }
        // A link that must not be followed is replaced.
        _ => Ok(None),
    }
}

fn kind_of(found: &Metadata) -> Kind {
    if found.is_file() {
        Kind::File
    } else if found.is_dir() {
        Kind::Folder
    } else {
        Kind::Special
    }
}

#[cfg(not(unix))]
fn target_of(path: &Path) -> io::Result<Target> {
    let kind = fs::metadata(path).map_or(Kind::Nothing, |found| kind_of(&found));
    Ok(Target { path: path.to_owned(), kind, is_linked: false })
}

#[cfg(not(unix))]
impl Target {
    fn open(&self, options: &mut OpenOptions) -> io::Result<BoundedFile> {
        BoundedFile::open(options, 0, &self.path)
    }
}

/// Follows links that belong to the effective user or to root.
#[cfg(unix)]
fn target_of(path: &Path) -> io::Result<Target> {
    use std::os::unix::fs::MetadataExt;

    let mut target = Target { path: path.to_owned(), kind: Kind::Nothing, is_linked: false };
    for _ in 0..MOST_LINKS {
        let found = match fs::symlink_metadata(&target.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(target),
            found => found?,
        };
        if !found.is_symlink() {
            target.kind = kind_of(&found);
            return Ok(target);
        }
        if !is_trusted(found.uid()) {
            return Err(untrusted("it is a symbolic link", found.uid()));
        }
        if is_of_open_files(&target.path) {
            target.kind = Kind::OpenFile;
            return Ok(target);
        }
        let to = fs::read_link(&target.path)?;
        target.path = super::folder_of(&target.path).join(to);
        target.is_linked = true;
    }
    Err(io::Error::other("the path has too many levels of symbolic links"))
}

/// Rejects a path if it is a symbolic link that another user created. Such a link could lead to a
/// folder of this user, in which mlprof would then replace and remove files.
///
/// # Errors
///
/// Fails if the path is such a link.
#[cfg(unix)]
pub fn refuse_link_of_others(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;

    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() && !is_trusted(found.uid()) => {
            Err(untrusted("it is a symbolic link", found.uid()))
        }
        _ => Ok(()),
    }
}

/// Accepts every path, because links have no owners on these systems.
///
/// # Errors
///
/// Never fails.
#[cfg(not(unix))]
pub fn refuse_link_of_others(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// Returns `true` if links at this path are the kernel's names for open files.
#[cfg(unix)]
fn is_of_open_files(path: &Path) -> bool {
    let climbs = path.components().any(|part| part == std::path::Component::ParentDir);
    !climbs && (path.starts_with("/dev") || path.starts_with("/proc"))
}

/// Returns `true` for users who cannot harm this process: its own user, and root, who has full
/// rights anyway.
#[cfg(unix)]
pub(super) fn is_trusted(user: u32) -> bool {
    user == super::effective_user() || user == 0
}

#[cfg(unix)]
fn untrusted(what: &str, user: u32) -> io::Error {
    let reason =
        format!("{what} of user {user}; remove it, or choose a folder that only you can write to");
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}

#[cfg(unix)]
impl Target {
    fn open(&self, options: &mut OpenOptions) -> io::Result<BoundedFile> {
        let is_open_file = self.kind == Kind::OpenFile;
        if self.kind == Kind::Special {
            self.check(&fs::symlink_metadata(&self.path)?)?;
        }
        let flags = if is_open_file { 0 } else { libc::O_NOFOLLOW };
        let file = BoundedFile::open(options, flags, &self.path)?;
        if !is_open_file {
            // The check is repeated, because another file may have taken the path meanwhile.
            self.check(&file.file().metadata()?)?;
        }
        Ok(file)
    }

    /// Rejects an entry that another user may have created to reach files of this user.
    fn check(&self, found: &Metadata) -> io::Result<()> {
        use std::os::unix::fs::MetadataExt;

        let (owner, user) = (found.uid(), super::effective_user());
        match kind_of(found) {
            Kind::Special if !is_trusted(owner) => Err(untrusted("it is a pipe or device", owner)),
            Kind::File if self.is_linked && owner != user => {
                Err(untrusted("it leads to a file", owner))
            }
            Kind::File if found.nlink() > 1 && !is_own_folder(super::folder_of(&self.path)) => {
                let reason = "it is a hard link to another file, in a folder that others can write to; \
                              remove it, or choose a folder that only you can write to";
                Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
            }
            _ => Ok(()),
        }
    }
}

/// Returns `true` if no other user can create links in the folder.
#[cfg(unix)]
fn is_own_folder(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    fs::metadata(folder).is_ok_and(|it| is_trusted(it.uid()) && it.mode() & 0o022 == 0)
}
