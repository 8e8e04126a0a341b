//! Tests `mlprof convert` with reports.

use std::collections::HashMap;
use std::process::Command;

use mlprof_core::Report;
use mlprof_core::report::AdvancedReport;
use mlprof_core::report::advanced::CallTreeNode;
use serde_json::Value;

use crate::runs::{Folder, advanced, mlprof, printed, refused, simple, tensor, text};

fn advanced_report() -> AdvancedReport {
    match advanced() {
        Report::Advanced(report) => report,
        other => panic!("{other:?}"),
    }
}

/// Runs `convert FILE --to FORMAT` and returns the messages about the written files.
fn convert(file: &str, format: &str, more: &[&str]) -> String {
    let output = mlprof(&[&["convert", file, "--to", format], more].concat());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && output.stdout.is_empty(), "{format}: {error}");
    error
}

/// Adds up the self time of every node in nanoseconds, by its path of names.
fn self_times(nodes: &[CallTreeNode], around: &str, sums: &mut HashMap<String, f64>) {
    for node in nodes {
        let path = format!("{around};{}", node.function.name);
        *sums.entry(path.clone()).or_default() += node.calls.self_seconds * 1e9;
        self_times(&node.children, &path, sums);
    }
}

#[test]
fn every_action_is_a_file_that_python_opens() {
    let folder = Folder::new();
    let report = advanced_report();
    let file = folder.report("run.json", &Report::Advanced(report.clone()));
    let said = convert(text(&file), "prof", &[]);
    assert_eq!(folder.names(), ["run-load_batch.prof", "run-training_step.prof", "run.json"]);
    assert_eq!(said.lines().filter(|line| line.starts_with("written: ")).count(), 2, "{said}");
    let script = "import pstats, sys, json\n\
                  stats = pstats.Stats(sys.argv[1]).stats\n\
                  print(json.dumps({key[2]: value[:4] for key, value in stats.items()}))";
    let prof = folder.path().join("run-training_step.prof");
    let python = Command::new("python3").args(["-c", script, text(&prof)]).output();
    let python = python.expect("these tests compare with Python: `python3` must be installed");
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
    let read: HashMap<String, (u64, u64, f64, f64)> =
        serde_json::from_slice(&python.stdout).expect("JSON");
    let profile = report.actions.iter().find(|profile| profile.action == "training_step");
    for function in &profile.expect("the action").functions {
        let calls = function.calls;
        let expected = (
            calls.primitive_calls,
            calls.total_calls,
            calls.self_seconds,
            calls.cumulative_seconds,
        );
        assert_eq!(read[&function.function.name], expected);
    }
    assert_eq!((read["forward"].0, read["forward"].1), (3, 9));
}

#[test]
fn folded_stacks_are_the_self_times_of_call_trees() {
    let folder = Folder::new();
    let report = advanced_report();
    let file = folder.report("run.json", &Report::Advanced(report.clone()));
    let mut expected = HashMap::new();
    report.threads.iter().for_each(|tree| self_times(&tree.roots, "", &mut expected));
    let folded = printed(&["convert", text(&file), "--to", "folded", "-o", "-"]);
    let mut lines: Vec<_> = folded.lines().collect();
    for line in &lines {
        let (stack, microseconds) = line.rsplit_once(' ').expect("a value");
        // Frames of functions include their location: `forward (path/runs.rs:12)`.
        let frames = stack.split(';').map(|frame| frame.split(" (").next().expect("a name"));
        let path: String = frames.map(|name| format!(";{name}")).collect();
        let nanoseconds = expected.remove(&path).unwrap_or_else(|| panic!("{path} in {folded}"));
        let microseconds: f64 = microseconds.parse().expect("a number");
        assert!((microseconds - nanoseconds / 1e3).abs() <= 0.501, "{line}: {nanoseconds} ns");
    }
    assert!(expected.values().all(|nanoseconds| *nanoseconds < 500.0), "{expected:?}");
    assert!(lines.iter().any(|line| line.contains("forward (") && line.contains("runs.rs:")));
    let by_thread = printed(&["convert", text(&file), "--to", "folded", "-o", "-", "--by-thread"]);
    let mut without: Vec<_> =
        by_thread.lines().map(|line| line.split_once(';').expect("a thread").1).collect();
    assert!(by_thread.lines().any(|line| line.starts_with("worker;load/batch")), "{by_thread}");
    lines.sort_unstable();
    without.sort_unstable();
    assert_eq!(without, lines, "no stack is on two threads here");
}

#[test]
fn flame_graphs_are_drawn() {
    let folder = Folder::new();
    let file = folder.report("run.json", &advanced());
    let out = folder.path().join("pictures").join("flame.svg");
    let said = convert(text(&file), "svg", &["--output", text(&out)]);
    assert_eq!(said, format!("written: {}\n", out.display()));
    let svg = std::fs::read_to_string(&out).expect("a picture");
    assert!(svg.starts_with("<?xml") && svg.trim_end().ends_with("</svg>"));
    for frame in ["training_step (", "forward (", "relu (", "load/batch (", "self time: fit, "] {
        assert!(svg.contains(frame), "{frame}");
    }
}

#[test]
fn speedscope_has_a_profile_per_thread() {
    let folder = Folder::new();
    let report = advanced_report();
    let file = folder.report("run.json", &Report::Advanced(report.clone()));
    let json = printed(&["convert", text(&file), "--to", "speedscope", "-o", "-"]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["$schema"], "https://www.speedscope.app/file-format-schema.json");
    let frames = json["shared"]["frames"].as_array().expect("frames");
    let profiles = json["profiles"].as_array().expect("profiles");
    assert_eq!(profiles.len(), report.threads.len());
    for (profile, tree) in profiles.iter().zip(&report.threads) {
        assert_eq!(
            (&profile["type"], &profile["unit"]),
            (&"sampled".into(), &"nanoseconds".into())
        );
        assert_eq!(profile["name"], tree.thread);
        let mut expected = HashMap::new();
        self_times(&tree.roots, "", &mut expected);
        let samples = profile["samples"].as_array().expect("samples");
        let weights = profile["weights"].as_array().expect("weights");
        assert_eq!(samples.len(), weights.len());
        let mut sum = 0;
        for (stack, weight) in samples.iter().zip(weights) {
            let stack = stack.as_array().expect("a stack").iter();
            let names = stack.map(|frame| {
                let frame = frame.as_u64().expect("a number") as usize;
                format!(";{}", frames[frame]["name"].as_str().expect("a name"))
            });
            let nanoseconds = weight.as_u64().expect("a number");
            let expected = expected[&names.collect::<String>()];
            assert!((nanoseconds as f64 - expected).abs() <= 1.0, "{nanoseconds} {expected}");
            sum += nanoseconds;
        }
        assert_eq!(profile["endValue"], sum);
    }
    let forward = frames.iter().find(|frame| frame["name"] == "forward").expect("a frame");
    assert!(forward["file"].as_str().is_some_and(|file| file.ends_with("runs.rs")));
    assert!(forward["line"].as_u64() > Some(1));
}

#[test]
fn failed_conversions_name_reason_and_alternatives() {
    let folder = Folder::new();
    let ops = folder.report("ops.json", &tensor(&Folder::new()).report);
    let functions = folder.report("functions.json", &advanced());
    let actions = folder.report("actions.json", &simple());
    for (file, format, reason) in [
        (&functions, "chrome", "it contains totals and no timeline"),
        (&actions, "chrome", "totals per action and no call tree"),
        (&actions, "folded", "totals per action and no call tree"),
        (&actions, "prof", "totals per action and no call tree"),
        (&ops, "svg", "convert the trace next to it"),
        (&ops, "speedscope", "convert the trace next to it"),
    ] {
        let error = refused(&["convert", text(file), "--to", format]);
        let possible = match file == &functions {
            true => "supported formats: prof, folded, svg, speedscope, json",
            false => "supported formats: json",
        };
        let head = format!(" report to {format}: ");
        assert!(error.contains("cannot convert ") && error.contains(&head), "{error}");
        assert!(error.contains(reason), "{error}");
        assert!(error.contains(possible), "{error}");
    }
    assert_eq!(folder.names().len(), 3, "nothing was written");
    let help = String::from_utf8(mlprof(&["convert", "--help"]).stdout).expect("text");
    for word in ["chrome", "folded", "svg", "prof", "speedscope", "--output", "--by-thread"] {
        assert!(help.contains(word), "{word} is missing in {help}");
    }
}

#[test]
fn several_reports_have_files_by_stage() {
    let folder = Folder::new();
    let (mut fit, mut test) = (advanced_report(), advanced_report());
    fit.actions.truncate(1);
    test.actions.truncate(1);
    test.header.stage = Some(mlprof_core::Stage::Test);
    let reports = [Report::Advanced(fit), Report::Advanced(test)];
    let file = folder.file("all.json", serde_json::to_string(&reports).expect("JSON"));
    let out = folder.path().join("out");
    convert(text(&file), "folded", &["-o", text(&out)]);
    let names = |path| {
        let entries = std::fs::read_dir(path).expect("a folder");
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<_> = entries.map(name).collect();
        names.sort();
        names
    };
    assert_eq!(names(&out), ["all-fit.folded", "all-test.folded"]);
    let error = refused(&["convert", text(&file), "--to", "folded", "-o", "-"]);
    assert!(error.contains("cannot write 2 files to "), "{error}");
    let error = refused(&["convert", text(&file), "--to", "folded", "-o", text(&file)]);
    assert!(error.contains("cannot write 2 files to "), "{error}");
    let json = printed(&["convert", text(&file), "--to", "json"]);
    let read = serde_json::Deserializer::from_str(&json).into_iter::<Report>();
    assert_eq!(read.collect::<Result<Vec<_>, _>>().expect("reports"), reports);
}

#[test]
fn the_input_is_never_lost() {
    let folder = Folder::new();
    let file = folder.report("run.json", &advanced());
    let before = std::fs::read(&file).expect("a file");
    for output in [text(&file), text(folder.path())] {
        let error = refused(&["convert", text(&file), "--to", "json", "-o", output]);
        assert!(error.contains("it is the input file"), "{error}");
    }
    assert_eq!(std::fs::read(&file).expect("a file"), before);
    let below_a_file = file.join("out.svg");
    let error = refused(&["convert", text(&file), "--to", "svg", "-o", text(&below_a_file)]);
    assert!(error.contains("cannot write ") && error.contains("out.svg: "), "{error}");
    assert_eq!(folder.names(), ["run.json"]);
}
