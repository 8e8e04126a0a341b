//! Tests the smaller program with a hand-written loop.

use tempfile::tempdir;
use tests::program::{Run, build};
use tests::table::Table;

#[test]
fn a_loop_of_ones_own_reports_what_it_guards() {
    let directory = tempdir().expect("a folder");
    let program = build(crate::PACKAGE, crate::LOOP);
    let finished = Run::of(&program, directory.path()).succeed();
    let table = Table::find("FIT", &finished.stdout);
    assert!(table.row("forward").calls > 0);
    for action in ["backward", "Optimizer.step"] {
        assert_eq!(table.row(action).calls, table.row("forward").calls, "{action}");
    }
}

/// Checks a build without CUDA, or with a CPU-only libtorch as here.
#[test]
fn a_device_that_is_not_there_is_an_error_that_says_so() {
    let directory = tempdir().expect("a folder");
    let finished = Run::of(&crate::program(), directory.path()).args(["--cuda"]).finish();
    assert_eq!(finished.status.code(), Some(1), "{}", finished.stderr);
    let says = ["has not been built with cuda support", "this libtorch does not support it"];
    assert!(says.iter().any(|text| finished.stderr.contains(text)), "{}", finished.stderr);
}
