//! Names of results that nobody else takes: not at the same time, and not over what is there
//! already.
//!
//! Processes are told apart by their numbers, which containers give out each for itself, and which
//! every system gives out again. A claim is a file of ours that goes by the name that is claimed;
//! it is there while the process runs, and afterwards its results speak for themselves.

use std::fs::{self, File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::Path;

use super::leftovers::clear_leftovers;
use super::listing::list;
use super::temporary::RemovedPath;
use super::temporary_name::{machine_and_number_of, this_machine, with_number};

/// Past this many names something else is wrong: the first one will do.
const MOST: usize = 10_000;

/// The beginning of the names of files that nobody else writes as long as this is there.
#[derive(Debug)]
pub struct ClaimedName {
    name: String,
    _claim: Option<Claim>,
}

/// Gone when this is dropped.
#[derive(Debug)]
struct Claim {
    /// Locked, by which others see that somebody is alive who wants the name.
    _lock: Lock,
    _path: RemovedPath,
}

/// Locked for as long as the process lives. Never closed: in a program that closes whatever is open
/// the number may be somebody else's by then.
#[cfg(unix)]
type Lock = std::mem::ManuallyDrop<File>;

/// Closed before the file is removed: the name of one that is open may be taken until it is closed.
#[cfg(not(unix))]
type Lock = File;

impl ClaimedName {
    /// `name`, or else `name-2` and so on, for files in `folder`, which is made if need be. Taken
    /// is what another process has claimed, and what `is_of` a file that is there: it is given the
    /// name of the file, and a name that would be free.
    ///
    /// Where nothing can be claimed, what is there is looked at all the same. Where there is more
    /// than can be looked at while a program starts, a random number makes the name one that nobody
    /// else has.
    pub fn within(folder: &Path, name: &str, is_of: impl Fn(&str, &str) -> bool) -> Self {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        // Whoever writes there says what is wrong.
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
            // Another machine's claims have other names; and whoever had this one may just have
            // ended.
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

    /// What was claimed.
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

/// The names of the files in a folder, none where it cannot be read; `None` if there are too many
/// to look at.
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
        // What another run is called that begins so is not in the way.
        fs::write(below.join("run-7-2-functions.json"), "{}").expect("written");
        assert_eq!(claim(&below).name(), "run-7-3");
        drop(second);
        assert_eq!(claim(&below).name(), "run-7-2");
        let left = files(&below).expect("few files");
        assert_eq!(left.len(), 2, "claims are gone: {left:?}");
    }

    #[test]
    fn what_another_machine_has_claimed_is_taken() {
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
