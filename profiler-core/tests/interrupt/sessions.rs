//! Tests of programs that are measured.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use super::process::Program;
use super::{SIGHUP, SIGINT, SIGNALS, SIGTERM};

#[test]
fn a_signal_ends_a_training_and_the_report_comes_first() {
    for signal in SIGNALS {
        let mut program = Program::start("trains");
        assert!(program.says("ready"));
        program.signal(signal);
        let (output, status, errors) = program.end_with_output();
        assert_eq!(status.signal(), Some(signal), "{status}: {errors}");
        assert_eq!(output.matches("FIT Profiler Report").count(), 1, "{output}");
        assert!(output.contains("training_step"), "what is not over is in it, too: {output}");
        assert!(!output.contains("went on"), "{output}");
        assert_eq!(errors.matches("the process ends after the report").count(), 1, "{errors}");
    }
}

#[test]
fn a_program_does_not_go_on_after_a_stage_that_a_signal_has_ended() {
    for _ in 0..10 {
        let (output, status, _) = Program::start("is through with its stage").end_with_output();
        assert_eq!(status.signal(), Some(SIGINT));
        assert_eq!(output.matches("FIT Profiler Report").count(), 1, "{output}");
        assert!(!output.contains("went on"), "{output}");
    }
}

#[test]
fn without_a_profiler_nothing_is_changed() {
    for signal in SIGNALS {
        let mut program = Program::start("trains without a profiler");
        assert!(program.says("ready"));
        program.signal(signal);
        let (output, status, errors) = program.end_with_output();
        assert_eq!(status.signal(), Some(signal), "{status}: {errors}");
        assert!(!output.contains("Report") && !errors.contains("mlprof"), "{output}{errors}");
    }
}

#[test]
fn a_second_signal_does_not_wait_for_the_report() {
    let mut program = Program::start("reports for ever");
    assert!(program.says("ready"));
    program.signal(SIGTERM);
    assert!(program.says("reports"));
    std::thread::sleep(Duration::from_millis(200));
    assert!(program.process.try_wait().expect("a child").is_none(), "it reports");
    assert_eq!(program.signal_until_it_ends(SIGINT).signal(), Some(SIGINT));
}

#[test]
fn all_trainings_report_once_before_the_process_ends() {
    let mut program = Program::start("trains two models");
    assert!(program.says("ready"));
    program.signal(SIGINT);
    let (output, status, errors) = program.end_with_output();
    assert_eq!(status.signal(), Some(SIGINT), "{errors}");
    assert_eq!(output.matches("first model").count(), 1, "{output}");
    // The second model reports each stage that ends. The signal may arrive between two such
    // reports.
    let reports = output.split("FIT Profiler Report").skip(1);
    let models = reports.map(|report| report.matches(" model").count());
    assert!(models.clone().all(|models| models <= 1), "{output}");
    assert!(models.count() > 0, "{output}");
}

#[test]
fn programs_continue_after_a_signal_if_requested() {
    for signal in SIGNALS {
        let mut program = Program::start("returns");
        assert!(program.says("ready"));
        program.signal(signal);
        let (output, status, errors) = program.end_with_output();
        assert!(status.success(), "{status}: {errors}");
        assert!(output.contains("FIT Profiler Report"), "{output}");
        assert!(output.contains("went on"), "{output}");
    }
}

#[test]
fn a_signal_that_is_sent_twice_is_one() {
    let (output, status, errors) =
        Program::start("is asked twice at the same moment").end_with_output();
    assert!([SIGTERM, SIGHUP].map(Some).contains(&status.signal()), "{status}: {errors}");
    assert_eq!(output.matches("FIT Profiler Report").count(), 1, "{output}");
}

#[test]
fn a_handler_of_the_programs_own_wins() {
    for name in ["has had a handler", "gets a handler", "gets a handler of libc's"] {
        let mut program = Program::start(name);
        let rounds = if name.ends_with("libc's") { 2 } else { 3 };
        for _ in 0..rounds {
            assert!(program.says("ready"), "{name}");
            SIGNALS.iter().for_each(|signal| program.signal(*signal));
        }
        let (output, status, errors) = program.end_with_output();
        assert!(status.success(), "{name}: {status}: {output}{errors}");
        assert!(output.contains("went on"), "{name}: {output}");
        assert!(!errors.contains("the process ends after the report"), "{name}: {errors}");
    }
}

#[test]
fn a_training_under_nohup_goes_on() {
    let mut program = Program::start_ignoring("HUP", "trains");
    assert!(program.says("ready"));
    program.signal(SIGHUP);
    std::thread::sleep(Duration::from_millis(200));
    assert!(program.process.try_wait().expect("a child").is_none(), "it is ignored");
    program.signal(SIGTERM);
    let (output, status, errors) = program.end_with_output();
    assert_eq!(status.signal(), Some(SIGTERM), "{errors}");
    assert!(output.contains("FIT Profiler Report"), "{output}");
}

#[test]
fn a_forked_child_ends_by_the_signal_alone() {
    let (output, status, errors) = Program::start("forks").end_with_output();
    assert!(status.success(), "{status}: {errors}");
    assert_eq!(output.matches("FIT Profiler Report").count(), 1, "{output}");
    assert!(!errors.contains("the process ends after the report"), "{errors}");
}
