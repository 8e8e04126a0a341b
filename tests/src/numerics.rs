//! Programs under the numerics profiler: mistakes that are planted into them, and their records beside each other.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::tempdir;

use crate::findings::{of_rule, reports};
use crate::program::{Finished, Run, build};

/// A training of two epochs, unless `arguments` say another number, under the numerics profiler, with its record in the folder `D`.
pub fn run(program: &Path, directory: &Path, arguments: &[&str]) -> Finished {
    let run = Run::of(program, directory).args(["--profiler", "numerics"]);
    let run = run.args(["--json", "reports.json", "--dirpath", "D"]).args(arguments);
    if arguments.contains(&"--epochs") { run } else { run.args(["--epochs", "2"]) }.finish()
}

/// The report of its fit.
pub fn report(directory: &Path) -> Value {
    reports(&directory.join("reports.json")).remove(0)
}

/// The record of its fit.
pub fn record(directory: &Path) -> PathBuf {
    directory.join("D").join("fit.numerics.jsonl")
}

/// What `mlprof compare-numerics` says of the fits in two folders.
pub fn compare(reference: &Path, other: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(build("mlprof", "mlprof"));
    command.arg("compare-numerics").arg(record(reference)).arg(record(other)).args(arguments);
    command.output().expect("it was built")
}

/// What a program has written to standard output.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Plants a mistake from step 20 on into the layer `hidden` of a network of the digits, which is named, once, on standard error and
/// in the report: what that has of it.
pub fn assert_planted_mistake_is_named(program: &Path, plant: &str) -> Value {
    let directory = tempdir().expect("a folder");
    let finished = run(program, directory.path(), &["--plant", plant]);
    let report = report(directory.path());
    let first = &report["first_not_finite"];
    let place = (first["step"].as_u64(), first["role"].as_str());
    assert_eq!(place, (Some(20), Some("output")), "{plant}: {first}");
    let name = first["name"].as_str().expect("a name");
    assert_eq!(name, "[module]Linear: hidden", "{plant}");
    assert_eq!(first["input"]["nans"], 0, "its input is whole");
    let said = format!("mlprof: in step 20 the output of {name} is not finite: ");
    let lines: Vec<_> =
        finished.stderr.lines().filter(|line| line.contains("not finite")).collect();
    assert!(lines[0].starts_with(&said), "{plant}: {}", finished.stderr);
    let of_fit = lines.iter().filter(|line| line.contains("in step 20 what")).count();
    assert_eq!(of_fit, 1, "said once: {}", finished.stderr);
    assert!(finished.stdout.contains(&said["mlprof: ".len()..]), "{}", finished.stdout);
    first.clone()
}

/// Two equal runs, and one in which the layer `conv2` computes with 16 bits: it is named first, where its input agrees, and the
/// equal ones do not differ: what is said of these.
pub fn assert_planted_half_is_where_runs_part(program: &Path) -> String {
    let folders = [&[][..], &[], &["--plant", "half"]].map(|arguments| {
        let directory = tempdir().expect("a folder");
        assert!(run(program, directory.path(), arguments).status.success());
        directory
    });
    let [reference, same, half] = folders.each_ref().map(|folder| folder.path());
    let equal = compare(reference, same, &[]);
    assert!(equal.status.success(), "{equal:?}");
    assert!(said(&equal).contains(" were compared. No difference.\n"), "{}", said(&equal));
    let other = compare(reference, half, &[]);
    assert_eq!(other.status.code(), Some(1), "{other:?}");
    let first = said(&other);
    let first = first.lines().next().unwrap_or_default();
    assert!(first.starts_with("The first difference: the output of [module]Conv2"), "{first}");
    assert!(first.contains(": conv2 in step 0, where the inputs agree: "), "{first}");
    said(&equal)
}

/// A layer whose numbers are too small for 16 bits is found, and no other. That a healthy training has no trouble,
/// [`assert_digits_are_healthy`] asserts.
pub fn assert_planted_underflow_is_found(program: &Path, arguments: &[&str]) {
    let directory = tempdir().expect("a folder");
    let arguments = [&["--plant", "underflow"], arguments].concat();
    let finished = run(program, directory.path(), &arguments);
    assert!(finished.status.success(), "{finished:#?}");
    let report = report(directory.path());
    let rows = report["tensors"].as_array().expect("rows").iter();
    let rows: Vec<_> = rows.filter(|row| row["element_type"] == "f16").collect();
    let [row] = rows[..] else { panic!("{rows:#?}") };
    let name = row["name"].as_str().expect("a name");
    assert!(name.starts_with("[module]Conv2") && name.ends_with(": conv2"), "{row:#}");
    // What is not even subnormal is 0.
    let [count, subnormal, zeros] =
        ["count", "subnormals", "zeros"].map(|it| row["all"][it].as_u64().expect("a number"));
    assert!(subnormal > count / 2 && subnormal + zeros <= count, "{row:#}");
    let troubles = report["troubles"].as_array().expect("troubles");
    let [trouble] = &troubles[..] else { panic!("{troubles:#?}") };
    assert_eq!((&trouble["kind"], &trouble["name"]), (&"lost_precision".into(), &row["name"]));
    let sentence = trouble["sentence"].as_str().expect("text");
    let share = format!(
        "{:.1} % of the numbers are so small that they lose digits",
        percent(subnormal, count)
    );
    assert!(sentence.contains(&share), "{sentence}");
    assert!(finished.stdout.contains(sentence), "{sentence} is not in {}", finished.stdout);
    let [finding] = of_rule(&report, "lost-precision")[..] else { panic!("{report:#}") };
    assert_eq!(finding["place"]["action"], name, "{finding:#}");
    assert_eq!(finding["cost"]["is_of_learning"], true, "{finding:#}");
}

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64 * 100.0
}

/// A layer that returns nothing but 0 is found, and that nothing before it learns.
pub fn assert_planted_dead_layer_is_found(program: &Path) {
    let directory = tempdir().expect("a folder");
    let finished = run(program, directory.path(), &["--plant", "dead"]);
    assert!(finished.status.success(), "{finished:#?}");
    let report = report(directory.path());
    let [dead] = of_rule(&report, "dead-activation")[..] else { panic!("{report:#}") };
    assert_eq!(dead["place"]["action"], "[module]Linear: hidden", "{dead:#}");
    let sentence = "100.0 % of the output of [module]Linear: hidden is 0: ";
    assert!(finished.stdout.contains(sentence), "{}", finished.stdout);
    let troubles = report["troubles"].as_array().expect("troubles").iter();
    let still = troubles.filter(|trouble| trouble["kind"] == "vanishing_gradient");
    let mut still: Vec<_> = still.map(|trouble| trouble["name"].as_str().expect("text")).collect();
    still.sort_unstable();
    let layers = ["conv1", "conv2", "hidden", "out"];
    let parameters = |layer: &str| [format!("{layer}.bias"), format!("{layer}.weight")];
    let mut before: Vec<_> = layers.into_iter().flat_map(parameters).collect();
    // Of zeros a layer learns what it adds to them.
    before.retain(|parameter| parameter != "out.bias");
    assert_eq!(still, before, "{report:#}");
    assert_eq!(of_rule(&report, "vanishing-gradient").len(), 1, "of all of them: {report:#}");
}

/// A learning rate that is far too high is told by what it does.
pub fn assert_planted_learning_rate_is_told(program: &Path) {
    let directory = tempdir().expect("a folder");
    run(program, directory.path(), &["--plant", "learning-rate"]);
    let report = report(directory.path());
    let troubles = report["troubles"].as_array().expect("troubles");
    let has = |kinds: &[&str]| {
        troubles.iter().any(|trouble| kinds.iter().any(|kind| trouble["kind"] == *kind))
    };
    assert!(has(&["large_update"]), "{report:#}");
    // Which of both, rounding decides.
    assert!(has(&["exploding_gradient", "vanishing_gradient"]), "{report:#}");
}

/// Four layers, each with a weight and a bias, of which nothing is amiss.
pub fn assert_digits_are_healthy(report: &Value) {
    assert_eq!(report["first_not_finite"], Value::Null, "{report:#}");
    assert_eq!(report["troubles"], serde_json::json!([]));
    let rows = report["tensors"].as_array().expect("rows");
    let of_role = |role: &str| rows.iter().filter(|row| row["role"] == role).count();
    let roles = ["output", "loss", "gradient", "parameter", "update"].map(of_role);
    assert_eq!(roles, [4, 1, 8, 8, 8], "{rows:#?}");
    assert!(rows.iter().any(|row| row["name"] == "conv1.weight"), "{rows:#?}");
}
