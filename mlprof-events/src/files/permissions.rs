//! The permissions that a file hands on to the one that replaces it.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The `rwx` bits of the file at `target`, if it is a regular file of the effective user, or a link
/// of that user to one.
///
/// Nothing else counts: a file of another user could be planted to make ours setuid or writable by
/// all.
#[cfg(unix)]
pub(super) fn kept_mode(target: &Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;

    let user = super::effective_user();
    let mut there = fs::symlink_metadata(target).ok().filter(|there| there.uid() == user)?;
    if there.is_symlink() {
        there = fs::metadata(target).ok().filter(|there| there.uid() == user)?;
    }
    there.is_file().then(|| there.mode() & 0o777)
}

/// Whether no other user can put something else in the place of a folder: it and those above it
/// belong to the effective user or root, and others may not write to them, or only create files
/// of their own (`/tmp`).
#[cfg(unix)]
pub(super) fn is_private(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    let is_trusted = |found: fs::Metadata| {
        let is_shared = found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0;
        !is_shared && super::target::is_trusted(found.uid())
    };
    let real = fs::canonicalize(folder);
    real.is_ok_and(|real| real.ancestors().all(|it| fs::metadata(it).is_ok_and(is_trusted)))
}

#[cfg(not(unix))]
pub(super) fn is_private(_folder: &Path) -> bool {
    true
}

/// These systems have no such bits.
#[cfg(not(unix))]
pub(super) fn kept_mode(_target: &Path) -> Option<u32> {
    None
}

/// Gives `file` the mode that [`kept_mode`] returned: `umask` has limited the one it was created
/// with.
pub(super) fn set_mode(file: &File, mode: u32) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};

        if file.metadata()?.mode() & 0o777 != mode & 0o777 {
            file.set_permissions(fs::Permissions::from_mode(mode & 0o777))?;
        }
    }
    #[cfg(not(unix))]
    let _ = (file, mode, fs::metadata::<&Path>);
    Ok(())
}
