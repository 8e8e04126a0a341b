//! What profiling costs a training step, measured in one process.
//!
//! First inside one fit, where every other step is recorded and the one after it is not: neighbours
//! meet the same machine, so a share far below its noise can be seen. Then the same epoch again and again,
//! in turn without a profiler, under one that records nothing, under `simple`, and with the metrics'
//! thread measured as a whole besides.
//!
//! `cargo run --release -p burn-digits --bin overhead -- --rounds 20`

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::optim::AdamConfig;
use burn::optim::lr_scheduler::constant::ConstantLr;
use burn::tensor::Device;
use burn::train::metric::{AccuracyMetric, LossMetric};
use burn::train::{Learner, SupervisedTraining};
use burn_digits::data::{Batch, Digit, Splits, loader, splits};
use burn_digits::model::DigitNet;
use burn_digits::progress::Quiet;
use burn_plugin::prelude::*;
use clap::Parser;
use profiler_core::{Action, NeverStarted, PassThroughProfiler};

/// Compares training steps with and without a profiler.
#[derive(Parser)]
struct Options {
    /// Epochs of each kind.
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    #[arg(long, default_value_t = 32)]
    batch_size: usize,
}

/// Wants all actions and records none: what remains is the cost of the hooks.
struct Nothing;

impl Profiler for Nothing {
    fn start(&self, _action: Action) {}
    fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
        Ok(())
    }
    fn describe(&self) {}
}

/// Simple, without its report.
struct Silent(SimpleProfiler);

impl Profiler for Silent {
    fn start(&self, action: Action) {
        self.0.start(action);
    }
    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        self.0.stop(action)
    }
    fn describe(&self) {}
}

/// Simple for every other step, nothing for the others.
struct EveryOther {
    simple: SimpleProfiler,
    next: Action,
    steps: AtomicUsize,
}

impl EveryOther {
    fn new() -> Self {
        let next = Action::new(burn_plugin::actions::TRAIN_DATALOADER_NEXT);
        Self { simple: SimpleProfiler::new(), next, steps: AtomicUsize::new(0) }
    }

    fn records(&self) -> bool {
        self.steps.load(Ordering::Relaxed).is_multiple_of(2)
    }
}

impl Profiler for EveryOther {
    fn start(&self, action: Action) {
        // A step begins with fetching its batch.
        if action == self.next {
            self.steps.fetch_add(1, Ordering::Relaxed);
        }
        if self.records() {
            self.simple.start(action);
        }
    }
    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        if self.records() { self.simple.stop(action) } else { Ok(()) }
    }
    fn describe(&self) {}
}

impl EveryOther {
    /// What Simple itself says about its cost: it counts its scopes and times one, so that no
    /// noise of the machine is in it.
    fn own_account(&self) {
        let overhead = self.simple.snapshot().header.overhead;
        let steps = self.steps.load(Ordering::Relaxed).div_ceil(2);
        let per_step = overhead.scopes as f64 / steps as f64;
        println!(
            "by its own account: {per_step:.1} scopes per step of {:.1} ns each",
            overhead.seconds_per_scope * 1e9
        );
    }
}

/// Notes the time whenever a batch is asked for: from one to the next is a step.
struct Clocked {
    loader: Arc<dyn DataLoader<Batch>>,
    times: Arc<Mutex<Vec<Instant>>>,
}

struct ClockedIterator<'a> {
    batches: Box<dyn DataLoaderIterator<Batch> + 'a>,
    times: &'a Mutex<Vec<Instant>>,
}

impl DataLoader<Batch> for Clocked {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<Batch> + 'a> {
        Box::new(ClockedIterator { batches: self.loader.iter(), times: &self.times })
    }
    fn num_items(&self) -> usize {
        self.loader.num_items()
    }
    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<Batch>> {
        Arc::new(Self { loader: self.loader.to_device(device), times: self.times.clone() })
    }
    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<Batch>> {
        Arc::new(Self { loader: self.loader.slice(start, end), times: self.times.clone() })
    }
}

impl Iterator for ClockedIterator<'_> {
    type Item = Result<Batch, DatasetError>;
    fn next(&mut self) -> Option<Self::Item> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
        self.batches.next()
    }
}

impl DataLoaderIterator<Batch> for ClockedIterator<'_> {
    fn progress(&self) -> Progress {
        self.batches.progress()
    }
}

/// The length of each step of one epoch.
fn epoch(
    train: &[Digit],
    batch_size: usize,
    (profiler, measures_event_thread): (Arc<dyn Profiler>, bool),
) -> Result<Vec<Duration>, Box<dyn Error>> {
    let device = Device::flex().autodiff();
    device.seed(1);
    let times = Arc::<Mutex<Vec<Instant>>>::default();
    let loader_of = |digits: &[Digit]| loader(digits.to_vec(), batch_size, None);
    let clocked = Arc::new(Clocked { loader: loader_of(train), times: times.clone() });
    let directory = tempfile::tempdir()?;
    let training = SupervisedTraining::new(directory.path(), clocked, loader_of(&train[..1]))
        .with_application_logger(None)
        .profiler(profiler)?
        .metrics((LossMetric::new(), AccuracyMetric::new()))
        .renderer(Box::new(Quiet))
        .measure_event_thread(measures_event_thread);
    let learner =
        Learner::new(DigitNet::new(&device), AdamConfig::new().init(), ConstantLr::from(1e-3));
    if let Some(error) = training.launch(learner).error {
        return Err(error.to_string().into());
    }
    let times = times.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(times.windows(2).map(|pair| pair[1] - pair[0]).collect())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Steps that are recorded against those beside them that are not.
fn neighbours(train: &[Digit], options: &Options) -> Result<(), Box<dyn Error>> {
    let (mut without, mut shares) = (Vec::new(), Vec::new());
    for round in 1..=options.rounds {
        let profiler = Arc::new(EveryOther::new());
        let steps = epoch(train, options.batch_size, (profiler.clone(), false))?;
        if round == options.rounds {
            profiler.own_account();
        }
        let steps: Vec<f64> = steps.iter().map(|step| step.as_secs_f64() * 1e6).collect();
        // The clock runs from fetch to fetch, and the first step (number 1) is not recorded. Each
        // recorded one is held against the mean of its two neighbours.
        for triple in steps.windows(3).step_by(2) {
            without.push(triple[0]);
            shares.push(triple[1] / ((triple[0] + triple[2]) / 2.0) - 1.0);
        }
    }
    println!(
        "every other step recorded by simple: median step {:.1} µs, recorded ones {:+.3} % \
         ({} pairs)",
        median(without),
        median(shares.clone()) * 100.0,
        shares.len(),
    );
    Ok(())
}

/// Makes a profiler, and says whether the event thread is measured besides.
type Make<'a> = &'a dyn Fn() -> (Arc<dyn Profiler>, bool);

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let Splits { train, .. } = splits(1)?;
    neighbours(&train, &options)?;
    let simple = || -> Arc<dyn Profiler> { Arc::new(Silent(SimpleProfiler::new())) };
    let make: [(&str, Make<'_>); 4] = [
        ("none", &|| (Arc::new(PassThroughProfiler), false)),
        ("hooks only", &|| (Arc::new(Nothing), false)),
        ("simple", &|| (simple(), false)),
        ("simple, and the event thread", &|| (simple(), true)),
    ];
    let mut steps: [Vec<f64>; 4] = Default::default();
    epoch(&train, options.batch_size, make[0].1())?; // warm up
    for round in 0..options.rounds {
        // Who comes first changes from round to round.
        for turn in 0..make.len() {
            let kind = (round + turn) % make.len();
            let lengths = epoch(&train, options.batch_size, make[kind].1())?;
            steps[kind].extend(lengths.iter().map(|length| length.as_secs_f64() * 1e6));
        }
        eprint!("\rround {}/{}", round + 1, options.rounds);
    }
    eprintln!();
    println!(
        "{:<30} {:>8} {:>16} {:>22}",
        "profiler", "steps", "median step (µs)", "against none (paired)"
    );
    for (kind, (name, _)) in make.iter().enumerate() {
        // The same step of the same round, with and without.
        let pairs = steps[kind].iter().zip(&steps[0]).map(|(with, without)| with / without - 1.0);
        let share = median(pairs.collect()) * 100.0;
        let count = steps[kind].len();
        println!("{name:<30} {count:>8} {:>16.1} {share:>20.3} %", median(steps[kind].clone()));
    }
    Ok(())
}
