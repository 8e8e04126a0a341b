//! Listing of folders that may have millions of entries.

use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::clock::Stopwatch;

/// Maximum number of entries examined in one folder.
const MOST_ENTRIES: usize = 20_000;
/// Maximum time to list a folder. A network file system needs milliseconds for each hundred
/// entries.
const LONGEST: Duration = Duration::from_millis(250);
/// Number of entries between two readings of the clock.
const PER_LOOK: usize = 64;

/// Entries of a folder.
#[derive(Debug)]
pub struct Listing {
    /// The entries in arbitrary order.
    pub entries: Vec<DirEntry>,
    /// `true` if `entries` contains all entries of the folder.
    pub is_complete: bool,
}

/// Lists a folder: at most 20,000 entries, and for at most a quarter of a second.
///
/// # Errors
///
/// Fails if the folder cannot be opened.
pub fn list(folder: &Path) -> io::Result<Listing> {
    list_within(folder, MOST_ENTRIES, LONGEST)
}

fn list_within(folder: &Path, most: usize, longest: Duration) -> io::Result<Listing> {
    let stopwatch = Stopwatch::start();
    let mut entries = Vec::new();
    for (index, entry) in fs::read_dir(folder)?.enumerate() {
        if index >= most || index % PER_LOOK == PER_LOOK - 1 && stopwatch.elapsed() > longest {
            return Ok(Listing { entries, is_complete: false });
        }
        entries.extend(entry.ok());
    }
    Ok(Listing { entries, is_complete: true })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_large_folder_is_read_in_part() {
        let folder = tempfile::tempdir().expect("a folder");
        for number in 0..200 {
            fs::write(folder.path().join(number.to_string()), "").expect("written");
        }
        let hour = Duration::from_secs(3600);
        let look = |most, longest| {
            let listing = list_within(folder.path(), most, longest).expect("a folder");
            (listing.entries.len(), listing.is_complete)
        };
        assert_eq!(look(1000, hour), (200, true));
        assert_eq!(look(150, hour), (150, false));
        assert_eq!(look(1000, Duration::ZERO), (PER_LOOK - 1, false));
    }
}
