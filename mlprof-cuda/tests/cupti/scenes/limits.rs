//! Scenes with resource limits and failures.

use std::sync::Arc;

use mlprof_core::{Profiler, ProfilerExt, SimpleProfiler, TensorProfiler, activate, profile};
use mlprof_cuda as device;

use super::{op, record, run, slices};
use crate::fake::cuda;

/// Returns the peak memory use of the process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("a line");
    let number = line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok());
    number.expect("a number") * 1024
}

/// Records a million kernels, so that 0.8 GB of records pass through a few buffers.
/// `MLPROF_TEST_KERNELS` sets another number.
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
        // This memory contains the buffers, the retained events and the data of the table.
        assert!(grown < 1_000 << 20, "{} MiB", grown >> 20);
        let Some(mlprof_core::Report::Tensor(report)) = profiler.report() else { panic!() };
        report
    };
    let rows = &ran.key_averages.rows;
    let kept = |name: &str| rows.iter().find(|row| row.name == name).map_or(0, |row| row.calls);
    let (kernels, calls) = (kept("kernel"), kept("cudaLaunchKernel"));
    let dropped = &ran.dropped;
    assert!(kernels > 0 && calls > 0, "{kernels} {calls}");
    // The kernels are either recorded, dropped by the profiler, or dropped by CUPTI.
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

/// Checks that events beyond the maximum are counted.
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

/// Checks that a forked child terminates, although it has neither CUDA nor the reader thread.
pub fn fork() {
    let ran = record(|profiler| {
        for _ in 0..30 {
            op("aten::mm", || cuda().launch("kernel", 7, 1_000));
            // SAFETY: the child of this process runs only the following code and then terminates.
            let child = unsafe { libc::fork() };
            if child == 0 {
                {
                    let _scope = profile!("in the child");
                    op("aten::mm", || std::hint::black_box(1));
                }
                profiler.step();
                // SAFETY: `_exit` has no preconditions. It terminates the child without exit
                // handlers.
                unsafe { libc::_exit(7) };
            }
            let mut status = 0;
            // SAFETY: the function writes one integer to `status`, an initialised local.
            unsafe { libc::waitpid(child, &mut status, 0) };
            assert_eq!(libc::WEXITSTATUS(status), 7);
        }
    });
    assert_eq!(ran.row("kernel").calls, 30);
}

/// Checks that CUPTI leaves the process if only one thread used CUDA, and that it is loaded again
/// on demand.
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
    // A second thread might be inside a CUDA call when CUPTI leaves.
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

/// Checks that the report contains a note if CUPTI records no activity after it has left once.
pub fn silent_after_leaving() {
    let ran = record(|_| {
        op("aten::mm", || cuda().launch("kernel", 7, 5_000));
    });
    assert!(!ran.text.contains("CUPTI reports nothing after"), "{}", ran.text);
    cuda().be_silent();
    let ran = record(|_| {
        op("aten::mm", || cuda().launch("kernel", 7, 5_000));
    });
    assert!(ran.text.contains("CUPTI reports nothing after it was detached"), "{}", ran.text);
}

/// Checks that a profiler without interest in devices does not enable CUPTI.
pub fn profilers_without_device_interest_do_not_enable_cupti() {
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

/// Checks that truncated buffers are read as far as possible, and that the report contains a note.
pub fn unreadable() {
    let ran = record(|_| {
        for _ in 0..10 {
            op("aten::mm", || cuda().launch("kernel", 7, 1_000));
        }
    });
    assert!(ran.has_note("unreadable CUPTI records are missing"), "{:?}", ran.notes());
    assert_eq!(ran.row("aten::mm").calls, 10);
    assert!(slices(&ran.traces[0], "kernel").len() <= 10);
}

/// Checks that records are not read any more when CUPTI delivers its last ones at the process exit.
pub fn exit_in_the_middle() {
    let profiler = Arc::new(TensorProfiler::new().without_schedule());
    let _activated = activate(profiler);
    for _ in 0..30_000 {
        cuda().launch_again("kernel", 7, 1_000);
    }
    std::process::exit(0);
}

/// Checks that the reader thread does not keep a profiler alive.
pub fn let_go() {
    let profiler = Arc::new(TensorProfiler::new().without_schedule().export_trace(false));
    let activated = activate(profiler.clone());
    op("aten::mm", || cuda().launch("kernel", 7, 1_000));
    drop(activated);
    profiler.describe();
    assert!(profiler.summary().contains("kernel"));
    assert_eq!(Arc::strong_count(&profiler), 1);
}
