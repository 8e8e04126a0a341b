//! Trains a small CNN on handwritten digits under a profiler.
//!
//! `cargo run --release -p candle-digits -- --profiler simple`

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use candle_core::Device;
use candle_digits::{Batch, Learner};
use clap::Parser;
use digits::{
    Loaders, Options, Order, Splits, TrainerOptions, finish, loader, splits, train_and_test,
};
use mlprof_candle::prelude::*;

/// Train a small network on handwritten digits, and report where the time went
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    trainer: TrainerOptions,
}

fn main() -> ExitCode {
    let Arguments { options, trainer } = Arguments::parse();
    finish("candle-digits", &options, |profiler| run(&options, &trainer, profiler))
}

fn run(
    options: &Options,
    trainer_options: &TrainerOptions,
    profiler: &Arc<dyn Profiler>,
) -> Result<f64, Box<dyn Error>> {
    let Splits { train, valid, test } = splits(options.seed)?;
    let batches =
        |digits, order| loader(digits, options.batch_size, order, |digits| Ok(Batch::new(digits)?));
    let device = if trainer_options.cuda { Device::new_cuda(0)? } else { Device::Cpu };
    let learner = Learner::new(options.seed, &device)?.plant(trainer_options.planting.plant);
    let mut learner = learner.weights(trainer_options.weights.as_deref())?;
    let loaders = Loaders {
        train: &batches(train, Order::Shuffled),
        valid: &batches(valid, Order::Kept),
        test: &batches(test, Order::Kept),
    };
    train_and_test(&mut learner, &loaders, options, trainer_options, profiler)
}
