//! A hand-written training loop with guards, `profile_iterable` and wrapped layers, but without a
//! trainer.
//!
//! `cargo run --release -p candle-digits --bin candle-hand-written-loop`

use std::error::Error;
use std::sync::Arc;

use candle_core::{DType, Device};
use candle_digits::{Batch, DigitNet};
use candle_nn::{AdamW, Optimizer, VarMap};
use digits::{Batches, Digit, EpochShare, Splits, splits};
use mlprof_candle::prelude::*;
use mlprof_core::{RunContext, Session, Stage};

const SEED: u64 = 42;
const BATCH_SIZE: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let profiler: Arc<dyn Profiler> = Arc::new(SimpleProfiler::new());
    // The layers and the optimizer need an active profiler. The loop below uses the profiler
    // directly.
    let session = Session::begin(profiler.clone(), Stage::Fit, &RunContext::from_environment())?;

    let device = Device::Cpu;
    let Splits { train, valid, .. } = splits(SEED)?;
    let (train, valid): (Arc<[Digit]>, Arc<[Digit]>) = (train.into(), valid.into());
    let vars = VarMap::new();
    let net = DigitNet::new(&seeded_var_builder(&vars, SEED, DType::F32, &device))?;
    let mut optimizer = AdamW::new_lr(vars_by_name(&vars), 2e-3)?.profile_optimizer();

    for epoch in 0..2 {
        let _epoch = profiler.profile("run_training_epoch");
        let batches = Batches::shuffled(train.clone(), BATCH_SIZE, EpochShare::alone(SEED, epoch));
        for digits in profiler.profile_iterable(batches, "train_dataloader_next") {
            let batch = {
                let _transfer = profiler.profile("batch_to_device");
                Batch::new(&digits)?.move_to(&device)?
            };
            let loss = {
                let _forward = profiler.profile("forward");
                net.loss(&batch)?
            };
            // This call produces two rows: backward and Optimizer.step.
            optimizer.backward_step(&loss)?;
        }
        let loss = validate(&*profiler, &net, Batches::in_order(valid.clone(), BATCH_SIZE))?;
        eprintln!("epoch {epoch}: validation loss {loss:.4}");
    }

    drop(session); // prints the report; an early return with an error also does
    Ok(())
}

/// Returns the mean loss.
fn validate(
    profiler: &dyn Profiler,
    net: &DigitNet,
    batches: Batches,
) -> Result<f64, candle_core::Error> {
    let (mut sum, mut number) = (0.0, 0);
    for digits in profiler.profile_iterable(batches, "val_next") {
        let _step = profiler.profile("validation_step");
        let (loss, _) = net.judge(&Batch::new(&digits)?)?;
        sum += loss * digits.len() as f64;
        number += digits.len();
    }
    Ok(sum / number as f64)
}
