//! Measures the collection cost per kernel.

use std::time::Instant;

use super::Shared;
use crate::gpu::{Gpu, Kernel};
use crate::options::Options;
use crate::outcome::Row;
use crate::python;
use crate::recording::{Plan, record};
use crate::statistics::{median, time};

/// Kernels per round; the script for torch uses the same number.
const KERNELS: u64 = 20_000;
/// Pairs of rounds, one without and one with collection.
const PAIRS: usize = 15;
const SCRIPT: &str = include_str!("../../python/overhead.py");

/// Costs in nanoseconds per kernel, as medians over all pairs.
struct Cost {
    /// Cost of a launch without collection.
    off: f64,
    /// Additional cost of a launch with collection.
    extra: f64,
    /// Time from the end of the recording to the report.
    report: f64,
}

pub fn run(options: &Options, shared: &mut Shared) -> Result<Vec<Row>, String> {
    let own = measure(shared.gpu()?)?;
    let measured = format!(
        "{} more than {} per launch; {} per kernel until the report",
        time(own.extra),
        time(own.off),
        time(own.report)
    );
    let mut rows = vec![Row::info("overhead per kernel", measured)];
    let name = "overhead and torch.profiler";
    rows.push(match python::with_torch(options) {
        Err(why) => Row::not_run(name, why),
        Ok(python) => {
            let answer = python::ask(&python, SCRIPT, &[])?;
            let extra = python::number(&answer, "extra")?;
            let report = python::number(&answer, "report")?;
            let off = python::number(&answer, "off")?;
            let measured = format!(
                "torch.profiler (CPU and CUDA; counts each launch as an op): {} more than {} per \
                 launch; {} per kernel until the table",
                time(extra),
                time(off),
                time(report)
            );
            let is_good = own.extra <= extra && own.report <= report;
            Row::decided(name, measured, "at most that of torch.profiler", is_good)
        }
    });
    Ok(rows)
}

/// Returns the time per launch in nanoseconds, including the execution of all kernels.
fn launches(gpu: &Gpu) -> Result<f64, String> {
    let began = Instant::now();
    gpu.launch(Kernel::Empty, KERNELS)?;
    gpu.wait()?;
    Ok(began.elapsed().as_secs_f64() * 1e9 / KERNELS as f64)
}

fn measure(gpu: &Gpu) -> Result<Cost, String> {
    let (mut off, mut extra, mut report) = (Vec::new(), Vec::new(), Vec::new());
    // The first pair is a warm-up and is not counted.
    for pair in 0..=PAIRS {
        let without = launches(gpu)?;
        let mut with = 0.0;
        let recorded = record(Plan::default(), |_| {
            with = launches(gpu)?;
            Ok(())
        })?;
        let kernels = recorded.recording.kernels;
        if kernels != KERNELS {
            return Err(format!("collected {kernels} of {KERNELS} kernels"));
        }
        if pair > 0 {
            off.push(without);
            extra.push(with - without);
            report.push(recorded.seconds_to_report * 1e9 / KERNELS as f64);
        }
    }
    Ok(Cost { off: median(&off), extra: median(&extra), report: median(&report) })
}
