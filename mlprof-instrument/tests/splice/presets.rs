//! Tests that each preset still selects the same functions of the pinned framework versions. An
//! upgrade that removes or renames ops fails here.
//!
//! After an intended change, `UPDATE_GOLDEN=1` rewrites the lists for review.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use mlprof_instrument::{PRESETS, SelectionBuilder, SplicedCrate, splice_crate};
use serde_json::Value;

/// Cargo's metadata of the packages that the workspace uses.
static METADATA: LazyLock<Value> = LazyLock::new(|| {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
});

/// Returns the root file of a library.
fn root_of(crate_name: &str) -> PathBuf {
    let packages = METADATA["packages"].as_array().expect("packages");
    let targets =
        packages.iter().flat_map(|package| package["targets"].as_array().expect("targets"));
    let mut roots = targets
        .filter(|target| target["kind"][0] == "lib")
        .filter(|target| target["name"].as_str().expect("a name").replace('-', "_") == crate_name)
        .map(|target| PathBuf::from(target["src_path"].as_str().expect("a path")));
    roots.next().unwrap_or_else(|| panic!("the workspace does not use {crate_name}"))
}

/// Framework crate with the hooks of a preset.
struct Crate {
    name: String,
    spliced: SplicedCrate,
}

/// All presets with their instrumented crates.
static SPLICED: LazyLock<Vec<(&str, Vec<Crate>)>> =
    LazyLock::new(|| PRESETS.iter().map(|preset| (preset.name, spliced(preset.name))).collect());

fn spliced(preset: &str) -> Vec<Crate> {
    let selection = SelectionBuilder::default().ops(preset).expect("a preset").build();
    let crates = selection.rule_files().iter().flat_map(|file| &file.crates);
    crates
        .map(|rules| {
            let spliced = splice_crate(&root_of(&rules.name), &rules.name, &selection);
            Crate { name: rules.name.clone(), spliced: spliced.expect("the root can be read") }
        })
        .collect()
}

/// Returns one line per function: its crate, the kind of its hook, and its path without modules.
fn list(crates: &[Crate]) -> String {
    let mut lines = BTreeSet::new();
    for Crate { name, spliced } in crates {
        for function in &spliced.spliced {
            let kind = serde_json::to_value(function.kind).expect("JSON");
            let names: Vec<&str> = function.path.split("::").collect();
            let place = names[names.len().saturating_sub(2)..].join("::");
            let kind = kind.as_str().expect("a word");
            lines.insert(format!("{name} {kind} {} = {place}\n", function.name));
        }
    }
    lines.into_iter().collect()
}

#[test]
fn every_preset_chooses_the_functions_that_it_is_known_to_choose() {
    for (preset, crates) in &*SPLICED {
        let golden =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/splice/golden/{preset}.txt"));
        let list = list(crates);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, &list).expect("the list can be written");
        }
        let known = std::fs::read_to_string(&golden).expect("the list");
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        let (known, list) = (lines(&known), lines(&list));
        let lost: Vec<_> = known.difference(&list).collect();
        let new: Vec<_> = list.difference(&known).collect();
        assert!(
            lost.is_empty() && new.is_empty(),
            "{preset}: lost {lost:#?}, new {new:#?}; if that is right, run again with UPDATE_GOLDEN=1"
        );
    }
}

#[test]
fn every_file_of_the_frameworks_is_read_and_keeps_its_lines() {
    for (_, crates) in &*SPLICED {
        for Crate { name, spliced } in crates {
            assert_eq!(spliced.unread, [], "{name}");
            assert!(!spliced.files.is_empty(), "{name}");
            for file in &spliced.files {
                let before = std::fs::read_to_string(&file.path).expect("the original");
                assert_ne!(before, file.text);
                assert_eq!(before.lines().count(), file.text.lines().count(), "{:?}", file.path);
                for (before, after) in before.lines().zip(file.text.lines()) {
                    assert!(is_without(before, after), "{before}\n{after}");
                }
            }
        }
    }
}

/// Returns `true` if `after` contains all characters of `before` in order.
fn is_without(before: &str, after: &str) -> bool {
    let mut letters = after.chars();
    before.chars().all(|letter| letters.any(|other| other == letter))
}

#[test]
fn ops_of_candle_and_flex_tell_what_they_return() {
    let least = [
        ("candle", "candle_core", 100),
        ("candle", "candle_nn", 20),
        ("burn-flex", "burn_flex", 100),
    ];
    for (preset, name, least) in least {
        let builder = SelectionBuilder::default().ops(preset).expect("a preset");
        let selection = builder.outputs(true).build();
        let spliced = splice_crate(&root_of(name), name, &selection).expect("the root can be read");
        assert_eq!((&spliced.left_out[..], &spliced.cautions[..]), (&[][..], &[][..]), "{name}");
        let told = |text: &str| text.matches("let __mlprof_returned = (").count();
        let told: usize = spliced.files.iter().map(|file| told(&file.text)).sum();
        assert!(told >= least, "{name}: {told}");
        for file in &spliced.files {
            let before = std::fs::read_to_string(&file.path).expect("the original");
            assert_eq!(before.lines().count(), file.text.lines().count(), "{:?}", file.path);
        }
    }
}

#[test]
fn no_op_of_a_preset_is_left_out() {
    for (_, crates) in &*SPLICED {
        for Crate { name, spliced } in crates {
            assert_eq!(spliced.left_out, [], "{name}");
        }
    }
}
