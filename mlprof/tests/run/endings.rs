//! Tests that the results of a program exist however it ends, or that a message reports their loss.

use mlprof_core::Report;

use super::shop::TestProject;

fn notes(project: &TestProject) -> Vec<String> {
    project.reports().into_values().flat_map(|report| report.header().notes.clone()).collect()
}

fn has(notes: &[String], part: &str) -> bool {
    notes.iter().any(|note| note.contains(part))
}

#[test]
fn numbers_survive_aborts_panics_faults_and_overflows() {
    let project = TestProject::copy_of("endings");
    for (way, signal, name) in [
        ("abort", 6, "SIGABRT"),
        ("thread", 6, "SIGABRT"),
        ("panic", 6, "SIGABRT"),
        ("fault", 11, "SIGSEGV"),
        ("overflow", 6, "SIGSEGV"),
    ] {
        let before =
            project.command("cargo", &["run", "--quiet", "--", way]).output().expect("runs");
        let died_by = std::os::unix::process::ExitStatusExt::signal(&before.status);
        assert_eq!(died_by, Some(signal), "{way} without us");
        let run = project.mlprof("--functions endings::leaf", &format!("cargo run -- {way}"));
        assert_eq!(run.code, Some(128 + signal), "{way}: {run:?}");
        assert_eq!(run.stdout.as_bytes(), before.stdout, "{way}");
        assert_eq!(project.calls().get("endings::leaf"), Some(&100), "{way}: {run:?}");
        assert!(has(&notes(&project), &format!("ended by {name}")), "{way}: {run:?}");
        // Messages of the program and the Rust runtime about the failure are still printed.
        let said = String::from_utf8_lossy(&before.stderr).into_owned();
        for words in ["has overflowed its stack", "panicked at src/main.rs"] {
            assert_eq!(said.contains(words), run.stderr.contains(words), "{way}: {run:?}");
        }
        project.forget_results();
    }
}

#[test]
fn processes_without_a_report_are_named() {
    let project = TestProject::copy_of("endings");
    for (way, code, said) in [
        ("_exit", 5, "(endings) ended by `_exit` (5)"),
        ("kill", 137, "(endings) was ended by SIGKILL"),
        ("exec", 0, "(endings) was replaced by true (exec)"),
    ] {
        let run = project.mlprof("--functions endings::leaf", &format!("cargo run -- {way}"));
        assert_eq!(run.code, Some(code), "{way}: {run:?}");
        assert!(run.stderr.contains(said), "{way}: {run:?}");
        // On a busy machine, the program may run long enough to write intermediate results.
        let left = match project.reports().is_empty() {
            true => "its measurements are lost",
            false => "only the results that it wrote during the run are available",
        };
        assert!(run.stderr.contains(left), "{way}: {run:?}");
        assert!(!run.stderr.contains("no process of this command was measured"), "{run:?}");
        assert!(!run.stderr.contains("there are no functions"), "the reason is another: {run:?}");
    }
}

/// Counts and samples are also written while the program runs.
#[test]
fn numbers_of_a_process_that_leaves_no_time_are_those_of_its_last_second() {
    let project = TestProject::copy_of("endings");
    for options in ["--functions endings::leaf", "--lines endings::leaf", "--sample 500"] {
        let mut words = super::shop::arguments(options, "cargo run --");
        words.push("late _exit");
        let run = project.run(super::shop::MLPROF, &words);
        assert_eq!(run.code, Some(5), "{options}: {run:?}");
        let report = project.reports().into_values().next().expect("a report");
        match &report {
            Report::Lines(report) => {
                let leaf = report.functions.iter().find(|it| it.name.ends_with("leaf"));
                assert_eq!(leaf.map(|leaf| leaf.calls), Some(100), "{report:?}");
            }
            Report::Samples(report) => assert!(report.samples.samples > 0, "{report:?}"),
            _ => assert_eq!(project.calls().get("endings::leaf"), Some(&100), "{run:?}"),
        }
        assert!(has(&notes(&project), "while the process was running"), "{options}: {run:?}");
        let said = "only the results that it wrote during the run are available";
        assert!(run.stderr.contains(said), "{options}: {run:?}");
        project.forget_results();
    }
}

#[test]
fn forked_children_and_open_calls_are_not_passed_over() {
    let project = TestProject::copy_of("endings");
    let run = project.mlprof("--functions endings::**", "cargo run -- fork");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(
        project.calls().get("endings::leaf"),
        Some(&100),
        "the child's are its own: {run:?}"
    );
    assert!(has(&notes(&project), "the process was forked 1 times"), "{:?}", notes(&project));
    assert!(run.stderr.contains("Note: the process was forked 1 times"), "{run:?}");
    project.forget_results();

    for (way, code) in [("exit", 6), ("abort", 134)] {
        let run = project.mlprof("--functions endings::**", &format!("cargo run -- {way}"));
        assert_eq!(run.code, Some(code), "{run:?}");
        assert!(has(&notes(&project), "still open when"), "{way}: {:?}", notes(&project));
        assert!(project.calls().get("endings::main").is_none_or(|calls| *calls == 0), "{run:?}");
        project.forget_results();
    }
}

#[test]
fn a_forked_child_that_ends_well_has_a_report_of_its_own() {
    let project = TestProject::copy_of("endings");
    for options in ["--functions endings::leaf", "--lines endings::leaf"] {
        let mut words = super::shop::arguments(options, "cargo run --");
        words.push("fork and exit");
        let run = project.run(super::shop::MLPROF, &words);
        assert_eq!(run.code, Some(0), "{options}: {run:?}");
        let calls = |report: &Report| match report {
            Report::Lines(report) => report.functions.iter().map(|it| it.calls).sum::<u64>(),
            Report::Advanced(report) => {
                let functions = report.actions.iter().flat_map(|action| &action.functions);
                let leaves = functions.filter(|it| it.function.name == "endings::leaf");
                leaves.map(|it| it.calls.total_calls).sum()
            }
            other => panic!("{other:?}"),
        };
        let reports = project.reports();
        let each: Vec<u64> = reports.values().map(calls).collect();
        assert_eq!(each, [100, 100], "one for each process, nothing twice: {options}: {run:?}");
        assert!(!run.stderr.contains("is lost"), "{options}: {run:?}");
        project.forget_results();
    }
}

#[test]
fn samples_know_threads_by_their_names_and_who_waits() {
    let project = TestProject::copy_of("endings");
    let run = project.mlprof("--sample 500", "cargo run -- threads");
    assert_eq!(run.code, Some(0), "{run:?}");
    let (name, report) = project.reports().into_iter().next().expect("a report");
    let Report::Samples(report) = report else { panic!("{report:?}") };
    let threads: Vec<_> = report.samples.threads.iter().map(|it| it.thread.as_str()).collect();
    for name in ["main", "busy", "waiter-0", "waiter-1"] {
        assert!(threads.contains(&name), "{threads:?}");
    }
    assert_eq!(threads.len(), 4, "ours are not the program's: {threads:?}");
    // The stack shows the waiting function and the reason for the wait.
    let waits = |text: &str| {
        text.lines().any(|line| line.contains("endings::wait_for_it") && line.contains(": syscall"))
    };
    assert!(waits(&run.stderr), "{run:?}");

    let file = project.path("mlprof-results").join(&name);
    let file = file.to_str().expect("UTF-8");
    let sorted = project.run(super::shop::MLPROF, &["report", file, "--sort", "waiting"]);
    let mut lines = sorted.stdout.lines().skip_while(|line| !line.starts_with("Self %"));
    let row = lines.find(|line| line.contains("endings::wait_for_it"));
    assert!(row.is_some(), "{sorted:?}");
    let to_folded = ["convert", file, "--to", "folded", "--waiting", "-o", "-"];
    let folded = project.run(super::shop::MLPROF, &to_folded);
    let is_wait = |line: &str| line.contains("endings::wait_for_it") && line.contains(";syscall ");
    assert!(folded.stdout.lines().any(is_wait), "{folded:?}");
}
