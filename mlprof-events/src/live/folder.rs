//! The folders in which sockets can be: each may be entered by its user only.

use crate::error_chain::Chain;
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::user::{is_own_user, own_user};
use crate::environment::variable;

/// Why sockets cannot be in a folder.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// It can neither be found nor made.
    #[error("cannot use the folder {path}", path = .path.display())]
    Unusable {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the system.
        #[source]
        error: io::Error,
    },
    /// Others could put sockets there.
    #[error("cannot use the folder {path}: {reason}", path = .path.display())]
    NotOwn {
        /// Path of the folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// None of the [folders] can be used.
    #[error(
        "cannot find a folder for sockets: {}; set XDG_RUNTIME_DIR to a folder that only you may enter",
        .0.iter().map(|reason| Chain(reason).to_string()).collect::<Vec<_>>().join("; ")
    )]
    None(
        /// One reason per folder.
        Vec<Self>,
    ),
}

crate::debug_as_display!(FolderError);

/// Returns the folders in which sockets of this user's processes can be, in the order in which a
/// process tries them: `$XDG_RUNTIME_DIR/mlprof`, `/run/user/{user}/mlprof` (Linux), and
/// `mlprof-{user}` in the folder for temporary files and in `/tmp`. They need not exist.
///
/// The environment of a job often names a folder that the machine does not have, and that of a
/// login shell another one than that of a service. So a process takes the first one that it can
/// use, and its clients look in all of them.
pub fn folders() -> Vec<PathBuf> {
    let runtime = variable("XDG_RUNTIME_DIR").map(PathBuf::from);
    folders_of(runtime, std::env::temp_dir(), own_user())
}

fn folders_of(runtime: Option<PathBuf>, temporary: PathBuf, user: u32) -> Vec<PathBuf> {
    let of_system = cfg!(target_os = "linux").then(|| PathBuf::from(format!("/run/user/{user}")));
    let runtime = runtime.into_iter().chain(of_system).map(|folder| folder.join("mlprof"));
    let own = format!("mlprof-{user}");
    let temporary = [temporary, PathBuf::from("/tmp")].map(|folder| folder.join(&own));
    let mut all: Vec<PathBuf> = Vec::new();
    for folder in runtime.chain(temporary) {
        if folder.is_absolute() && !all.contains(&folder) {
            all.push(folder);
        }
    }
    all
}

/// Calls `make` with one folder after the other until it succeeds in one of them, and returns its
/// result. A folder that is missing is created for this user alone.
///
/// # Errors
///
/// [`FolderError::None`] with one reason per folder.
pub fn in_first_usable<T>(
    folders: &[PathBuf],
    mut make: impl FnMut(&Path) -> io::Result<T>,
) -> Result<T, FolderError> {
    let mut reasons = Vec::new();
    for folder in folders {
        let unusable = |error| FolderError::Unusable { path: folder.clone(), error };
        match check(folder, true).and_then(|_| make(folder).map_err(unusable)) {
            Ok(made) => return Ok(made),
            Err(reason) => reasons.push(reason),
        }
    }
    Err(FolderError::None(reasons))
}

/// Returns whether `folder` exists, and makes sure that it is this user's own. With `makes` it is
/// created if it is missing.
///
/// # Errors
///
/// If it cannot be created, is not a folder, belongs to another user, or others may enter it.
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
    // Not through a link, which somebody else may have made.
    match folder.symlink_metadata() {
        Ok(found) => match fault(&found, is_own_user) {
            None => Ok(true),
            Some(reason) => Err(FolderError::NotOwn { path: folder.to_owned(), reason }),
        },
        // The folder above it may be missing, too, or belong to another user.
        Err(error)
            if !makes
                && matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
                ) =>
        {
            Ok(false)
        }
        Err(error) => Err(unusable(error)),
    }
}

fn fault(found: &Metadata, is_own: impl Fn(u32) -> bool) -> Option<String> {
    if !found.is_dir() {
        return Some("it is not a folder".to_owned());
    }
    if !is_own(found.uid()) {
        return Some(format!("it belongs to user {}", found.uid()));
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
        assert!(!check(&folder.join("below"), false).expect("nor is what would be below it"));
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
        assert!(error.contains("it is not a folder"), "{error}");
        let found = folder.metadata().expect("it is there");
        let reason = fault(&found, |_| false).expect("another's");
        assert!(reason.starts_with("it belongs to user"), "{reason}");
    }

    #[test]
    fn the_first_folder_that_can_be_used_is_taken() {
        let around = tempfile::tempdir().expect("a folder");
        let folder = |name: &str| around.path().join(name);
        // As on a compute node that has not the login node's folder, and a folder that others may
        // enter.
        std::fs::create_dir(folder("open")).expect("made");
        std::fs::set_permissions(folder("open"), Permissions::from_mode(0o777)).expect("opened");
        let all = [folder("missing/mlprof"), folder("open"), folder("full"), folder("last")];
        let make = |it: &Path| match it.ends_with("full") {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(it.to_owned()),
        };
        let taken = in_first_usable(&all, make).expect("the last one");
        assert_eq!(taken, folder("last"));
        let error = in_first_usable(&all[..2], make).expect_err("neither").to_string();
        for part in ["missing/mlprof: No such file", "its mode is 777", "set XDG_RUNTIME_DIR"] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }

    #[test]
    fn folders_are_tried_in_order_and_once_each() {
        let of = |runtime: Option<&str>, temporary: &str| {
            let all = folders_of(runtime.map(PathBuf::from), temporary.into(), 7);
            let text = all.iter().map(|it| it.display().to_string()).collect::<Vec<_>>().join(" ");
            text.replace("/run/user/7/mlprof ", "RUN ")
        };
        let run = if cfg!(target_os = "linux") { "RUN " } else { "" };
        assert_eq!(of(Some("/x"), "/tmp"), format!("/x/mlprof {run}/tmp/mlprof-7"));
        assert_eq!(of(None, "/scratch"), format!("{run}/scratch/mlprof-7 /tmp/mlprof-7"));
        assert_eq!(of(Some("relative"), "relative"), format!("{run}/tmp/mlprof-7"));
    }
}
