//! Lists the files of a folder.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Returns all files below a folder, as paths relative to it.
pub fn files_below(folder: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(folder.join(&next))? {
            let entry = entry?;
            let path = next.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else {
                files.insert(path);
            }
        }
    }
    Ok(files)
}
