//! Folders for live sockets. Only their user may enter them.

use crate::error_chain::Chain;
use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::user::{is_own_user, own_user};
use crate::environment::variable;

/// Reason why a folder cannot be used for sockets.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// The folder does not exist and cannot be created, or is inaccessible.
    #[error("cannot use the folder {path}", path = .path.display())]
    Unusable {
        /// Path of the folder.
        path: PathBuf,
        /// Error of the system.
        #[source]
        error: io::Error,
    },
    /// Other users could create sockets in the folder.
    #[error("cannot use the folder {path}: {reason}", path = .path.display())]
    NotOwn {
        /// Path of the folder.
        path: PathBuf,
        /// Reason why the folder is not private.
        reason: String,
    },
    /// No folder in the list of [folders] can be used.
    #[error(
        "cannot find a folder for sockets: {}; set XDG_RUNTIME_DIR to a folder that only you can \
         access",
        .0.iter().map(|reason| Chain(reason).to_string()).collect::<Vec<_>>().join("; ")
    )]
    None(
        /// One reason per folder.
        Vec<Self>,
    ),
}

crate::debug_as_display!(FolderError);

/// Returns the folders for sockets of this user's processes, in the order in which a process tries
/// them. The order is `$XDG_RUNTIME_DIR/mlprof`, `/run/user/{user}/mlprof` (Linux), `mlprof-{user}`
/// in the folder for temporary files, and the same name in `/tmp`. The folders need not exist.
///
/// The environment of a batch job often names a folder that does not exist on the machine. A login
/// shell and a service often have different folders. So a process uses the first folder that works,
/// and its clients search all of them.
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

/// Runs `make` with one folder after the other until it succeeds, and returns its result. A missing
/// folder is created with access for this user only.
///
/// # Errors
///
/// Returns [`FolderError::None`] with one reason per folder.
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

/// Returns `true` if `folder` exists and is private to this user. With `makes`, a missing folder is
/// created.
///
/// # Errors
///
/// Fails if the folder cannot be created, is not a folder, belongs to another user, or can be
/// entered by other users.
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
    // A link is not followed, because another user may have created it.
    match folder.symlink_metadata() {
        Ok(found) => match fault(&found, is_own_user) {
            None => Ok(true),
            Some(reason) => Err(FolderError::NotOwn { path: folder.to_owned(), reason }),
        },
        // The parent folder may also be missing, or may belong to another user.
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
    (mode & 0o077 != 0)
        .then(|| format!("other users can access it (its mode is {mode:o}, not 700)"))
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
        let error = check(&folder, true).expect_err("other users can access it").to_string();
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
        // One folder is missing, as on a compute node without the folder of the login node. Another
        // is open to all users.
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
