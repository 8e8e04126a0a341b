//! Tests of the actions that enclose other actions.

use crate::report::SimpleReport;
use crate::{Profiler, ProfilerExt, RunContext, SimpleProfiler, Stage};

fn inside<'report>(report: &'report SimpleReport, action: &str) -> Option<&'report str> {
    let row = report.actions.iter().find(|row| row.action == action).expect("a row");
    row.inside.as_deref()
}

#[test]
fn rows_say_what_their_first_call_was_inside_of() {
    let profiler = SimpleProfiler::new();
    profiler.setup(Stage::Fit, &RunContext::default());
    for _ in 0..2 {
        let _epoch = profiler.profile("run_training_epoch");
        let _batch = profiler.profile("run_training_batch");
        drop(profiler.profile("training_step"));
        let _again = profiler.profile("run_training_batch");
    }
    // Later calls do not change the result.
    drop(profiler.profile("training_step"));
    drop(profiler.profile("save_checkpoint"));
    let report = profiler.snapshot();
    assert_eq!(inside(&report, "run_training_epoch"), None);
    assert_eq!(inside(&report, "run_training_batch"), Some("run_training_epoch"));
    assert_eq!(inside(&report, "training_step"), Some("run_training_batch"));
    assert_eq!(inside(&report, "save_checkpoint"), None);
}

#[test]
fn of_several_threads_the_first_call_of_all_says_it() {
    let profiler = SimpleProfiler::new();
    {
        let _loading = profiler.profile("loading");
        drop(profiler.profile("decode"));
    }
    std::thread::scope(|scope| {
        let worker = || {
            let _worker = profiler.profile("worker");
            drop(profiler.profile("decode"));
        };
        scope.spawn(worker).join().expect("no panic");
    });
    let report = profiler.snapshot();
    assert_eq!(inside(&report, "decode"), Some("loading"));
    // Each thread's rows show the enclosing action on that thread.
    let decoded: Vec<_> = report
        .threads
        .iter()
        .filter_map(|thread| thread.actions.iter().find(|row| row.action == "decode"))
        .map(|row| row.inside.as_deref())
        .collect();
    assert!(decoded.contains(&Some("worker")) && decoded.contains(&Some("loading")), "{decoded:?}");
}
