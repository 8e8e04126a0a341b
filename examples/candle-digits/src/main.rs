//! Trains a small CNN on handwritten digits, under a profiler.
//!
//! `cargo run --release -p candle-digits -- --profiler simple`

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use candle_core::Device;
use candle_digits::{Batch, Learner};
use candle_plugin::prelude::*;
use clap::Parser;
use digits::{
    LossCurve, Measured, Options, Order, Splits, TrainerOptions, finish, loader, refuse_early_end,
    splits,
};

/// Trains a small network on handwritten digits and tells where the time went.
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
    let mut learner = Learner::new(options.seed, &Device::Cpu)?;
    let mut trainer =
        Trainer::new().profiler(profiler.clone())?.max_epochs(options.epochs).seed(options.seed);
    if let Some(directory) = &trainer_options.checkpoint_dir {
        trainer = trainer.checkpoint_dir(directory);
    }
    if let Some(file) = &trainer_options.loss_curve {
        trainer = trainer.callback(LossCurve::create(file)?);
    }

    let mut measured = Measured::new(profiler);
    let trained = measured.stage(|| {
        let (train, valid) = (batches(train, Order::Shuffled), batches(valid, Order::Kept));
        let outcome = trainer.fit(&mut learner, &train, Some(&valid))?;
        refuse_early_end(&outcome)
    });
    let tested = trained.and_then(|()| {
        measured.stage(|| Ok(trainer.test(&mut learner, &batches(test, Order::Kept))?))
    });
    // Also after Ctrl-C: what was measured until then is not lost.
    options.profiling.write_json(measured.reports())?;
    let outcome = tested?;
    match outcome.metrics.get("test_accuracy") {
        Some(accuracy) if !outcome.is_interrupted => Ok(*accuracy),
        _ => Err("the test ended early".into()),
    }
}
