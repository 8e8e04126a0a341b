//! Measures the cost of recording ops, compared with torch's own profiler (Kineto) in the same
//! process.
//!
//! `cargo xtask run tch-digits --features kineto --bin tch-ops-overhead`
//!
//! 1. **Cost per op**: measured on a tiny network, which has many ops and little work per op. The
//!    combinations run in turn. A turn's cost is its additional time compared with the unrecorded
//!    turn of the same round. Kineto does much of its work after the end of a recording, which is
//!    not included. Empty callbacks show libtorch's own cost, which is part of all other values.
//! 2. **From the end to the written trace**: measured for the same number of events.
//! 3. **Agreement**: the durations that both profilers report for each op of the digits network in
//!    the same steps.

mod agreement;
mod costs;
mod tiny;
mod traces;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::Parser;
use digits::overhead::Clock;
use mlprof_core::ActionKind;
use mlprof_core::tensor::TensorProfiler;
use mlprof_tch::kineto::{Kineto, Running};
use mlprof_tch::prelude::TrainResult;

#[derive(Parser)]
#[command(about = "Compare the costs of recording ops with those of Kineto", long_about = None)]
struct Options {
    /// Number of turns of each way to record
    #[arg(long, default_value_t = 31, value_parser = at_least_one)]
    rounds: usize,
    /// Number of training steps per turn
    #[arg(long, default_value_t = 100, value_parser = at_least_one)]
    steps: usize,
    /// Number of steps in a written trace
    #[arg(long, default_value_t = 2000, value_parser = at_least_one)]
    trace_steps: usize,
    /// Clock for the costs
    #[arg(long, value_enum, default_value_t)]
    clock: Clock,
    /// Run only one way to record, such as "mlprof, shapes", for tools that count instructions
    #[arg(long, value_name = "WAY")]
    only: Option<String>,
    /// Write the figures to FILE as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("use 1 or more".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

/// Names and durations of ops, in nanoseconds.
#[derive(Clone, Default)]
struct Ops(Arc<Mutex<Vec<(&'static str, u64)>>>);

impl Ops {
    fn lock(&self) -> MutexGuard<'_, Vec<(&'static str, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a profiler that records from its activation to its teardown and keeps only `ops`.
fn profiler([shapes, inputs, memory]: [bool; 3], ops: &Ops) -> Arc<TensorProfiler> {
    let target = ops.clone();
    let profiler = TensorProfiler::new().without_schedule().on_trace_ready(move |cycle| {
        let events = cycle.tracks().iter().flat_map(|track| track.events());
        let ops = events.filter(|event| event.action.kind() == ActionKind::Op);
        target
            .lock()
            .extend(ops.map(|op| (op.action.name(), cycle.nanoseconds_between(op.start, op.end))));
    });
    Arc::new(profiler.record_shapes(shapes).record_inputs(inputs).profile_memory(memory))
}

fn start_kineto(shapes: bool, memory: bool) -> TrainResult<Running> {
    let kineto = Kineto { shapes, memory, all_threads: false };
    kineto.start().ok_or_else(|| "cannot start Kineto".into())
}

/// Returns the median, or 0 without values.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn main() -> TrainResult<()> {
    let options = Options::parse();
    // The example program uses the same setting.
    tch::set_num_threads(1);
    if let Some(way) = &options.only {
        return costs::repeat(way, &options);
    }
    let costs = costs::measure(&options)?;
    print!("{costs}");
    let traces = traces::measure(&options)?;
    print!("\n{traces}");
    let agreement = agreement::measure()?;
    print!("\n{agreement}");
    if let Some(file) = &options.json {
        let figures = serde_json::json!({
            "clock": options.clock.to_string(),
            "rounds": options.rounds,
            "ns_per_op": costs.figures(),
            "stop_to_trace_ms": traces.figures(),
            "largest_difference_of_totals": agreement.largest(),
        });
        std::fs::write(file, format!("{figures:#}\n"))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}
