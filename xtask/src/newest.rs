//! Builds the tch parts of the workspace again with the newest tch version.
//!
//! Cargo allows one tch version per lock file, because torch-sys `links` a native library, and burn
//! requires the lowest version. The files are therefore copied to the build folder and have their
//! own lock file.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::libtorch::version::{locked_version, newest};
use crate::libtorch::workspace;
use crate::steps::{cargo, target_directory};

/// Members of the copied workspace. Cargo adds their dependencies inside it. burn is excluded,
/// because it would restrict the tch version.
const MEMBERS: [&str; 2] = ["tch-plugin", "examples/tch-digits"];

/// Returns the folder of the copy and of its build output. Cargo identifies crates by their path
/// within the workspace, which is the same in both workspaces. In a shared folder, their crates
/// would overwrite each other.
pub fn folder() -> PathBuf {
    target_directory().join("tch-newest")
}

/// Returns the folder of the copied sources.
pub fn source() -> PathBuf {
    folder().join("source")
}

/// Updates the copy. Unchanged files are not touched, so that they are not rebuilt.
pub fn prepare() -> Result<(), String> {
    let files = listed_files()?;
    let copy = source();
    let explain = |error: io::Error| format!("cannot copy to {}: {error}", copy.display());
    synchronise(workspace(), &copy, &files).map_err(explain)?;
    lock_newest(&copy)
}

/// Returns tracked files and new files. Ignored files are excluded.
fn listed_files() -> Result<BTreeSet<PathBuf>, String> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = git.current_dir(workspace()).output();
    let output = output.map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(format!("git cannot list the files to copy: {}", message.trim()));
    }
    let list = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(list.split('\0').filter(|file| !file.is_empty()).map(PathBuf::from).collect())
}

/// Makes `to` contain exactly the `files` of `from`. `lock_newest` handles the lock file.
fn synchronise(from: &Path, to: &Path, files: &BTreeSet<PathBuf>) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let lock = Path::new("Cargo.lock");
    // A file may be deleted on disk but still be in git's index.
    let present = |file: &Path| files.contains(file) && from.join(file).is_file();
    for file in files_below(to)? {
        if file != lock && !present(&file) {
            fs::remove_file(to.join(file))?;
        }
    }
    for file in files.iter().filter(|file| *file != lock && present(file)) {
        let mut content = fs::read(from.join(file))?;
        if file == Path::new("Cargo.toml") {
            content = with_members(&String::from_utf8_lossy(&content)).into_bytes();
        }
        let target = to.join(file);
        if fs::read(&target).is_ok_and(|old| old == content) {
            continue;
        }
        fs::create_dir_all(target.parent().unwrap_or(to))?;
        fs::write(&target, content)?;
        fs::set_permissions(&target, fs::metadata(from.join(file))?.permissions())?;
    }
    Ok(())
}

/// Returns all files, relative to the folder.
fn files_below(root: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                folders.push(entry.path());
            } else if let Ok(relative) = entry.path().strip_prefix(root) {
                files.push(relative.to_owned());
            }
        }
    }
    Ok(files)
}

/// Returns the root manifest with the copy's members, all of which are built by default.
fn with_members(manifest: &str) -> String {
    let members: Vec<String> = MEMBERS.iter().map(|member| format!("{member:?}")).collect();
    let mut result = String::new();
    let mut lines = manifest.lines();
    while let Some(line) = lines.next() {
        let key = line.split_once('=').map(|(key, _)| key.trim());
        if !matches!(key, Some("members" | "default-members")) {
            result.push_str(line);
            result.push('\n');
            continue;
        }
        if key == Some("members") {
            result.push_str(&format!("members = [{}]\n", members.join(", ")));
        }
        if !line.contains(']') {
            lines.by_ref().find(|line| line.trim_end().ends_with(']'));
        }
    }
    result
}

/// Creates the lock file from the workspace's lock file whenever that changes, so that only tch
/// differs.
fn lock_newest(copy: &Path) -> Result<(), String> {
    let (start, own) = (workspace().join("Cargo.lock"), copy.join("Cargo.lock"));
    let remembered = folder().join("started-from.lock");
    let explain = |error: io::Error| format!("cannot copy {}: {error}", start.display());
    let wanted = fs::read(&start).map_err(explain)?;
    let lock = fs::read_to_string(&own).unwrap_or_default();
    let is_done = locked_version(&lock, "tch") == Some(newest().tch);
    if is_done && fs::read(&remembered).is_ok_and(|old| old == wanted) {
        return Ok(());
    }
    fs::write(&own, &wanted).map_err(explain)?;
    let mut update = cargo();
    update.args([
        "update",
        "--quiet",
        "--package",
        "tch",
        "--precise",
        newest().tch,
        "--manifest-path",
    ]);
    let status = update.arg(copy.join("Cargo.toml")).status();
    let status = status.map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err(format!("cargo update to tch {} failed ({status})", newest().tch));
    }
    fs::write(&remembered, &wanted).map_err(explain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libtorch::scratch::Scratch;
    use std::time::{Duration, SystemTime};

    #[test]
    fn only_the_members_differ_in_the_manifest() {
        let manifest = include_str!("../../Cargo.toml");
        let changed = with_members(manifest);
        assert!(changed.contains("members = [\"tch-plugin\", \"examples/tch-digits\"]\n"));
        assert!(!changed.contains("default-members") && !changed.contains("burn-digits"));
        for part in ["[workspace]\nresolver = ", "[workspace.lints.rust]\n", "\nburn = { version"] {
            assert!(changed.contains(part), "{part} is not in {changed}");
        }
        let short = "[workspace]\nmembers = [\"a\"]\ndefault-members = [\n  \"a\",\n]\nx = [1]\n";
        let members = "members = [\"tch-plugin\", \"examples/tch-digits\"]";
        assert_eq!(with_members(short), format!("[workspace]\n{members}\nx = [1]\n"));
    }

    fn write(root: &Path, file: &str, content: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
        fs::write(path, content).expect("a file");
    }

    #[test]
    fn the_copy_follows_and_leaves_alone_what_did_not_change() {
        let scratch = Scratch::new("newest");
        let (from, to) = (scratch.path().join("from"), scratch.path().join("to"));
        let list = |files: &[&str]| files.iter().map(PathBuf::from).collect::<BTreeSet<_>>();
        for file in ["a/same.rs", "a/changed.rs", "gone.rs", "b/gone.rs", "Cargo.lock"] {
            write(&from, file, file);
        }
        write(&from, "Cargo.toml", "[workspace]\nmembers = [\"a\"]\n");
        let files =
            ["Cargo.lock", "Cargo.toml", "a/changed.rs", "a/same.rs", "b/gone.rs", "gone.rs"];
        synchronise(&from, &to, &list(&files)).expect("a first copy");
        assert!(!to.join("Cargo.lock").exists());

        let old = SystemTime::now() - Duration::from_secs(1000);
        for file in ["a/same.rs", "a/changed.rs", "Cargo.toml"] {
            let file = fs::File::options().write(true).open(to.join(file)).expect("a copy");
            file.set_modified(old).expect("its time can be set");
        }
        write(&to, "Cargo.lock", "the copy's own");
        write(&from, "a/changed.rs", "new");
        // One file is no longer listed. The other one is listed but deleted.
        fs::remove_file(from.join("b/gone.rs")).expect("it was there");
        synchronise(&from, &to, &list(&files[..5])).expect("a second copy");

        let mut copied = files_below(&to).expect("a folder");
        copied.sort();
        assert_eq!(copied, files[..4].iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(fs::read_to_string(to.join("a/changed.rs")).expect("a copy"), "new");
        assert_eq!(fs::read_to_string(to.join("Cargo.lock")).expect("a file"), "the copy's own");
        let age = |file: &str| {
            let modified = fs::metadata(to.join(file)).and_then(|data| data.modified());
            modified.expect("a time").elapsed().unwrap_or_default().as_secs()
        };
        assert!(age("a/same.rs") > 900 && age("Cargo.toml") > 900 && age("a/changed.rs") < 900);
    }
}
