//! Measures the cost of profiling per training step with tch, as described in [`digits::overhead`].
//!
//! `cargo xtask run tch-digits --bin tch-overhead`

use std::error::Error;

use clap::Parser;
use digits::overhead::{OverheadOptions, Subject, TRAINER_STEP_BEGINS, trainer_epoch};
use digits::{Digit, Order, loader, splits};
use tch::Device;
use tch_digits::{Batch, Learner};

fn main() -> Result<(), Box<dyn Error>> {
    // The example program uses the same setting.
    tch::set_num_threads(1);
    let options = OverheadOptions::parse();
    let to_batch = |digits: &[Digit]| Ok(Batch::new(digits)?);
    let batches = loader(splits(1)?.train, options.batch_size, Order::Shuffled, to_batch);
    let subject = Subject {
        framework: "tch",
        step_begins: TRAINER_STEP_BEGINS,
        epoch: &|profiler| {
            trainer_epoch(&mut Learner::new(1, Device::Cpu), &batches, profiler, options.clock)
        },
        tells_of_ops: true,
        besides: &[],
    };
    subject.compare(&options)
}
