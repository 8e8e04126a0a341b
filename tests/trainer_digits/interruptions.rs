//! Tests Ctrl-C during a training.
#![cfg(unix)]

use tests::digits::file_names;
use tests::interruption::ctrl_c_ends_it_after_its_report;

use crate::program;

#[test]
fn ctrl_c_ends_the_program_as_without_a_profiler_but_with_a_report() {
    ctrl_c_ends_it_after_its_report(&program(), &["--checkpoint-dir", "saved"], |directory| {
        let saved = file_names(&directory.join("saved"));
        assert!(!saved.is_empty(), "what was saved before is there");
    });
}
