//! More than there is room for, and what goes wrong.

use std::sync::Arc;

use mlprof_core::{Profiler, ProfilerExt, SimpleProfiler, TensorProfiler, activate, profile};
use mlprof_cuda as device;

use super::{op, record, run, slices};
use crate::fake::cuda;

/// What the process has in memory, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a line");
    let number = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
    number.expect("a number") * 1024
}

/// A million kernels: 0.8 GB of records go through a few buffers. `MLPROF_TEST_KERNELS` asks for more.
pub fn many_kernels() {
    let asked_for = std::env::var("MLPROF_TEST_KERNELS");
    let kernels_run = asked_for.map_or(1_000_000, |number| number.parse().expect("a number"));
    let started = std::time::Instant::now();
    let profiler = TensorProfiler::new().without_schedule().max_events(1 << 20).export_trace(false);
    let ran = {
        let profiler = Arc::new(profiler);
        let activated = activate(profiler.clone());
        let before = resident();
        let name = "kernel";
        for _ in 0..kernels_run / 1000 {
            let _step = profile!("step");
            for _ in 0..1000 {
                cuda().launch_again(name, 7, 100);
            }
        }
        drop(activated);
        profiler.describe();
        let grown = resident() - before;
        println!("{kernels_run} kernels: {} MiB, {:?}", grown >> 20, started.elapsed());
        // The buffers, the events that are kept, and what the table is made from.
        assert!(grown < 1_000 << 20, "{} MiB", grown >> 20);
        let Some(mlprof_core::Report::Tensor(report)) = profiler.report() else { panic!() };
        report
    };
    let rows = &ran.key_averages.rows;
    let kept = |name: &str| rows.iter().find(|row| row.name == name).map_or(0, |row| row.calls);
    let (kernels, calls) = (kept("kernel"), kept("cudaLaunchKernel"));
    let dropped = &ran.dropped;
    assert!(kernels > 0 && calls > 0, "{kernels} {calls}");
    // What was recorded, what found no room here, and what found none in CUPTI's buffers.
    let lost: u64 = ran
        .header
        .notes
        .iter()
        .filter(|note| note.contains("CUPTI had no room for"))
        .filter_map(|note| note.split_whitespace().find_map(|word| word.parse::<u64>().ok()))
        .sum();
    let seen = kernels + dropped.device;
    assert!(
        seen <= kernels_run && seen + lost >= kernels_run,
        "{seen} seen, {lost} lost of {kernels_run}"
    );
}

/// Without room for events they are counted.
pub fn too_many() {
    let profiler = TensorProfiler::new().without_schedule().max_events(55_000);
    let ran = run(profiler, |_| {
        op("aten::mm", || {
            for _ in 0..20_000 {
                cuda().launch_again("kernel", 7, 100);
            }
        });
    });
    let kept = ran.row("kernel").calls;
    assert_eq!(kept + ran.report.dropped.device, 20_000, "{:?}", ran.notes());
    assert!(ran.has_note("kernels, copies and samples"), "{:?}", ran.notes());
}

/// A child has neither CUDA nor the thread that reads; it must get to its end.
pub fn fork() {
    let ran = record(|profiler| {
        for _ in 0..30 {
            op("aten::mm", || cuda().launch("kernel", 7, 1_000));
            // SAFETY: the child does what follows and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                {
                    let _scope = profile!("in the child");
                    op("aten::mm", || std::hint::black_box(1));
                }
                profiler.step();
                // SAFETY: ends the process.
                unsafe { libc::_exit(7) };
            }
            let mut status = 0;
            // SAFETY: the place is ours.
            unsafe { libc::waitpid(child, &mut status, 0) };
            assert_eq!(libc::WEXITSTATUS(status), 7);
        }
    });
    assert_eq!(ran.row("kernel").calls, 30);
}

/// CUPTI leaves the process where only one thread has used CUDA, and comes back when it is wanted.
pub fn finalize() {
    let launch = || {
        op("aten::mm", || cuda().launch("kernel", 7, 5_000));
    };
    let record_one = |finalized| {
        let ran = record(|_| launch());
        assert_eq!(ran.row("kernel").calls, 1);
        assert!((ran.row("aten::mm").self_device_seconds - 5e-6).abs() < 1e-8, "{}", ran.text);
        assert!(!cuda().is_claimed());
        assert_eq!(cuda().finalized(), finalized);
    };
    record_one(1);
    record_one(2);
    // A second thread may be inside of a call when CUPTI leaves.
    record(|_| {
        launch();
        std::thread::scope(|scope| drop(scope.spawn(|| cuda().launch("other", 7, 5_000)).join()));
    });
    assert_eq!(cuda().finalized(), 2);
    device::finalize_cupti(false);
    record_one(2);
    device::finalize_cupti(true);
    record_one(3);
}

/// A report says so when CUPTI tells of nothing after it had left.
pub fn silent_after_leaving() {
    let ran = record(|_| {
        op("aten::mm", || cuda().launch("kernel", 7, 5_000));
    });
    assert!(!ran.text.contains("CUPTI tells of nothing"), "{}", ran.text);
    cuda().be_silent();
    let ran = record(|_| {
        op("aten::mm", || cuda().launch("kernel", 7, 5_000));
    });
    assert!(ran.text.contains("CUPTI tells of nothing since it was taken out"), "{}", ran.text);
}

/// A profiler that does not look at devices leaves CUPTI alone.
pub fn nobody_asks() {
    let profiler = Arc::new(SimpleProfiler::new());
    let activated = activate(profiler.clone());
    {
        let _scope = profile!("forward");
        cuda().launch("kernel", 7, 1_000);
    }
    drop(activated);
    assert_eq!(cuda().enables(), 0);
    assert!(profiler.summary().contains("forward"));
}

/// Buffers that cannot be read to their end are read as far as they go, and that is said.
pub fn unreadable() {
    let ran = record(|_| {
        for _ in 0..10 {
            op("aten::mm", || cuda().launch("kernel", 7, 1_000));
        }
    });
    assert!(ran.has_note("of CUPTI's could not be read"), "{:?}", ran.notes());
    assert_eq!(ran.row("aten::mm").calls, 10);
    assert!(slices(&ran.traces[0], "kernel").len() <= 10);
}

/// CUPTI's last words, when it takes itself down, are not read any more.
pub fn exit_in_the_middle() {
    let profiler = Arc::new(TensorProfiler::new().without_schedule());
    let _activated = activate(profiler);
    for _ in 0..30_000 {
        cuda().launch_again("kernel", 7, 1_000);
    }
    std::process::exit(0);
}

/// The thread that reads keeps no profiler alive.
pub fn let_go() {
    let profiler = Arc::new(TensorProfiler::new().without_schedule().export_trace(false));
    let activated = activate(profiler.clone());
    op("aten::mm", || cuda().launch("kernel", 7, 1_000));
    drop(activated);
    profiler.describe();
    assert!(profiler.summary().contains("kernel"));
    assert_eq!(Arc::strong_count(&profiler), 1);
}
