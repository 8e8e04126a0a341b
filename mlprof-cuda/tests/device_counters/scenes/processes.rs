//! What a process does meanwhile.

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
        // SAFETY: the child records something and ends.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: ends the child if it hangs.
            unsafe { libc::alarm(20) };
            // What the parent records is none of the child's: a recording of its own begins.
            profiler.pause();
            let (report, _) = record(|profiler| {
                drop(profile!("in the child"));
                if round % 5 == 0 {
                    let note = "it was forked after NVML was loaded";
                    until(note, || profiler.summary().contains(note));
                }
            });
            let is_well = report.device_counters.is_empty();
            match round % 2 {
                // SAFETY: ends the child without what the parent does at its end.
                0 => unsafe { libc::_exit(i32::from(!is_well)) },
                _ => std::process::exit(i32::from(!is_well)),
            }
        }
        let mut status = 0;
        // SAFETY: room for the status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "round {round}");
    }
    drop(session);
    let report = profiler.snapshot();
    assert!(report.device_counters[0].samples > 10);
}

/// The library says if it is used after its end.
pub(super) fn ends_while_it_samples() {
    let profiler = Arc::new(TensorProfiler::new().without_schedule().export_trace(false));
    let session = Session::begin(profiler, Stage::Fit, &RunContext::default()).expect("a profiler");
    until("it samples", || has_thread() && counted("fake_utilization_calls") > 1);
    std::mem::forget(session);
    std::process::exit(0);
}

/// The program does not wait for it, neither between steps nor at the end of a stage, nor without end at
/// its own: whoever did would hang.
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

/// Whoever asks hears nothing, each time after a moment, and not for ever; nor does the end of the process wait.
pub(super) fn asked_and_never_answers() {
    assert!(devices_now().is_empty());
    until("it is being asked", || counted("fake_utilization_calls") > 0);
    assert!(devices_now().is_empty());
    assert_eq!(counted("fake_utilization_calls"), 1, "it is being asked yet");
}
