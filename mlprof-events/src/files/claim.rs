//! Unique names for result files. A claimed name does not collide with a running process or with
//! existing files.
//!
//! A process id cannot make names unique, because each container assigns ids independently and
//! every system reuses them. A claim is a file that this process creates under a name derived from
//! the claimed name. It exists while the process runs; afterwards the results themselves occupy the
//! name.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::Path;

use super::leftovers::clear_leftovers;
use super::listing::list;
use super::temporary::RemovedPath;
use super::temporary_name::{machine_and_number_of, this_machine, with_number};

/// Maximum number of names to try. If all of them are taken, there is another problem, and the
/// first name is used.
const MOST: usize = 10_000;

/// Prefix for file names that no other process uses while this value exists.
#[derive(Debug)]
pub struct ClaimedName {
    name: String,
    _claim: Option<Claim>,
}

/// File of a claim, which is removed when this value is dropped.
#[derive(Debug)]
struct Claim {
    /// Locked file. The lock shows other processes that the owner of the name is still running.
    _lock: Lock,
    _path: RemovedPath,
}

/// Handle that keeps its lock until the process ends and is never closed. If the program closes all
/// descriptors, it may reuse the number for its own file, which must not be closed here.
#[cfg(unix)]
type Lock = std::mem::ManuallyDrop<File>;

/// Handle that is closed before the file is removed. On these systems the name of a removed file
/// stays occupied until the file is closed.
#[cfg(not(unix))]
type Lock = File;

impl ClaimedName {
    /// Claims `name`, or `name-2` and so on, for files in `folder`, which is created if it does not
    /// exist. A name is taken if another process has claimed it, or if `is_of` returns `true` for
    /// an existing file. `is_of` receives the name of the file and the candidate name.
    ///
    /// If the folder does not allow claims, existing files are checked all the same. If the folder
    /// has too many files to check at start-up, a random number makes the name unique.
    pub fn within(folder: &Path, name: &str, is_of: impl Fn(&str, &str) -> bool) -> Self {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        // A failure is reported later, by the code that writes into the folder.
        let _ = fs::create_dir_all(folder);
        let Some(mut there) = files(folder) else { return Self::random(name) };
        for copy in 1..=MOST {
            let name = if copy == 1 { name.to_owned() } else { format!("{name}-{copy}") };
            let is_taken = |there: &[String]| there.iter().any(|file| is_of(file, &name));
            if is_taken(&there) {
                continue;
            }
            let claim = match Claim::make(folder, &name) {
                Ok(claim) => Some(claim),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(_) => None,
            };
            // The folder is listed again for two reasons. Claims of another machine have different
            // file names, and the previous owner of the name may just have ended.
            match files(folder) {
                Some(now) => there = now,
                None => return Self::random(&name),
            }
            let is_rivalled = claim.is_some() && is_claimed_elsewhere(&there, &name);
            if !is_rivalled && !is_taken(&there) {
                return Self { name, _claim: claim };
            }
        }
        Self { name: name.to_owned(), _claim: None }
    }

    fn random(name: &str) -> Self {
        let number = RandomState::new().build_hasher().finish();
        Self { name: format!("{name}-{number:016x}"), _claim: None }
    }

    /// Returns the claimed name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Claim {
    fn make(folder: &Path, name: &str) -> io::Result<Self> {
        let own = with_number(this_machine(), number_of(name));
        let path = folder.join(&own);
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        let _ = file.try_lock();
        #[cfg(unix)]
        let file = Lock::new(file);
        let claim = Self { _lock: file, _path: RemovedPath(path) };
        clear_leftovers(folder, &own);
        Ok(claim)
    }
}

fn number_of(name: &str) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write(name.as_bytes());
    hasher.finish()
}

fn is_claimed_elsewhere(files: &[String], name: &str) -> bool {
    let (machine, number) = (this_machine(), number_of(name));
    let of_others = |file: &String| {
        machine_and_number_of(file).is_some_and(|its| its.1 == number && its.0 != machine)
    };
    files.iter().any(of_others)
}

/// Returns the names of the files in a folder, or no names if it cannot be read. Returns `None` if
/// there are too many files to list.
fn files(folder: &Path) -> Option<Vec<String>> {
    let Ok(listing) = list(folder) else { return Some(Vec::new()) };
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    listing.is_complete.then(|| listing.entries.into_iter().map(name).collect())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn claim(folder: &Path) -> ClaimedName {
        ClaimedName::within(folder, "run-7", |file, name| file.starts_with(&format!("{name}-ops")))
    }

    #[test]
    fn a_name_is_one_processs_while_it_runs_and_its_files_afterwards() {
        let folder = tempfile::tempdir().expect("a folder");
        let below = folder.path().join("results");
        let (first, second) = (claim(&below), claim(&below));
        assert_eq!((first.name(), second.name()), ("run-7", "run-7-2"));
        drop(first);
        assert_eq!(claim(&below).name(), "run-7", "nothing came of it");
        fs::write(below.join("run-7-ops.json"), "{}").expect("written");
        // A file of another run whose name begins with the candidate name does not block it.
        fs::write(below.join("run-7-2-functions.json"), "{}").expect("written");
        assert_eq!(claim(&below).name(), "run-7-3");
        drop(second);
        assert_eq!(claim(&below).name(), "run-7-2");
        let left = files(&below).expect("few files");
        assert_eq!(left.len(), 2, "claims are gone: {left:?}");
    }

    #[test]
    fn names_claimed_by_another_machine_are_skipped() {
        let folder = tempfile::tempdir().expect("a folder");
        let other = this_machine().wrapping_add(1).max(1);
        let path = folder.path().join(with_number(other, number_of("run-7")));
        fs::write(path, "").expect("written");
        assert_eq!(claim(folder.path()).name(), "run-7-2");
        let left = files(folder.path()).expect("few files");
        assert_eq!(left.len(), 1, "nothing is left of what was tried");
    }

    #[test]
    fn where_nothing_can_be_claimed_there_is_a_name_all_the_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        fs::write(&file, "no folder").expect("written");
        assert_eq!(claim(&file).name(), "run-7");
    }
}
