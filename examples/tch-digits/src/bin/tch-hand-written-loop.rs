//! A hand-written training loop with guards, `profile_iterable` and a profiled optimizer, but
//! without a trainer.
//!
//! `cargo xtask run tch-digits --bin tch-hand-written-loop`

use std::sync::Arc;

use digits::{Batches, EpochShare, splits};
use mlprof_core::{RunContext, Session, Stage};
use mlprof_tch::prelude::*;
use tch::Device;
use tch::nn::{self, OptimizerConfig};
use tch_digits::{Batch, DigitNet, LEARNING_RATE};

fn main() -> TrainResult<()> {
    tch::set_num_threads(1);
    tch::manual_seed(42);
    let profiler = Arc::new(SimpleProfiler::new());
    // The session prints the report when it is dropped, also after an error or a panic.
    let _session = Session::begin(profiler.clone(), Stage::Fit, &RunContext::from_environment())?;

    let splits = splits(42)?;
    let (train, valid) = (splits.train.into(), splits.valid.into());
    let variables = nn::VarStore::new(Device::Cpu);
    let net = DigitNet::new(&variables.root());
    let mut optimizer = nn::Adam::default().build(&variables, LEARNING_RATE)?.profile_optimizer();
    for epoch in 0..2 {
        let _epoch = profiler.profile("run_training_epoch");
        let batches = Batches::shuffled(Arc::clone(&train), 64, EpochShare::alone(42, epoch));
        let batches = batches.map(|digits| Batch::new(&digits));
        for batch in profiler.profile_iterable(batches, "train_dataloader_next") {
            let loss = {
                let _forward = profiler.profile("forward");
                net.loss(&batch?)?
            };
            optimizer.backward_step(&loss);
        }
        let accuracy = validate(&profiler, &net, Batches::in_order(Arc::clone(&valid), 64))?;
        eprintln!("epoch {}: validation accuracy {:.1} %", epoch + 1, accuracy * 100.0);
    }
    Ok(())
}

/// Returns the share of correctly classified digits. `profile_iterable` measures any iterator.
fn validate(profiler: &SimpleProfiler, net: &DigitNet, batches: Batches) -> TrainResult<f64> {
    let (mut right, mut all) = (0.0, 0);
    for digits in profiler.profile_iterable(batches, "val_next") {
        let _step = profiler.profile("validation_step");
        let (_loss, accuracy) = net.judge(&Batch::new(&digits)?)?;
        right += accuracy * digits.len() as f64;
        all += digits.len();
    }
    Ok(right / all as f64)
}
