//! Trains on digits that worker threads prepare during training.
//!
//! `cargo run --release -p candle-workers --bin background-loader -- --profiler simple --detailed`
//!
//! Compare `--workers 0` (each batch is prepared when it is requested) with `--workers 2`. A line
//! of the report shows the share of time spent waiting for data. The trained network is
//! bit-identical.

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use candle_core::Device;
use candle_digits::{Batch, Learner};
use candle_workers::augment::AugmentedDigits;
use candle_workers::background::BackgroundLoader;
use clap::Parser;
use digits::{
    Loaders, Options, Order, Splits, TrainerOptions, finish, loader, splits, train_and_test,
};
use mlprof_candle::prelude::*;

/// Train on digits that worker threads augment, and report where the time went
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    #[command(flatten)]
    trainer: TrainerOptions,
    /// Number of threads that prepare batches; 0 uses the training thread
    #[arg(long, default_value_t = 2)]
    workers: usize,
    /// Number of batches that each worker may prepare in advance
    #[arg(long, default_value_t = 2)]
    ahead: usize,
    /// Square root of the points that are averaged per augmented pixel
    #[arg(long, default_value_t = 16)]
    rays: usize,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    finish("background-loader", &arguments.options, |profiler| run(&arguments, profiler))
}

fn run(arguments: &Arguments, profiler: &Arc<dyn Profiler>) -> Result<f64, Box<dyn Error>> {
    let Arguments { options, workers, ahead, rays, .. } = arguments;
    let Splits { train, valid, test } = splits(options.seed)?;
    let source = AugmentedDigits::new(train, options.batch_size, *rays);
    let train = BackgroundLoader::new(source, *workers).ahead(*ahead);
    let in_order =
        |digits| loader(digits, options.batch_size, Order::Kept, |digits| Ok(Batch::new(digits)?));

    let mut learner = Learner::new(options.seed, &Device::Cpu)?;
    let loaders = Loaders { train: &train, valid: &in_order(valid), test: &in_order(test) };
    train_and_test(&mut learner, &loaders, options, &arguments.trainer, profiler)
}
