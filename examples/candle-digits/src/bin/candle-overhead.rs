//! Measures the cost of profiling per training step with candle, as described in
//! [`digits::overhead`].
//!
//! `cargo run --release -p candle-digits --bin candle-overhead`

use std::error::Error;

use candle_core::Device;
use candle_digits::{Batch, Learner};
use clap::Parser;
use digits::overhead::{OverheadOptions, Subject, TRAINER_STEP_BEGINS, trainer_epoch};
use digits::{Order, loader, splits};

fn main() -> Result<(), Box<dyn Error>> {
    let options = OverheadOptions::parse();
    let train = splits(1)?.train;
    let batches =
        loader(train, options.batch_size, Order::Shuffled, |digits| Ok(Batch::new(digits)?));
    let subject = Subject {
        framework: "candle",
        step_begins: TRAINER_STEP_BEGINS,
        epoch: &|profiler| {
            let mut learner = Learner::new(1, &Device::Cpu)?;
            trainer_epoch(&mut learner, &batches, profiler, options.clock)
        },
        tells_of_ops: false,
        besides: &[],
    };
    subject.compare(&options)
}
