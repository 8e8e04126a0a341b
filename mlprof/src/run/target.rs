//! Chooses cargo's build folder for `mlprof run`, and removes outdated artifacts from it.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::cargo_command;
use super::plan::Plan;
use super::record::CrateRecord;

/// Settings that affect the compilation of many crates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hooks<'arguments> {
    /// Presets and rule files of `--ops`.
    pub presets: &'arguments [String],
    /// Set when ops report their outputs instead of their times.
    pub outputs: bool,
    /// Enables frame pointers in all crates.
    pub frame_pointers: bool,
}

impl Hooks<'_> {
    /// Returns the name of the build folder for these settings.
    fn folder(&self) -> String {
        let outputs = if self.outputs && !self.presets.is_empty() { "+numerics" } else { "" };
        let frame_pointers = if self.frame_pointers { "+frame-pointers" } else { "" };
        name(self.presets) + outputs + frame_pointers
    }
}

/// Folders of build output.
#[derive(Debug, PartialEq, Eq)]
pub struct Folders {
    /// Cargo's usual build folder, which stays unchanged.
    pub users: PathBuf,
    /// Build folder of this run.
    pub own: PathBuf,
    /// Build folder of the same presets with the other kind of op hooks. It shares all but a few
    /// crates with this run. A build with frame pointers shares no crates with one without them.
    pub alike: Option<PathBuf>,
}

/// Returns the build folders for a command. mlprof builds into the subfolder `mlprof` of cargo's
/// build folder. Each kind of hooks has its own folder there, so switching between kinds recompiles
/// nothing.
pub fn folders_of(command: &[OsString], hooks: Hooks<'_>) -> Folders {
    let named = cargo_command::option(command, "--target-dir")
        .map(PathBuf::from)
        .or_else(|| non_empty("CARGO_TARGET_DIR"))
        .or_else(|| cargo_command::ask_for_target(command))
        .unwrap_or_else(|| PathBuf::from("target"));
    let users = cargo_command::folder(command).join(named);
    let users = std::path::absolute(&users).unwrap_or(users);
    let other = Hooks { outputs: !hooks.outputs, ..hooks };
    let [own, alike] = [hooks, other].map(|hooks| users.join("mlprof").join(hooks.folder()));
    Folders { alike: (alike != own).then_some(alike), own, users }
}

/// Returns a folder name for the presets. Rule files are represented by their file names.
fn name(presets: &[String]) -> String {
    let stem = |preset: &String| {
        let stem = Path::new(preset).file_stem().unwrap_or_default().to_string_lossy();
        stem.chars().map(|one| if one.is_alphanumeric() { one } else { '-' }).collect::<String>()
    };
    match presets {
        [] => "functions".to_owned(),
        presets => presets.iter().map(stem).collect::<Vec<_>>().join("+"),
    }
}

/// Returns the folder in an environment variable, unless the variable is empty.
pub fn non_empty(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Makes cargo recompile the crates with hooks that changed since the last run. Their dependents
/// are also recompiled, and all other crates are reused. Returns the names of the changed crates.
///
/// # Errors
///
/// Returns an error if an artifact cannot be removed, because the build would then contain the
/// wrong hooks.
pub fn forget_changed(target: &Path, plan: &Plan) -> io::Result<Vec<String>> {
    let mut changed = Vec::new();
    for (path, record) in CrateRecord::read_all(&plan.records()) {
        let fingerprints =
            [false, true].map(|is_program| plan.fingerprint(&record.crate_name, is_program));
        if fingerprints.contains(&record.fingerprint) {
            continue;
        }
        forget(target, &record.package)?;
        unless_gone(std::fs::remove_file(path))?;
        changed.push(record.package);
    }
    changed.dedup();
    Ok(changed)
}

/// Removes cargo's fingerprints of a package in each profile. With an explicit `--target`, the
/// profiles are one level deeper.
fn forget(target: &Path, package: &str) -> io::Result<()> {
    for profile in folders(target).iter().flat_map(|folder| {
        let mut inner = folders(folder);
        inner.push(folder.clone());
        inner
    }) {
        fingerprints(&profile, package)
            .iter()
            .try_for_each(|known| unless_gone(std::fs::remove_dir_all(known)))?;
    }
    Ok(())
}

/// Returns the fingerprints of a package in both of cargo's layouts:
/// `.fingerprint/{package}-{hash}` and `build/{package}/{hash}/fingerprint`.
fn fingerprints(profile: &Path, package: &str) -> Vec<PathBuf> {
    let is_of_package = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.rsplit_once('-').is_some_and(|(name, hash)| name == package && !hash.is_empty())
    };
    let old = folders(&profile.join(".fingerprint")).into_iter().filter(is_of_package);
    let new = folders(&profile.join("build").join(package)).into_iter();
    let new = new.map(|unit| unit.join("fingerprint")).filter(|path| path.is_dir());
    old.chain(new).collect()
}

/// Ignores a missing file, because another run or its cargo may have removed it in the meantime.
fn unless_gone(removed: io::Result<()>) -> io::Result<()> {
    removed
        .or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

/// Returns the subfolders of a folder.
pub(super) fn folders(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let is_folder = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.filter_map(Result::ok).filter(is_folder).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mlprof_instrument::SelectionBuilder;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_target_directory_of_the_command_comes_first() {
        let command = words("cargo run --target-dir /t --release -- --target-dir /mine");
        let none = Hooks { presets: &[], outputs: true, frame_pointers: false };
        let own = "/t/mlprof/functions".into();
        let expected = Folders { users: "/t".into(), own, alike: None };
        assert_eq!(folders_of(&command, none), expected, "numbers of no ops");
        let command = words("cargo test --target-dir=/t");
        let presets = ["burn-flex".to_owned(), "./rules/my own.toml".to_owned()];
        let mut hooks = Hooks { presets: &presets, outputs: false, frame_pointers: false };
        let folders = folders_of(&command, hooks);
        assert_eq!(folders.own, Path::new("/t/mlprof/burn-flex+my-own"));
        assert_eq!(folders.alike, Some("/t/mlprof/burn-flex+my-own+numerics".into()));
        (hooks.outputs, hooks.frame_pointers) = (true, true);
        let folders = folders_of(&command, hooks);
        let frames = Path::new("/t/mlprof/burn-flex+my-own+numerics+frame-pointers");
        assert_eq!(folders.own, frames);
        assert_eq!(folders.alike, Some("/t/mlprof/burn-flex+my-own+frame-pointers".into()));
    }

    /// Returns the fingerprint folders of a package in cargo's layouts.
    fn fingerprints_of(name: &str) -> [String; 3] {
        [
            format!("release/.fingerprint/{name}-0a"),
            format!("x86_64-unknown-linux-gnu/debug/.fingerprint/{name}-0a"),
            format!("release/build/{name}/0a/fingerprint"),
        ]
    }

    #[test]
    fn only_crates_whose_hooks_change_are_forgotten() {
        let target = tempfile::tempdir().expect("a folder");
        let plan = |functions: &[&str]| Plan {
            selection: SelectionBuilder::default().functions(functions).expect("patterns").build(),
            tracks_allocations: false,
            frame_pointers: false,
            runtime: "/r/lib.so".into(),
            target: target.path().to_owned(),
            folder: target.path().join("state"),
            chained_wrapper: None,
            rustdoc: None,
        };
        let before = plan(&["one::f", "two::f"]);
        for name in ["one", "two", "three"] {
            let record = CrateRecord {
                crate_name: name.into(),
                package: name.into(),
                fingerprint: before.fingerprint(name, false),
                ..Default::default()
            };
            record.write(&before.records(), &format!("{name}-1")).expect("written");
            for path in fingerprints_of(name) {
                std::fs::create_dir_all(target.path().join(path)).expect("made");
            }
        }
        let after = plan(&["one::f", "two::g"]);
        assert_eq!(forget_changed(target.path(), &after).expect("removed"), ["two"]);
        let is_known =
            |name: &str| fingerprints_of(name).map(|path| target.path().join(path).exists());
        assert_eq!(
            [is_known("one"), is_known("two"), is_known("three")],
            [[true; 3], [false; 3], [true; 3]]
        );
        assert_eq!(forget_changed(target.path(), &after).expect("removed"), [""; 0]);
    }
}
