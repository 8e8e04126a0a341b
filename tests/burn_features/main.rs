//! Checks that adding the plugin to a burn program changes neither burn's features nor the
//! program's results.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tests::builds::UNIFICATION;
use tests::program::Run;
use tests::target_directory;

const PROGRAM: &str = "burn-features";

/// Features of burn's crates that the plugin may enable. They add functions and types, but do not
/// change the default device or the behaviour of ops.
const HARMLESS: [&str; 13] = [
    "autodiff",
    "burn-autodiff",
    "burn-backend-extension",
    "burn-dataset",
    "burn-dispatch",
    "burn-ir",
    "burn-optim",
    "dataset",
    // The features that this one enables are also in the list.
    "default",
    "extension",
    "ir",
    "optim",
    "std",
];

fn cargo(command: &str) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    cargo.args([command, "--package", PROGRAM]).current_dir(folder);
    cargo.stdin(Stdio::null()).stderr(Stdio::inherit());
    cargo
}

/// Returns the features of the burn and cubecl crates in a program with `features`.
fn resolved(features: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let output = cargo("tree")
        .args(["--edges", "normal", "--prefix", "none", "--format", "{p}|{f}", "--features"])
        .arg(features.join(","))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo tree: {}", output.status);
    let text = String::from_utf8(output.stdout).expect("text");
    let mut all = BTreeMap::<_, BTreeSet<_>>::new();
    for (package, features) in text.lines().filter_map(|line| line.split_once('|')) {
        let name = package.split(' ').next().unwrap_or_default();
        let is_ours = [PROGRAM, "mlprof-burn"].contains(&name);
        if (name.starts_with("burn") || name.starts_with("cubecl")) && !is_ours {
            // `cargo tree` marks a package that was already listed with ` (*)`.
            let features = features.trim_end_matches(" (*)").split(',').filter(|it| !it.is_empty());
            all.entry(name.to_owned()).or_default().extend(features.map(str::to_owned));
        }
    }
    assert!(all.contains_key("burn"), "{text}");
    all
}

/// Returns the features that the plugin adds to those of `without`, except harmless ones.
fn added(without: &[&str], plugin: &[&str]) -> Vec<String> {
    let before = resolved(without);
    let after = resolved(&[without, &["plugin"], plugin].concat());
    let mut added = Vec::new();
    for (package, features) in after {
        let before = before.get(&package).cloned().unwrap_or_default();
        let new = features.difference(&before).filter(|it| !HARMLESS.contains(&it.as_str()));
        added.extend(new.map(|feature| format!("{package}/{feature}")));
    }
    // Features of a crate that is new in the program are ignored.
    added.retain(|it| {
        !["burn-dataset/", "burn-fusion/", "burn-ir/", "burn-optim/"]
            .iter()
            .any(|own| it.starts_with(own))
    });
    added
}

#[test]
fn the_plugin_turns_on_no_backend_and_no_fusion() {
    let none: &[&str] = &[];
    for burn in ["ndarray", "flex", "remote", "wgpu", "cuda", "tch"] {
        let backend = format!("burn/{burn}");
        assert_eq!(added(&[&backend], none), Vec::<String>::new(), "{burn}");
    }
    for burn in ["wgpu", "cuda"] {
        let backend = format!("burn/{burn}");
        // This is burn's own name for the crate. Programs with such a device have it anyway.
        assert_eq!(added(&[&backend], &["mlprof-burn/cubecl"]), ["burn/cubecl"], "{burn}");
    }
    let training = ["burn/ndarray", "burn/train"];
    let all = ["mlprof-burn/train", "mlprof-burn/sampling"];
    assert_eq!(added(&training, &all), Vec::<String>::new());
    assert_eq!(added(&["burn/train", "burn/rl"], &["mlprof-burn/rl"]), Vec::<String>::new());
    // burn itself enables these with `train`, which is the reason why the plugin does not enable
    // `train` by default.
    let brought = added(&["burn/ndarray"], &["mlprof-burn/train"]);
    assert!(brought.contains(&"burn-dispatch/flex".to_owned()), "{brought:?}");
}

fn built(features: &str) -> PathBuf {
    let output = cargo("build")
        .args(["--package", UNIFICATION, "--profile", "quick", "--features", features])
        .arg("--message-format=json-render-diagnostics")
        .arg("--target-dir")
        .arg(target_directory())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "cargo build: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let executable = |line| {
        let message: serde_json::Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message["executable"].as_str()?))
    };
    text.lines().filter_map(executable).next_back().expect("a program")
}

fn printed(features: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    Run::of(&built(features), folder.path()).succeed().stdout
}

/// The program uses NdArray, because burn would prefer any other backend that the plugin enabled.
#[test]
fn device_and_weights_are_those_of_the_program_without_the_plugin() {
    let without = printed("burn/ndarray");
    assert!(without.starts_with("device Device<NdArray"), "{without}");
    assert_eq!(without.lines().count(), 3, "{without}");
    assert_eq!(printed("burn/ndarray,plugin"), without);
}
