//! Checks that programs and libraries without tests set `test = false` in their manifest, because
//! cargo would otherwise build them a second time. Targets with this setting must not contain
//! tests.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// Returns the files of each target in the workspace that is not built for tests.
pub fn files(packages: &[Value], all: &[PathBuf], root: &Path) -> Vec<PathBuf> {
    let targets = packages.iter().flat_map(|package| package["targets"].as_array()).flatten();
    let left_out =
        targets.filter(|target| target["test"] == false && target["kind"][0] != "custom-build");
    let root_files = left_out.filter_map(|target| target["src_path"].as_str());
    let inside: Vec<_> =
        root_files.filter_map(|file| Path::new(file).strip_prefix(root).ok()).collect();
    all.iter().filter(|file| inside.iter().any(|root| may_belong_to(root, file))).cloned().collect()
}

/// Returns `true` if a file may be a module of the target with root file `root`. A library, or a
/// program in its own folder below `bin/`, includes its whole folder. Any other program is a single
/// file.
fn may_belong_to(root: &Path, file: &Path) -> bool {
    let folder = root.parent().unwrap_or(root);
    let is_alone = folder.ends_with("bin") || folder.ends_with("src") && !root.ends_with("lib.rs");
    match is_alone {
        true => file == root,
        false => file.starts_with(folder) && !file.starts_with(folder.join("bin")),
    }
}

#[test]
fn programs_of_one_file_are_told_from_those_with_a_folder() {
    let belongs = |root: &str, file: &str| may_belong_to(Path::new(root), Path::new(file));
    assert!(belongs("a/src/bin/b.rs", "a/src/bin/b.rs"));
    assert!(!belongs("a/src/bin/b.rs", "a/src/bin/c.rs"));
    assert!(belongs("a/src/main.rs", "a/src/main.rs") && !belongs("a/src/main.rs", "a/src/b.rs"));
    assert!(belongs("a/src/bin/b/main.rs", "a/src/bin/b/c.rs"));
    assert!(belongs("a/src/lib.rs", "a/src/b/c.rs") && !belongs("a/src/lib.rs", "a/src/bin/b.rs"));
}
