//! Measures and prints the cost of recording and the sum of kernel times. No assertion depends on a
//! clock.

use std::time::{Duration, Instant};

use burn::cubecl::future::block_on;
use burn::data::dataloader::batcher::Batcher;
use burn::optim::{AdamConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::{Device, ProfileOptions};
use burn_digits::data::{Batch, DigitBatcher, splits};
use burn_digits::model::DigitNet;
use mlprof_burn::ProfileBackwardExt;
use mlprof_core::profile;
use mlprof_core::tensor::DeviceTiming;

use crate::recorded::{Recorded, alone, device, record};

const ROUNDS: usize = 8;
const STEPS: usize = 3;

/// A training without a trainer.
struct Training {
    device: Device,
    model: DigitNet,
    optimizer: ModuleOptimizer,
    batch: Batch,
}

impl Training {
    fn new() -> Self {
        let device = device();
        let digits = splits(1).unwrap().train;
        let autodiff = device.clone().autodiff();
        let model = DigitNet::new(&autodiff);
        let batch = DigitBatcher.batch(digits[..32].to_vec(), &autodiff);
        Self { device, model, optimizer: AdamConfig::new().init(), batch }
    }

    fn step(&mut self) {
        let loss = {
            let _scope = profile!("forward");
            self.model.forward_classification(self.batch.clone()).loss
        };
        let gradients = loss.profile_backward();
        let _scope = profile!("Optimizer.step");
        let gradients = GradientsParams::from_grads(gradients, &self.model);
        self.model = self.optimizer.step(1e-3, self.model.clone(), gradients);
    }

    /// Appends the duration of several steps, including the device's work, to `times`.
    fn time(&mut self, times: &mut Vec<Duration>) {
        for _ in 0..STEPS {
            let start = Instant::now();
            self.step();
            self.device.sync().unwrap();
            times.push(start.elapsed());
        }
    }
}

/// Returns the fastest and the median duration.
fn fastest_and_median(mut times: Vec<Duration>) -> (Duration, Duration) {
    times.sort_unstable();
    (times[0], times[times.len() / 2])
}

#[test]
fn cost_of_recording() {
    let _alone = alone();
    let mut training = Training::new();
    training.time(&mut Vec::new());
    let (mut off, mut names, mut timed) = (Vec::new(), Vec::new(), Vec::new());
    let mut last = Recorded::default();
    for _ in 0..ROUNDS {
        training.time(&mut off);
        last = record(DeviceTiming::NamesOnly, || training.time(&mut names));
        record(DeviceTiming::On, || training.time(&mut timed));
    }
    let (ops, blocks) = (last.ops().count() / STEPS, last.fused().count() / STEPS);
    let kernels = last.kernels.len() / STEPS;
    let [off, names, timed] = [off, names, timed].map(fastest_and_median);
    println!("{ops} ops in a step, {blocks} fused blocks, {kernels} kernels");
    println!("fastest and median step: {off:?} without a profiler, {names:?} with ops and names");
    let per_kernel = timed.0.saturating_sub(names.0) / kernels.max(1) as u32;
    println!("{timed:?} with times: {per_kernel:?} more per kernel");
    assert!(ops > 0 && kernels > 0);
}

#[test]
fn kernels_times_beside_the_devices_own_of_the_same_step() {
    let _alone = alone();
    let mut training = Training::new();
    for _ in 0..3 {
        training.step();
    }
    training.device.sync().unwrap();
    let mut plain = None;
    for _ in 0..3 {
        let options = ProfileOptions::default().flush();
        let step = move || {
            training.step();
            training
        };
        let device = device();
        let (moved, time) = device.profile_with(options, step).unwrap();
        training = moved;
        plain = block_on(time.resolve());
    }
    let plain = plain.expect("the step ran kernels").duration();
    println!("a step without recording: {plain:?} by Device::profile");
    for round in 0..3 {
        let device = training.device.clone();
        let (mut window, mut moved) = (None, Some(training));
        let recorded = record(DeviceTiming::On, || {
            let mut training = moved.take().unwrap();
            let options = ProfileOptions::default().flush();
            let step = move || {
                training.step();
                training
            };
            let (training, time) = device.profile_with(options, step).unwrap();
            moved = Some(training);
            window = block_on(time.resolve());
        });
        training = moved.take().unwrap();
        let window = window.expect("the step ran kernels").duration();
        let kernels = Duration::from_nanos(recorded.kernel_nanoseconds().unsigned_abs());
        let share = kernels.as_secs_f64() / window.as_secs_f64();
        println!("step {round}: kernels {kernels:?} of {window:?} by Device::profile: {share:.3}");
        let (first, last) = recorded.kernel_span();
        println!(
            "         from the first kernel to the last {:?}",
            Duration::from_nanos(last - first)
        );
        assert!(kernels > Duration::ZERO);
        assert!(recorded.kernels_do_not_overlap(), "one queue runs one kernel at a time");
    }
}
