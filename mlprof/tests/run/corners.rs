//! Tests that functions that are difficult to instrument behave as without hooks.

use super::shop::{Finished, TestProject};

fn corner() -> TestProject {
    TestProject::below("corner", "app")
}

/// Returns the panic messages without the thread number.
fn panics(run: &Finished) -> Vec<&str> {
    let lines = run.stderr.lines();
    lines.filter_map(|line| Some(line.split_once("panicked at ")?.1)).collect()
}

/// Returns the compiler's diagnostics without the lines of cargo and mlprof.
fn diagnostics(run: &Finished) -> String {
    let is_said_by_others = |line: &&str| {
        let of_cargo = ["Blocking", "Compiling", "Finished", "Locking", "Running"];
        line.starts_with("mlprof:") || of_cargo.iter().any(|word| line.trim().starts_with(word))
    };
    run.stderr.lines().filter(|line| !is_said_by_others(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn modules_outside_of_the_sources_folder_have_hooks() {
    let corner = corner();
    let run = corner.mlprof("--functions **", "cargo run");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(!run.stderr.contains("without hooks"), "{run:?}");
    let calls = corner.calls();
    for name in ["sibling::beside", "sibling::below::below", "far::far", "everywhere"] {
        assert_eq!(calls.get(&format!("corner::{name}")), Some(&1), "{name} in {calls:?}");
    }
    // Cargo watches the original files.
    std::fs::write(corner.path("below.rs"), "pub(crate) fn below() -> u32 { 10 }").expect("it");
    let run = corner.mlprof("--functions **", "cargo run");
    assert!(run.stderr.contains("Compiling corner") && run.stdout.starts_with("12\n"), "{run:?}");
}

#[test]
fn panics_and_callers_are_where_they_were_to_the_column() {
    let corner = corner();
    let plain = corner.run("cargo", &["run", "--", "columns"]);
    assert_eq!(panics(&plain).len(), 9, "{plain:?}");
    for what in ["functions", "lines", "memory"] {
        let run = corner.mlprof(&format!("--{what} corner --quiet"), "cargo run -- columns");
        assert_eq!(run.code, Some(0), "{what}: {run:?}");
        assert_eq!(panics(&run), panics(&plain), "{what}");
        let own =
            |run: &Finished| run.stdout.lines().take(2).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(own(&run), own(&plain), "{what}");
    }
}

#[test]
fn calls_of_itself_at_the_end_of_a_function_take_no_stack() {
    let corner = corner();
    let plain = corner.run("cargo", &["run", "--release", "--", "tail"]);
    assert_eq!(plain.code, Some(0), "{plain:?}");
    let run = corner.mlprof("--functions corner --quiet", "cargo run --release -- tail");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.starts_with(&plain.stdout), "{run:?}");
    let calls = corner.calls();
    let expected = [
        ("tail", 1_000_001),
        ("returning", 1_000_001),
        ("pushed", 500_000),
        ("Counter::down", 1_000_001),
        // 2^20 is halved twenty times.
        ("Counter::steps", 21),
        ("named", 2),
        // The type's own method is called directly and by the trait method, which also counts.
        ("Named::named", 3),
    ];
    for (name, expected) in expected {
        let name = format!("corner::recursion::{name}");
        assert_eq!(calls.get(&name), Some(&expected), "{name} in {calls:?}");
    }
    // With line profiling, each call keeps a stack frame, so a warning is printed.
    let run = corner.mlprof("--lines corner::recursion::tail --quiet", "cargo run --release");
    assert_eq!(run.code, Some(0), "{run:?}");
    let is_warning = |line: &str| line.contains("corner::recursion::tail: it is tail recursive");
    assert!(run.stderr.lines().any(is_warning), "{run:?}");
}

#[test]
fn a_crate_that_denies_everything_hears_nothing_of_hooks() {
    let corner = corner();
    let plain = corner.run("cargo", &["build"]);
    assert_eq!((plain.code, diagnostics(&plain).as_str()), (Some(0), ""), "{plain:?}");
    for what in ["functions", "lines", "memory"] {
        let run = corner.mlprof(&format!("--{what} corner"), "cargo build");
        assert_eq!((run.code, diagnostics(&run).as_str()), (Some(0), ""), "{what}: {run:?}");
        assert!(run.stderr.contains("added hooks to corner"), "{what}: {run:?}");
    }
}

#[test]
fn warnings_and_errors_show_the_text_that_the_user_wrote() {
    let corner = corner();
    let source = corner.path("src/columns.rs");
    let text = std::fs::read_to_string(&source).expect("the source");
    let more = "/// Warned of.\npub fn warned(of: u32) -> u32 { let unused = of; of }\n";
    std::fs::write(&source, text.clone() + more).expect("written");
    let manifest = std::fs::read_to_string(corner.path("Cargo.toml")).expect("the manifest");
    std::fs::write(corner.path("Cargo.toml"), manifest.replace("\"deny\"", "\"warn\""))
        .expect("it");
    let plain = corner.run("cargo", &["build"]);
    assert!(diagnostics(&plain).contains("let unused = of"), "{plain:?}");
    let run = corner.mlprof("--functions corner", "cargo build");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(diagnostics(&run), diagnostics(&plain));
    assert!(run.stderr.contains("added hooks to corner"), "{run:?}");

    let more = "/// Wrong.\npub fn wrong(of: u32) -> u32 { of + \"1\" }\n";
    std::fs::write(&source, text.clone() + more).expect("written");
    let plain = corner.run("cargo", &["build"]);
    assert!(diagnostics(&plain).contains("of + \"1\""), "{plain:?}");
    let run = corner.mlprof("--functions corner", "cargo build");
    assert_eq!(run.code, Some(101), "{run:?}");
    assert_eq!(diagnostics(&run), diagnostics(&plain));

    // This error only appears when the crate is compiled completely.
    let more = "/// Wrong when it is called.\npub fn at_last<T>() -> usize { const { \
                assert!(size_of::<T>() > 1); } 1 }\n/// Calls it.\npub fn call() -> usize { \
                at_last::<u8>() }\n";
    std::fs::write(&source, text + more).expect("written");
    let plain = corner.run("cargo", &["build"]);
    assert!(diagnostics(&plain).contains("assert!(size_of"), "{plain:?}");
    let run = corner.mlprof("--functions corner", "cargo build");
    assert_eq!(run.code, Some(101), "{run:?}");
    assert!(!run.stderr.contains("__mlprof"), "{run:?}");
}
