//! Checks that the crates can be published. cargo creates their packages, and each package must
//! contain the required files.

mod archives;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::metadata;
use crate::steps::{Step, cargo, target_directory};

pub use archives::{check_steps, run_step};

/// Required files of each package, in addition to the manifest.
const NEEDED: [&str; 4] = ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "src/lib.rs"];

/// Files of the page's bundle. They must be included, because users do not have the bundler.
const BUNDLE: [&str; 3] =
    ["src/page/bundle/page.js", "src/page/bundle/page.css", "src/page/bundle/policy.txt"];

/// Maximum compressed size of a package in bytes. Large test data should not be published.
const LARGEST: u64 = 1 << 20;

/// Returns the published crates: all that do not disable publishing.
pub fn published() -> Result<Vec<Value>, String> {
    let mut packages = metadata::packages()?;
    packages.retain(is_published);
    Ok(packages)
}

/// Returns `true` unless the list of allowed registries is empty.
fn is_published(package: &Value) -> bool {
    package["publish"].as_array().is_none_or(|registries| !registries.is_empty())
}

/// Returns the step that creates the packages and checks their contents.
pub fn step() -> Result<Step, String> {
    let step = Step::cargo("packages", PACK).argument(folder());
    let named = |step: Step, package: &Value| step.argument("-p").argument(metadata::name(package));
    Ok(published()?.iter().fold(step, named).and_then(look_into_all))
}

/// Creates packages without building them, because each build would also build its dependencies.
/// [`check_steps`] builds them.
const PACK: &str = "package --quiet --no-verify --allow-dirty --target-dir";

/// Creates the archives of these packages.
fn pack(packages: &[Value]) -> Result<(), String> {
    let mut package = cargo();
    package.args(PACK.split(' ')).arg(folder());
    package.args(packages.iter().flat_map(|package| ["-p", metadata::name(package)]));
    let status = package.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo package: {status}")) }
}

fn folder() -> PathBuf {
    target_directory().join("packages")
}

/// Returns the archive that [`pack`] creates for a package.
fn archive(package: &Value) -> PathBuf {
    let (name, version) = (metadata::name(package), &package["version"]);
    let file = format!("{name}-{}.crate", version.as_str().unwrap_or_default());
    folder().join("package").join(file)
}

fn look_into_all() -> Result<(), String> {
    let packages = published()?;
    let faults = packages.iter().map(|package| {
        let file = archive(package);
        look_into(metadata::name(package), &file)
            .map_err(|error| format!("{}: {error}", file.display()))
    });
    let faults = faults.collect::<Result<Vec<_>, _>>()?.concat();
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

fn look_into(name: &str, package: &Path) -> Result<Vec<String>, String> {
    let size = fs::metadata(package).map_err(|error| error.to_string())?.len();
    let list = Command::new("tar").arg("-tzf").arg(package).output();
    let list = list.map_err(|error| format!("cannot run tar: {error}"))?;
    if !list.status.success() {
        return Err(String::from_utf8_lossy(&list.stderr).trim().to_owned());
    }
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    // All files are below <name>-<version>/.
    let files = list.lines().filter_map(|line| line.split_once('/')).map(|(_, file)| file);
    Ok(faults(name, size, &files.collect::<Vec<_>>()))
}

fn faults(name: &str, size: u64, files: &[&str]) -> Vec<String> {
    let bundle = if name == "mlprof-report" { BUNDLE.as_slice() } else { &[] };
    let missing = NEEDED.iter().chain(bundle).filter(|needed| !files.contains(needed));
    let mut faults: Vec<_> =
        missing.map(|file| format!("{name}: the archive lacks {file}")).collect();
    if size > LARGEST {
        faults.push(format!("{name}: the archive has {size} bytes; the limit is {LARGEST}"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_for_users_are_published_and_nothing_else() {
        let published = published().expect("cargo knows them");
        let is_among_them =
            |name: &str| published.iter().any(|package| metadata::name(package) == name);
        for name in ["mlprof-core", "mlprof-macros", "mlprof-burn", "mlprof"] {
            assert!(is_among_them(name), "{name}");
        }
        for name in ["xtask", "tests", "benches", "gpu-check", "mlprof-runtime"] {
            assert!(!is_among_them(name), "{name}");
        }
    }

    #[test]
    fn published_libraries_show_their_features_on_docs_rs() {
        let packages = published().expect("cargo knows them");
        for package in packages.iter().filter(|package| metadata::name(package) != "mlprof") {
            let name = metadata::name(package);
            let settings = &package["metadata"]["docs"]["rs"];
            assert_eq!(settings["all-features"], true, "{name}");
            assert_eq!(settings["rustdoc-args"], serde_json::json!(["--cfg", "docsrs"]), "{name}");
            let manifest = package["manifest_path"].as_str().expect("a path");
            let root = Path::new(manifest).with_file_name("src").join("lib.rs");
            let text = std::fs::read_to_string(root).expect("a library");
            assert!(text.contains("#![cfg_attr(docsrs, feature(doc_cfg))]"), "{name}");
        }
    }

    #[test]
    fn published_crates_tell_what_a_registry_shows() {
        for package in published().expect("cargo knows them") {
            let name = metadata::name(&package);
            for field in ["description", "license", "readme"] {
                let text = package[field].as_str().unwrap_or_default();
                assert!(!text.is_empty(), "{name}: {field}");
            }
            for field in ["keywords", "categories"] {
                let list = package[field].as_array();
                assert!(list.is_some_and(|list| !list.is_empty()), "{name}: {field}");
            }
        }
    }

    #[test]
    fn missing_and_large_files_are_named() {
        let whole = ["README.md", "LICENSE-MIT", "LICENSE-APACHE", "src/lib.rs", "tests/a.rs"];
        assert!(faults("a", LARGEST, &whole).is_empty());
        assert_eq!(faults("a", 1, &whole[1..]), ["a: the archive lacks README.md"]);
        let without_bundle = faults("mlprof-report", 1, &whole);
        assert_eq!(without_bundle.len(), 3, "{without_bundle:?}");
        let too_large = faults("a", LARGEST + 1, &whole);
        assert_eq!(too_large, ["a: the archive has 1048577 bytes; the limit is 1048576"]);
    }
}
