//! Exact event simulator of a training with a loader thread, a training thread and two streams.
//!
//! Times are in nanoseconds. A launch takes effect when its call ends, and its kernel begins after
//! a fixed latency at the earliest. A stream runs kernels in launch order, without gaps. The loader
//! decodes one batch after the other, at most two ahead of the training.

use proptest::prelude::*;

use crate::synthetic::{MAIN, OTHER, with};

/// Work of the training thread.
#[derive(Debug, Clone, Copy)]
pub enum Task {
    /// An op of the host with this multiple of the usual duration.
    Op(i64),
    /// A launch on a stream of a kernel with this multiple of the usual duration.
    Launch(usize, i64),
    /// A wait for a stream.
    Synchronize(usize),
}

/// Steps of a training. Each has a multiple of the usual decoding time, and its tasks.
pub type Plan = Vec<(i64, Vec<Task>)>;

/// Returns random trainings.
pub fn plan() -> impl Strategy<Value = Plan> {
    let task = prop_oneof![
        (1_i64..5).prop_map(Task::Op),
        (0_usize..2, 1_i64..6).prop_map(|(stream, units)| Task::Launch(stream, units)),
        (0_usize..2).prop_map(Task::Synchronize),
    ];
    let step = (1_i64..6, proptest::collection::vec(task, 0..12));
    proptest::collection::vec(step, 1..6)
}

/// Durations of one unit of work in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Durations {
    pub op: i64,
    pub kernel: i64,
    pub decode: i64,
}

impl Default for Durations {
    fn default() -> Self {
        Self { op: 40_000, kernel: 60_000, decode: 90_000 }
    }
}

const CALL: i64 = 4_000;
const LATENCY: i64 = 6_000;
const RETURN: i64 = 2_000;
const RECEIVE: i64 = 1_000;
/// Number of batches that the loader decodes in advance.
const AHEAD: usize = 2;

/// Result of a simulation.
#[derive(Debug, Default)]
pub struct Simulation {
    pub events: Vec<String>,
    /// Duration of each step.
    pub steps: Vec<i64>,
}

impl Simulation {
    fn slice(&mut self, place: (u32, u32), category: &str, name: &str, span: (i64, i64), id: u32) {
        let args = format!(r#"{{"correlation":{id}}}"#);
        let times = (span.0 as f64 / 1e3, (span.1 - span.0) as f64 / 1e3);
        self.events.push(with(place, category, name, times, &args));
    }

    fn arrow(&mut self, id: usize, from: (u32, i64), to: (u32, i64)) {
        for (ph, (thread, time)) in [("s", from), ("f", to)] {
            let (pid, time) = (MAIN.0, time as f64 / 1e3);
            self.events.push(format!(
                r#"{{"ph":"{ph}","cat":"hand_over","name":"batch","id":{id},"pid":{pid},"tid":{thread},"ts":{time:.3},"bp":"e"}}"#
            ));
        }
    }
}

/// Runs a training and records its trace.
pub fn simulate(plan: &Plan, durations: &Durations) -> Simulation {
    let mut run = Simulation::default();
    let (mut now, mut loaded) = (0_i64, 0_i64);
    let mut streams = [0_i64; 2];
    let mut received: Vec<(i64, i64)> = Vec::new();
    let mut correlation = 0;
    for (number, (units, tasks)) in plan.iter().enumerate() {
        let begun = now;
        // An arrow is tied to the slice that begins at its time, so no two may begin together.
        now += RECEIVE;
        // The loader continues when its channel has room.
        let room = number.checked_sub(AHEAD).map(|batch| received[batch]);
        let start = loaded.max(room.map_or(0, |(_, end)| end));
        loaded = start + units * durations.decode;
        run.slice(OTHER, "cpu_op", "decode", (start, loaded), 0);
        if let Some((begin, _)) = room {
            run.arrow(2 * number + 1, (MAIN.1, begin), (OTHER.1, start));
        }
        let end = now.max(loaded) + RECEIVE;
        received.push((now, end));
        run.slice(MAIN, "user_annotation", "train_dataloader_next", (now, end), 0);
        run.arrow(2 * number + 2, (OTHER.1, start), (MAIN.1, now));
        now = end;
        for task in tasks {
            match *task {
                Task::Op(units) => {
                    let end = now + units * durations.op;
                    run.slice(MAIN, "cpu_op", "relu", (now, end), 0);
                    now = end;
                }
                Task::Launch(stream, units) => {
                    correlation += 1;
                    let place = (0, 7 + stream as u32);
                    let launched = now + CALL;
                    run.slice(
                        MAIN,
                        "cuda_runtime",
                        "cudaLaunchKernel",
                        (now, launched),
                        correlation,
                    );
                    let start = streams[stream].max(launched + LATENCY);
                    streams[stream] = start + units * durations.kernel;
                    run.slice(place, "kernel", "gemm", (start, streams[stream]), correlation);
                    now = launched;
                }
                Task::Synchronize(stream) => {
                    correlation += 1;
                    let end = now.max(streams[stream]) + RETURN;
                    let name = "cudaStreamSynchronize";
                    run.slice(MAIN, "cuda_runtime", name, (now, end), correlation);
                    let args =
                        format!(r#"{{"correlation":{correlation},"stream":{}}}"#, 7 + stream);
                    let times = (now as f64 / 1e3, (end - now) as f64 / 1e3);
                    let place = (0, 7 + stream as u32);
                    run.events.push(with(place, "cuda_sync", "Stream Sync", times, &args));
                    now = end;
                }
            }
        }
        now += RECEIVE;
        let name = format!("ProfilerStep#{}", number + 1);
        run.slice(MAIN, "user_annotation", &name, (begun, now), 0);
        run.steps.push(now - begun);
    }
    run
}
