//! Removal of what killed processes have left in a folder.

use std::collections::HashSet;
use std::fs::{self, File, FileType, Metadata, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use super::listing::list;
use super::temporary_name::{machine_of, this_machine};

/// A file that is younger may not be locked yet.
const LOCKED_AFTER: Duration = Duration::from_secs(60);
/// What nobody has written to for so long is left over, even where locks tell nothing: what another
/// machine has begun, or this one before it was started again, or on file systems without locks.
const LEFT_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// Removes what killed processes of the effective user have left in `folder`, once per process and
/// folder. `own` is the name of something that this process has just made there.
///
/// This happens on the thread of a training, so it looks only at as much of a large folder as
/// [`list`] does.
pub(super) fn clear_leftovers(folder: &Path, own: &str) {
    static CLEARED: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);
    // Whoever forks or clears meanwhile is not waited for: this is no duty.
    let Ok(mut cleared) = CLEARED.try_lock() else { return };
    let is_new = cleared.get_or_insert_default().insert(folder.to_owned());
    drop(cleared);
    if is_new {
        clear(folder, &folder.join(own));
    }
}

/// Removes what is left over. What goes wrong is no concern of who writes a report.
fn clear(folder: &Path, own: &Path) {
    // By the clock of the file system, which may be another machine's.
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
                // Killed before it could make the mark.
                true => fs::remove_dir(&path),
            };
        }
    }
}

/// Whether a folder was made as a temporary one: then a file of its own name is in it. Whoever may
/// rename a folder of another user, which may hold anything, cannot put a file of that user there.
fn has_mark(folder: &Path) -> bool {
    let mark = folder.file_name().map(|name| folder.join(name));
    let mark = mark.and_then(|mark| fs::symlink_metadata(mark).ok());
    mark.is_some_and(|mark| mark.is_file() && is_of_own_user(&mark))
}

/// Whether it is for this process to remove: what another user has put there may be anything.
fn is_of_own_user(there: &Metadata) -> bool {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::uid(there) == super::effective_user();
    #[cfg(not(unix))]
    return there.is_file() || there.is_dir();
}

/// Whether nobody is at work on it any more.
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
        // Alive, wherever it is.
        Ok(None) => false,
        Ok(Some(_)) if machine == this_machine() && machine != 0 => true,
        _ => age > LEFT_AFTER,
    }
}

fn open_for_lock(path: &Path, kind: FileType) -> io::Result<File> {
    let mut options = OpenOptions::new();
    // Some file systems lock only what may be written.
    options.read(true).write(!kind.is_dir());
    #[cfg(unix)]
    {
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags);
    }
    options.open(path)
}

/// When something was last written in it.
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

    /// What is left of whom, and after how long.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_left_over_is_told_by_locks_or_by_age() {
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
        // Nobody has a lock on these.
        drop(file(1, own, minutes(2)));
        drop(file(2, own, minutes(0)));
        drop(file(3, other, minutes(2)));
        drop(file(4, other, 2 * LEFT_AFTER));
        // On these somebody has.
        let alive = [file(5, own, 2 * LEFT_AFTER), file(6, other, 2 * LEFT_AFTER)];
        alive.iter().for_each(|file| file.lock().expect("locked"));
        // A folder is as old as what was written in it last.
        let busy = place(7, other);
        fs::create_dir(&busy).expect("made");
        fs::write(busy.join("weights"), "w").expect("written");
        File::open(&busy).expect("open").set_modified(now - 2 * LEFT_AFTER).expect("set back");
        // Another user has given the third one its name: it is not one that was made to be removed.
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
        // Links are nobody's.
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
