//! Where sockets are: in a folder that nobody but the user may enter.

use std::ffi::OsStr;
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Why sockets cannot be where they should be.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// It can neither be found nor made.
    #[error("the folder {path} cannot be used: {error}", path = .path.display())]
    Unusable {
        /// Which folder.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Others could put sockets there.
    #[error(
        "the folder {path} is not this user's own: {reason}; remove it, or name another place by XDG_RUNTIME_DIR",
        path = .path.display()
    )]
    NotOwn {
        /// Which folder.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

crate::debug_as_display!(FolderError);

/// The number of the user that this process acts for.
pub fn own_user() -> u32 {
    // SAFETY: it only reads, and cannot fail.
    unsafe { libc::geteuid() }
}

/// Where the sockets of this user's processes are: `$XDG_RUNTIME_DIR/mlprof`, or `mlprof-{user}` in the folder for
/// temporary files where that variable is not set. It need not be there.
pub fn folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|it| it.is_absolute()) {
        Some(runtime) => runtime.join("mlprof"),
        None => std::env::temp_dir().join(format!("mlprof-{}", own_user())),
    }
}

/// The socket of a process.
pub fn socket_of(folder: &Path, process: u32) -> PathBuf {
    folder.join(format!("{process}.sock"))
}

/// The process whose socket has this name, if it is the name of one.
pub fn process_of(name: &OsStr) -> Option<u32> {
    name.to_str()?.strip_suffix(".sock")?.parse().ok()
}

/// Whether `folder` is there; makes sure that it is this user's own. `makes`: if it is not there it is made.
///
/// # Errors
///
/// If it cannot be made, is no folder, belongs to somebody else, or others may enter it.
pub fn check(folder: &Path, makes: bool) -> Result<bool, FolderError> {
    let unusable = |error| FolderError::Unusable { path: folder.to_owned(), error };
    if makes {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(unusable(error));
            }
            _ => {}
        }
    }
    // Of a link itself, which somebody else may have made.
    match folder.symlink_metadata() {
        Ok(found) => match fault(&found, own_user()) {
            None => Ok(true),
            Some(reason) => Err(FolderError::NotOwn { path: folder.to_owned(), reason }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound && !makes => Ok(false),
        Err(error) => Err(unusable(error)),
    }
}

fn fault(found: &Metadata, user: u32) -> Option<String> {
    if !found.is_dir() {
        return Some("it is no folder".to_owned());
    }
    if found.uid() != user {
        return Some(format!("it belongs to the user with the number {}", found.uid()));
    }
    let mode = found.mode() & 0o777;
    (mode & 0o077 != 0).then(|| format!("others may enter it (its mode is {mode:o}, not 700)"))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_folder_is_made_for_nobody_else() {
        let around = tempfile::tempdir().expect("a folder");
        let folder = around.path().join("mlprof");
        assert!(!check(&folder, false).expect("it is not there"));
        assert!(check(&folder, true).expect("it is made"));
        let mode = folder.metadata().expect("it is there").mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(check(&folder, true).expect("the second time, too"));
    }

    #[test]
    fn a_folder_that_is_not_ones_own_is_refused() {
        let around = tempfile::tempdir().expect("a folder");
        let folder = around.path().join("mlprof");
        std::fs::create_dir(&folder).expect("made");
        std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).expect("opened");
        let error = check(&folder, true).expect_err("others may enter").to_string();
        assert!(error.contains("its mode is 755, not 700"), "{error}");
        let link = around.path().join("link");
        symlink(&folder, &link).expect("made");
        let error = check(&link, true).expect_err("a link").to_string();
        assert!(error.contains("it is no folder"), "{error}");
        let found = folder.metadata().expect("it is there");
        let reason = fault(&found, own_user() + 1).expect("another's");
        assert!(reason.starts_with("it belongs to the user"), "{reason}");
    }

    #[test]
    fn a_socket_is_named_after_its_process() {
        let path = socket_of(Path::new("/run/mlprof"), 4711);
        assert_eq!(path.file_name().and_then(process_of), Some(4711));
        assert_eq!(process_of(OsStr::new("x.sock")), None);
        assert_eq!(process_of(OsStr::new("4711")), None);
    }
}
