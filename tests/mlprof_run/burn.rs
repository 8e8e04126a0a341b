//! burn's flex device, which has no hook for its ops.

use tempfile::tempdir;

use crate::{calls_per_step, report, rows, run};

#[test]
fn a_step_of_the_digits_has_its_ops_with_shapes_forward_and_backward() {
    let results = tempdir().expect("a folder");
    let options = ["--ops", "burn-flex,burn-autodiff", "--group-by-shapes"];
    let finished = run(&options, &["-p", "burn-digits"], &["--epochs", "1"], results.path());
    assert!(finished.stdout.contains("FIT Profiler Report"), "{finished:?}");
    let fit = report(results.path(), "fit-burn-digits-");
    assert_eq!(fit.recorded_steps, 3);
    println!(
        "{:#?}",
        fit.key_averages.rows.iter().map(|row| (&row.name, row.calls)).collect::<Vec<_>>()
    );
    assert_eq!(calls_per_step(&fit, "burn::conv2d"), 2.0);
    assert!(rows(&fit, "burn::matmul").iter().all(|row| row.flops > 0));
}
