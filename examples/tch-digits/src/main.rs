//! Trains a small CNN on handwritten digits under a profiler.
//!
//! `cargo xtask run tch-digits -- --profiler simple`

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use digits::{
    Loaders, Options, Order, Splits, TrainerOptions, finish, loader, splits, train_and_test,
};
use mlprof_tch::prelude::*;
use tch::Device;
use tch_digits::{Batch, Learner};

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
    // The network is so small that a second thread costs more than it saves.
    tch::set_num_threads(1);
    finish("tch-digits", &options, |profiler| run(&options, &trainer, profiler))
}

fn run(
    options: &Options,
    trainer_options: &TrainerOptions,
    profiler: &Arc<dyn Profiler>,
) -> Result<f64, Box<dyn Error>> {
    let Splits { train, valid, test } = splits(options.seed)?;
    let batches =
        |digits, order| loader(digits, options.batch_size, order, |digits| Ok(Batch::new(digits)?));
    let learner =
        Learner::new(options.seed, device(trainer_options)?).plant(trainer_options.planting.plant);
    let mut learner = learner.weights(trainer_options.weights.as_deref())?;
    let loaders = Loaders {
        train: &batches(train, Order::Shuffled),
        valid: &batches(valid, Order::Kept),
        test: &batches(test, Order::Kept),
    };
    train_and_test(&mut learner, &loaders, options, trainer_options, profiler)
}

fn device(options: &TrainerOptions) -> Result<Device, &'static str> {
    match options.cuda {
        false => Ok(Device::Cpu),
        true if tch::Cuda::is_available() => Ok(Device::Cuda(0)),
        true => Err("cannot use CUDA: this libtorch does not support it, or there is no device"),
    }
}
