//! The smaller program beside it: a loop of one's own.

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
    for action in ["backward", "optimizer_step"] {
        assert_eq!(table.row(action).calls, table.row("forward").calls, "{action}");
    }
}
