//! Measures the cost of monitoring a training, compared with the same training without monitoring.
//!
//! `cargo xtask bench live`
//!
//! Three processes train the same network on the same batches in turn:
//!
//! - a process without monitoring (the baseline)
//! - another process without monitoring, which shows the noise
//! - a process with `MLPROF_LIVE=1`
//!
//! In a turn, one process runs several steps while the others wait. It is not monitored, followed
//! by `mlprof top`, or recorded by `mlprof record`. Immediately before, the baseline process runs
//! the same number of steps. The turn's value is the median over steps of the ratio to the same
//! step of the baseline. The order changes from round to round.
//!
//! Steps that wait for a hook to be enabled run before the timed steps. The trace is written after
//! them and uses a separate core.

mod training;
mod ways;

use std::path::PathBuf;

use clap::Parser;
use digits::overhead::{Clock, Estimate};
use mlprof_tch::prelude::TrainResult;
use ways::{Measured, Way};

#[derive(Parser)]
#[command(about = "Compare training steps with and without live inspection", long_about = None)]
struct Options {
    /// Path of the command `mlprof`, which inspects the training
    #[arg(long, value_name = "FILE", required_unless_present = "trains")]
    mlprof: Option<PathBuf>,
    /// Number of turns of each way to inspect
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,
    /// Number of training steps per turn
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    steps: u64,
    /// Clock for the step times
    #[arg(long, value_enum, default_value_t)]
    clock: Clock,
    /// Write the figures to FILE as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Train, controlled by standard input
    #[arg(long, hide = true)]
    trains: bool,
}

fn main() -> TrainResult<()> {
    let options = Options::parse();
    if options.trains {
        return training::obey(options.clock);
    }
    let mlprof = options.mlprof.as_deref().unwrap_or("mlprof".as_ref());
    let measured = ways::measure(mlprof, options.clock, options.rounds, options.steps)?;
    print!("{}", table(&measured, &options));
    if let Some(file) = &options.json {
        let figures = serde_json::json!({
            "clock": options.clock.to_string(),
            "rounds": options.rounds,
            "steps": options.steps,
            "step_us": measured.step_us,
            "ways": measured.ways.iter().map(|(way, estimate)| figure(way, estimate)).collect::<Vec<_>>(),
        });
        std::fs::write(file, format!("{figures:#}\n"))
            .map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

fn figure(way: &Way, estimate: &Estimate) -> serde_json::Value {
    let (low, high) = estimate.interval.unzip();
    serde_json::json!({"way": way.name, "share": estimate.median, "low": low, "high": high})
}

fn table(measured: &Measured, options: &Options) -> String {
    let Options { rounds, steps, clock, .. } = options;
    let mut text = format!(
        "an unobserved step: {:.0} µs (median, {clock} time); {rounds} rounds of {steps} steps \
         each\n\n",
        measured.step_us
    );
    text += &format!("{:<42} {:>10} {:>22}\n", "", "longer", "95 % interval");
    for (way, estimate) in &measured.ways {
        let interval = match estimate.interval {
            Some((low, high)) => format!("{:+.2} % to {:+.2} %", low * 100.0, high * 100.0),
            None => "too few rounds".to_owned(),
        };
        text += &format!("{:<42} {:>+8.2} % {interval:>22}\n", way.name, estimate.median * 100.0);
    }
    text
}
