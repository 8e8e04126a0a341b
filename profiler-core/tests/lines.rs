//! Compares line tables byte for byte with those of line_profiler and memory_profiler for the same
//! numbers. The files of `golden/lines` come from these tools; see `generate.py`.

use mlprof_core::Report;
use mlprof_core::report::LinesReport;
use mlprof_core::report::lines::memory as lines_memory;
use mlprof_core::report::lines::text::{self as lines_text, LinesOptions};

fn golden(name: &str) -> String {
    let path = format!("{}/tests/golden/lines/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn report(name: &str) -> LinesReport {
    match Report::from_json(&golden(name)) {
        Ok(Report::Lines(report)) => report,
        other => panic!("{name} holds {other:?}"),
    }
}

#[track_caller]
fn assert_same(printed: &str, expected: &str) {
    for (printed, expected) in printed.lines().zip(expected.lines()) {
        assert_eq!(printed, expected);
    }
    assert_eq!(printed, expected);
}

#[test]
fn times_are_printed_as_line_profiler_does() {
    let report = report("times.json");
    let default = LinesOptions::default();
    assert_same(&lines_text::paint(&report, &default), &golden("times.txt"));
    let options = LinesOptions { unit: 1e-9, ..default };
    assert_same(&lines_text::paint(&report, &options), &golden("times-nanoseconds.txt"));
    let options = LinesOptions { unit: 1.0, skip_zero: true, sort: true, summarize: true };
    assert_same(&lines_text::paint(&report, &options), &golden("times-seconds-sorted.txt"));
}

#[test]
fn memory_is_printed_as_memory_profiler_does() {
    let report = report("memory.json");
    assert_same(&lines_memory::paint(&report, 1), &golden("memory.txt"));
    assert_same(&lines_memory::paint(&report, 3), &golden("memory-3.txt"));
}

#[test]
fn invalid_input_does_no_harm() {
    let mut report = report("times.json");
    report.functions[0].source = Some(vec!["one line only".to_owned()]);
    report.functions[0].lines[0].hits = 0;
    report.functions[0].file = "a\nb".to_owned();
    report.header.notes.push("said\nonce".to_owned());
    for unit in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let text = lines_text::paint(&report, &LinesOptions { unit, ..LinesOptions::default() });
        assert!(text.starts_with("Timer unit: 1e-06 s\n"), "{text}");
        assert!(text.ends_with("Note: said\\nonce\n"), "{text}");
    }
    assert!(!lines_memory::paint(&report, 1).contains("Filename"));
}

#[test]
fn json_holds_everything() {
    for name in ["times.json", "memory.json"] {
        let report = Report::Lines(report(name));
        let json = report.to_json().expect("JSON");
        assert_eq!(Report::from_json(&json).expect("a report"), report);
    }
}
