//! Tests Ctrl-C during a training.
#![cfg(unix)]

use tests::interruption::ctrl_c_ends_it_after_its_report;

use crate::digits;

#[test]
fn ctrl_c_ends_the_program_as_without_a_profiler_but_with_a_report() {
    ctrl_c_ends_it_after_its_report(&digits(), &[], |_| {});
}
