//! Permissions that a new file takes over from the file it replaces.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// Returns the `rwx` bits of the file at `target`. It must be a regular file of the effective user,
/// or a link of that user to one.
///
/// Other files are ignored, because another user could plant a file to make ours setuid or writable
/// by everyone.
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

/// Returns `true` if no other user can replace the folder. The folder and all its parents must
/// belong to the effective user or root. Other users must not be able to write to them, except to
/// create files of their own (`/tmp`).
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

/// Returns `None`, because these systems have no such bits.
#[cfg(not(unix))]
pub(super) fn kept_mode(_target: &Path) -> Option<u32> {
    None
}

/// Sets the mode of `file` to the value that [`kept_mode`] returned, because `umask` has restricted
/// the mode at creation.
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
