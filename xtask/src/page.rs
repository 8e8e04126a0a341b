//! Bundles the script and the style sheet of the report page with esbuild, which needs node. The
//! bundle is checked in, so that building mlprof needs no node.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::libtorch::workspace;
use crate::npm;
use crate::steps::{Step, target_directory};
use crate::system::NODE;

/// Output files of the bundler.
const BUNDLE: [&str; 3] = ["page.js", "page.css", "policy.txt"];

/// Configuration files that define the bundler and its inputs.
const SOURCES: [&str; 4] = ["package.json", "package-lock.json", "tsconfig.json", "build.mjs"];

fn bundle() -> PathBuf {
    workspace().join("mlprof-report/src/page/bundle")
}

/// Creates the bundle.
pub fn run() -> Result<(), String> {
    let fresh = build()?;
    for file in BUNDLE {
        let to = bundle().join(file);
        fs::copy(fresh.join(file), &to).map_err(|error| format!("{}: {error}", to.display()))?;
    }
    println!("bundled in {}", bundle().display());
    Ok(())
}

/// Returns the step that checks the types and compares the bundle with its sources. Without node,
/// it prints a message instead.
pub fn step() -> Step {
    Step::cargo("the page's bundle", "--version").and_then(check)
}

fn check() -> Result<(), String> {
    if !NODE.is_there() {
        println!("skipped: {} is missing", NODE.name);
        return Ok(());
    }
    let fresh = build()?;
    let stale = stale(&fresh, &bundle()).map_err(|error| error.to_string())?;
    match stale.as_slice() {
        [] => Ok(()),
        stale => Err(format!(
            "{} in {} differs from the sources in mlprof-report/page: run `cargo xtask page`",
            stale.join(", "),
            bundle().display()
        )),
    }
}

/// Returns the files of the bundle that differ.
fn stale(fresh: &Path, there: &Path) -> io::Result<Vec<&'static str>> {
    let mut stale = Vec::new();
    for file in BUNDLE {
        if fs::read(fresh.join(file))? != fs::read(there.join(file)).unwrap_or_default() {
            stale.push(file);
        }
    }
    Ok(stale)
}

/// Checks the types and creates the bundle in the build folder, and returns that folder.
fn build() -> Result<PathBuf, String> {
    let folder = target_directory().join("page");
    let explain = |error: io::Error| format!("{}: {error}", folder.display());
    let source = workspace().join("mlprof-report/page");
    let scripts = folder.join("src");
    if scripts.exists() {
        fs::remove_dir_all(&scripts).map_err(explain)?;
    }
    fs::create_dir_all(&scripts).map_err(explain)?;
    for file in SOURCES {
        fs::copy(source.join(file), folder.join(file)).map_err(explain)?;
    }
    for entry in fs::read_dir(source.join("src")).map_err(explain)? {
        let entry = entry.map_err(explain)?;
        fs::copy(entry.path(), scripts.join(entry.file_name())).map_err(explain)?;
    }
    npm::install(&folder)?;
    run_in(&folder, "node", &["node_modules/typescript/bin/tsc", "--noEmit"])?;
    run_in(&folder, "node", &["build.mjs", "bundle"])?;
    Ok(folder.join("bundle"))
}

fn run_in(folder: &Path, program: &str, arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    let status = command.status().map_err(|error| format!("cannot run {program}: {error}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{program} {} failed ({status})", arguments.join(" "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::libtorch::scratch::Scratch;

    #[test]
    fn a_bundle_that_differs_is_named() {
        let (fresh, there) = (Scratch::new("page-fresh"), Scratch::new("page-there"));
        for folder in [fresh.path(), there.path()] {
            for file in BUNDLE {
                fs::write(folder.join(file), file).expect("written");
            }
        }
        assert_eq!(stale(fresh.path(), there.path()).expect("read"), [""; 0]);
        fs::write(there.path().join("page.css"), "other").expect("written");
        fs::remove_file(there.path().join("page.js")).expect("removed");
        assert_eq!(stale(fresh.path(), there.path()).expect("read"), ["page.js", "page.css"]);
    }
}
