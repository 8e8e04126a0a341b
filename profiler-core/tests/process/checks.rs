//! Checks of the scenes' output.

use std::process::{Command, Output};
use std::time::Instant;

use mlprof_core::report::{AdvancedReport, SimpleReport};
use serde_json::from_str;

use crate::{containers, environment, run_forks};

pub fn all() {
    start_up_is_in_the_first_report_alone();
    time_before_main_is_separate();
    under_cargo_run_only_what_came_after_main_is_counted();
    a_process_that_was_turned_into_the_program_counts_from_its_start();
    the_advanced_report_has_it_as_an_action();
    a_worker_may_be_first();
    a_forked_child_has_no_start_up();
    no_forked_child_is_lost();
    counters_that_cannot_be_read_are_a_note();
    ranks_that_make_no_sense_are_said_once();
    scopes_without_memory_are_lost_and_the_program_goes_on();
    run_forks::check();
    containers::check();
    environment::check();
    println!("process: all scenes went as they should");
}

pub fn command(scene: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("its own path"));
    command.env("MLPROF_TEST_SCENE", scene);
    for (name, _) in std::env::vars() {
        let launchers = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "OMPI_", "PMI_", "SLURM_"];
        if launchers.iter().any(|launcher| name.starts_with(launcher)) {
            command.env_remove(name);
        }
    }
    command
}

pub fn output(mut command: Command) -> Output {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{output:#?}");
    output
}

/// Returns the lines that a process prints, and an upper limit for its start-up time in seconds.
/// The limit is its lifetime plus 10 ms, the precision of the system's start time.
fn timed_lines(command: Command) -> (Vec<String>, f64) {
    let started = Instant::now();
    let lines = lines(command);
    (lines, started.elapsed().as_secs_f64() + 0.01)
}

fn lines(command: Command) -> Vec<String> {
    let output = output(command);
    assert!(output.stderr.is_empty(), "{output:#?}");
    String::from_utf8(output.stdout).expect("text").lines().map(str::to_owned).collect()
}

fn names(report: &SimpleReport) -> Vec<&str> {
    report.actions.iter().map(|row| row.action.as_str()).collect()
}

fn start_up_is_in_the_first_report_alone() {
    let (lines, lived) = timed_lines(command("stages"));
    let [fit, other, lightning, detailed, test] = lines.as_slice() else { panic!("{lines:#?}") };
    let fit: SimpleReport = from_str(fit).expect("a report");
    let startup = fit.header.startup.expect("known");
    let before_main = startup.before_main_seconds.expect("known");
    assert!((0.1..lived).contains(&startup.total_seconds), "{startup:?} of {lived} s");
    assert!(before_main > 0.0 && before_main + 0.1 <= startup.total_seconds, "{startup:?}");
    let row = |name: &str| {
        let row = fit.actions.iter().find(|row| row.action == name).expect("the row");
        (row.calls, row.total_seconds, row.self_seconds, row.first_seconds, row.rest)
    };
    let total = startup.total_seconds;
    assert_eq!(row("process_startup"), (1, total, total - before_main, total, None));
    let part = (1, before_main, before_main, before_main, None);
    assert_eq!(row("process_startup_before_main"), part);
    assert_eq!(fit.actions.len(), 4, "{:?}", names(&fit));
    assert!(fit.actions.is_sorted_by(|a, b| a.total_seconds >= b.total_seconds));
    assert_eq!(fit.header.overhead.scopes, 2, "nobody measured start-up");
    assert_eq!(fit.threads[0].actions.len(), 2, "it is no thread's");

    let other: SimpleReport = from_str(other).expect("a report");
    assert_eq!(names(&other), ["other"], "not in another profiler's");
    let test: SimpleReport = from_str(test).expect("a report");
    assert_eq!(names(&test), ["test_step"], "not in a later stage's");
    assert_eq!(test.header.startup, None);

    let lightning: String = from_str(lightning).expect("text");
    assert!(lightning.contains("|  process_startup            \t|"), "{lightning}");
    let detailed: String = from_str(detailed).expect("text");
    assert!(detailed.contains("\nStart-up    "), "{detailed}");
    assert!(!detailed.contains("process_startup"), "{detailed}");
}

fn time_before_main_is_separate() {
    let mut slow = command("stages");
    slow.env("MLPROF_TEST_SLOW_START", "1");
    let (lines, lived) = timed_lines(slow);
    let fit: SimpleReport = from_str(&lines[0]).expect("a report");
    let startup = fit.header.startup.expect("known");
    let before_main = startup.before_main_seconds.expect("known");
    assert!((0.2..lived).contains(&before_main), "{startup:?} of {lived} s");
    assert!(startup.after_main_seconds() >= 0.1, "{startup:?}");
}

/// Sets cargo's variable, but is started by another program. This is the situation after cargo has
/// replaced itself with this process.
fn under_cargo_run_only_what_came_after_main_is_counted() {
    let mut by_cargo = command("stages");
    by_cargo.env("CARGO_MANIFEST_DIR", "/of/another/package");
    by_cargo.env("MLPROF_TEST_SLOW_START", "1");
    let (lines, lived) = timed_lines(by_cargo);
    let fit: SimpleReport = from_str(&lines[0]).expect("a report");
    let startup = fit.header.startup.expect("known from main");
    assert_eq!(startup.before_main_seconds, None);
    assert!((0.1..lived).contains(&startup.total_seconds), "{startup:?} of {lived} s");
    assert!(!names(&fit).contains(&"process_startup_before_main"));
    assert!(names(&fit).contains(&"process_startup"));
}

/// Checks documented behaviour: Linux does not keep the time of `exec`.
fn a_process_that_was_turned_into_the_program_counts_from_its_start() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "sleep 0.3; exec \"$0\""]).arg(std::env::current_exe().expect("a path"));
    shell.env("MLPROF_TEST_SCENE", "stages");
    let fit: SimpleReport = from_str(&lines(shell)[0]).expect("a report");
    let startup = fit.header.startup.expect("known");
    assert!(startup.before_main_seconds.is_some_and(|part| part >= 0.29), "{startup:?}");
}

fn the_advanced_report_has_it_as_an_action() {
    let lines = lines(command("advanced"));
    let report: AdvancedReport = from_str(&lines[0]).expect("a report");
    let startup = report.header.startup.expect("known");
    let action = report.actions.iter().find(|action| action.action == "process_startup");
    let action = action.expect("the action");
    assert_eq!((action.calls, action.total_seconds), (1, startup.total_seconds));
    let [whole, part] = action.functions.as_slice() else { panic!("{action:?}") };
    assert_eq!(whole.calls.cumulative_seconds, startup.total_seconds);
    assert_eq!(Some(part.calls.self_seconds), startup.before_main_seconds);
    assert_eq!(part.callers[0].caller, whole.function);
    assert_eq!(report.threads.len(), 1);
    assert_eq!(report.threads[0].roots.len(), 1, "it is no thread's");
    let text = lines[1..].join("\n");
    assert!(text.contains("Profile stats for: process_startup rank: 0"), "{text}");
    assert!(text.contains(" process_startup_before_main\n"), "{text}");
}

fn a_worker_may_be_first() {
    let report: SimpleReport = from_str(&lines(command("worker first"))[0]).expect("a report");
    assert_eq!(report.actions.len(), 4, "{:?}", names(&report));
}

fn a_forked_child_has_no_start_up() {
    let report: SimpleReport = from_str(&lines(command("forked"))[0]).expect("a report");
    assert_eq!(names(&report), ["in_the_child"]);
    assert_eq!(report.header.startup, None);
}

fn no_forked_child_is_lost() {
    // Each child reports on standard error which data its reports lack.
    let output = output(command("forks while others work"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0 children lost\n", "{output:#?}");
}

fn counters_that_cannot_be_read_are_a_note() {
    let lines = lines(command("too many files"));
    let report: SimpleReport = from_str(&lines[0]).expect("a report");
    let step = report.actions.iter().find(|row| row.action == "step").expect("the row");
    assert_eq!((step.calls, step.io), (3, None), "its time is there all the same");
    let [note] = report.header.notes.as_slice() else { panic!("{:?}", report.header.notes) };
    assert!(note.contains("cannot read /proc/thread-self/io: "), "{note}");
    assert!(lines.last().is_some_and(|line| line == &format!("Note: {note}")), "{lines:#?}");
}

fn scopes_without_memory_are_lost_and_the_program_goes_on() {
    let lines = lines(command("deep without memory"));
    assert_eq!(lines.len(), 2, "{lines:#?}");
    for line in lines {
        let report = mlprof_core::Report::from_json(&line).expect("a report");
        let of_memory = "the system had no memory to record them";
        let note = report.header().notes.iter().find(|note| note.contains(of_memory));
        let note = note.unwrap_or_else(|| panic!("{:?}", report.header()));
        let missed: u64 = note.split(' ').next().and_then(|it| it.parse().ok()).expect("a number");
        let calls = match &report {
            mlprof_core::Report::Simple(report) => {
                report.actions.iter().find(|row| row.action == "deep").map(|row| row.calls)
            }
            mlprof_core::Report::Advanced(report) => {
                report.actions.iter().find(|row| row.action == "deep").map(|row| row.calls)
            }
            other => panic!("{other:?}"),
        };
        // Calls before, during and after the lack of memory are each in a row or in the note.
        assert_eq!(calls.map(|calls| calls + missed), Some(1002), "{note}");
    }
}

fn ranks_that_make_no_sense_are_said_once() {
    let mut wrong = command("ranks");
    wrong.env("RANK", "2").env("WORLD_SIZE", "2");
    let output = output(wrong);
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(stdout.starts_with("rank 0 0 of 1\nrank 0 0 of 1\n"), "{stdout}");
    assert!(stdout.contains("Profiler Report"), "the only process prints: {stdout}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("warning: RANK is \"2\" and WORLD_SIZE \"2\""), "{stderr}");
    let mut right = command("ranks");
    right.env("RANK", "1").env("LOCAL_RANK", "0").env("WORLD_SIZE", "2");
    let lines = lines(right);
    assert_eq!(lines, ["rank 1 0 of 2"; 3], "and no report: the console is rank 0's");
}
