//! A hand-written training loop with guards, `profile_iterable` and a wrapped loader, but without a
//! trainer.
//!
//! `cargo run --release -p burn-digits --bin burn-hand-written-loop`

use std::error::Error;
use std::sync::Arc;

use burn::module::Module;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::Device;
use burn_digits::data::{loader, splits};
use burn_digits::model::DigitNet;
use mlprof_burn::actions;
use mlprof_burn::prelude::*;
use mlprof_core::{RunContext, Stage};

fn main() -> Result<(), Box<dyn Error>> {
    let profiler: Arc<dyn Profiler> = Arc::new(SimpleProfiler::new());
    profiler.setup(Stage::Fit, &RunContext::from_environment());
    // The guards inside the model need an active profiler. The loop below uses the profiler
    // directly.
    let active = activate(profiler.clone());

    let device = Device::flex().autodiff();
    device.seed(42);
    let splits = splits(42)?;
    let train = loader(splits.train, 64, Some(42)).to_device(&device);
    let train = profile_loader(train, profiler.clone(), actions::TRAIN_DATALOADER_NEXT);
    let valid = loader(splits.valid, 64, None).to_device(&device.clone().inner());

    let mut model = DigitNet::new(&device);
    let mut optimizer = AdamConfig::new().init();
    for epoch in 1..=2 {
        let _epoch = profiler.profile(actions::RUN_TRAINING_EPOCH);
        for batch in train.iter() {
            let output = {
                let _forward = profiler.profile("forward");
                model.forward_classification(batch?)
            };
            let gradients = output.loss.profile_backward();
            let gradients = GradientsParams::from_grads(gradients, &model);
            model = optimizer.profile_step(2e-3, model, gradients);
        }
        let loss = validate(&*profiler, &model, valid.iter())?;
        eprintln!("epoch {epoch}: validation loss {loss:.4}");
    }

    drop(active);
    profiler.describe();
    Ok(())
}

/// Returns the mean loss. `profile_iterable` measures any iterator, not only a loader.
fn validate<B, E>(profiler: &dyn Profiler, model: &DigitNet, batches: B) -> Result<f32, E>
where
    B: Iterator<Item = Result<burn_digits::data::Batch, E>>,
{
    let model = model.valid();
    let (mut sum, mut number) = (0.0, 0.0);
    for batch in profiler.profile_iterable(batches, actions::VAL_NEXT) {
        let _step = profiler.profile("validation_step");
        sum += model.forward_classification(batch?).loss.into_scalar::<f32>();
        number += 1.0;
    }
    Ok(sum / number)
}
