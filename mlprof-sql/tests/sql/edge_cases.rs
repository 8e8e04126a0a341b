//! Queries over misleading tables: a single rank, cycles of few steps, equally fast ranks, and
//! counters of other units.

use crate::rank_file::File;
use crate::{asked, integer, word};

#[test]
fn a_rank_alone_waits_for_nobody_and_is_last_through_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    for (cycle, reduced) in [(0, 200), (1, 900)] {
        let mut file = File::of(0, cycle);
        file.step(5, (0, 1_000)).action("all_reduce_gradients", (100, reduced - 100));
        file.write(folder.path());
    }
    assert!(asked(folder.path(), "collectives").is_empty());
    assert!(asked(folder.path(), "exposed").is_empty());
}

#[test]
fn ranks_that_are_level_are_not_last() {
    let folder = tempfile::tempdir().expect("a folder");
    for (rank, reduced) in [(0, 200), (1, 200), (2, 700)] {
        let mut file = File::of(rank, 0);
        file.step(5, (0, 1_000)).action("All_Reduce_gradients", (100, reduced));
        // This name matches only if `_` is treated as a wildcard.
        file.action("allXreduce", (900, 10 + rank));
        file.write(folder.path());
    }
    let rows = asked(folder.path(), "collectives");
    let found = rows
        .iter()
        .map(|row| ["rank", "waiting_ns", "times_last"].map(|column| integer(row, column)));
    assert_eq!(found.collect::<Vec<_>>(), [[0, 0, 0], [1, 0, 0], [2, 500_000, 0]]);
}

#[test]
fn kernels_that_wait_for_other_ranks_are_not_slow_kernels() {
    let folder = tempfile::tempdir().expect("a folder");
    for rank in 0..4_u32 {
        let computes = if rank == 3 { 300 } else { 200 };
        let mut file = File::of(rank, 0);
        file.step(1, (0, 1_000)).kernel("gemm", (0, computes));
        file.kernel("ncclDevKernel_AllReduce_Sum_f32", (computes, 400 - computes));
        file.write(folder.path());
    }
    let rows = asked(folder.path(), "kernels");
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((word(&rows[0], "name"), integer(&rows[0], "slowest_rank")), ("gemm", 3));
}

#[test]
fn steps_of_short_cycles_are_judged_together() {
    let folder = tempfile::tempdir().expect("a folder");
    for cycle in 0..4_u64 {
        let mut file = File::of(0, cycle);
        for step in 0..3_u32 {
            let duration = if (cycle, step) == (2, 1) { 500 } else { 100 };
            file.step(3 * cycle + u64::from(step), (1_000 * step, duration));
        }
        file.write(folder.path());
    }
    let rows = asked(folder.path(), "outliers");
    assert_eq!(rows.len(), 1, "{rows:?}");
    let found = ["cycle", "step", "dur_ns", "median_ns"].map(|column| integer(&rows[0], column));
    assert_eq!(found, [2, 7, 500_000, 100_000]);
}

#[test]
fn a_slow_rank_of_eight_is_seen_in_its_host() {
    let folder = tempfile::tempdir().expect("a folder");
    for rank in 0..16_u32 {
        let mut file = File::of(rank, 0);
        file.host = if rank < 8 { "with" } else { "without" }.to_owned();
        let forward = if rank == 3 { 3_000 } else { 1_000 };
        for step in 0..5 {
            file.step(step.into(), (10_000 * step, forward));
            file.action("training_step", (10_000 * step, forward));
        }
        file.write(folder.path());
    }
    let rows = asked(folder.path(), "hosts");
    assert_eq!((word(&rows[0], "host"), rows.len()), ("with", 2));
    let columns = ["ranks", "steps", "median_ns", "slowest_rank", "slowest_ns"];
    let found = columns.map(|column| integer(&rows[0], column));
    assert_eq!(found, [8, 5, 1_000_000, 3, 3_000_000]);
    assert_eq!(integer(&rows[1], "slowest_ns"), 1_000_000);
}

#[test]
fn only_counters_of_memory_are_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut file = File::of(0, 0);
    file.step(1, (0, 1_000));
    let counters = [
        ("GPU 0 memory used (bytes)", 5e9),
        ("GPU 0 memory clock (MHz)", 1e10),
        ("GPU 0 memory utilization (%)", 98.0),
        ("GPU 0 power (W)", 700.0),
    ];
    for (name, value) in counters {
        file.events.push(format!(
            r#"{{"ph":"C","name":"{name}","pid":0,"ts":10,"args":{{"value":{value}}}}}"#
        ));
    }
    file.write(folder.path());
    let rows = asked(folder.path(), "memory");
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((word(&rows[0], "name"), integer(&rows[0], "step")), (counters[0].0, 1));
}

#[test]
fn copies_at_the_same_time_take_it_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut file = File::of(0, 0);
    file.step(1, (0, 1_000));
    for (stream, times, bytes) in [
        (20, (100, 100), 1_000_000),
        (24, (150, 200), 4_000_000),
        (20, (350, 50), 500_000),
        // This copy has no duration, so its bytes have no rate.
        (24, (500, 0), 4_096),
    ] {
        let args = format!(r#""bytes":{bytes}"#);
        file.slice((0, stream), "gpu_memcpy", "Memcpy HtoD", times, &args);
    }
    file.write(folder.path());
    let rows = asked(folder.path(), "copies");
    let found = ["copies", "bytes", "total_ns", "busy_ns"].map(|column| integer(&rows[0], column));
    assert_eq!(found, [4, 5_504_096, 350_000, 300_000]);
    let speed = rows[0]["gb_per_s"].as_f64().expect("a number");
    assert!((speed - 5_500_000.0 / 300_000.0).abs() < 1e-9, "{speed}");
}

/// Checks step 5 of rank 0, which is interrupted by an unrecorded pause.
#[test]
fn parts_of_a_step_are_one_step() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut parts = File::of(0, 0);
    parts.step(5, (0, 40)).step(5, (100, 60));
    parts.write(folder.path());
    let mut whole = File::of(1, 0);
    whole.step(5, (0, 90));
    whole.write(folder.path());
    let rows = asked(folder.path(), "step_times");
    assert_eq!(rows.len(), 1, "{rows:?}");
    let columns = ["ranks", "shortest_ns", "longest_ns", "slowest_rank"];
    assert_eq!(columns.map(|column| integer(&rows[0], column)), [2, 90_000, 100_000, 0]);
    for (question, column) in [("data", "steps"), ("recorded", "steps")] {
        let rows = asked(folder.path(), question);
        assert!(rows.iter().all(|row| integer(row, column) == 1), "{question}: {rows:?}");
    }
    let exposed = asked(folder.path(), "exposed");
    assert_eq!(exposed.iter().map(|row| integer(row, "exposed_ns")).sum::<i64>(), 100_000);
}
