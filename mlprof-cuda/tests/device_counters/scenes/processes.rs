//! Scenes that fork, exit or block during sampling.

use std::sync::Arc;

use mlprof_core::tensor::Schedule;
use mlprof_core::watcher::devices_now;
use mlprof_core::{Profiler, ProfilerExt, RunContext, Session, Stage, TensorProfiler, profile};

use super::{counted, has_thread, record, until};

pub(super) fn forks_while_it_samples() {
    let profiler = Arc::new(TensorProfiler::new().without_schedule().export_trace(false));
    let session =
        Session::begin(profiler.clone(), Stage::Fit, &RunContext::default()).expect("a profiler");
    until("it samples", || has_thread() && counted("fake_utilization_calls") > 0);
    for round in 0..100 {
        let _scope = profiler.profile("fork");
        // SAFETY: the child runs only the following code and then terminates.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: the function takes an integer. The alarm terminates the child if it hangs.
            unsafe { libc::alarm(20) };
            // The child must not continue the parent's recording, so it pauses it and begins its
            // own.
            profiler.pause();
            let (report, _) = record(|profiler| {
                drop(profile!("in the child"));
                if round % 5 == 0 {
                    let note = "it was forked after its parent had loaded NVML";
                    until(note, || profiler.summary().contains(note));
                }
            });
            let is_well = report.device_counters.is_empty();
            match round % 2 {
                // SAFETY: `_exit` has no preconditions. It terminates the child without the
                // parent's exit handlers.
                0 => unsafe { libc::_exit(i32::from(!is_well)) },
                _ => std::process::exit(i32::from(!is_well)),
            }
        }
        let mut status = 0;
        // SAFETY: the function writes one integer to `status`, an initialised local.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "round {round}");
    }
    drop(session);
    let report = profiler.snapshot();
    assert!(report.device_counters[0].samples > 10);
}

/// Checks the exit during sampling. The fake library reports calls after its end.
pub(super) fn ends_while_it_samples() {
    let profiler = Arc::new(TensorProfiler::new().without_schedule().export_trace(false));
    let session = Session::begin(profiler, Stage::Fit, &RunContext::default()).expect("a profiler");
    until("it samples", || has_thread() && counted("fake_utilization_calls") > 1);
    std::mem::forget(session);
    std::process::exit(0);
}

/// Checks a device that never responds. The program must not wait for it between steps or at the
/// end of a stage. At its exit, it may wait for a limited time only.
pub(super) fn a_device_that_never_answers() {
    let schedule = Schedule::new().wait(0).warmup(1).active(1).repeat(0);
    let profiler = TensorProfiler::new().export_trace(false).schedule(schedule);
    let profiler = Arc::new(profiler);
    let session =
        Session::begin(profiler.clone(), Stage::Fit, &RunContext::default()).expect("a profiler");
    until("it is being asked", || counted("fake_utilization_calls") > 0);
    for _ in 0..20 {
        drop(profile!("step"));
        profiler.step();
    }
    drop(session);
    assert_eq!(counted("fake_utilization_calls"), 1, "it is being asked yet");
}

/// Checks that requests for current values return without values after a short time if the device
/// never responds. The process exit must not wait for the device either.
pub(super) fn asked_and_never_answers() {
    assert!(devices_now().is_empty());
    until("it is being asked", || counted("fake_utilization_calls") > 0);
    assert!(devices_now().is_empty());
    assert_eq!(counted("fake_utilization_calls"), 1, "it is being asked yet");
}
