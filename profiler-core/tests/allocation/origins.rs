//! Tests of the origins of live memory.

use mlprof_core::allocation::{AllocationProfiler, LARGE_COPY, copied};
use mlprof_core::report::memory::{MemoryTree, PathMemory};
use mlprof_core::{Profiler, ProfilerExt, RunContext, Stage};

use crate::turn;

/// Returns the bytes at a path, with and without nested paths.
fn at(tree: &MemoryTree, path: &[&str]) -> Option<(u64, u64)> {
    let mut place: &PathMemory = &tree.blocks;
    for name in path {
        place = place.inside.iter().find(|inside| inside.action == *name)?;
    }
    Some((place.bytes, place.own_bytes))
}

#[test]
fn the_peak_and_what_is_left() {
    let _turn = turn();
    let profiler = AllocationProfiler::new();
    let outside = vec![0_u8; 2_000];
    let (model, batch) = {
        let _step = profiler.profile("step");
        let model = {
            let _scope = profiler.profile("load");
            vec![0_u8; 1_000_000]
        };
        let batch = {
            let _scope = profiler.profile("batch");
            drop(vec![0_u8; 3_000_000]); // the peak: 4,002,000 bytes
            vec![0_u8; 500_000]
        };
        let _small = vec![0_u8; 1_023];
        (model, batch)
    };
    drop(batch);
    let report = profiler.snapshot();
    let peak = &report.peak;
    assert_eq!(peak.least_block_bytes, 1_024);
    assert_eq!(at(peak, &[]), Some((4_002_000, 2_000)));
    assert_eq!(at(peak, &["step"]), Some((4_000_000, 0)));
    assert_eq!(at(peak, &["step", "load"]), Some((1_000_000, 1_000_000)));
    assert_eq!(at(peak, &["step", "batch"]), Some((3_000_000, 3_000_000)));
    let alive = &report.alive;
    assert_eq!(at(alive, &[]), Some((1_002_000, 2_000)));
    assert_eq!(at(alive, &["step", "load"]), Some((1_000_000, 1_000_000)));
    assert_eq!(at(alive, &["step", "batch"]), None);
    let text = profiler.summary();
    assert!(text.contains("3.82 MiB  100.00 %       3"), "{text}");
    drop((model, outside));
}

/// Checks that a resized block belongs to the path that resized it.
#[test]
fn resized_blocks_stay_known() {
    let _turn = turn();
    let profiler = AllocationProfiler::new();
    let mut numbers = {
        let _scope = profiler.profile("first");
        vec![0_u8; 500]
    };
    assert_eq!(at(&profiler.snapshot().alive, &["first"]), None, "too small");
    {
        let _scope = profiler.profile("grow");
        numbers.reserve_exact(10_000);
    }
    let report = profiler.snapshot();
    assert_eq!(at(&report.alive, &["grow"]), Some((10_500, 10_500)));
    numbers.shrink_to(600);
    assert_eq!(at(&profiler.snapshot().alive, &["grow"]), None);
}

#[test]
fn blocks_of_any_size_if_asked_for() {
    let _turn = turn();
    let profiler = AllocationProfiler::new().blocks_from(0);
    let _kept = {
        let _scope = profiler.profile("small");
        [Box::new(1_u8), Box::new(2)]
    };
    let report = profiler.snapshot();
    assert_eq!(at(&report.alive, &["small"]), Some((2, 2)));
}

/// Covers blocks that are freed by another thread, and another thread's own paths.
#[test]
fn blocks_that_change_threads() {
    let _turn = turn();
    let profiler = AllocationProfiler::new();
    let _step = profiler.profile("step");
    let first = vec![0_u8; 4_000];
    let second = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let _work = profiler.profile("work");
            drop(first);
            vec![0_u8; 6_000]
        });
        worker.join().expect("no panic")
    });
    let report = profiler.snapshot();
    assert_eq!(at(&report.alive, &["work"]), Some((6_000, 6_000)));
    assert_eq!(at(&report.alive, &["step"]), None);
    drop(second);
}

#[test]
fn every_stage_begins_anew() {
    let _turn = turn();
    let profiler = AllocationProfiler::new();
    let run = RunContext::default();
    let before = vec![0_u8; 1_000_000];
    profiler.setup(Stage::Fit, &run);
    let fitted = {
        let _scope = profiler.profile("fit");
        vec![0_u8; 20_000]
    };
    profiler.describe();
    drop(before);
    let fit = profiler.snapshot();
    assert_eq!(at(&fit.alive, &[]), Some((20_000, 0)), "as it was at the end of the stage");
    assert_eq!(at(&fit.peak, &[]), Some((1_020_000, 1_000_000)), "alive is alive, from whenever");
    profiler.setup(Stage::Test, &run);
    let _tested = {
        let _scope = profiler.profile("test");
        vec![0_u8; 3_000]
    };
    let test = profiler.snapshot();
    assert_eq!(at(&test.alive, &[]), Some((3_000, 0)));
    assert_eq!(at(&test.peak, &[]).map(|(bytes, _)| bytes), Some(20_000), "copied at the start");
    profiler.teardown(None);
    drop(fitted);
}

#[test]
fn large_copies_are_named() {
    let _turn = turn();
    let profiler = AllocationProfiler::new();
    copied(100_000);
    {
        let _step = profiler.profile("step");
        let _clone = profiler.profile("clone");
        (0..3).for_each(|_| copied(70_000));
        copied(LARGE_COPY - 1);
    }
    let copies = profiler.snapshot().copies;
    assert_eq!(at(&copies, &[]), Some((310_000, 100_000)));
    assert_eq!(at(&copies, &["step", "clone"]), Some((210_000, 210_000)));
    assert_eq!(copies.blocks.blocks, 4);
    let text = profiler.summary();
    assert!(text.contains("Large copies") && text.contains("Self copies"), "{text}");
    drop(profiler);
    copied(100_000); // no profiler records copies
    assert_eq!(AllocationProfiler::new().snapshot().copies.blocks.blocks, 0);
}

/// Checks that a second profiler counts without origins and notes it, while the first continues.
#[test]
fn one_profiler_at_a_time_knows_origins() {
    let _turn = turn();
    let first = AllocationProfiler::new();
    let second = AllocationProfiler::new();
    let _kept = {
        let _scope = second.profile("load");
        vec![0_u8; 2_000]
    };
    let notes = second.snapshot().header.notes;
    assert!(notes.iter().any(|note| note.contains("another memory profiler")), "{notes:?}");
    assert_eq!(second.snapshot().actions[0].total.allocated_bytes, 2_000);
    assert_eq!(second.snapshot().alive.blocks.blocks, 0);
    assert_eq!(first.snapshot().alive.blocks.bytes, 2_000);
    drop(first);
    let third = AllocationProfiler::new();
    let notes = third.snapshot().header.notes;
    let [note] = &notes[..] else { panic!("{notes:?}") };
    assert!(note.starts_with("there are no actions"), "it is the only one again: {note}");
    assert_eq!(third.snapshot().alive.blocks.blocks, 0, "it begins anew");
}

/// Checks that memory stays bounded: blocks beyond the limit are counted, and all tallies are
/// correct.
#[test]
fn more_blocks_than_can_be_remembered() {
    let _turn = turn();
    let profiler = AllocationProfiler::new().blocks_from(0);
    let blocks: Vec<Box<u64>> = {
        let _scope = profiler.profile("many");
        (0..400_000).map(Box::new).collect()
    };
    let report = profiler.snapshot();
    assert_eq!(report.actions[0].total.net_blocks(), 400_001);
    let known = report.alive.blocks.inside[0].blocks;
    assert!((260_000..=262_144).contains(&known), "{known}");
    let dropped = report.header.notes.iter().find_map(|note| {
        note.strip_suffix(
            " blocks are in no tree: more blocks were alive at once than the profiler can store",
        )
    });
    let dropped: u64 = dropped.expect("a note").parse().expect("a number");
    assert!((0..100).contains(&(dropped + known - 400_001)), "{dropped}, {known}");
    drop(blocks);
    assert_eq!(at(&profiler.snapshot().alive, &["many"]), None);
    let _block = {
        let _scope = profiler.profile("again");
        Box::new(1_u64)
    };
    assert_eq!(at(&profiler.snapshot().alive, &["again"]), Some((8, 8)));
}
