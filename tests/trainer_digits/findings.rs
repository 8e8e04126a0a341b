//! What is found in the example as it is.

use tempfile::tempdir;
use tests::findings::assert_healthy;

use crate::program;

#[test]
fn a_healthy_training_gives_nothing_above_a_hint() {
    let directory = tempdir().expect("a folder");
    assert_healthy(&program(), directory.path(), &[], &[]);
    // With enough steps for all rules.
    let schedule = "wait=2,warmup=1,active=30";
    assert_healthy(&program(), directory.path(), &["--input-shapes", "--schedule", schedule], &[]);
}
