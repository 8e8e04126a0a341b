//! Tests of a report's console output, and of the calls that a row covers.

use std::time::Duration;

use crate::{Profiler, ProfilerExt, SimpleProfiler};

fn spin(duration: Duration) {
    let started = std::time::Instant::now();
    while started.elapsed() < duration {
        std::hint::spin_loop();
    }
}

#[test]
fn the_console_leaves_short_rows_out_and_counts_them() {
    for detailed in [false, true] {
        let profiler = SimpleProfiler::new();
        let profiler = if detailed { profiler.detailed() } else { profiler };
        {
            let _epoch = profiler.profile("run_training_epoch");
            drop(profiler.profile("on_before_backward"));
            drop(profiler.profile("on_after_backward"));
            spin(Duration::from_millis(50));
        }
        let rendered = profiler.render();
        let printed = rendered.console_text();
        assert!(printed.contains("run_training_epoch"), "{printed}");
        let is_short = |line: &str| line.contains("_backward");
        assert!(!printed.lines().any(is_short), "{printed}");
        // In the Lightning layout, start-up may be the third of these rows.
        let (count, hint) = match detailed {
            true => ("  2 rows below 0.1 %\n", "\nMLPROF_ALL_ROWS=1 or .all_rows(true) prints"),
            false => (" more rows are each below 0.1 % of the wall time", "; .all_rows(true) or"),
        };
        assert!(printed.contains(count) && printed.contains(hint), "{printed}");
        for row in ["run_training_epoch", "on_before_backward", "on_after_backward"] {
            assert!(rendered.text().contains(row), "{}", rendered.text());
        }
        assert!(!rendered.text().contains("below 0.1 %"), "{}", rendered.text());
        assert!(profiler.summary().contains("on_after_backward"), "all rows");
    }
}

/// Uses recursion like `f(f(f()))`. The time of inner calls is part of the outer call, and they
/// count as calls.
#[test]
fn the_mean_of_recursive_calls_is_between_the_shortest_and_the_longest() {
    let profiler = SimpleProfiler::new();
    for _ in 0..4 {
        let _outer = profiler.profile("f");
        for _ in 0..20 {
            let _inner = profiler.profile("f");
            spin(Duration::from_micros(100));
        }
    }
    let report = profiler.snapshot();
    let row = report.actions.iter().find(|row| row.action == "f").expect("the row");
    let rest = row.rest.expect("84 calls");
    assert!(rest.min_seconds <= rest.mean_seconds, "{row:?}");
    assert!(rest.mean_seconds <= rest.max_seconds, "{row:?}");
    // The time of the inner calls counts twice, in the outer calls and in the inner ones. Between
    // them the thread may be descheduled for any time.
    let all = row.first_seconds + 83.0 * rest.mean_seconds;
    assert!(all > row.total_seconds + 0.9 * 80.0 * 100e-6, "{row:?}");
}
