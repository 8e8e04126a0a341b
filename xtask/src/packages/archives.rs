//! Builds from the archives that users download. Each package is checked in a workspace of
//! archives, and a program that depends on one of them is built and run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::published;
use crate::folder::files_below;
use crate::libtorch::Variables;
use crate::metadata;
use crate::steps::{Step, cargo, target_directory};

/// The program in `tests` that depends only on published packages.
const PROGRAM: &str = "packed";

/// Enables the features of dependencies that other builds enable, so that each dependency is built
/// once.
const UNIFICATION: &str = "feature-unification";

/// Returns the steps that check each package from its archive.
pub fn check_steps(libtorch: &Variables) -> Vec<Step> {
    let step = |title: &str, arguments: &str| {
        in_workspace(Step::cargo(title, arguments)).after(unpack).variables(libtorch)
    };
    vec![
        step("packages, from their archives", "check --workspace --exclude mlprof-burn"),
        step(
            "burn's package, from its archive",
            "check -p feature-unification -p mlprof-burn --features mlprof-burn/rl,mlprof-burn/tracing",
        ),
    ]
}

/// Returns the step that builds the program from the archives and runs it.
pub fn run_step() -> Step {
    let step = Step::cargo(
        "a program with packages from their archives",
        "build --profile tested -p packed -p feature-unification",
    );
    in_workspace(step).after(unpack).and_then(run_program)
}

fn in_workspace(step: Step) -> Step {
    step.argument("--manifest-path")
        .argument(workspace().join("Cargo.toml"))
        .argument("--target-dir")
        .argument(target_directory())
}

fn workspace() -> PathBuf {
    target_directory().join("packages/workspace")
}

/// Creates or updates the workspace. Unchanged files keep their modification times, so that cargo
/// does not rebuild them.
fn unpack() -> Result<(), String> {
    let published = published()?;
    super::pack(&published)?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (fresh, workspace) = (target_directory().join("packages/fresh"), workspace());
    let _ = fs::remove_dir_all(&fresh);
    make(&fresh, &published, &root)
        .and_then(|()| update(&fresh, &workspace))
        .map_err(|error| format!("cannot make {}: {error}", workspace.display()))
}

fn make(folder: &Path, published: &[Value], root: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    for package in published {
        let archive = super::archive(package);
        let untarred =
            Command::new("tar").arg("-xzf").arg(&archive).current_dir(folder).status()?;
        if !untarred.success() {
            return Err(std::io::Error::other(format!("{}: {untarred}", archive.display())));
        }
    }
    for ours in [UNIFICATION, PROGRAM] {
        let ours = Path::new("tests").join(ours);
        copy(&root.join(&ours), &folder.join(ours.file_name().unwrap_or_default()))?;
    }
    fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let packages = published.iter().map(|package| (metadata::name(package), unpacked(package)));
    let packages: Vec<_> = packages.collect();
    let manifest = manifest(&fs::read_to_string(root.join("Cargo.toml"))?, &packages);
    fs::write(folder.join("Cargo.toml"), manifest)
}

/// Returns the name of the folder inside a package's archive.
fn unpacked(package: &Value) -> String {
    format!("{}-{}", metadata::name(package), package["version"].as_str().unwrap_or_default())
}

/// Returns the manifest of a workspace of these packages and their folders. Profiles and versions
/// are those of our manifest. Each package replaces its registry version.
fn manifest(ours: &str, packages: &[(&str, String)]) -> String {
    let (_, rest) = ours.split_once("[workspace.package]").unwrap_or_default();
    let mut manifest = String::from("[workspace]\nresolver = \"3\"\nmembers = [\n");
    let folders = packages.iter().map(|(_, folder)| folder.as_str());
    for member in folders.chain([UNIFICATION, PROGRAM]) {
        manifest.push_str(&format!("    \"{member}\",\n"));
    }
    manifest.push_str("]\n\n[workspace.package]");
    for line in rest.lines() {
        // Our packages are in folders with other names.
        let ours = line.split_once(" = { path = \"").and_then(|(name, behind)| {
            let (_, behind) = behind.split_once('"')?;
            packages.iter().find(|(package, _)| *package == name).map(|package| (package, behind))
        });
        match ours {
            Some(((package, folder), behind)) => {
                manifest.push_str(&format!("{package} = {{ path = \"{folder}\"{behind}\n"));
            }
            None => manifest.extend([line, "\n"]),
        }
    }
    manifest.push_str("\n[patch.crates-io]\n");
    for (package, folder) in packages {
        manifest.push_str(&format!("{package} = {{ path = \"{folder}\" }}\n"));
    }
    manifest
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for file in files_below(from)? {
        let target = to.join(&file);
        fs::create_dir_all(target.parent().unwrap_or(to))?;
        fs::copy(from.join(&file), target)?;
    }
    Ok(())
}

/// Makes `old` equal to `new`, without touching unchanged files.
fn update(new: &Path, old: &Path) -> std::io::Result<()> {
    fs::create_dir_all(old)?;
    let files = files_below(new)?;
    for gone in files_below(old)?.difference(&files) {
        fs::remove_file(old.join(gone))?;
    }
    for file in files {
        let (content, target) = (fs::read(new.join(&file))?, old.join(&file));
        if fs::read(&target).is_ok_and(|there| there == content) {
            continue;
        }
        fs::create_dir_all(target.parent().unwrap_or(old))?;
        // The file is written anew, because all files of an archive have the same time, and cargo
        // would not detect a change.
        fs::write(target, content)?;
    }
    Ok(())
}

/// Returns an error unless only archives were built, and the program printed the expected output.
fn run_program() -> Result<(), String> {
    let mut tree = cargo();
    tree.args(["tree", "--offline", "--prefix", "none", "--edges", "normal", "-p", PROGRAM]);
    let tree = tree.arg("--manifest-path").arg(workspace().join("Cargo.toml")).output();
    let tree = tree.map_err(|error| format!("cannot run cargo tree: {error}"))?;
    let tree = String::from_utf8_lossy(&tree.stdout).into_owned();
    let outside = elsewhere(&tree, &workspace());
    if !outside.is_empty() {
        return Err(format!("these packages do not come from archives: {}", outside.join(", ")));
    }
    let program = target_directory().join("tested").join(PROGRAM);
    let ran = Command::new(&program).output();
    let ran = ran.map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
    print!("{printed}");
    match missing(&printed) {
        _ if !ran.status.success() => Err(String::from_utf8_lossy(&ran.stderr).into_owned()),
        Some(missing) => Err(format!("its report lacks {missing:?}")),
        None => Ok(()),
    }
}

/// Returns our packages in the output of `cargo tree` that are not in this folder.
fn elsewhere<'a>(tree: &'a str, folder: &Path) -> Vec<&'a str> {
    let place = format!("({}", folder.display());
    let ours = tree.lines().filter(|line| line.starts_with("mlprof"));
    let mut ours: Vec<_> = ours.filter(|line| !line.contains(&place)).collect();
    if !tree.contains("mlprof-candle") {
        ours.push("mlprof-candle, which is not there");
    }
    ours
}

/// Returns an expected text that is missing in the program's report, if any.
fn missing(report: &str) -> Option<&'static str> {
    let rows =
        ["FIT Profiler Report", "[module]Linear: layer", "squared_error", "run_training_epoch"];
    rows.into_iter().find(|row| !report.contains(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libtorch::scratch::Scratch;

    #[test]
    fn a_workspace_of_packages_has_them_instead_of_the_registry() {
        let ours = "[workspace]\nmembers = [\"a-plugin\", \"xtask\"]\n\n[workspace.package]\n\
            version = \"0.1.0\"\n\n[workspace.dependencies]\n\
            a = { path = \"a-plugin\", version = \"0.1.0\" }\nserde = \"1\"\n\n[profile.release]\ndebug = false\n";
        let manifest = manifest(ours, &[("a", "a-0.1.0".to_owned())]);
        assert!(manifest.contains("members = [\n    \"a-0.1.0\",\n"), "{manifest}");
        assert!(!manifest.contains("xtask"), "{manifest}");
        assert!(
            manifest.contains("\na = { path = \"a-0.1.0\", version = \"0.1.0\" }\nserde"),
            "{manifest}"
        );
        assert!(
            manifest.ends_with("\n[patch.crates-io]\na = { path = \"a-0.1.0\" }\n"),
            "{manifest}"
        );
    }

    #[test]
    fn files_that_did_not_change_keep_their_times() {
        let folder = Scratch::new("archives");
        let (new, old) = (folder.path().join("new"), folder.path().join("old"));
        fs::create_dir_all(new.join("src")).expect("a folder");
        for (file, text) in [("same", "1"), ("src/changed", "1"), ("gone", "1")] {
            fs::write(new.join(file), text).expect("it is written");
        }
        update(&new, &old).expect("it is made");
        let time = |file: &str| {
            fs::metadata(old.join(file)).and_then(|it| it.modified()).expect("it has a time")
        };
        let before = [time("same"), time("src/changed")];
        fs::write(new.join("src/changed"), "2").expect("it is written");
        fs::remove_file(new.join("gone")).expect("it is removed");
        while fs::write(folder.path().join("clock"), "").is_ok()
            && fs::metadata(folder.path().join("clock")).and_then(|it| it.modified()).ok()
                <= Some(before[1])
        {}
        update(&new, &old).expect("it is updated");
        assert_eq!(time("same"), before[0]);
        assert!(time("src/changed") > before[1]);
        assert_eq!(fs::read_to_string(old.join("src/changed")).expect("it is there"), "2");
        assert!(!old.join("gone").exists());
    }

    #[test]
    fn packages_from_another_place_are_named() {
        let folder = Path::new("/workspace");
        let tree = "packed v0.1.0 (/workspace/packed)\nmlprof-candle v0.1.0 (/workspace/mlprof-candle)\n\
            mlprof-core v0.1.0 (/repository/profiler-core)\ncandle-core v0.11.0\n";
        assert_eq!(elsewhere(tree, folder), ["mlprof-core v0.1.0 (/repository/profiler-core)"]);
        assert_eq!(elsewhere("packed v0.1.0\n", folder).len(), 1);
    }

    #[test]
    fn a_report_without_a_row_is_seen() {
        assert_eq!(missing("FIT Profiler Report"), Some("[module]Linear: layer"));
    }
}
