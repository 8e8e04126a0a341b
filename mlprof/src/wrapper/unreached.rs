//! Finds source files that the compiler read and that were not searched for functions.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use mlprof_events::files;

use mlprof_instrument::{LeftOut, Unread};

/// Returns the source files with functions that are in rustc's dependency file but not among
/// `read`. Macros of other crates can declare such modules. Files of an `include!` in `unseen` are
/// already known and left out.
pub fn unreached(
    dep_info: &str,
    directory: &Path,
    read: &[PathBuf],
    unseen: &[LeftOut],
) -> Vec<Unread> {
    let read: HashSet<PathBuf> = read.iter().map(|path| canonical(path)).collect();
    let is_included = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        unseen.iter().any(|one| one.path.starts_with("include!") && one.path.contains(&*name))
    };
    // The dependency file lists each source file on its own line, as a target without dependencies.
    let files = dep_info.lines().filter_map(|line| line.strip_suffix(':'));
    let mut files: Vec<PathBuf> = files
        .map(|file| canonical(&directory.join(file.replace("\\ ", " "))))
        .filter(|file| file.extension().is_some_and(|extension| extension == "rs"))
        .filter(|file| !read.contains(file) && !is_included(file) && has_functions(file))
        .collect();
    files.sort();
    files.dedup();
    let reason = "no `mod` declaration leads to it; a macro of another crate may declare it";
    files.into_iter().map(|path| Unread { path, reason: reason.to_owned() }).collect()
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Returns `true` if the file contains Rust functions. A dependency may also be a file that is only
/// read as text.
fn has_functions(file: &Path) -> bool {
    files::read_text(file, super::LONGEST_SOURCE)
        .is_ok_and(|text| text.contains("fn ") && mlprof_instrument::is_rust(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_only_the_compiler_found_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = canonical(folder.path());
        for (name, text) in [
            ("lib.rs", "fn f() {}"),
            ("a b.rs", "fn g() {}"),
            ("table.rs", "[1, 2]"),
            ("made.rs", "fn h() {}"),
            ("text.txt", "fn i() {}"),
        ] {
            std::fs::write(folder.join(name), text).expect("written");
        }
        let dep_info = "out/lib.rmeta: lib.rs a\\ b.rs table.rs made.rs\n\nlib.rs:\na\\ b.rs:\n\
                        table.rs:\nmade.rs:\ntext.txt:\n\n# env-dep:X=1\n";
        let made = LeftOut {
            path: "include!(concat!(env!(\"OUT_DIR\"),\"/made.rs\"))".into(),
            file: "lib.rs".into(),
            line: 1,
            reason: String::new(),
        };
        let found = unreached(dep_info, &folder, &[folder.join("lib.rs")], &[made]);
        let files: Vec<_> = found.iter().map(|one| one.path.clone()).collect();
        assert_eq!(files, [folder.join("a b.rs")]);
    }
}
