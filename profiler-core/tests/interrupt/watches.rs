//! Tests of programs that check themselves if they should end.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use super::process::Program;
use super::{SIGINT, SIGNALS, SIGTERM};

#[test]
fn the_first_signal_finishes_with_a_report() {
    for signal in SIGNALS {
        let mut program = Program::start("finishes when asked");
        assert!(program.says("ready"));
        program.signal(signal);
        assert!(program.says("report"));
        let (status, errors) = program.end();
        assert!(status.success(), "{status}: {errors}");
        assert_eq!(errors.matches("press Ctrl-C again to exit at once").count(), 1, "{errors}");
    }
}

#[test]
fn the_second_signal_leaves_at_once() {
    let mut program = Program::start("never finishes");
    assert!(program.says("ready"));
    assert_eq!(program.signal_until_it_ends(SIGINT).signal(), Some(SIGINT));
}

#[test]
fn one_signal_alone_does_not_end_a_watched_process() {
    let mut program = Program::start("never finishes");
    assert!(program.says("ready"));
    program.signal(SIGINT);
    std::thread::sleep(Duration::from_millis(200));
    assert!(program.process.try_wait().expect("a child").is_none());
    program.signal(SIGTERM);
    assert_eq!(program.end().0.signal(), Some(SIGTERM), "the second one, of another kind");
}

#[test]
fn outside_of_a_watch_signals_do_what_they_always_did() {
    for name in ["has no watch", "had a watch"] {
        for signal in SIGNALS {
            let mut program = Program::start(name);
            assert!(program.says("ready"));
            program.signal(signal);
            assert_eq!(program.end().0.signal(), Some(signal), "{name}");
        }
    }
}

#[test]
fn overlapping_watches_share_one_interruption() {
    let mut program = Program::start("watches overlap");
    assert!(program.says("ready"));
    program.signal(SIGINT);
    assert!(program.says("ready"));
    assert_eq!(program.signal_until_it_ends(SIGINT).signal(), Some(SIGINT));
}

#[test]
fn every_watch_starts_anew() {
    let mut program = Program::start("watches again");
    for _ in 0..3 {
        assert!(program.says("ready"));
        program.signal(SIGINT);
    }
    assert!(program.says("report"));
    let (status, errors) = program.end();
    assert!(status.success(), "{status}: {errors}");
    assert_eq!(errors.matches("press Ctrl-C again to exit at once").count(), 3, "{errors}");
}

#[test]
fn the_programs_own_handler_keeps_its_signal() {
    let mut program = Program::start("has a handler");
    for _ in 0..3 {
        assert!(program.says("ready"));
        program.signal(SIGINT);
    }
    assert!(program.says("report"));
    assert!(program.end().0.success());
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let mut program = Program::start_ignoring("INT", "finishes when asked");
    assert!(program.says("ready"));
    program.signal(SIGINT);
    program.signal(SIGINT);
    std::thread::sleep(Duration::from_millis(100));
    assert!(program.process.try_wait().expect("a child").is_none(), "neither asked nor ended");
    program.signal(SIGTERM);
    assert!(program.says("report"), "the other one is watched");
    assert!(program.end().0.success());
}
