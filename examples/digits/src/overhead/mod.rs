//! Measures the cost of profiling per training step in one process, in three ways:
//!
//! 1. **Simple's own account**: the number of scopes in a step times the cost of a scope, which
//!    Simple measures in a tight loop for its header. The result is free of machine noise. It does
//!    not include cache effects: between the operations of a model, a scope costs more than in a
//!    loop.
//! 2. **Neighbouring steps**: within one epoch, every other step is recorded. Neighbouring steps
//!    run under the same machine conditions, so this method detects the smallest differences. The
//!    *control* records nothing in either kind of step. It would be 0 on a machine without noise.
//! 3. **Whole epochs in turn**: epochs without a profiler, with one that records nothing, and with
//!    Simple alternate. Each step is compared with the same step of another epoch in the same
//!    round.
//!
//! The comparison uses logarithms, whose median is 0 without a difference, even for skewed
//! distributions of step lengths. Each round, with one epoch of each kind, yields one value. The
//! result is the median of these values with a confidence interval. If the interval is wider than
//! the effect of interest, the measurement is inconclusive.

mod clock;
mod profilers;
mod results;
mod statistics;
mod trainer;

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mlprof_core::{NumericsProfiler, PassThroughProfiler, Profiler, SimpleProfiler};

pub use clock::Clock;
use profilers::{Counting, EveryOther, Nothing, Silent};
pub use results::Results;
pub use statistics::{Estimate, paired};
use statistics::{interquartile_range, median, neighbours};
pub use trainer::{TRAINER_STEP_BEGINS, trainer_epoch};

/// Number of steps at the beginning of an epoch that are ignored, because allocators and caches are
/// still cold. It is a multiple of 4, as [`neighbours`] requires.
const WARM_UP: usize = 4;

/// Options of a program that measures profiling overhead.
#[derive(Debug, Clone, clap::Parser)]
#[command(about = "Compare training steps with and without a profiler", long_about = None)]
pub struct OverheadOptions {
    /// Number of epochs of each kind
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Number of digits per step
    #[arg(long, default_value_t = 32)]
    pub batch_size: usize,
    /// Clock for the step times
    #[arg(long, value_enum, default_value_t)]
    pub clock: Clock,
    /// Also measure the cost of the numerics profiler
    #[arg(long)]
    pub numerics: bool,
    /// Write the figures to FILE as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Runs one epoch on a new network with this profiler and returns the length of each full step,
/// from fetch to fetch.
pub type Epoch<'a> = dyn Fn(Arc<dyn Profiler>) -> Result<Vec<Duration>, Box<dyn Error>> + 'a;

/// A training loop whose steps are compared.
pub struct Subject<'a> {
    /// Name of the framework in the results.
    pub framework: &'a str,
    /// The action that begins a step.
    pub step_begins: &'a str,
    /// Function that runs one epoch.
    pub epoch: &'a Epoch<'a>,
    /// `true` if the framework reports op outputs.
    pub tells_of_ops: bool,
    /// Additional ways to run an epoch with Simple, each with its name.
    pub besides: &'a [(&'a str, &'a Epoch<'a>)],
}

impl std::fmt::Debug for Subject<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Subject").finish_non_exhaustive()
    }
}

/// One way to run an epoch.
type Run<'a> = Box<dyn Fn() -> Result<Vec<f64>, Box<dyn Error>> + 'a>;

impl Subject<'_> {
    /// Measures, prints the results, and writes them to a file if requested.
    ///
    /// # Errors
    ///
    /// Returns an epoch's error, or an error if epochs are too short to compare or a file cannot be
    /// written.
    pub fn compare(&self, options: &OverheadOptions) -> Result<(), Box<dyn Error>> {
        let results = self.measure(options)?;
        print!("{results}");
        if let Some(file) = &options.json {
            results.write_json(file).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        Ok(())
    }

    /// Measures all kinds of epochs in turn, one round at a time.
    ///
    /// # Errors
    ///
    /// Returns an epoch's error, or an error if epochs are too short to compare.
    pub fn measure(&self, options: &OverheadOptions) -> Result<Results, Box<dyn Error>> {
        let load_before = results::load_average();
        let scopes_per_step = self.scopes_per_step()?;
        let kinds = self.kinds(options.numerics);
        let (mut plain, mut control, mut recorded) = (Vec::new(), Vec::new(), Vec::new());
        let mut shares = vec![Vec::new(); kinds.len()];
        for round in 0..options.rounds as usize {
            control.push(self.every_other(Arc::new(Nothing))?);
            recorded.push(self.every_other(Arc::new(SimpleProfiler::new()))?);
            let mut lengths = vec![Vec::new(); kinds.len()];
            // The first kind changes from round to round.
            for turn in 0..kinds.len() {
                let kind = (round + turn) % kinds.len();
                lengths[kind] = (kinds[kind].1)()?;
            }
            for (share, with) in shares.iter_mut().zip(&lengths) {
                share.push(paired(with, &lengths[0]));
            }
            plain.append(&mut lengths[0]);
            eprint!("\r{}: round {}/{}", self.framework, round + 1, options.rounds);
        }
        eprintln!();
        let seconds_per_scope = SimpleProfiler::new().snapshot().header.overhead.seconds_per_scope;
        let names = kinds.iter().map(|(name, _)| (*name).to_owned());
        Ok(Results {
            framework: self.framework.to_owned(),
            clock: options.clock,
            rounds: options.rounds,
            steps: plain.len(),
            step_us: median(&plain),
            step_quartiles_us: interquartile_range(&plain),
            scopes_per_step,
            ns_per_scope: seconds_per_scope * 1e9,
            control: Estimate::of(&control),
            neighbours: Estimate::of(&recorded),
            epochs: names.zip(shares.iter().map(|rounds| Estimate::of(rounds))).skip(1).collect(),
            load_average: load_before.zip(results::load_average()),
        })
    }

    /// Returns the kinds of whole epochs. The first kind is the baseline.
    fn kinds(&self, numerics: bool) -> Vec<(&str, Run<'_>)> {
        let kind = |epoch: &'_ Epoch<'_>, profiler: Arc<dyn Profiler>| full_steps(epoch, profiler);
        let simple = || Arc::new(Silent(SimpleProfiler::new()));
        let mut kinds: Vec<(&str, Run<'_>)> = vec![
            ("none", Box::new(move || kind(self.epoch, Arc::new(PassThroughProfiler)))),
            ("hooks only", Box::new(move || kind(self.epoch, Arc::new(Nothing)))),
            ("simple", Box::new(move || kind(self.epoch, simple()))),
        ];
        for (name, epoch) in self.besides {
            kinds.push((name, Box::new(move || kind(epoch, simple()))));
        }
        if numerics {
            let profiler =
                |every| Arc::new(Silent(NumericsProfiler::new().every(every).hash(false)));
            kinds.push(("numerics, watching", Box::new(move || kind(self.epoch, profiler(0)))));
            kinds.push(("numerics, each step", Box::new(move || kind(self.epoch, profiler(1)))));
            let hashed = || Arc::new(Silent(NumericsProfiler::new().every(1).hash(true)));
            kinds.push(("numerics, hashed", Box::new(move || kind(self.epoch, hashed()))));
        }
        if numerics && self.tells_of_ops {
            let profiler = |every| Arc::new(Silent(NumericsProfiler::new().every(every).ops(true)));
            kinds.push(("numerics, watching ops", Box::new(move || kind(self.epoch, profiler(0)))));
            kinds.push((
                "numerics, ops, each step",
                Box::new(move || kind(self.epoch, profiler(1))),
            ));
        }
        kinds
    }

    /// Returns the scopes per step, counted in a separate epoch that also warms up.
    fn scopes_per_step(&self) -> Result<f64, Box<dyn Error>> {
        let counting = Arc::new(Counting::new(self.step_begins));
        full_steps(self.epoch, counting.clone())?;
        Ok(counting.per_step())
    }

    /// Returns the relative cost that `profiler` adds to a step.
    fn every_other(&self, profiler: Arc<dyn Profiler>) -> Result<f64, Box<dyn Error>> {
        let profiler = Arc::new(EveryOther::new(self.step_begins, profiler));
        Ok(neighbours(&full_steps(self.epoch, profiler)?))
    }
}

/// Returns the step lengths of an epoch after the warm-up, in µs.
fn full_steps(epoch: &Epoch<'_>, profiler: Arc<dyn Profiler>) -> Result<Vec<f64>, Box<dyn Error>> {
    let steps = epoch(profiler)?;
    if steps.len() < WARM_UP + 2 {
        return Err(format!(
            "cannot compare steps: an epoch has {} full batches and the comparison needs {}; use \
             a smaller batch size",
            steps.len(),
            WARM_UP + 2
        )
        .into());
    }
    Ok(steps[WARM_UP..].iter().map(|step| step.as_secs_f64() * 1e6).collect())
}

#[cfg(test)]
mod tests;
