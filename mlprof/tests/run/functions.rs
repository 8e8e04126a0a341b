//! Tests the exact call counts of functions of all kinds.

use std::collections::BTreeMap;

use mlprof_core::{ActionKind, Report};

use super::shop::TestProject;

fn expected(lines: &[(&str, u64)]) -> BTreeMap<String, u64> {
    lines.iter().map(|(name, calls)| ((*name).to_owned(), *calls)).collect()
}

/// Returns the number of calls made by `fibonacci(n)`, including the first one.
fn fibonacci_calls(n: u32) -> u64 {
    if n < 2 { 1 } else { 1 + fibonacci_calls(n - 1) + fibonacci_calls(n - 2) }
}

#[test]
fn calls_of_every_kind_of_function_are_counted_exactly() {
    let project = TestProject::open();
    let run = project.mlprof("--functions counting::*", "cargo run --release");
    assert_eq!(run.code, Some(0), "{run:?}");
    let fibonacci = (0..10).map(fibonacci_calls).sum();
    let all = expected(&[
        ("counting::fibonacci", fibonacci),
        ("counting::twice", 3),
        ("counting::Square::area", 4),
        ("counting::Circle::area", 2),
        ("counting::Shape::doubled", 3),
        ("counting::leaf", 100),
        // Async functions are polled twice and called once.
        ("counting::add_slowly", 1),
        ("counting::made_twice", 1),
    ]);
    assert_eq!(project.calls(), all);
    assert!(run.stderr.contains("counting::fibonacci"), "the table is printed: {run:?}");
    assert!(run.stderr.contains("(counting::add_slowly) (polled 2 times)"), "{run:?}");
    assert_eq!(project.polls().get("counting::add_slowly"), Some(&2));
    assert_eq!(project.polls().get("counting::leaf"), Some(&0));
    assert!(run.stderr.contains("left out"), "constant is a const fn: {run:?}");

    // If other functions of a crate are selected, only that crate and its dependents are
    // recompiled.
    project.forget_results();
    let run = project.mlprof(
        "--functions counting::leaf,counting::tw* --except counting::twice --quiet --explain",
        "cargo run --release",
    );
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(project.calls(), expected(&[("counting::leaf", 100)]));
    assert!(run.stderr.contains("Compiling counting"), "{run:?}");
    assert!(!run.stderr.contains("Compiling tools"), "{run:?}");
    assert!(!run.stderr.contains("Profile stats for"), "quiet: {run:?}");
    assert!(run.stderr.contains("function counting::leaf"), "explained: {run:?}");

    // An identical run recompiles nothing.
    let run = project.mlprof(
        "--functions counting::leaf,counting::tw* --except counting::twice",
        "cargo run --release",
    );
    assert!(!run.stderr.contains("Compiling"), "{run:?}");
}

/// The page contains only the results of the run itself. If there are no reports, no page is
/// written.
#[test]
fn all_results_are_one_page_where_that_is_asked_for() {
    let project = TestProject::open();
    let run = project.mlprof("--functions tools::* --quiet", "cargo run");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(!project.path("mlprof-results/report.html").exists(), "nobody asked");
    let run = project.mlprof("--functions counting::leaf --html --quiet", "cargo run");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stderr.contains("  report.html"), "{run:?}");
    let html = std::fs::read_to_string(project.path("mlprof-results/report.html")).expect("a page");
    assert!(html.contains(">counting::leaf<") && html.contains("default-src 'none'"), "{html}");
    assert_eq!(html.matches("<section class=report").count(), 1, "one report: {html}");
    project.forget_results();
    let run = project.mlprof("--functions counting::leaf --html --quiet", "cargo build");
    assert!(
        run.stderr.contains("cannot write an HTML page: the command wrote no report"),
        "{run:?}"
    );
}

#[test]
fn in_the_table_of_ops_a_call_is_a_call_too() {
    let project = TestProject::open();
    let run = project.mlprof("--ops candle --functions counting::add_slowly", "cargo run");
    assert_eq!(run.code, Some(0), "{run:?}");
    let tables = project.reports().into_values().filter_map(|report| match report {
        Report::Tensor(report) => Some(report.key_averages),
        _ => None,
    });
    let rows = tables.flat_map(|table| table.rows).filter(|row| row.kind == ActionKind::Function);
    let rows: Vec<_> = rows.map(|row| (row.name, row.calls, row.polls)).collect();
    assert_eq!(rows, [("counting::add_slowly".to_owned(), 1, 2)], "{run:?}");
    assert!(run.stderr.contains("counting::add_slowly (polled 2 times)  "), "{run:?}");
}

#[test]
fn functions_generated_elsewhere_are_explained() {
    let project = TestProject::open();
    let run = project.mlprof("--functions app::** --explain", "cargo build");
    assert_eq!(run.code, Some(0), "{run:?}");
    let included = "left out include!(concat!(env!(\"OUT_DIR\"),\"/made.rs\")): the included file gets no hooks";
    assert!(run.stderr.contains(included), "{run:?}");
}

#[test]
fn the_programs_own_functions_tests_and_child_processes_are_measured() {
    let project = TestProject::open();
    let run = project.mlprof("--functions app::block_on", "cargo run -- spawn");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(project.reports().len(), 2, "the program and the one that it started");
    assert_eq!(project.calls(), expected(&[("app::block_on", 2)]));

    project.forget_results();
    let run = project.mlprof("--functions counting::*,tools::*", "cargo test --workspace");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.contains("fibonacci_of_ten ... ok"), "{run:?}");
    assert!(
        run.stdout.contains("tools/src/lib.rs - documented"),
        "doctests are linked, too: {run:?}"
    );
    assert_eq!(project.calls().get("counting::fibonacci"), Some(&fibonacci_calls(10)), "{run:?}");
}
