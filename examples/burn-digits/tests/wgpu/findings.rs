//! What is found of elementwise ops on a device that run one by one, until they are put together.

use std::sync::Arc;

use burn::tensor::{Device, Distribution, Tensor};
use profiler_core::report::findings::Rules;
use profiler_core::tensor::Schedule;
use profiler_core::{
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
    let schedule = Schedule::new().wait(0).warmup(COMPILING).active(RECORDED).repeat(1);
    let profiler = Arc::new(TensorProfiler::new().schedule(schedule).unwrap());
    profiler.setup(Stage::Fit, &RunContext::default());
    let active = activate(profiler.clone() as Arc<dyn Profiler>);
    for _ in 0..COMPILING + RECORDED {
        let batch = profiler.profile("run_training_batch");
        step(&images, &device, reads);
        drop(batch);
        profiler.step();
    }
    drop(active);
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

/// What the rule promises, in seconds, however short the run.
fn promised(report: &Report) -> Option<f64> {
    let mut rules = Rules::new();
    rules.set("all.least-seconds", 0.0).unwrap();
    let found = rules.apply(report).into_iter().find(|finding| finding.rule == "unfused-ops");
    found.map(|finding| finding.cost.seconds)
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
