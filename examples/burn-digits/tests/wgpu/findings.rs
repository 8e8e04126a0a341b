//! Tests two findings on a device:
//!
//! - unfused elementwise ops, until fusion is possible
//! - autotuning in recorded steps, until batches have known shapes

use std::sync::Arc;

use burn::tensor::{Device, Distribution, Tensor};
use mlprof_core::report::finding::Finding;
use mlprof_core::report::findings::Rules;
use mlprof_core::tensor::Schedule;
use mlprof_core::{
    ActionKind, Profiler, ProfilerExt, Report, RunContext, Stage, TensorProfiler, activate,
};

use crate::recorded::{alone, device};

/// Number of recorded steps, after the steps in which kernels are compiled.
const RECORDED: u64 = 12;
const COMPILING: u64 = 3;
/// Number of pairs of ops in each step.
const PAIRS: usize = 10;

/// Runs a step of many ops on a million numbers each. If `reads` is set, values are read in
/// between, so that each op runs separately.
fn step(images: &Tensor<2>, device: &Device, reads: bool) {
    let mut images = images.clone();
    for _ in 0..PAIRS {
        images = images.mul_scalar(1.01);
        if reads {
            device.sync().unwrap();
        }
        images = images.add_scalar(0.5);
        if reads {
            device.sync().unwrap();
        }
    }
    // burn does not compute values that are no longer used.
    device.sync().unwrap();
    drop(images);
}

/// Returns the Tensor profiler's report of such steps.
fn report(reads: bool) -> Report {
    let device = device();
    let images = Tensor::random([1024, 1024], Distribution::Uniform(-1.0, 1.0), &device);
    device.sync().unwrap();
    recorded(COMPILING, RECORDED, |_| step(&images, &device, reads))
}

/// Returns the Tensor profiler's report of `active` steps after `before` unrecorded ones.
fn recorded(before: u64, active: u64, mut step: impl FnMut(u64)) -> Report {
    let schedule = Schedule::new().wait(0).warmup(before).active(active).repeat(1);
    let profiler = Arc::new(TensorProfiler::new().schedule(schedule));
    profiler.setup(Stage::Fit, &RunContext::default());
    let is_active = activate(profiler.clone() as Arc<dyn Profiler>);
    for number in 0..before + active {
        let batch = profiler.profile("run_training_batch");
        step(number);
        drop(batch);
        profiler.step();
    }
    drop(is_active);
    let report = profiler.report().expect("steps were recorded");
    profiler.teardown(None);
    report
}

/// Returns the total kernel time on the device in seconds.
fn device_seconds(report: &Report) -> f64 {
    let Report::Tensor(report) = report else { panic!("of the Tensor profiler") };
    let rows = report.key_averages.rows.iter();
    let kernels = rows.filter(|row| row.is_on_device && row.kind == ActionKind::Kernel);
    kernels.map(|row| row.self_device_seconds).sum()
}

/// Returns the finding of a rule, regardless of the run's length.
fn found(rule: &str, report: &Report) -> Option<Finding> {
    let mut rules = Rules::new();
    rules.set("all.least-seconds", 0.0).unwrap();
    // On a loaded machine, a step spends most of its time waiting for a CPU core and not on the
    // ops.
    rules.set("unfused-ops.share", 0.05).unwrap();
    rules.apply(report).into_iter().find(|finding| finding.rule == rule)
}

/// Returns the predicted savings of the unfused-ops rule in seconds.
fn promised(report: &Report) -> Option<f64> {
    found("unfused-ops", report).map(|finding| finding.cost.seconds)
}

/// Checks that the predicted savings match the saved device time. The host also no longer waits for
/// each op, but that saving is not part of the prediction.
#[test]
fn ops_that_run_one_by_one_are_found_until_they_are_put_together() {
    let _alone = alone();
    let (faulty, mended) = (report(true), report(false));
    assert_eq!(promised(&mended), None, "those of a block");
    let promised = promised(&faulty).unwrap_or_else(|| panic!("nothing is found: {faulty:#?}"));
    let saved = device_seconds(&faulty) - device_seconds(&mended);
    assert!(device_seconds(&mended) > 0.0, "the same is computed: {mended:#?}");
    println!("{promised} s promised, {saved} s of {} s saved", device_seconds(&faulty));
    assert!((promised - saved).abs() <= 0.3 * saved, "{promised} s promised, {saved} s saved");
}

/// Checks that late batches with new sizes cause autotuning and a finding, and that padded batches
/// do not. The prediction is the difference between the two runs' times.
#[cfg(feature = "autotune")]
#[test]
fn shapes_that_are_new_in_late_steps_are_found_until_batches_are_padded() {
    use std::time::Instant;

    use mlprof_core::report::finding::Confidence;

    const WARM: u64 = 12;
    const LATE: u64 = 3;
    let _alone = alone();
    let device = device();
    // No other test uses these dimensions.
    let weights = Tensor::<2>::random([150, 200], Distribution::Uniform(-1.0, 1.0), &device);
    let run = |rows: &dyn Fn(u64) -> usize| {
        let mut seconds = 0.0;
        let report = recorded(WARM, LATE, |number| {
            let start = Instant::now();
            let shape = [rows(number), 150];
            let batch = Tensor::<2>::random(shape, Distribution::Uniform(-1.0, 1.0), &device);
            batch.matmul(weights.clone()).sum().into_data();
            if number >= WARM {
                seconds += start.elapsed().as_secs_f64();
            }
        });
        (report, seconds)
    };
    let (mended, padded_seconds) = run(&|_| 50);
    let grows = |number: u64| 50 << (number + 1).saturating_sub(WARM).min(LATE);
    let (faulty, seconds) = run(&grows);
    assert!(found("tuning-in-steps", &mended).is_none(), "{mended:#?}");
    let finding = found("tuning-in-steps", &faulty);
    let finding = finding.unwrap_or_else(|| panic!("nothing is found: {faulty:#?}"));
    assert_eq!(finding.confidence, Confidence::Likely, "{finding:#?}");
    let (promised, saved) = (finding.cost.seconds, seconds - padded_seconds);
    println!("{promised} s promised, {saved} s of {seconds} s saved");
    assert!((promised - saved).abs() <= 0.3 * saved, "{promised} s promised, {saved} s saved");
}
