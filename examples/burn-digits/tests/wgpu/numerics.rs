//! Tests numerics on a GPU: tensors are reduced there, read after the step has ended, and add no
//! ops to the program.

use std::sync::Arc;

use burn::nn::{Linear, LinearConfig};
use burn::tensor::{Device, FloatDType, Tensor};
use mlprof_burn::ProfileLayerExt;
use mlprof_core::report::numerics::TensorStatistics;
use mlprof_core::{NumericsProfiler, Profiler, ProfilerExt, activate};

use crate::recorded::{alone, assert_all_kernels_have_owners, device};
use crate::training::{STEPS, record_training, train};

/// Records these numbers in this type as a layer's output on a device. Returns the statistics of
/// the output, and those of the input if the output is not finite. The last value is `true` if this
/// was known before the step ended.
fn statistics(
    numbers: &[f32],
    element_type: FloatDType,
    device: &Device,
) -> (TensorStatistics, Option<TensorStatistics>, bool) {
    let profiler = Arc::new(NumericsProfiler::new().every(1).stop_on_nan(true));
    let layer: Linear = LinearConfig::new(1, 1).init(device);
    let input = Tensor::<1>::from_floats([1.0, 2.0], device);
    let active = activate(profiler.clone());
    let _ = layer.profile_forward("layer", input, |_, _| {
        Tensor::<1>::from_floats(numbers, device).cast(element_type)
    });
    let is_known = profiler.reason_to_stop().is_some();
    profiler.step();
    drop(active);
    let report = profiler.snapshot();
    let outputs: Vec<_> = report.tensors.iter().filter(|row| row.role.name() == "output").collect();
    let [output] = outputs[..] else { panic!("{:?}", report.header.notes) };
    let last = output.last;
    let input = report.first_not_finite.and_then(|first| first.input);
    (last, input, is_known)
}

#[test]
fn a_gpu_makes_of_numbers_what_the_processor_reads() {
    let _alone = alone();
    assert_a_gpu_makes_the_same(FloatDType::F32, 1.0);
}

/// Checks that a GPU computes the same statistics as the CPU for 16-bit numbers. Many of them are
/// subnormal and have reduced precision.
#[test]
fn a_gpu_makes_of_16_bits_what_the_processor_reads() {
    let _alone = alone();
    let subnormals = assert_a_gpu_makes_the_same(FloatDType::F16, 1e-4);
    assert!((1000..2900).contains(&subnormals), "{subnormals}");
}

/// Asserts equal statistics on GPU and CPU. Returns the number of subnormal numbers.
fn assert_a_gpu_makes_the_same(element_type: FloatDType, scale: f32) -> u64 {
    let number = |place: i32| ((place as f32 * 0.37).sin() - 0.2) * scale;
    let mut numbers: Vec<f32> = (0..3000).map(number).collect();
    numbers[7] = 0.0;
    let mut subnormals = 0;
    for spoilt in [false, true] {
        if spoilt {
            numbers[3..6].copy_from_slice(&[f32::NAN, f32::INFINITY, f32::NEG_INFINITY]);
        }
        let (gpu, input, is_known) = statistics(&numbers, element_type, &device());
        assert!(!is_known, "nothing waits in the middle of a step");
        let (processor, _, is_known) = statistics(&numbers, element_type, &Device::flex());
        assert_eq!(is_known, spoilt);
        let exact = |it: &TensorStatistics| {
            let extremes = (it.minimum, it.maximum, it.least_magnitude);
            (it.count, it.nans, it.infinities, it.zeros, it.subnormals, extremes)
        };
        assert_eq!(exact(&gpu), exact(&processor));
        subnormals = gpu.subnormals;
        let close = |gpu: f64, processor: f64| {
            assert!((gpu - processor).abs() <= 1e-5 * processor.abs(), "{gpu} {processor}");
        };
        close(gpu.l1_norm, processor.l1_norm);
        close(gpu.l2_norm, processor.l2_norm);
        close(gpu.mean.unwrap(), processor.mean.unwrap());
        assert_eq!(input.map(|input| input.maximum), spoilt.then_some(Some(2.0)));
    }
    subnormals
}

#[test]
fn in_steps_that_are_only_watched_a_gpu_counts_what_is_not_finite() {
    let _alone = alone();
    let device = device();
    for element_type in [FloatDType::F32, FloatDType::F16] {
        let profiler = Arc::new(NumericsProfiler::new().every(0));
        let layer: Linear = LinearConfig::new(1, 1).init(&device);
        let active = activate(profiler.clone());
        for numbers in [[1.0, 2.0, 3.0], [f32::NAN, f32::INFINITY, f32::NEG_INFINITY]] {
            let input = Tensor::<1>::from_floats([1.0, 2.0], &device).cast(element_type);
            let output =
                |_: &_, _: Tensor<1>| Tensor::<1>::from_floats(numbers, &device).cast(element_type);
            let _ = layer.profile_forward("layer", input, output);
            profiler.step();
        }
        drop(active);
        let report = profiler.snapshot();
        let first = report.first_not_finite.expect("it is seen");
        let said = "in step 1 the output of [module]Linear: layer is not finite: 1 NaN and 2 infinite of 3 numbers. \
                    Its input was finite";
        let told = first.what_is_not_finite();
        assert!(told.starts_with(said), "{told}");
        assert_eq!(first.input.expect("it is known").maximum, None, "its range is not");
        assert!(report.tensors.is_empty(), "no step is recorded");
    }
}

#[test]
fn a_training_learns_the_same_and_no_op_of_the_profilers_is_counted() {
    let _alone = alone();
    let plain = train("none", &Arc::default());
    let (_, by_itself) = record_training(&Arc::default(), None);
    let numerics = Arc::new(NumericsProfiler::new().every(1));
    let beside: Arc<dyn Profiler> = numerics.clone();
    let (weights, recorded) = record_training(&Arc::default(), Some(beside));
    assert_eq!(weights, plain, "looking at numbers changes no weight");
    assert_eq!(recorded.op_counts(), by_itself.op_counts());
    assert_all_kernels_have_owners(&recorded);
    let report = numerics.snapshot();
    assert_eq!((report.steps, report.recorded_steps), (STEPS as u64, STEPS as u64));
    let of = |role: &str| report.tensors.iter().filter(|row| row.role.name() == role).count();
    let roles = ["output", "loss", "gradient", "parameter", "update"].map(of);
    assert_eq!(roles, [4, 1, 8, 8, 8], "{:?}", report.header.notes);
    let updates = report.tensors.iter().filter(|row| row.role.name() == "update");
    for update in updates {
        let largest = update.all.maximum.unwrap().max(-update.all.minimum.unwrap());
        assert!(
            largest > 0.0 && largest < 0.01,
            "Adam's steps are as long as its rate: {update:?}"
        );
    }
}
