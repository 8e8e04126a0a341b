//! Instruments programs for line profiling, compiles and runs them. Every line must have the number
//! of hits given in its comment.
#![cfg(target_os = "linux")]

mod program;

use program::{hits_written, run};

/// Runs a program of `programs/` and compares the hits of all its lines.
fn check(name: &str, edition: &str) {
    let source = std::fs::read_to_string(format!(
        "{}/tests/lines/programs/{name}.rs",
        env!("CARGO_MANIFEST_DIR")
    ));
    let source = source.expect("the program");
    let report = run(&source, edition);
    let mut wrong = Vec::new();
    for (line, expected) in hits_written(&source) {
        let lines = report.functions.iter().flat_map(|function| &function.lines);
        let hits = lines.filter(|one| one.line == line).map(|one| one.hits).sum::<u64>();
        if hits != expected {
            let text = source.lines().nth(line as usize - 1).unwrap_or_default();
            wrong.push(format!("line {line}: {hits} hits: {text}"));
        }
    }
    assert!(wrong.is_empty(), "{name}, edition {edition}:\n{}", wrong.join("\n"));
    for function in &report.functions {
        let sum: f64 = function.lines.iter().map(|line| line.seconds).sum();
        assert!((sum - function.total_seconds).abs() < 1e-9, "{}", function.name);
    }
    assert_eq!(report.header.notes, Vec::<String>::new());
}

#[test]
fn loops_and_branches() {
    check("flow", "2021");
}

#[test]
fn editions() {
    for edition in ["2015", "2018", "2024"] {
        check("old", edition);
    }
    check("flow", "2024");
}

#[test]
fn chains_and_arguments() {
    check("chains", "2021");
    check("chains", "2024");
}

#[test]
fn calls_threads_and_panics() {
    check("calls", "2021");
}

#[test]
fn futures() {
    check("futures", "2021");
}

/// The hits in `python.py` are those of Python's line_profiler. That file checks them when it is
/// run.
#[test]
fn the_same_hits_as_in_python() {
    check("python", "2021");
    let hits = |text: &str, comment: &str| -> Vec<u64> {
        let written = text.lines().filter_map(|line| line.split_once(comment));
        written.filter_map(|(_, hits)| hits.trim().parse().ok()).collect()
    };
    let python = hits(include_str!("programs/python.py"), "#=");
    assert_eq!(hits(include_str!("programs/python.rs"), "//="), python);
    assert_eq!(python.len(), 35);
}

#[test]
fn instrumented_programs_still_compile() {
    check("awkward", "2021");
    check("awkward", "2024");
}
