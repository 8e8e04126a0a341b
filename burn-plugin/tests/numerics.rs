//! Checks the recorded numbers of a fit, and that recording does not change them.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use burn::tensor::Device;
use burn::train::metric::LossMetric;
use burn::train::{ExecutionStrategy, LearningResult, MultiDeviceOptim, TrainingStrategy};
use common::{Mlp, PANIC, alone, items, learner, loader, training, training_on};
use mlprof_burn::prelude::*;
use mlprof_core::report::numerics::NumericsReport;

fn fit(
    profiler: impl IntoProfiler,
    strategy: Option<ExecutionStrategy>,
    accumulation: Option<usize>,
) -> LearningResult<Mlp> {
    let directory = tempfile::tempdir().unwrap();
    let mut training = training(directory.path()).profiler(profiler);
    if let Some(strategy) = strategy {
        training = training.with_training_strategy(TrainingStrategy::Default(strategy));
    }
    if let Some(accumulation) = accumulation {
        training = training.grads_accumulation(accumulation);
    }
    let result = training.metrics((LossMetric::new(),)).launch(learner(1e-2)).unwrap();
    assert!(result.error.is_none());
    result
}

/// Returns the number of tensors at each place.
fn places(report: &NumericsReport) -> Vec<(&str, &str, u64)> {
    report.tensors.iter().map(|row| (row.role.name(), &*row.name, row.tensors)).collect()
}

const PARAMETERS: [&str; 4] = ["input.weight", "input.bias", "output.weight", "output.bias"];

#[test]
fn a_fit_tells_of_its_numbers_and_learns_the_same_to_the_bit() {
    let _alone = alone();
    let plain = fit("none", None, None).model.weights();
    let profiler = Arc::new(NumericsProfiler::new().every(1));
    assert_eq!(fit(profiler.clone(), None, None).model.weights(), plain);
    let report = profiler.snapshot();
    let steps = 14;
    assert_eq!((report.steps, report.recorded_steps, report.not_finite), (steps, steps, 0));
    let mut expected = vec![("loss", "loss", steps)];
    for name in PARAMETERS {
        expected.extend([("gradient", name, steps), ("parameter", name, steps)]);
    }
    expected.extend(PARAMETERS.map(|name| ("update", name, steps)));
    assert_eq!(places(&report), expected);
    let update = report.tensors.last().unwrap();
    assert!(update.all.l2_norm > 0.0 && update.last.l2_norm < 1.0, "{update:?}");
}

#[test]
fn accumulated_gradients_are_told_of_where_the_optimizer_takes_them() {
    let _alone = alone();
    let plain = fit("none", None, Some(3)).model.weights();
    let profiler = Arc::new(NumericsProfiler::new().every(1));
    assert_eq!(fit(profiler.clone(), None, Some(3)).model.weights(), plain);
    let report = profiler.snapshot();
    let of =
        |role: &str| report.tensors.iter().find(|row| row.role.name() == role).unwrap().tensors;
    // 7 batches are 3, 3 and 1 updates, in each of two epochs.
    assert_eq!((of("loss"), of("gradient"), of("update")), (14, 6, 6));
}

#[test]
fn several_devices_tell_of_their_losses_and_of_what_the_optimizer_does() {
    let _alone = alone();
    for optim in [MultiDeviceOptim::OptimMainDevice, MultiDeviceOptim::OptimSharded] {
        let devices = || vec![Device::flex().autodiff(); 2];
        let strategy = || Some(ExecutionStrategy::MultiDevice(devices(), optim));
        let plain = fit("none", strategy(), None).model.weights();
        let profiler = Arc::new(NumericsProfiler::new().every(1));
        assert_eq!(fit(profiler.clone(), strategy(), None).model.weights(), plain);
        let report = profiler.snapshot();
        let of = |role: &str, name: &str| {
            let is_it = |row: &&_| {
                let row: &mlprof_core::report::numerics::TensorRow = row;
                row.role.name() == role && row.name == name
            };
            report.tensors.iter().find(is_it).map(|row| row.tensors)
        };
        assert_eq!(of("loss", "loss"), Some(16), "{optim:?}");
        // There is one sum on the main device, or one on each device.
        let sums = if matches!(optim, MultiDeviceOptim::OptimSharded) { 16 } else { 8 };
        assert_eq!(of("gradient", "input.weight"), Some(sums), "{optim:?}");
        assert_eq!(of("update", "output.bias"), Some(8), "{optim:?}");
    }
}

#[test]
fn a_fit_ends_with_the_sentence_before_the_numbers_get_into_the_parameters() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let mut spoilt = items(100);
    // The value is in the third batch. It is infinite, because this model panics on NaN.
    spoilt[40].1 = f32::INFINITY;
    assert!(PANIC.0[0].is_nan());
    let profiler = Arc::new(NumericsProfiler::new().every(0).stop_on_nan(true));
    let result = training_on(directory.path(), loader(spoilt))
        .profiler(profiler.clone())
        .launch(learner(1e-2))
        .unwrap();
    let reason = result.interrupted.unwrap().reason.unwrap();
    let sentence = "the profiler stopped the training: in step 2 the loss is not finite: 1 infinite of 1 numbers";
    // The call site follows if debug information is available.
    assert!(reason.starts_with(sentence), "{reason}");
    assert!(result.model.weights().into_iter().all(|bits| f32::from_bits(bits).is_finite()));
    assert_eq!(profiler.snapshot().steps, 3);
}
