//! Recorded cycles with known content.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mlprof_core::hook::{DeviceEvent, OpStart, Timestamp};
use mlprof_core::tensor::Cycle;
use mlprof_core::{Action, ActionKind, Profiler, RunContext, Stage, TensorProfiler};

/// Runs `program` as a stage that is fully recorded. Returns the result of `read` for the cycle.
pub fn read<T: Send + 'static>(
    program: impl FnOnce(&TensorProfiler),
    read: impl Fn(&Cycle) -> T + Send + Sync + 'static,
) -> T {
    read_run(&RunContext::default(), program, read)
}

/// Works like [`read`] for a given rank.
pub fn read_run<T: Send + 'static>(
    run: &RunContext,
    program: impl FnOnce(&TensorProfiler),
    read: impl Fn(&Cycle) -> T + Send + Sync + 'static,
) -> T {
    let result = Arc::new(Mutex::new(None));
    let place = result.clone();
    let profiler = TensorProfiler::new()
        .without_schedule()
        .profile_memory(true)
        .on_trace_ready(move |cycle| *place.lock().expect("no panic") = Some(read(cycle)));
    profiler.setup(Stage::Fit, run);
    program(&profiler);
    profiler.teardown(None);
    result.lock().expect("no panic").take().expect("one cycle is over")
}

/// Returns the trace of `program` as text.
pub fn trace(program: impl FnOnce(&TensorProfiler)) -> String {
    read(program, text)
}

/// Returns the trace of a cycle as text.
pub fn text(cycle: &Cycle) -> String {
    let mut trace = Vec::new();
    mlprof_core::trace::kineto::write(cycle, "trace", &mut trace).expect("memory takes all");
    String::from_utf8(trace).expect("JSON is text")
}

/// Runs `inside` within an op with this name.
pub fn op(profiler: &dyn Profiler, name: &str, inside: impl FnOnce()) {
    run(profiler, &OpStart::new(Action::op(name)), inside);
}

/// Runs `inside` within the op `op`.
pub fn run(profiler: &dyn Profiler, op: &OpStart<'_>, inside: impl FnOnce()) {
    profiler.start_op(op);
    inside();
    profiler.stop(op.action).expect("it was started");
}

/// Runs `inside` within an action.
pub fn action(profiler: &dyn Profiler, name: &str, inside: impl FnOnce()) {
    let action = Action::new(name);
    profiler.start(action);
    inside();
    profiler.stop(action).expect("it was started");
}

/// Spins for at least this time.
pub fn spin(microseconds: u64) {
    let start = std::time::Instant::now();
    while start.elapsed().as_micros() < u128::from(microseconds) {
        std::hint::spin_loop();
    }
}

/// Returns a kernel that began this long after `from`, or before it if negative, with this
/// duration.
pub fn kernel(
    name: &str,
    correlation: u32,
    from: Instant,
    after_us: i64,
    took_us: u64,
) -> DeviceEvent {
    let offset = Duration::from_micros(after_us.unsigned_abs());
    let start = if after_us < 0 { from - offset } else { from + offset };
    let action = Action::of_kind(ActionKind::Kernel, name, None);
    let end = Timestamp::at(start + Duration::from_micros(took_us));
    DeviceEvent { correlation, ..DeviceEvent::new(action, Timestamp::at(start), end) }
}
