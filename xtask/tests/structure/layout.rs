//! Where files lie: a module with files of its own is a folder with a `mod.rs`.

use std::path::{Path, PathBuf};

/// Modules that are written the other way: a file beside the folder of its own files.
pub fn beside_their_folders(files: &[PathBuf]) -> Vec<String> {
    let is_rust = |file: &&PathBuf| file.extension().is_some_and(|ending| ending == "rs");
    let has_modules = |folder: &Path| {
        files.iter().filter(is_rust).any(|file| file.parent().is_some_and(|there| there == folder))
    };
    let beside = files.iter().filter(is_rust).filter(|file| has_modules(&file.with_extension("")));
    beside.map(|file| file.display().to_string()).collect()
}
