//! What profiling costs a training step, measured in one process and three ways:
//!
//! 1. **Simple's own account**: the scopes of a step, counted, times the cost of one, which Simple
//!    finds in a tight loop when it makes its header. No noise of the machine is in it; that a
//!    scope costs more between the operations of a model, which take its place in the caches, is
//!    not in it either.
//! 2. **Neighbouring steps**: within one epoch every other step is recorded. Neighbours meet the
//!    same machine, so this sees the smallest differences. Beside it the *control*: the same with
//!    nothing recorded, which would be 0 on a machine without noise.
//! 3. **Whole epochs in turn**: without a profiler, under one that records nothing, under Simple.
//!    Each step is compared with the same step of the same round.
//!
//! Compared are logarithms, whose median is 0 if nothing differs, however skewed the lengths of
//! steps are. Each round (one epoch of each kind) gives one figure; the result is their median,
//! and its interval says how far noise may have moved it. An interval wider than what is looked
//! for means that nothing has been shown.

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

/// Steps at the beginning of an epoch that count for nothing: allocators and caches fill. A
/// multiple of 4, as [`neighbours`] asks for.
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

/// Runs one epoch on a new network under this profiler, and gives the length of each full step,
/// from fetch to fetch.
pub type Epoch<'a> = dyn Fn(Arc<dyn Profiler>) -> Result<Vec<Duration>, Box<dyn Error>> + 'a;

/// A training loop whose steps are compared.
pub struct Subject<'a> {
    /// What it is called in results.
    pub framework: &'a str,
    /// The action that begins a step.
    pub step_begins: &'a str,
    /// One epoch.
    pub epoch: &'a Epoch<'a>,
    /// Whether its framework tells what ops return.
    pub tells_of_ops: bool,
    /// More ways to run an epoch under Simple, each with its name.
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
    /// Measures, prints the results, and writes them if that was asked for.
    ///
    /// # Errors
    ///
    /// What an epoch returned; epochs too short to compare; a file that cannot be written.
    pub fn compare(&self, options: &OverheadOptions) -> Result<(), Box<dyn Error>> {
        let results = self.measure(options)?;
        print!("{results}");
        if let Some(file) = &options.json {
            results.write_json(file).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        Ok(())
    }

    /// Measures. What is measured takes turns, a round at a time.
    ///
    /// # Errors
    ///
    /// What an epoch returned; epochs too short to compare.
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
            // Who comes first changes from round to round.
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

    /// The kinds of whole epochs: first the one that the others are compared with.
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

    /// Counted in an epoch of its own, which also warms up.
    fn scopes_per_step(&self) -> Result<f64, Box<dyn Error>> {
        let counting = Arc::new(Counting::new(self.step_begins));
        full_steps(self.epoch, counting.clone())?;
        Ok(counting.per_step())
    }

    /// The share that `profiler` adds to a step.
    fn every_other(&self, profiler: Arc<dyn Profiler>) -> Result<f64, Box<dyn Error>> {
        let profiler = Arc::new(EveryOther::new(self.step_begins, profiler));
        Ok(neighbours(&full_steps(self.epoch, profiler)?))
    }
}

/// The steps of an epoch after the warm-up, in µs.
fn full_steps(epoch: &Epoch<'_>, profiler: Arc<dyn Profiler>) -> Result<Vec<f64>, Box<dyn Error>> {
    let steps = epoch(profiler)?;
    if steps.len() < WARM_UP + 2 {
        return Err(format!(
            "an epoch of {} full steps is too short to compare: it takes {}, so use a smaller batch",
            steps.len(),
            WARM_UP + 2
        )
        .into());
    }
    Ok(steps[WARM_UP..].iter().map(|step| step.as_secs_f64() * 1e6).collect())
}

#[cfg(test)]
mod tests;
