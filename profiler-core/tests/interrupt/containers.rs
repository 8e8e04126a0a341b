//! Tests as process 1 of a container. For that process the system drops signals without a handler.

use super::own_numbers;
use super::process::Program;

#[test]
fn no_signal_hangs_or_ends_the_first_process_of_a_container() {
    let Some(way) = own_numbers::way() else { return };
    let (output, status, errors) =
        Program::start_as_number_one(way, "is signalled as number 1").end_with_output();
    assert!(status.success(), "{status}: {output}{errors}");
    assert_eq!(output.matches("FIT Profiler Report").count(), 1, "{output}");
    assert!(output.contains("child: went on"), "it goes on, as without a profiler: {output}");
    assert_eq!(errors.matches("have no effect on this process").count(), 1, "{errors}");
}

#[test]
fn a_watch_of_the_first_process_hears_the_first_signal_and_ends_by_the_second() {
    let Some(way) = own_numbers::way() else { return };
    let program = Program::start_as_number_one(way, "watches as number 1");
    let (output, status, errors) = program.end_with_output();
    assert_eq!(status.code(), Some(130), "{status}: {output}{errors}");
    assert!(output.contains("child: heard") && !output.contains("went on"), "{output}");
}

/// Checks a child that is process 1 of its own container. Its parent is also process 1, so their
/// ids are equal.
#[test]
fn a_forked_child_with_its_parents_number_delivers_no_report() {
    let Some(way) = own_numbers::way() else { return };
    let program = Program::start_as_number_one(way, "forks another number 1");
    let (output, status, errors) = program.end_with_output();
    assert!(status.success(), "{status}: {output}{errors}");
    assert_eq!(output.matches("FIT Profiler Report").count(), 1, "{output}");
    assert!(output.contains("child: was number 1"), "{output}");
}
