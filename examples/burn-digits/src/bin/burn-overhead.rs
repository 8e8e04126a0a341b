//! Measures the cost of profiling per training step with burn, as described in
//! [`digits::overhead`]. It also measures the cost of measuring the event thread.
//!
//! `cargo run --release -p burn-digits --bin burn-overhead -- --rounds 20`

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

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
use clap::Parser;
use digits::overhead::{Clock, OverheadOptions, Subject};
use mlprof_burn::prelude::*;

/// Records the time of every batch request. The time between two requests is the length of a step.
struct Clocked {
    loader: Arc<dyn DataLoader<Batch>>,
    clock: Clock,
    times: Arc<Mutex<Vec<Duration>>>,
}

impl Clocked {
    /// Wraps another loader with the same clock.
    fn around(&self, loader: Arc<dyn DataLoader<Batch>>) -> Arc<dyn DataLoader<Batch>> {
        Arc::new(Self { loader, clock: self.clock, times: self.times.clone() })
    }
}

struct ClockedIterator<'a> {
    batches: Box<dyn DataLoaderIterator<Batch> + 'a>,
    clock: Clock,
    times: &'a Mutex<Vec<Duration>>,
}

impl DataLoader<Batch> for Clocked {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<Batch> + 'a> {
        let batches = self.loader.iter();
        Box::new(ClockedIterator { batches, clock: self.clock, times: &self.times })
    }
    fn num_items(&self) -> usize {
        self.loader.num_items()
    }
    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<Batch>> {
        self.around(self.loader.to_device(device))
    }
    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<Batch>> {
        self.around(self.loader.slice(start, end))
    }
}

impl Iterator for ClockedIterator<'_> {
    type Item = Result<Batch, DatasetError>;
    fn next(&mut self) -> Option<Self::Item> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner).push(self.clock.now());
        self.batches.next()
    }
}

impl DataLoaderIterator<Batch> for ClockedIterator<'_> {
    fn progress(&self) -> Progress {
        self.batches.progress()
    }
}

/// Runs one epoch and returns the length of each step.
fn epoch(
    train: &[Digit],
    options: &OverheadOptions,
    profiler: Arc<dyn Profiler>,
    measures_event_thread: bool,
) -> Result<Vec<Duration>, Box<dyn Error>> {
    let device = Device::flex().autodiff();
    device.seed(1);
    let times = Arc::<Mutex<Vec<Duration>>>::default();
    let loader_of = |digits: &[Digit]| loader(digits.to_vec(), options.batch_size, None);
    let clocked = Clocked { loader: loader_of(train), clock: options.clock, times: times.clone() };
    let directory = tempfile::tempdir()?;
    let training =
        SupervisedTraining::new(directory.path(), Arc::new(clocked), loader_of(&train[..1]))
            .with_application_logger(None)
            .profiler(profiler)
            .metrics((LossMetric::new(), AccuracyMetric::new()))
            .renderer(Box::new(Quiet::new()))
            .measure_event_thread(measures_event_thread);
    let learner =
        Learner::new(DigitNet::new(&device), AdamConfig::new().init(), ConstantLr::from(1e-3));
    if let Some(error) = training.launch(learner)?.error {
        return Err(error.to_string().into());
    }
    let times = times.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(times.windows(2).map(|pair| pair[1] - pair[0]).collect())
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = OverheadOptions::parse();
    let Splits { train, .. } = splits(1)?;
    let subject = Subject {
        framework: "burn",
        step_begins: mlprof_burn::actions::TRAIN_DATALOADER_NEXT,
        epoch: &|profiler| epoch(&train, &options, profiler, false),
        tells_of_ops: false,
        besides: &[("simple, and the event thread", &|profiler| {
            epoch(&train, &options, profiler, true)
        })],
    };
    subject.compare(&options)
}
