//! Tests `mlprof compare-numerics` as a command.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mlprof_report::numerics::{
    RECORD_VERSION, RecordHeader, RecordedTensor, TensorStatisticsParts,
};
use serde_json::Value;
use tempfile::tempdir;

fn record(folder: &Path, name: &str, outputs: &[(&str, f64)]) -> PathBuf {
    let header = RecordHeader {
        numerics_version: RECORD_VERSION,
        stage: None,
        rank: 0,
        program: Some("test".to_owned()),
        frameworks: Vec::new(),
        started_at: "2026-01-02T03:04:05Z".parse().expect("a time"),
        seed: None,
        element_types: Vec::new(),
        machine: None,
        settings: Vec::new(),
    };
    let mut text = header.to_line().expect("a line");
    for (place, number) in outputs {
        let json = format!(
            r#"{{"step":0,"role":"output","name":"[module]Linear: {place}","call":0,"thread":"main","type":"f32","shape":[1],
               "sample":[{number}],"count":1,"nans":0,"infinities":0,"zeros":0,"subnormals":0,"minimum":{number},
               "maximum":{number},"mean":{number},"standard_deviation":0.0,"l1_norm":{number},"l2_norm":{number},
               "least_magnitude":{number}}}"#
        );
        let tensor = RecordedTensor::from_line(&json).expect("a tensor");
        assert_eq!(
            tensor.statistics,
            TensorStatisticsParts { maximum: Some(*number), ..tensor.statistics.into() }.build()
        );
        text += &tensor.to_line().expect("a line");
    }
    let path = folder.join(name);
    std::fs::write(&path, text).expect("written");
    path
}

fn mlprof<'path>(arguments: impl IntoIterator<Item = &'path Path>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mlprof"));
    command.arg("compare-numerics").args(arguments).output().expect("it runs")
}

fn said(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn equal_records_end_with_0_and_others_with_1() {
    let folder = tempdir().expect("a folder");
    let reference = record(folder.path(), "reference", &[("a", 1.0), ("b", 2.0)]);
    let same = record(folder.path(), "same", &[("a", 1.0), ("b", 2.0)]);
    let other = record(folder.path(), "other", &[("a", 1.0), ("b", 2.5)]);
    let (status, out, err) = said(&mlprof([reference.as_path(), &same]));
    assert_eq!((status, &*err), (Some(0), ""), "{out}");
    assert!(out.starts_with("2 tensors of 1 step were compared. No difference.\n"), "{out}");
    let (status, out, _) = said(&mlprof([reference.as_path(), &other]));
    assert_eq!(status, Some(1), "{out}");
    assert!(
        out.starts_with("First difference: the output of [module]Linear: b in step 0"),
        "{out}"
    );
    let tolerant = [reference.as_path(), &other, Path::new("--tolerance"), Path::new("0.5")];
    assert_eq!(said(&mlprof(tolerant)).0, Some(0));
    let as_json = mlprof([reference.as_path(), &other, Path::new("--json")]);
    let json: Value = serde_json::from_slice(&as_json.stdout).expect("JSON");
    assert_eq!((&json["different"], &json["places"][1]["different"]), (&1.into(), &1.into()));
    let page = folder.path().join("page.html");
    let (status, out, err) =
        said(&mlprof([reference.as_path(), &other, Path::new("--html"), &page]));
    assert_eq!((status, &*out, &*err), (Some(1), "", ""));
    let html = std::fs::read_to_string(&page).expect("a page");
    assert!(html.starts_with("<!doctype html>"), "{html}");
    assert!(html.contains("First difference: the output of [module]Linear: b in step 0"), "{html}");
    let over = [reference.as_path(), &other, Path::new("--html"), &other];
    let (status, _, err) = said(&mlprof(over));
    assert_eq!(status, Some(2), "not over what it is made of: {err}");
}

#[test]
fn names_and_further_runs_of_the_reference_are_read() {
    let folder = tempdir().expect("a folder");
    let reference = record(folder.path(), "reference", &[("a", 1.0), ("b", 2.0)]);
    let again = record(folder.path(), "again", &[("a", 1.0), ("b", 2.2)]);
    let other = record(folder.path(), "other", &[("a", 1.0), ("features.1", 2.4)]);
    let names = folder.path().join("names.json");
    std::fs::write(&names, r#"{"features.1": "b"}"#).expect("written");
    let (status, out, _) = said(&mlprof([reference.as_path(), &other]));
    assert_eq!(status, Some(0), "{out}");
    assert!(out.contains("; 2 exist in only one record"), "{out}");
    let with_names = [reference.as_path(), &other, Path::new("--names"), &names];
    assert_eq!(said(&mlprof(with_names)).0, Some(1));
    let all = with_names.into_iter().chain([Path::new("--again"), &again]);
    assert_eq!(said(&mlprof(all)).0, Some(0), "within what varies");
}

#[test]
fn bad_input_is_named_in_a_sentence() {
    let folder = tempdir().expect("a folder");
    let good = record(folder.path(), "good", &[("a", 1.0)]);
    let missing = folder.path().join("missing");
    let (status, _, err) = said(&mlprof([good.as_path(), &missing]));
    assert_eq!(status, Some(2));
    assert!(err.starts_with(&format!("error: cannot read {}: ", missing.display())), "{err}");
    let trace = folder.path().join("trace.json");
    std::fs::write(&trace, r#"{"traceEvents": []}"#).expect("written");
    let (status, _, err) = said(&mlprof([trace.as_path(), &good]));
    assert_eq!(
        (status, err.contains("the file is not a numerics record")),
        (Some(2), true),
        "{err}"
    );
    let text = std::fs::read_to_string(&good).expect("text");
    let cut = folder.path().join("cut");
    std::fs::write(&cut, &text[..text.len() - 20]).expect("written");
    let (status, out, err) = said(&mlprof([good.as_path(), &cut]));
    assert_eq!(status, Some(1), "nothing is left to compare: {out}");
    assert!(err.contains("is truncated, for example because the run was killed"), "{err}");
    assert!(out.starts_with("Nothing was compared"), "{out}");
    let (status, _, err) = said(&mlprof([good.as_path(), &good, Path::new("--tolerance=-1")]));
    assert_eq!((status, err.contains("expected a number of at least 0")), (Some(2), true), "{err}");
    let (status, _, err) = said(&mlprof([good.as_path(), &good, Path::new("--names"), &trace]));
    assert_eq!((status, err.starts_with("error: cannot read ")), (Some(2), true), "{err}");
}

/// Writes a record in format version 1. `tensors` contains the fields that differ from a matrix of
/// six numbers.
fn old_record(folder: &Path, name: &str, tensors: &[Value]) -> PathBuf {
    let header = r#"{"numerics_version": 1, "stage": null, "rank": 0, "program": "p", "frameworks": [],
        "started_at": "2026-01-02T03:04:05Z", "seed": 1, "element_types": ["f32"]}"#;
    let matrix = serde_json::json!({
        "step": 0, "role": "output", "name": "[module]Linear: fc", "call": 0, "thread": "main",
        "type": "f32", "shape": [2, 3], "count": 6, "nans": 0, "infinities": 0, "zeros": 0,
        "subnormals": 0, "minimum": 1.0, "maximum": 6.0, "mean": 3.5, "standard_deviation": 1.7,
        "l1_norm": 21.0, "l2_norm": 9.5, "least_magnitude": 1.0,
        "sample": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    });
    let mut text = header.replace('\n', "");
    for fields in tensors {
        let mut tensor = matrix.clone();
        for (name, value) in fields.as_object().expect("fields") {
            tensor[name] = value.clone();
        }
        text += &format!("\n{tensor}");
    }
    let path = folder.join(name);
    std::fs::write(&path, text + "\n").expect("written");
    path
}

#[test]
fn records_of_the_first_version_are_no_more_equal_than_they_prove() {
    use serde_json::json;

    let folder = tempdir().expect("a folder");
    let compare = |reference: &[Value], other: &[Value]| {
        let reference = old_record(folder.path(), "reference", reference);
        let other = old_record(folder.path(), "other", other);
        let (status, out, err) = said(&mlprof([reference.as_path(), &other]));
        assert_eq!(err, "", "{out}");
        (status, out)
    };
    let matrix = json!({});
    let (status, out) = compare(std::slice::from_ref(&matrix), std::slice::from_ref(&matrix));
    assert_eq!(status, Some(0), "{out}");
    let transposed = json!({"shape": [3, 2], "sample": [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]});
    let (status, out) = compare(std::slice::from_ref(&matrix), &[transposed]);
    assert_eq!(
        (status, out.contains("the shapes are [2, 3] and [3, 2]")),
        (Some(1), true),
        "{out}"
    );
    // The first case is an infinite number with unknown sign, and the second is a NaN at another
    // position.
    let infinite = json!({"infinities": 1, "sample": [1.0, null, 3.0, 4.0, 5.0, 6.0]});
    let (status, out) = compare(std::slice::from_ref(&infinite), std::slice::from_ref(&infinite));
    assert_eq!(
        (status, out.contains("the records do not show whether these are equal")),
        (Some(1), true),
        "{out}"
    );
    let first = json!({"nans": 1, "sample": [null, 2.0, 2.0, 2.0, 2.0, 2.0]});
    let last = json!({"nans": 1, "sample": [2.0, 2.0, 2.0, 2.0, 2.0, null]});
    assert_eq!(compare(std::slice::from_ref(&first), &[last]).0, Some(1));
    assert_eq!(compare(std::slice::from_ref(&first), std::slice::from_ref(&first)).0, Some(0));
    let steps: Vec<Value> = (0..10).map(|step| json!({"step": step})).collect();
    let (status, out) = compare(&steps, &steps[..2]);
    let told = "Not compared: 8 steps that only the reference has (2 to 9).";
    assert_eq!((status, out.contains(told)), (Some(1), true), "{out}");
    let (status, out) = compare(&steps[4..5], &steps[4..]);
    let told = "Not compared: 5 steps that only the other run has (5 to 9).";
    assert_eq!((status, out.contains(told)), (Some(1), true), "{out}");
    assert_eq!(compare(&steps, &steps).0, Some(0));
    // Hashes also cover numbers that are not in the sample.
    let hashed = |hash: &str| json!({"count": 600, "shape": [600], "hash": hash});
    assert_eq!(compare(&[hashed("a")], &[hashed("b")]).0, Some(1));
    assert_eq!(compare(&[hashed("a")], &[hashed("a")]).0, Some(0));
    // A repeated reference run with NaN gives no information about run-to-run variation.
    let reference = old_record(folder.path(), "reference", &[matrix]);
    let other =
        json!({"minimum": -900.0, "maximum": 500.0, "sample": [500.0, -900.0, 3.0, 4.0, 5.0, 6.0]});
    let other = old_record(folder.path(), "other", &[other]);
    let nan = json!({"nans": 1, "sample": [null, 2.0, 3.0, 4.0, 5.0, 6.0]});
    let again = old_record(folder.path(), "again", &[nan]);
    let (status, out, _) =
        said(&mlprof([reference.as_path(), &other, Path::new("--again"), &again]));
    assert_eq!((status, out.contains("Noise is unknown in 1 place")), (Some(1), true), "{out}");
}
