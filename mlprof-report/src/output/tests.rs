use std::fs;
use std::io::Write;

use super::delivery::{Conclusions, Texts, deliver_to};
use super::*;
use crate::Report;
use crate::findings::{Rules, samples};

const REPORT: &str = "FIT Profiler Report\n\n";

fn run() -> RunContext {
    RunContext::default()
}

/// Delivers a report and returns the content of standard output and standard error.
fn delivered(output: Option<&Output>, report: &str) -> (String, String) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    deliver_to(
        output,
        report,
        &Conclusions::default(),
        &mut Console::new(&mut stdout, &mut stderr),
    );
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (text(stdout), text(stderr))
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn nothing() -> (String, String) {
    Default::default()
}

#[test]
fn reports_are_appended_to_a_file_in_directories_that_are_made() {
    let directory = directory();
    let output = Output::new().dirpath(directory.path().join("a/b")).filename("run");
    output.setup(Stage::Fit, &run());
    assert_eq!(delivered(Some(&output), "one\n"), nothing());
    output.teardown(None);
    assert_eq!(delivered(Some(&output), "two\n"), nothing());
    let text = fs::read_to_string(directory.path().join("a/b/fit-run.txt")).expect("the report");
    assert_eq!(text, "one\ntwo\n");
}

#[test]
fn the_name_has_a_rank_only_among_several_processes() {
    let output = Output::new().dirpath("d").filename("a/b");
    assert_eq!(output.report_path(), Some("d/a_b.txt".into()), "before any trainer");
    output.setup(Stage::Validate, &run());
    assert_eq!(output.report_path(), Some("d/validate-a_b.txt".into()));
    output.setup(Stage::Test, &run().with_rank(11, 16));
    assert_eq!(output.report_path(), Some("d/test-a_b-11.txt".into()));
}

#[test]
fn a_file_name_alone_goes_to_the_trainers_directory() {
    let output = Output::new().filename("run");
    output.setup(Stage::Fit, &run());
    assert_eq!(output.report_path(), None, "there is no directory: console");
    output.setup(Stage::Fit, &run().with_log_dir("logs"));
    assert_eq!(output.report_path(), Some("logs/fit-run.txt".into()));
    let own = Output::new().dirpath("own").filename("run");
    own.setup(Stage::Fit, &run().with_log_dir("logs"));
    assert_eq!(own.report_path(), Some("own/fit-run.txt".into()));
}

#[test]
fn without_a_file_name_rank_0_prints() {
    for output in
        [Output::new(), Output::new().dirpath("d"), Output::new().dirpath("d").filename("")]
    {
        output.setup(Stage::Fit, &run().with_rank(0, 2));
        assert_eq!(delivered(Some(&output), REPORT), (REPORT.to_owned(), String::new()));
        output.setup(Stage::Fit, &run().with_rank(1, 2));
        assert_eq!(delivered(Some(&output), REPORT), nothing());
    }
}

/// Checks that file names contain the global rank with each launcher, and that only rank 0 prints.
#[test]
fn every_launchers_ranks_have_files_of_their_own_and_rank_0_the_console() {
    let launchers: [[&str; 3]; 4] = [
        ["RANK", "LOCAL_RANK", "WORLD_SIZE"],
        ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"],
        ["PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"],
        ["SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS"],
    ];
    for [rank_name, local_name, size_name] in launchers {
        let directory = directory();
        for rank in 0..4 {
            // Two nodes have processes with the same local rank, so it must not affect file names
            // or printing.
            let (text, local) = (rank.to_string(), (rank % 2).to_string());
            let run = RunContext::from_variables(&[
                (rank_name, &text),
                (local_name, &local),
                (size_name, "4"),
            ]);
            assert_eq!((run.rank, run.local_rank, run.world_size), (rank, rank % 2, 4));
            let output = Output::new().dirpath(directory.path()).filename("run");
            output.setup(Stage::Fit, &run);
            assert_eq!(delivered(Some(&output), &text), nothing());
            let path = directory.path().join(format!("fit-run-{rank}.txt"));
            assert_eq!(fs::read_to_string(path).expect("a report"), text, "{rank_name}");
            let console = Output::new();
            console.setup(Stage::Fit, &run);
            let printed = if rank == 0 { REPORT } else { "" };
            assert_eq!(delivered(Some(&console), REPORT), (printed.to_owned(), String::new()));
        }
        assert_eq!(fs::read_dir(directory.path()).expect("the directory").count(), 4);
    }
}

#[test]
fn an_empty_report_leaves_no_trace() {
    let directory = directory();
    let output = Output::new().dirpath(directory.path().join("sub")).filename("run");
    assert_eq!(delivered(Some(&output), ""), nothing());
    assert_eq!(delivered(None, ""), nothing());
    assert!(!directory.path().join("sub").exists());
}

#[test]
fn a_file_in_the_way_of_the_directory_is_said_once_and_every_report_is_printed() {
    let directory = directory();
    let in_the_way = directory.path().join("logs");
    fs::write(&in_the_way, "not a directory").expect("a file");
    let output = Output::new().dirpath(&in_the_way).filename("run");
    // Rank 1 would normally print no report.
    output.setup(Stage::Fit, &run().with_rank(1, 2));
    let (stdout, stderr) = delivered(Some(&output), REPORT);
    assert_eq!(stdout, REPORT);
    let path = in_the_way.join("fit-run-1.txt").display().to_string();
    assert!(stderr.starts_with(&format!("warning: cannot write {path}: ")), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert_eq!(delivered(Some(&output), REPORT), (REPORT.to_owned(), String::new()), "once");
}

#[cfg(target_os = "linux")]
#[test]
fn a_report_that_meets_a_full_disk_is_printed() {
    let directory = directory();
    std::os::unix::fs::symlink("/dev/full", directory.path().join("fit-run.txt")).expect("a link");
    let output = Output::new().dirpath(directory.path()).filename("run");
    output.setup(Stage::Fit, &run());
    let (stdout, stderr) = delivered(Some(&output), REPORT);
    assert_eq!(stdout, REPORT);
    assert!(stderr.contains("No space left on device"), "{stderr}");
    assert!(stderr.contains("The report goes to the console; the run continues."), "{stderr}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_console_on_a_full_disk_gets_the_report_to_standard_error() {
    let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let mut stderr = Vec::new();
    deliver_to(
        None,
        REPORT,
        &Conclusions::default(),
        &mut Console::new(std::io::BufWriter::new(full), &mut stderr),
    );
    let stderr = String::from_utf8(stderr).expect("text");
    assert!(stderr.contains("No space left on device"), "{stderr}");
    assert!(stderr.ends_with(REPORT), "{stderr}");
    // If both streams fail, the delivery must not panic.
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    deliver_to(None, REPORT, &Conclusions::default(), &mut Console::new(full(), full()));
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    assert!((&writer).write_all(b"x").is_err(), "the pipe is broken");
    let mut stderr = Vec::new();
    deliver_to(None, REPORT, &Conclusions::default(), &mut Console::new(writer, &mut stderr));
    assert_eq!(stderr, b"");
}

#[test]
fn files_are_replaced_whole_and_leave_nothing_beside_them() {
    let directory = directory();
    let output = Output::new().dirpath(directory.path()).filename("run");
    output.setup(Stage::Fit, &run().with_rank(2, 4));
    let path = output.write_file(Some("a/b"), "prof", b"older and longer").expect("written");
    assert_eq!(path, directory.path().join("fit-run-2-a_b.prof"));
    assert_eq!(output.write_file(Some("a/b"), "prof", b"newer"), Some(path.clone()));
    assert_eq!(fs::read(&path).expect("the file"), b"newer");
    assert_eq!(output.write_file(None, "json", b"{}"), Some(path.with_file_name("fit-run-2.json")));
    assert_eq!(fs::read_dir(directory.path()).expect("the directory").count(), 2);
}

#[test]
fn a_file_name_is_optional_and_the_directory_may_be_the_trainers() {
    let directory = directory();
    let output = Output::new();
    assert_eq!(output.directory(), None, "the current one");
    output.setup(Stage::Fit, &run().with_log_dir(directory.path()));
    let path = output.write_file(Some("training_step"), "prof", b"").expect("written");
    assert_eq!(path, directory.path().join("fit-training_step.prof"));
}

#[test]
fn actions_of_one_file_name_get_a_file_each() {
    let directory = directory();
    let output = Output::new().dirpath(directory.path());
    let long = "x".repeat(10_000);
    let longer = format!("{long}, but ends differently");
    let actions = ["a/b", "a:b", "a?b", "a_b-2", "", "a/b", "a?b", &long, &longer];
    let names = actions.map(|action| {
        let path = output.write_file(Some(action), "prof", action.as_bytes()).expect("written");
        assert_eq!(fs::read(&path).expect("the file"), action.as_bytes());
        path.file_name().expect("a name").to_str().expect("text").to_owned()
    });
    let expected = ["a_b", "a_b-2", "a_b-3", "a_b-2-2", "profile", "a_b", "a_b-3"];
    assert_eq!(names[..7], expected.map(|name| format!("{name}.prof")));
    for name in &names[7..] {
        let (cut, hash) =
            name.strip_suffix(".prof").expect("the extension").rsplit_once('-').expect("a hash");
        assert_eq!((cut, hash.len(), name.len()), ("x".repeat(233).as_str(), 16, 255));
    }
    assert_ne!(names[7], names[8], "in other processes, too");
}

#[test]
fn a_file_that_cannot_be_written_is_said_once() {
    let directory = directory();
    let in_the_way = directory.path().join("logs");
    fs::write(&in_the_way, "not a directory").expect("a file");
    let output = Output::new().dirpath(&in_the_way);
    let mut stderr = Vec::new();
    let mut console = Console::new(Vec::new(), &mut stderr);
    for _ in 0..2 {
        assert_eq!(output.write_file_or_warn(Some("x"), "prof", b"", &mut console), None);
    }
    drop(console);
    let stderr = String::from_utf8(stderr).expect("text");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("x.prof") && stderr.contains("The file is missing"), "{stderr}");
}

#[test]
fn a_directory_in_the_way_of_a_file_leaves_no_temporary_file() {
    let directory = directory();
    fs::create_dir_all(directory.path().join("x.prof/sub")).expect("a directory");
    let output = Output::new().dirpath(directory.path());
    let mut console = Console::new(Vec::new(), Vec::new());
    assert_eq!(output.write_file_or_warn(Some("x"), "prof", b"", &mut console), None);
    assert_eq!(fs::read_dir(directory.path()).expect("the directory").count(), 1);
}

#[test]
fn a_stage_inside_another_leaves_the_outer_ones_name() {
    let output = Output::new();
    let run = RunContext::default();
    output.setup(Stage::Fit, &run);
    output.setup(Stage::SanityCheck, &run);
    assert_eq!(output.stage(), Some(Stage::Fit), "a sanity check has no report of its own");
    output.teardown(Some(Stage::SanityCheck));
    assert_eq!(output.stage(), Some(Stage::Fit));
    output.setup(Stage::Test, &run);
    assert_eq!(output.stage(), Some(Stage::Test));
    output.teardown(None);
    assert_eq!(output.stage(), Some(Stage::Fit), "the fit goes on");
    output.teardown(Some(Stage::Validate));
    output.teardown(None);
    assert_eq!(output.stage(), Some(Stage::Fit), "for a report that comes later");
    output.setup(Stage::Predict, &run);
    assert_eq!(output.stage(), Some(Stage::Predict));
}

/// Builds the report of two seconds of training in which saving checkpoints took `saving_seconds`.
fn rendered(saving_seconds: f64) -> RenderedReport {
    let mut report = samples::steps(100, 0.02);
    report.actions.push(samples::row("save_checkpoint", 20, saving_seconds));
    RenderedReport::new(REPORT, Some(Report::Simple(report)))
}

/// Delivers a report and returns the written text and JSON report.
fn written(rendered: RenderedReport, setting: impl Fn(Output) -> Output) -> (String, Report) {
    let directory = directory();
    let output = Output::new().dirpath(directory.path()).filename("run").json(true);
    let output = setting(output);
    output.setup(Stage::Fit, &run());
    output.note("a note");
    rendered.deliver(Some(&output));
    let file = |name| fs::read_to_string(directory.path().join(name)).expect("a file");
    let report = Report::from_json(&file("fit-run.json")).expect("a report");
    (file("fit-run.txt"), report)
}

#[test]
fn findings_are_appended_whole_to_files() {
    let (text, report) = written(rendered(1.0), |output| output);
    let whole = text.strip_prefix("FIT Profiler Report\n\nNote: a note\n").expect("it is below");
    assert!(whole.starts_with("\nFindings, largest cost first\n\n1. Saving 20"), "{whole}");
    assert!(whole.contains("   Remedy: save less often"), "{whole}");
    assert_eq!(report.findings().len(), 1);
    assert_eq!(report.findings()[0].rule, "checkpoints");
}

#[test]
fn of_a_healthy_run_nothing_is_said_nor_where_nobody_wants_to_hear() {
    let plain = "FIT Profiler Report\n\nNote: a note\n";
    for (seconds, wants) in [(0.001, true), (1.0, false)] {
        let (text, report) = written(rendered(seconds), |output| output.findings(wants));
        assert_eq!(text, plain);
        let json = report.to_json().expect("JSON");
        assert!(!json.contains("\"findings\""), "{json}");
    }
}

#[test]
fn the_console_gets_three_lines_and_no_hints() {
    let mut report = samples::steps(1000, 0.02);
    report.actions.push(samples::row("save_checkpoint", 20, 10.0));
    for name in ["A", "B", "C"] {
        let hook = format!("[Callback]{name}.on_train_batch_end");
        report.actions.push(samples::row(&hook, 1000, 4.0));
    }
    report.actions[0].first_seconds = 10.0;
    let findings = Rules::new().apply(&Report::Simple(report));
    assert_eq!(findings.len(), 5, "{findings:#?}");
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let conclusions =
        Conclusions { verdict: Some("Compute-bound.".to_owned()), findings: &findings };
    deliver_to(None, REPORT, &conclusions, &mut Console::new(&mut stdout, &mut stderr));
    let printed = String::from_utf8(stdout).expect("text");
    let below = printed.strip_prefix("Compute-bound.\n").and_then(|it| it.strip_prefix(REPORT));
    let lines: Vec<_> = below.expect("verdict and report").lines().collect();
    assert_eq!(lines.len(), 3, "{printed}");
    assert!(lines.iter().all(|line| line.starts_with("Finding: ")), "{printed}");
    assert!(lines[0].contains("Up to 9.50 s (47.50 %) can be saved"), "{printed}");
    assert!(!printed.contains("first batch"), "{printed}");
}

#[test]
fn a_report_begins_with_its_verdict_unless_that_is_off() {
    let mut report = samples::rank(0, 1, 0.02);
    report.header.stage = Some(Stage::Fit);
    report.step_series[0].stage = Some(Stage::Fit);
    let report = Report::Simple(report);
    let verdict = report.verdict().expect("steps");
    let rendered = || RenderedReport::new(REPORT, Some(report.clone()));
    let (with, _) = written(rendered(), |output| output.findings(false));
    assert_eq!(with, format!("{verdict}\n{REPORT}Note: a note\n"));
    let (without, _) = written(rendered(), |output| output.findings(false).verdict(false));
    assert_eq!(without, format!("{REPORT}Note: a note\n"));
}

#[test]
fn a_page_is_written_where_it_is_asked_for() {
    use crate::output::RenderedReport;
    use crate::samples::{Samples, SamplesReport};

    let directory = tempfile::tempdir().expect("a temporary directory");
    let report = SamplesReport::new(Samples::default(), mlprof_events::UtcTime::UNIX_EPOCH, &run());
    let report = Report::Samples(report);
    let output = Output::new().dirpath(directory.path()).filename("run");
    output.setup(Stage::Fit, &run());
    RenderedReport::new("text\n", Some(report.clone())).deliver(Some(&output));
    assert!(!directory.path().join("fit-run.html").exists(), "nobody asked");
    let output = output.html(true);
    output.note("a <note>");
    RenderedReport::new("text\n", Some(report)).deliver(Some(&output));
    let page = fs::read_to_string(directory.path().join("fit-run.html")).expect("a page");
    assert!(page.contains("<h2>Samples") && page.contains("a &lt;note&gt;"), "{page}");
    assert!(!directory.path().join("fit-run.json").exists(), "nobody asked for JSON");
}

#[test]
fn files_have_the_rows_that_the_console_leaves_out() {
    let directory = directory();
    let texts = Texts { whole: "all rows\n", console: "most rows\n" };
    let printed = |output: Option<&Output>| {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        deliver_to(
            output,
            texts,
            &Conclusions::default(),
            &mut Console::new(&mut stdout, &mut stderr),
        );
        String::from_utf8(stdout).expect("text")
    };
    assert_eq!(printed(None), "most rows\n");
    let output = Output::new().dirpath(directory.path()).filename("run").always_print(true);
    assert_eq!(printed(Some(&output)), "most rows\n");
    let file = directory.path().join("run.txt");
    assert_eq!(fs::read_to_string(&file).expect("the report"), "all rows\n");
    // If the file cannot be written, its rows would be lost, so the console shows all of them.
    let output = Output::new().dirpath(&file).filename("run");
    assert_eq!(printed(Some(&output)), "all rows\n");
}

#[test]
fn reports_of_several_profilers_are_told_apart_on_the_console() {
    let simple = Output::new().of_kind("simple");
    assert_eq!(delivered(Some(&simple), REPORT).0, REPORT);
    deliver_together(|| {
        let (printed, _) = delivered(Some(&simple), REPORT);
        assert_eq!(printed, format!("===== simple =====\n{REPORT}"));
        let directory = directory();
        let output = Output::new().of_kind("advanced").dirpath(directory.path()).filename("run");
        assert_eq!(delivered(Some(&output), REPORT), nothing());
        let file = fs::read_to_string(directory.path().join("run.txt")).expect("the report");
        assert_eq!(file, REPORT, "its name tells it apart");
    });
}
