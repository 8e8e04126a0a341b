//! Initialises a build folder as a copy of a folder with other hooks. Only a few of several hundred
//! crates differ between the two.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use mlprof_events::files::{TemporaryFolder, open_regular};

use super::target::folders;

/// Name of the folder for the state of `mlprof run` inside a build folder. Its subfolder `RECORDS`
/// holds the hooks of each crate.
pub const STATE: &str = "mlprof-state";
const RECORDS: &str = "crates";

/// Lock files in each profile's folder, for all of cargo's layouts.
const LOCKS: [&str; 3] = [".cargo-lock", ".cargo-build-lock", ".cargo-artifact-lock"];

/// Initialises `target` as a copy of `from`, if `from` exists and `target` does not. Returns `true`
/// if a copy was made. Cargo then reuses all crates without hooks or with the same hooks.
///
/// The copy is skipped while cargo builds in `from`. A failed copy is removed, and then all crates
/// are compiled.
pub fn begin_as_copy(target: &Path, from: &Path) -> bool {
    from.is_dir() && !target.exists() && copy_target(target, from).is_some()
}

fn copy_target(target: &Path, from: &Path) -> Option<()> {
    let parent = target.parent()?;
    let _locks = lock_profiles(from)?;
    let copying = TemporaryFolder::within(parent).ok()?;
    let copy = copying.path().join("copy");
    copy_folder(from, &copy, &belongs_to_others).ok()?;
    let state = from.join(STATE).join(RECORDS);
    if state.is_dir() {
        copy_folder(&state, &copy.join(STATE).join(RECORDS), &|_| false).ok()?;
    }
    fs::rename(&copy, target).ok()
}

/// Returns `true` for files that cargo recreates, and for files that contain the path of their
/// folder.
fn belongs_to_others(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name == STATE || name == "incremental" || LOCKS.iter().any(|lock| name == *lock)
}

/// Acquires cargo's own locks of the profile folders. Returns `None` if cargo currently builds in
/// one of them.
fn lock_profiles(target: &Path) -> Option<Vec<File>> {
    let profiles = folders(target);
    let platforms = profiles.iter().flat_map(|folder| folders(folder));
    let all = platforms.chain(profiles.iter().cloned());
    let all = all.flat_map(|folder| LOCKS.map(|lock| folder.join(lock)));
    let lock = |path: PathBuf| {
        let file = open_regular(&path).ok()?;
        file.try_lock_shared().ok().map(|()| file)
    };
    all.filter(|path| path.exists()).map(lock).collect()
}

/// Copies files with their modification times, which cargo compares to find outdated artifacts.
fn copy_folder(from: &Path, to: &Path, leaves_out: &dyn Fn(&Path) -> bool) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if leaves_out(&path) {
            continue;
        }
        if kind.is_dir() {
            copy_folder(&path, &copy, leaves_out)?;
        } else if kind.is_file() {
            fs::copy(&path, &copy)?;
            let written = entry.metadata()?.modified()?;
            File::options().append(true).open(&copy)?.set_modified(written)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn write(path: &Path) {
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, path.file_name().expect("a name").as_encoded_bytes()).expect("written");
    }

    #[test]
    fn a_new_folder_begins_as_what_is_built_with_other_hooks() {
        let all = tempfile::tempdir().expect("a folder");
        let [target, none, from] =
            ["candle+numerics", "missing", "candle"].map(|it| all.path().join(it));
        let library = Path::new("release/deps/liba.rlib");
        let left = ["release/incremental/a/x", "mlprof-state/overlays/a.rs", "release/.cargo-lock"];
        let kept = ["release/.fingerprint/a-0/lib-a", "mlprof-state/crates/a-0.json"];
        left.iter().chain(&kept).for_each(|path| write(&from.join(path)));
        write(&from.join(library));
        let old = SystemTime::now() - Duration::from_secs(3600);
        let file = File::options().append(true).open(from.join(library)).expect("a file");
        file.set_modified(old).expect("set");
        assert!(!begin_as_copy(&target, &none));
        // The copy is refused while cargo builds in the source folder.
        let lock = File::open(from.join("release/.cargo-lock")).expect("a lock");
        lock.lock().expect("locked");
        assert!(!begin_as_copy(&target, &from));
        drop(lock);
        assert!(begin_as_copy(&target, &from));
        let written = fs::metadata(target.join(library)).and_then(|it| it.modified());
        assert_eq!(
            written.expect("a time"),
            fs::metadata(from.join(library)).and_then(|it| it.modified()).expect("a time")
        );
        assert!(kept.iter().all(|path| target.join(path).is_file()));
        assert!(!left.iter().any(|path| target.join(path).exists()));
        assert!(!begin_as_copy(&target, &from), "it is there");
        let names = |folder: &Path| fs::read_dir(folder).expect("a folder").count();
        assert_eq!(names(all.path()), 2, "nothing else is left");
    }
}
