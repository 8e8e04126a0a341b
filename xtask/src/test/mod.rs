//! `cargo xtask test`: runs all tests or those of selected parts.
//!
//! The core is tested with debug assertions. In the tests for candle and tch, the framework and the
//! profiler are optimised, as in users' builds. In the tests for burn they are not. Optimising
//! burn's hundreds of crates takes much longer than running its tests, and GPU code is not
//! affected.
//!
//! All parts are built with a package that requests the union of all needed features (`builds.rs`),
//! so that no crate is built twice.

mod aarch64;
// The end-to-end tests use the same builds as the parts.
#[path = "../../../tests/src/builds.rs"]
mod builds;
mod changed;
mod parts;
mod sanitizers;
mod sql;
mod translated;
mod windows;

use self::changed::changed_files;
pub use self::parts::command;
use self::parts::{ON_REQUEST, PARTS, Part};
use crate::disk_space;
use crate::steps::{self, run_all};
use crate::system::{BROWSER, CPP_COMPILER, NODE, PROMETHEUS, PYTHON, SOFTWARE_GPU};

/// Runs the tests of these parts, or of all parts if none is given. With `--changed`, runs the
/// parts that are affected by changes since the last commit, or since the branch that follows the
/// option.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let parts = chosen(arguments)?;
    for requirement in [PYTHON, CPP_COMPILER, SOFTWARE_GPU, NODE, BROWSER, PROMETHEUS] {
        requirement.require()?;
    }
    disk_space::make_room()?;
    println!("build output in {}", steps::target_directory().display());
    let mut all = Vec::new();
    for part in parts {
        all.extend((part.steps)()?);
    }
    run_all(&all)
}

/// Returns the list of parts for the usage text.
pub fn usage() -> String {
    PARTS
        .iter()
        .chain(&ON_REQUEST)
        .map(|part| format!("    {:<11}{}\n", part.name, part.about))
        .collect()
}

fn chosen(arguments: &[&str]) -> Result<Vec<&'static Part>, String> {
    match arguments {
        [] => Ok(PARTS.iter().collect()),
        ["--changed"] => reached(&changed_files("HEAD")?),
        ["--changed", since] => reached(&changed_files(since)?),
        names => names.iter().map(|name| named(name)).collect(),
    }
}

fn named(name: &str) -> Result<&'static Part, String> {
    let mut all = PARTS.iter().chain(&ON_REQUEST);
    all.find(|part| part.name == name).ok_or_else(|| {
        let names: Vec<_> = PARTS.iter().chain(&ON_REQUEST).map(|part| part.name).collect();
        format!("unknown part {name} of the tests; use {}", names.join(", "))
    })
}

/// Returns the parts that a change affects, and prints the affected and unaffected parts.
fn reached(files: &[String]) -> Result<Vec<&'static Part>, String> {
    let is_reached = |part: &&Part| files.iter().any(|file| part.is_reached_by(file));
    let (reached, others): (Vec<_>, Vec<_>) = PARTS.iter().partition(is_reached);
    let names = |parts: &[&Part]| parts.iter().map(|part| part.name).collect::<Vec<_>>().join(", ");
    println!("{} files have changed: {}", files.len(), names(&reached));
    println!("not affected: {}", names(&others));
    Ok(reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached_by(file: &str) -> Vec<&'static str> {
        let parts = PARTS.iter().filter(|part| part.is_reached_by(file));
        parts.map(|part| part.name).collect()
    }

    #[test]
    fn parts_are_chosen_by_name() {
        let names = |arguments: &[&str]| {
            chosen(arguments).map(|parts| parts.iter().map(|part| part.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["aarch64", "windows"]), Ok(vec!["aarch64", "windows"]));
        assert_eq!(names(&["tch", "core"]), Ok(vec!["tch", "core"]));
        assert_eq!(names(&[]).map(|all| all.len()), Ok(PARTS.len()));
        assert!(names(&["tcl"]).expect_err("a typo").contains("use core, "));
    }

    #[test]
    fn a_change_reaches_what_stands_on_it() {
        assert_eq!(reached_by("profiler-core/src/lib.rs").len(), PARTS.len());
        assert_eq!(reached_by("tch-plugin/src/lib.rs"), ["tool", "tch", "newest", "e2e"]);
        let of_devices = reached_by("mlprof-cuda/tests/cupti/main.rs");
        assert_eq!(of_devices, ["core", "loom", "tool", "candle"]);
        assert_eq!(reached_by("docs/src/how-to/profile-every-op.md"), ["core"]);
        assert_eq!(reached_by("mlprof-sql/sql/straggler.sql"), ["tool", "sql"]);
        assert_eq!(reached_by("xtask/src/main.rs"), ["tool"]);
        assert_eq!(reached_by("xtask/src/npm.rs"), ["tool", "e2e"]);
        assert_eq!(reached_by("Cargo.lock").len(), PARTS.len());
    }

    #[test]
    fn unknown_files_affect_all_parts() {
        assert_eq!(reached_by("a-new-folder/src/lib.rs").len(), PARTS.len());
    }
}
