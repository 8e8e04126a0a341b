//! A custom profiler that records the first start and the number of calls of each action.
//!
//! `cargo run --release -p burn-digits --bin custom-profiler`

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

use burn::optim::AdamConfig;
use burn::optim::lr_scheduler::constant::ConstantLr;
use burn::tensor::Device;
use burn::train::metric::LossMetric;
use burn::train::{Learner, SupervisedTraining};
use burn_digits::data::{loader, splits};
use burn_digits::model::DigitNet;
use burn_digits::progress::Progress;
use chrono::{DateTime, Local};
use mlprof_burn::prelude::*;
use mlprof_core::{Action, NeverStarted};

/// Counts actions. A profiler needs no more than this.
#[derive(Default)]
struct ActionCounter(Mutex<BTreeMap<Action, (DateTime<Local>, u64)>>);

impl Profiler for ActionCounter {
    fn start(&self, action: Action) {
        let mut actions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        actions.entry(action).or_insert_with(|| (Local::now(), 0)).1 += 1;
    }

    fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
        Ok(())
    }

    fn summary(&self) -> String {
        let actions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows: Vec<_> = actions.iter().collect();
        rows.sort_by_key(|(_, (first, _))| *first);
        rows.into_iter().fold(String::new(), |mut text, (action, (first, calls))| {
            let first = first.format("%Y-%m-%d %H:%M:%S%.6f");
            let _ = writeln!(text, "{first}  {calls:>6} x  {}", action.name());
            text
        })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::flex().autodiff();
    device.seed(42);
    let splits = splits(42)?;
    let directory = tempfile::tempdir()?;
    let train = loader(splits.train, 64, Some(42));
    let training = SupervisedTraining::new(directory.path(), train, loader(splits.valid, 64, None))
        .profiler(ActionCounter::default())
        .metrics((LossMetric::new(),))
        .renderer(Box::new(Progress::new()));
    let learner =
        Learner::new(DigitNet::new(&device), AdamConfig::new().init(), ConstantLr::from(2e-3));
    let result = training.launch(learner)?;
    result.error.map_or(Ok(()), |error| Err(error.to_string().into()))
}
