//! Tests of programs that have no thread or descriptor left when the signal arrives.

use std::os::unix::process::ExitStatusExt;

use super::SIGTERM;
use super::process::Program;

#[test]
fn without_a_further_thread_the_report_comes_all_the_same() {
    let (output, status, errors) = Program::start("has no further thread").end_with_output();
    assert!(output.contains("child: no thread"), "{output}{errors}");
    assert_eq!(status.signal(), Some(SIGTERM), "{status}: {output}{errors}");
    assert_eq!(output.matches("FIT Profiler Report").count(), 1, "{output}{errors}");
}

#[test]
fn a_program_that_closes_all_descriptors_keeps_its_files_and_its_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = Program::start_in(folder.path(), "closes all descriptors");
    let (output, status, errors) = program.end_with_output();
    assert_eq!(status.signal(), Some(SIGTERM), "{status}: {output}{errors}");
    assert_eq!(output.matches("FIT Profiler Report").count(), 1, "{output}{errors}");
    let own = std::fs::read(folder.path().join("own")).expect("the program's file");
    assert!(own.is_empty(), "nothing was written into the program's own descriptors: {own:?}");
}
