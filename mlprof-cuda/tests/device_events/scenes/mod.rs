//! Scenes with device regions.

mod failures;
mod profilers;
mod timing;

use mlprof_core::report::SimpleReport;

/// Driver that a scene finds.
#[derive(Clone, Copy)]
pub enum WhichDriver {
    Fake,
    /// Driver without newer functions.
    Old,
    /// Driver without a required function.
    Ancient,
    /// Driver that counts and records no calls, and never fails.
    Lean,
    Missing,
    NoDevice,
}

pub struct Scene {
    pub name: &'static str,
    pub driver: WhichDriver,
    pub play: fn(),
}

const fn scene(name: &'static str, driver: WhichDriver, play: fn()) -> Scene {
    Scene { name, driver, play }
}

pub const ALL: &[Scene] = {
    use WhichDriver::{Ancient, Fake, Lean, Missing, NoDevice, Old};
    &[
        scene("durations", Fake, timing::durations),
        scene("durations with an old driver", Old, timing::durations),
        scene("nobody waits", Fake, timing::the_host_does_not_wait_for_the_device),
        scene("events are used again", Fake, timing::events_are_used_again),
        scene("two contexts", Fake, timing::two_contexts),
        scene("many threads", Fake, timing::many_threads),
        scene("cost", Lean, timing::cost),
        scene("stages", Fake, profilers::stages),
        scene("tables", Fake, profilers::tables),
        scene("actions", Fake, profilers::actions),
        scene("recorded steps", Fake, profilers::recorded_steps),
        scene("several profilers", Fake, profilers::several),
        scene("nobody listens", Fake, profilers::no_listener),
        scene("too many", Fake, failures::too_many),
        scene("each function fails", Fake, failures::each_function_fails),
        scene("captures", Fake, failures::captures),
        scene("no context", Fake, failures::no_context),
        scene("threads that die", Fake, failures::threads_that_die),
        scene("a panic", Fake, failures::a_panic),
        scene("a fork", Fake, failures::a_fork),
        scene("no driver", Missing, || failures::unusable("/nowhere/libcuda.so")),
        scene("no device", NoDevice, || {
            failures::unusable("cannot initialise the CUDA driver: cuInit: FAKE_ERROR_100")
        }),
        scene("too old a driver", Ancient, || {
            failures::unusable(
                "the CUDA driver is too old: it lacks the function cuDeviceTotalMem_v2",
            )
        }),
    ]
};

/// Returns the number of calls and the total, shortest and longest time of an action's regions, in
/// nanoseconds.
fn region(report: &SimpleReport, action: &str) -> Option<(u64, u64, u64, u64)> {
    let nanoseconds = |seconds: f64| (seconds * 1e9).round() as u64;
    let row = report.device_regions.iter().find(|row| row.action == action)?;
    let [total, min, max] = [row.total_seconds, row.min_seconds, row.max_seconds].map(nanoseconds);
    Some((row.calls, total, min, max))
}

/// Returns how often an action ran on the host.
fn host_calls(report: &SimpleReport, action: &str) -> u64 {
    let row = report.actions.iter().find(|row| row.action == action);
    row.map_or(0, |row| row.calls)
}

/// Returns `true` if a note of the report contains this text.
fn says(report: &SimpleReport, text: &str) -> bool {
    report.header.notes.iter().any(|note| note.contains(text))
}
