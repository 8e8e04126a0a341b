//! Copy of a package with some changed files; all other files are links.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use mlprof_events::files::{create_new, link_or_copy};

/// Folder that mirrors every path needed to compile a crate: `{folder}/home/me/app/src/main.rs`
/// represents `/home/me/app/src/main.rs`. Changed files are written, and all others are links to
/// the originals. `include_str!`, `#[path]` and procedural macros therefore find their files.
#[derive(Debug)]
pub struct Overlay {
    folder: PathBuf,
}

impl Overlay {
    /// Creates the overlay anew. `top` is the highest folder to mirror, and files outside it are
    /// left out. `passed` contains folders that the compiler passes through to reach a file. They
    /// must not be links, because `..` would then lead out of the overlay into the original.
    ///
    /// # Errors
    ///
    /// Returns an error if a file or folder cannot be created.
    pub fn make(
        folder: &Path,
        top: &Path,
        files: &BTreeMap<PathBuf, String>,
        passed: &[PathBuf],
    ) -> io::Result<Self> {
        match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let overlay = Self { folder: folder.to_owned() };
        // `top` is always mirrored, because the compiler runs there.
        let mut real = BTreeSet::from([top]);
        let folders = files.keys().filter_map(|file| file.parent());
        for folder in folders.chain(passed.iter().map(PathBuf::as_path)) {
            real.extend(folder.ancestors().take_while(|folder| folder.starts_with(top)));
        }
        // The set is sorted, so a folder precedes its content.
        for folder in &real {
            std::fs::create_dir_all(overlay.path_of(folder))?;
            for entry in std::fs::read_dir(folder)? {
                let original = entry?.path();
                if real.contains(original.as_path()) || files.contains_key(&original) {
                    continue;
                }
                link_or_copy(&original, &overlay.path_of(&original))?;
            }
        }
        for (original, text) in files.iter().filter(|(file, _)| file.starts_with(top)) {
            create_new(&overlay.path_of(original), text.as_bytes())?;
        }
        Ok(overlay)
    }

    /// Returns the overlay path of an absolute path.
    pub fn path_of(&self, original: &Path) -> PathBuf {
        self.folder.join(original.strip_prefix("/").unwrap_or(original))
    }

    /// Returns the overlay folder, which represents `/`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_files_are_written_and_all_others_are_the_originals() {
        let folder = tempfile::tempdir().expect("a folder");
        let package = folder.path().join("work/app");
        for (file, text) in [("src/lib.rs", "a"), ("src/net/mod.rs", "b"), ("data/x.txt", "c")] {
            let file = package.join(file);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("made");
            std::fs::write(file, text).expect("written");
        }
        std::fs::write(folder.path().join("work/README.md"), "r").expect("written");
        let files = BTreeMap::from([(package.join("src/net/mod.rs"), "changed".to_owned())]);
        let place = folder.path().join("overlay");
        // The second iteration replaces the overlay of the first.
        for _ in 0..2 {
            let overlay =
                Overlay::make(&place, &folder.path().join("work"), &files, &[]).expect("made");
            let read = |path: &str| {
                std::fs::read_to_string(overlay.path_of(&package).join(path)).expect("there")
            };
            assert_eq!(read("src/net/mod.rs"), "changed");
            assert_eq!(
                [read("src/lib.rs"), read("data/x.txt"), read("../README.md")],
                ["a", "c", "r"]
            );
        }
        let original = std::fs::read_to_string(package.join("src/net/mod.rs")).expect("there");
        assert_eq!(original, "b");
        // The path passes through a folder without changed files and leaves it by `..`.
        let files = BTreeMap::from([(package.join("data/x.txt"), "changed".to_owned())]);
        let passed = [package.join("src/net")];
        let overlay = Overlay::make(&place, folder.path(), &files, &passed).expect("made");
        let way = overlay.path_of(&package).join("src/net/../../data/x.txt");
        assert_eq!(std::fs::read_to_string(way).expect("there"), "changed");
    }
}
