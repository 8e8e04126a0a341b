//! What is found on a device: elementwise ops that run one by one, until they are put together, and kernels that are tried out in
//! recorded steps, until these have shapes that were seen before.

use std::sync::Arc;

use burn::tensor::{Device, Distribution, Tensor};
use mlprof_core::report::finding::Finding;
use mlprof_core::report::findings::Rules;
use mlprof_core::tensor::Schedule;
use mlprof_core::{
    ActionKind, Profiler, ProfilerExt, Report, RunContext, Stage, TensorProfiler, activate,
};

use crate::recorded::{alone, device};

/// So many steps are recorded, behind those in which kernels are compiled.
const RECORDED: u64 = 12;
const COMPILING: u64 = 3;
/// Twice as many ops in each.
const PAIRS: usize = 10;

/// A step of many ops on a million numbers each. Where values are read in between, each runs by itself.
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
    // What nobody wants any longer is not computed.
    device.sync().unwrap();
    drop(images);
}

/// What the Tensor profiler says of such steps.
fn report(reads: bool) -> Report {
    let device = device();
    let images = Tensor::random([1024, 1024], Distribution::Uniform(-1.0, 1.0), &device);
    device.sync().unwrap();
    recorded(COMPILING, RECORDED, |_| step(&images, &device, reads))
}

/// What the Tensor profiler says of so many steps behind so many others.
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

/// How long kernels ran on the device, in seconds.
fn device_seconds(report: &Report) -> f64 {
    let Report::Tensor(report) = report else { panic!("of the Tensor profiler") };
    let rows = report.key_averages.rows.iter();
    let kernels = rows.filter(|row| row.is_on_device && row.kind == ActionKind::Kernel);
    kernels.map(|row| row.self_device_seconds).sum()
}

/// What a rule finds, however short the run.
fn found(rule: &str, report: &Report) -> Option<Finding> {
    let mut rules = Rules::new();
    rules.set("all.least-seconds", 0.0).unwrap();
    // On a busy machine most of a step is waiting for a processor, and not the ops.
    rules.set("unfused-ops.share", 0.05).unwrap();
    rules.apply(report).into_iter().find(|finding| finding.rule == rule)
}

/// What is promised of ops that run one by one, in seconds.
fn promised(report: &Report) -> Option<f64> {
    found("unfused-ops", report).map(|finding| finding.cost.seconds)
}

/// What the device no longer does, is what was promised: that nobody waits for each op any longer is more than that,
/// and no part of it.
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

/// Batches whose sizes are new to the device when a run should be warm are tried out there, those of one size are not. What is promised is
/// what a run of the latter is shorter by.
#[cfg(feature = "autotune")]
#[test]
fn shapes_that_are_new_in_late_steps_are_found_until_batches_are_padded() {
    use std::time::Instant;

    use mlprof_core::report::finding::Confidence;

    const WARM: u64 = 12;
    const LATE: u64 = 3;
    let _alone = alone();
    let device = device();
    // Sides that no other test has.
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
