//! Checks the file layout: a module with submodule files is a folder with a `mod.rs`.

use std::path::{Path, PathBuf};

/// Returns modules in the other layout: a file next to the folder of its submodules.
pub fn beside_their_folders(files: &[PathBuf]) -> Vec<String> {
    let is_rust = |file: &&PathBuf| file.extension().is_some_and(|ending| ending == "rs");
    let has_modules = |folder: &Path| {
        files.iter().filter(is_rust).any(|file| file.parent().is_some_and(|there| there == folder))
    };
    let beside = files.iter().filter(is_rust).filter(|file| has_modules(&file.with_extension("")));
    beside.map(|file| file.display().to_string()).collect()
}
