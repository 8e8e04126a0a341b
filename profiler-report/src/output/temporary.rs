//! What is in the making: files and folders with names that nobody else has or can guess, in the
//! folder of what they are to become.
//!
//! Processes that share a folder may run in containers, where they have the same numbers, or on
//! different machines. So a name is never taken for granted: the file system is asked to make what
//! was not there, and follows no link for that. What is being made is locked for as long; so what a
//! killed process has left can be told, and is cleared away by the next process that writes into the
//! folder.

use std::collections::HashSet;
use std::fs::{self, File, FileType, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use profiler_events::forking::made_once;

const PREFIX: &str = ".mlprof-";
const ENDING: &str = ".tmp";
/// Names are tried until one is free; that many are never taken by chance.
const TRIES: usize = 16;
/// A file that is younger may not be locked yet.
const LOCKED_AFTER: Duration = Duration::from_secs(60);
/// What nobody has written to for so long is left over, even where locks tell nothing: what another
/// machine has begun, or this one before it was started again, or on file systems without locks.
const LEFT_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// A new file beside the one that it is to become; gone when this is dropped.
#[derive(Debug)]
pub(super) struct TemporaryFile {
    pub(super) file: File,
    path: RemovedPath,
}

impl TemporaryFile {
    /// In the folder of `target`: a rename works only within one file system. With the permissions of
    /// the file that it will replace.
    pub(super) fn beside(target: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let permissions = permissions_of(target);
        #[cfg(unix)]
        if let Some(permissions) = &permissions {
            use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
            // Never more than that, not even for a moment.
            options.mode(permissions.mode() & 0o777);
        }
        let (file, path) = with_new_name(folder_of(target), |path| options.open(path))?;
        let made = Self { file, path: RemovedPath(path) };
        // Where locks do not work, what is left over is told by its age.
        let _ = made.file.try_lock();
        if let Some(permissions) = permissions {
            // `umask` had its say when the other one was made.
            made.file.set_permissions(permissions)?;
        }
        clear_leftovers(folder_of(target), &made.path.0);
        Ok(made)
    }

    /// Gives the file its name, in place of an older one.
    pub(super) fn rename(self, target: &Path) -> io::Result<()> {
        let Self { file, path } = self;
        // Locked until then, except on systems that do not rename a file that is open.
        let _file = cfg!(unix).then_some(file);
        fs::rename(&path.0, target)
    }
}

/// The permissions of a file that is there already, which whoever replaces it keeps.
pub(super) fn permissions_of(target: &Path) -> Option<fs::Permissions> {
    // On other systems they say no more than whether it may be replaced.
    let there = fs::metadata(target).ok().filter(|there| cfg!(unix) && there.is_file());
    there.map(|there| there.permissions())
}

/// The path of a file that is gone when this is dropped.
#[derive(Debug)]
pub(super) struct RemovedPath(pub(super) PathBuf);

impl Drop for RemovedPath {
    fn drop(&mut self) {
        // It is not there any more if it was renamed; else nothing can be done if that fails.
        let _ = fs::remove_file(&self.0);
    }
}

/// A new folder that nobody else knows; gone with all that is in it when this is dropped.
///
/// One that a killed process has left is cleared away when the next one is made in the same folder.
#[derive(Debug)]
pub struct TemporaryFolder {
    path: PathBuf,
    /// Open, and so locked, for as long.
    _lock: Option<File>,
}

impl TemporaryFolder {
    /// A new folder in `parent`, which is made if need be.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn within(parent: &Path) -> io::Result<Self> {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        fs::create_dir_all(parent)?;
        #[cfg_attr(not(unix), expect(unused_mut, reason = "folders have modes on Unix"))]
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let ((), path) = with_new_name(parent, |path| builder.create(path))?;
        let lock = File::open(&path).ok().filter(|folder| folder.try_lock().is_ok());
        clear_leftovers(parent, &path);
        Ok(Self { path, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // What cannot be removed now is tried again by others, when it is old.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn folder_of(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes something in `folder` that was not there. The name is short, as that of what it becomes may
/// be as long as names can be.
fn with_new_name<T>(
    folder: &Path,
    make: impl Fn(&Path) -> io::Result<T>,
) -> io::Result<(T, PathBuf)> {
    let mut tries = 0;
    loop {
        // The system's own random numbers are behind it.
        let random = RandomState::new().build_hasher().finish();
        let path = folder.join(with_number(this_machine(), random));
        match make(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => {
                tries += 1;
            }
            made => return made.map(|made| (made, path)),
        }
    }
}

/// The name of something temporary.
pub(super) fn with_number(machine: u32, number: u64) -> String {
    format!("{PREFIX}{machine:08x}-{number:016x}{ENDING}")
}

/// What tells this machine, since it was started, from others: whoever has the same sees the same
/// locks. 0 where nothing does.
pub(super) fn this_machine() -> u32 {
    static MACHINE: OnceLock<u32> = OnceLock::new();
    *made_once(&MACHINE, || {
        let Ok(boot) = fs::read("/proc/sys/kernel/random/boot_id") else { return 0 };
        let mut hasher = rustc_hash::FxHasher::default();
        hasher.write(&boot);
        (hasher.finish() as u32).max(1)
    })
}

/// The machine and the number in the name of something temporary.
pub(super) fn machine_and_number_of(name: &str) -> Option<(u32, u64)> {
    let (machine, number) = name.strip_prefix(PREFIX)?.strip_suffix(ENDING)?.split_once('-')?;
    let are_numbers = machine.len() == 8 && number.len() == 16;
    let number = u64::from_str_radix(number, 16).ok().filter(|_| are_numbers)?;
    Some((u32::from_str_radix(machine, 16).ok()?, number))
}

fn machine_of(name: &str) -> Option<u32> {
    machine_and_number_of(name).map(|(machine, _)| machine)
}

/// Whether a file of this name is one in the making, or a name that is claimed, and no result.
pub fn is_temporary(name: &str) -> bool {
    machine_of(name).is_some()
}

/// Removes what killed processes have left in `folder`. Once per process and folder.
pub(super) fn clear_leftovers(folder: &Path, own: &Path) {
    static CLEARED: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);
    // Whoever forks or clears meanwhile is not waited for: this is no duty.
    let Ok(mut cleared) = CLEARED.try_lock() else { return };
    let is_new = cleared.get_or_insert_default().insert(folder.to_owned());
    drop(cleared);
    if is_new {
        clear(folder, own);
    }
}

/// Removes what is left over. What goes wrong is no concern of who writes a report.
fn clear(folder: &Path, own: &Path) {
    // By the clock of the file system, which may be another machine's.
    let now = fs::symlink_metadata(own).and_then(|own| own.modified());
    let (Ok(now), Ok(entries)) = (now, fs::read_dir(folder)) else { return };
    for entry in entries.flatten() {
        let Some(machine) = entry.file_name().to_str().and_then(machine_of) else { continue };
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        let is_ours = kind.is_file() || kind.is_dir();
        if is_ours && path != own && is_left(&path, kind, machine, now) {
            let _ = if kind.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
    }
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
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NOFOLLOW);
    options.open(path)
}

/// When something was last written in it.
fn last_written(path: &Path, kind: FileType) -> Option<SystemTime> {
    let own = fs::symlink_metadata(path).and_then(|there| there.modified()).ok()?;
    if !kind.is_dir() {
        return Some(own);
    }
    let entries = fs::read_dir(path).ok()?.flatten();
    let inside = entries.filter_map(|entry| entry.metadata().ok()?.modified().ok());
    Some(inside.fold(own, SystemTime::max))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn a_name_that_is_taken_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let tried = RefCell::new(Vec::new());
        let (_file, path) = with_new_name(folder.path(), |path| {
            tried.borrow_mut().push(path.to_owned());
            if tried.borrow().len() < 3 {
                fs::write(path, "another's").expect("written");
            }
            OpenOptions::new().write(true).create_new(true).open(path)
        })
        .expect("the third name is free");
        let tried = tried.into_inner();
        assert_eq!((tried.len(), &tried[2]), (3, &path));
        let read = |path: &PathBuf| fs::read_to_string(path).expect("there");
        assert_eq!([read(&tried[0]), read(&tried[1]), read(&path)], ["another's", "another's", ""]);
        let names: HashSet<_> = tried.iter().collect();
        assert_eq!(names.len(), 3, "no name twice");
    }

    #[test]
    fn only_names_of_ours_are_taken_for_ours() {
        assert_eq!(machine_of(".mlprof-0000002a-0123456789abcdef.tmp"), Some(42));
        for name in [
            ".mlprof-2a-0123456789abcdef.tmp",
            ".mlprof-0000002a-0123456789abcdef",
            ".mlprof-0000002a-0123456789abcdeg.tmp",
            "mlprof-0000002a-0123456789abcdef.tmp",
            "fit-run.txt",
        ] {
            assert_eq!(machine_of(name), None, "{name}");
        }
    }

    /// What is left of whom, and after how long.
    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_left_over_is_told_by_locks_or_by_age() {
        let folder = tempfile::tempdir().expect("a folder");
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let (own, other) = (this_machine(), this_machine().wrapping_add(1).max(1));
        let place = |name: u64, machine: u32| {
            folder.path().join(format!("{PREFIX}{machine:08x}-{name:016x}{ENDING}"))
        };
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
        let idle = place(8, own);
        fs::create_dir(&idle).expect("made");
        File::open(&idle).expect("open").set_modified(now - minutes(2)).expect("set back");
        // Links are nobody's.
        std::os::unix::fs::symlink("/nowhere", place(9, own)).expect("linked");

        let made = TemporaryFile::beside(&folder.path().join("x")).expect("made");
        clear(folder.path(), &made.path.0);
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
        ];
        assert_eq!(there, [false, true, true, false, true, true, true, false, true]);
        drop(alive);
    }
}
