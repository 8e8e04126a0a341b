//! Removal of files and folders that killed processes left behind.

use std::collections::HashSet;
use std::fs::{self, File, FileType, Metadata, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use super::listing::list;
use super::temporary_name::{machine_of, this_machine};

/// Minimum age of a leftover. A younger file may not be locked yet.
const LOCKED_AFTER: Duration = Duration::from_secs(60);
/// Age after which an unlocked entry counts as a leftover even if locks are inconclusive. That is
/// the case for entries of another machine, entries from before a reboot, and file systems without
/// locks.
const LEFT_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Removes leftovers of the effective user's killed processes in `folder`, once per process and
/// folder. `own` is the name of an entry that this process has just created there.
///
/// The function runs on a training thread, so it examines at most as much of a large folder as
/// [`list`] does.
pub(super) fn clear_leftovers(folder: &Path, own: &str) {
    static CLEARED: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);
    // Clearing is optional, so it is skipped if another thread is clearing or forking.
    let Ok(mut cleared) = CLEARED.try_lock() else { return };
    let is_new = cleared.get_or_insert_default().insert(folder.to_owned());
    drop(cleared);
    if is_new {
        clear(folder, &folder.join(own));
    }
}

/// Removes all leftovers in a folder. Errors are ignored, because they do not affect the report
/// being written.
fn clear(folder: &Path, own: &Path) {
    // Ages are measured by the clock of the file system, which may belong to another machine.
    let now = fs::symlink_metadata(own).and_then(|own| own.modified());
    let (Ok(now), Ok(listing)) = (now, list(folder)) else { return };
    for entry in listing.entries {
        let Some(machine) = entry.file_name().to_str().and_then(machine_of) else { continue };
        let (path, Ok(there)) = (entry.path(), entry.metadata()) else { continue };
        let kind = there.file_type();
        let is_ours = (kind.is_file() || kind.is_dir()) && is_of_own_user(&there);
        if is_ours && path != own && is_left(&path, kind, machine, now) {
            let _ = match kind.is_dir() {
                false => fs::remove_file(&path),
                true if has_mark(&path) => fs::remove_dir_all(&path),
                // The owner was killed before it could create the mark.
                true => fs::remove_dir(&path),
            };
        }
    }
}

/// Returns `true` if the folder was made as a temporary one, which contains a file with the
/// folder's own name as a mark. A user who may rename a folder of another user, with arbitrary
/// content, cannot create a file of that user in it.
fn has_mark(folder: &Path) -> bool {
    let mark = folder.file_name().map(|name| folder.join(name));
    let mark = mark.and_then(|mark| fs::symlink_metadata(mark).ok());
    mark.is_some_and(|mark| mark.is_file() && is_of_own_user(&mark))
}

/// Returns `true` if the effective user owns the entry. An entry of another user may hold anything
/// and is never removed.
fn is_of_own_user(there: &Metadata) -> bool {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::uid(there) == super::effective_user();
    #[cfg(not(unix))]
    return there.is_file() || there.is_dir();
}

/// Returns `true` if no process uses the entry any more.
fn is_left(path: &Path, kind: FileType, machine: u32, now: SystemTime) -> bool {
    let Some(written) = last_written(path, kind) else { return false };
    let age = now.duration_since(written).unwrap_or_default();
    if age < LOCKED_AFTER {
        return false;
    }
    let lock = open_for_lock(path, kind).and_then(|there| match there.try_lock() {
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
        Ok(()) => Ok(Some(there)),
    });
    match lock {
        // The owner holds the lock, so it is alive, possibly on another machine.
        Ok(None) => false,
        Ok(Some(_)) if machine == this_machine() && machine != 0 => true,
        _ => age > LEFT_AFTER,
    }
}

fn open_for_lock(path: &Path, kind: FileType) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Some file systems lock only files that are open for writing.
    options.read(true).write(!kind.is_dir());
    #[cfg(unix)]
    {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
    }
    options.open(path)
}

/// Returns the time of the last write to a file or to anything in a folder.
fn last_written(path: &Path, kind: FileType) -> Option<SystemTime> {
    let own = fs::symlink_metadata(path).and_then(|there| there.modified()).ok()?;
    if !kind.is_dir() {
        return Some(own);
    }
    let inside = list(path).ok()?.entries.into_iter();
    let inside = inside.filter_map(|entry| entry.metadata().ok()?.modified().ok());
    Some(inside.fold(own, SystemTime::max))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::temporary_name::with_number;
    use super::*;

    /// Checks which entries count as leftovers, by lock, machine and age.
    #[cfg(target_os = "linux")]
    #[test]
    fn leftovers_are_detected_by_lock_or_age() {
        let folder = tempfile::tempdir().expect("a folder");
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let (own, other) = (this_machine(), this_machine().wrapping_add(1).max(1));
        let place = |name: u64, machine: u32| folder.path().join(with_number(machine, name));
        let now = SystemTime::now();
        let file = |name: u64, machine: u32, age: Duration| {
            let file = File::create(place(name, machine)).expect("made");
            file.set_modified(now - age).expect("set back");
            file
        };
        // These files are not locked.
        drop(file(1, own, minutes(2)));
        drop(file(2, own, minutes(0)));
        drop(file(3, other, minutes(2)));
        drop(file(4, other, 2 * LEFT_AFTER));
        // These files are locked.
        let alive = [file(5, own, 2 * LEFT_AFTER), file(6, other, 2 * LEFT_AFTER)];
        alive.iter().for_each(|file| file.lock().expect("locked"));
        // A folder is as old as the last write to its content.
        let busy = place(7, other);
        fs::create_dir(&busy).expect("made");
        fs::write(busy.join("weights"), "w").expect("written");
        File::open(&busy).expect("open").set_modified(now - 2 * LEFT_AFTER).expect("set back");
        // The third folder looks as if another user had renamed it: it does not contain its mark
        // and must not be removed.
        for (number, content) in [(8, "own name"), (10, "nothing"), (11, "results")] {
            let idle = place(number, own);
            fs::create_dir(&idle).expect("made");
            let name = match content {
                "own name" => Some(with_number(own, number)),
                "results" => Some("results".to_owned()),
                _ => None,
            };
            if let Some(name) = name {
                let file = File::create(idle.join(name)).expect("made");
                file.set_modified(now - minutes(2)).expect("set back");
            }
            File::open(&idle).expect("open").set_modified(now - minutes(2)).expect("set back");
        }
        // Links are never removed.
        std::os::unix::fs::symlink("/nowhere", place(9, own)).expect("linked");

        let made = folder.path().join("made");
        fs::write(&made, "").expect("written");
        clear(folder.path(), &made);
        let is_there = |name, machine| fs::symlink_metadata(place(name, machine)).is_ok();
        let there = [
            is_there(1, own),
            is_there(2, own),
            is_there(3, other),
            is_there(4, other),
            is_there(5, own),
            is_there(6, other),
            is_there(7, other),
            is_there(8, own),
            is_there(9, own),
            is_there(10, own),
            is_there(11, own),
        ];
        let expected = [false, true, true, false, true, true, true, false, true, false, true];
        assert_eq!(there, expected);
        drop(alive);
    }
}
