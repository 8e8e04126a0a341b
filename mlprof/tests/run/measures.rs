//! Tests lines, memory and samples of an uninstrumented program.

use std::collections::BTreeMap;

use mlprof_core::Report;
use mlprof_core::report::lines::LineStatistics;

use super::shop::TestProject;

/// Returns the lines of a function by their trimmed text.
fn lines(project: &TestProject, function: &str) -> BTreeMap<String, LineStatistics> {
    let reports = project.reports().into_values();
    let mut functions = reports.flat_map(|report| match report {
        Report::Lines(report) => report.functions,
        _ => Vec::new(),
    });
    let function = functions.find(|one| one.name == function).expect("its lines");
    let source = function.source.expect("the source is there");
    let line = |line: LineStatistics| {
        let text = &source[(line.line - function.first_line) as usize];
        (text.trim().to_owned(), line)
    };
    function.lines.into_iter().map(line).collect()
}

#[test]
fn every_line_is_counted_and_the_table_is_printed() {
    let project = TestProject::open();
    let run = project.mlprof("--lines counting::fibonacci,counting::spin", "cargo run -- spin");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stderr.contains("Timer unit: 1e-06 s"), "{run:?}");
    let fibonacci = lines(&project, "counting::fibonacci");
    assert_eq!(fibonacci.values().map(|line| line.hits).collect::<Vec<_>>(), [276]);
    let spin = lines(&project, "counting::spin");
    let calls = spin["let mut sum = 0_u64;"].hits;
    assert!(calls > 0);
    // A loop header is evaluated once more than the loop body.
    assert_eq!(spin["for round in 0..rounds {"].hits, calls * 100_001);
    let inside = spin.iter().find(|(text, _)| text.starts_with("sum = std::hint"));
    assert_eq!(inside.expect("the line").1.hits, calls * 100_000);
}

#[test]
fn functions_that_never_ran_are_shown_unless_they_are_not_wanted() {
    let project = TestProject::open();
    let run = project.mlprof("--lines counting::**", "cargo run");
    assert_eq!(run.code, Some(0), "{run:?}");
    let never_ran = ["counting::load", "counting::never_called", "counting::spin"];
    for name in never_ran {
        assert!(run.stderr.contains(&format!("Function: {name} at line")), "{name}: {run:?}");
        assert_eq!(lines(&project, name), BTreeMap::new());
    }
    assert!(!lines(&project, "counting::leaf").is_empty());
    // Functions that are not compiled, or that cannot have a hook, are not listed.
    for name in ["counting::tests::fibonacci_of_ten", "counting::constant"] {
        assert!(!run.stderr.contains(name), "{run:?}");
    }
    let run = project.mlprof("--lines counting::** --skip-zero", "cargo run");
    assert!(run.stderr.contains("Function: counting::leaf at line"), "{run:?}");
    for name in never_ran {
        assert!(!run.stderr.contains(name), "{name}: {run:?}");
    }
}

#[test]
fn lines_are_written_while_the_program_runs() {
    let project = TestProject::open();
    let options = "--lines counting::leaf --output-interval 0.05";
    let ended = project.end_while_waiting(options, "-KILL", || {
        let has_lines = || project.path("mlprof-results").is_dir() && !project.reports().is_empty();
        while !has_lines() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    });
    assert_eq!(ended.code, None, "it was killed: {ended:?}");
    let leaf = lines(&project, "counting::leaf");
    assert_eq!(leaf.values().map(|line| line.hits).collect::<Vec<_>>(), [100]);
}

/// A library defines the allocator, so no second one may be added to the program.
#[test]
fn memory_is_that_of_the_lines_and_functions_that_allocate_it() {
    let project = TestProject::open();
    let run = project.mlprof("--memory counting::load", "cargo run -- load");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stderr.contains("Mem usage"), "{run:?}");
    let load = lines(&project, "counting::load");
    let increment = |text: &str| {
        let memory = load[text].memory.as_ref();
        memory.unwrap_or_else(|| panic!("{text} in {load:?}: {run:?}")).increment_bytes
    };
    assert_eq!(increment("let kept = vec![1_u8; 1_000_000];"), 1_000_000);
    assert_eq!(increment("let freed = vec![2_u8; 1_000_000];"), 1_000_000);
    assert_eq!(increment("let both = kept.clone();"), 1_000_000);
    assert_eq!(increment("drop((freed, both));"), -2_000_000);
    let memory = project.reports().into_values().find_map(|report| match report {
        Report::Memory(report) => Some(report),
        _ => None,
    });
    let memory = memory.expect("a report of memory");
    let load = memory.actions.iter().find(|action| action.action == "counting::load");
    let load = load.unwrap_or_else(|| panic!("{memory:#?}"));
    assert_eq!((load.calls, load.total.allocated_bytes), (1, 3_000_000));
    assert_eq!((load.total.freed_bytes, load.peak_bytes), (2_000_000, 3_000_000));
    assert_eq!(memory.copies.blocks.bytes, 1_000_000, "the clone: {memory:#?}");
}

#[test]
fn samples_find_the_function_that_is_busy() {
    let project = TestProject::open();
    let run = project.mlprof("--sample 1000", "cargo run -- spin");
    assert_eq!(run.code, Some(0), "{run:?}");
    let samples = project.reports().into_values().find_map(|report| match report {
        Report::Samples(report) => Some(report.samples),
        _ => None,
    });
    let samples = samples.expect("samples");
    let all = samples.actions.iter().max_by_key(|action| action.all.working_ticks);
    let all = all.expect("some work");
    let name = |function: &mlprof_core::report::samples::SampledFunction| {
        samples.function(function).map(|code| code.name.clone()).unwrap_or_default()
    };
    let spin = all.functions.iter().find(|function| name(function).contains("counting::spin"));
    let spin = spin.unwrap_or_else(|| panic!("{}", run.stderr));
    // After its start, the program spends almost all of its time in this function.
    assert!(spin.total.working_ticks * 2 > all.all.working_ticks, "{}", run.stderr);
}
