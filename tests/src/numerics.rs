//! Runs programs under the numerics profiler, with planted mistakes, and compares their records.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::tempdir;

use crate::findings::{of_rule, reports};
use crate::program::{Finished, Run, build};

/// Runs a training under the numerics profiler, with its record in the folder `D`. It has two
/// epochs, unless `arguments` contain another number.
pub fn run(program: &Path, directory: &Path, arguments: &[&str]) -> Finished {
    let run = Run::of(program, directory).args(["--profiler", "numerics"]);
    let run = run.args(["--json", "reports.json", "--dirpath", "D"]).args(arguments);
    if arguments.contains(&"--epochs") { run } else { run.args(["--epochs", "2"]) }.finish()
}

/// Returns the report of the program's fit.
pub fn report(directory: &Path) -> Value {
    reports(&directory.join("reports.json")).remove(0)
}

/// Returns the record of the program's fit.
pub fn record(directory: &Path) -> PathBuf {
    directory.join("D").join("fit.numerics.jsonl")
}

/// Runs `mlprof compare-numerics` on the fits in two folders.
pub fn compare(reference: &Path, other: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(build("mlprof", "mlprof"));
    command.arg("compare-numerics").arg(record(reference)).arg(record(other)).args(arguments);
    command.output().expect("it was built")
}

/// Returns a program's standard output as text.
pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Plants a mistake in the layer `hidden` of a digits network from step 20 on. Asserts that it is
/// named once, on standard error and in the report. Returns the finding in the report.
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
    let of_fit = lines.iter().filter(|line| line.contains(&said)).count();
    assert_eq!(of_fit, 1, "said once: {}", finished.stderr);
    assert!(finished.stdout.contains(&said["mlprof: ".len()..]), "{}", finished.stdout);
    first.clone()
}

/// Compares two equal runs, and one whose layer `conv2` uses 16 bits. Asserts that this layer is
/// named first with an equal input, and that the equal runs do not differ. Returns the output for
/// the equal runs.
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
    assert!(first.starts_with("First difference: the output of [module]Conv2"), "{first}");
    assert!(first.contains(": conv2 in step 0, whose inputs agree: "), "{first}");
    said(&equal)
}

/// Asserts that only the layer whose outputs are too small for 16 bits is found.
/// [`assert_digits_are_healthy`] checks that a healthy training has no findings.
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
    // Values below the subnormal range are 0.
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

/// Asserts that a layer with constant zero output is found, and that the layers before it receive
/// zero gradients.
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
    // With zero inputs, the next layer still learns its bias.
    before.retain(|parameter| parameter != "out.bias");
    assert_eq!(still, before, "{report:#}");
    assert_eq!(of_rule(&report, "vanishing-gradient").len(), 1, "of all of them: {report:#}");
}

/// Asserts that a learning rate that is far too high is detected by its effects.
pub fn assert_planted_learning_rate_is_told(program: &Path) {
    let directory = tempdir().expect("a folder");
    run(program, directory.path(), &["--plant", "learning-rate"]);
    let report = report(directory.path());
    let troubles = report["troubles"].as_array().expect("troubles");
    let has = |kinds: &[&str]| {
        troubles.iter().any(|trouble| kinds.iter().any(|kind| trouble["kind"] == *kind))
    };
    assert!(has(&["large_update"]), "{report:#}");
    // Rounding determines which of the two occurs.
    assert!(has(&["exploding_gradient", "vanishing_gradient"]), "{report:#}");
}

/// Asserts that four layers, each with a weight and a bias, have no findings.
pub fn assert_digits_are_healthy(report: &Value) {
    assert_eq!(report["first_not_finite"], Value::Null, "{report:#}");
    assert_eq!(report["troubles"], serde_json::json!([]));
    let rows = report["tensors"].as_array().expect("rows");
    let of_role = |role: &str| rows.iter().filter(|row| row["role"] == role).count();
    let roles = ["output", "loss", "gradient", "parameter", "update"].map(of_role);
    assert_eq!(roles, [4, 1, 8, 8, 8], "{rows:#?}");
    assert!(rows.iter().any(|row| row["name"] == "conv1.weight"), "{rows:#?}");
}
