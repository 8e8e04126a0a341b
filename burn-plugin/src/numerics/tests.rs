use std::cell::RefCell;
use std::sync::Arc;

use burn::module::Module;
use burn::nn::{Linear, LinearConfig, LstmConfig};
use burn::optim::{GradientsParams, SgdConfig};
use burn::tensor::{Device, FloatDType, Tensor};
use mlprof_core::hook::{Change, Reduced};
use mlprof_core::report::numerics::{NumericsReport, StatisticsReader};
use mlprof_core::{NumericsProfiler, ProfilerExt, activate};

use super::*;
use crate::{ProfileBackwardExt, ProfileLayerExt};

fn range(device: &Device) -> Tensor<2> {
    Tensor::<1, burn::tensor::Int>::arange(0..12, device).float().reshape([3, 4])
}

fn read<const D: usize>(tensor: &Tensor<D>) -> StatisticsReader {
    let numbers = Numbers::of(tensor);
    let mut reader = StatisticsReader::of_shape(&numbers.shape());
    assert!(numbers.read(&mut reader));
    reader
}

/// Returns the reduction of `numbers` as a device would compute it.
fn reduce(numbers: &dyn TensorNumbers) -> Reduced {
    numbers.reduce(hook::Reduction::Statistics).expect("it can").read().expect("it has not failed")
}

#[test]
fn all_numbers_of_a_view_are_read_and_no_others() {
    let tensor = range(&Device::flex());
    let row = read(&tensor.clone().slice([1..2, 0..4])).statistics();
    assert_eq!((row.count, row.minimum, row.maximum), (4, Some(4.), Some(7.)));
    let column = read(&tensor.clone().slice([0..3, 1..2])).statistics();
    assert_eq!((column.count, column.minimum, column.maximum), (3, Some(1.), Some(9.)));
    let turned: Vec<_> = read(&tensor.clone().transpose()).sample().into_iter().flatten().collect();
    assert_eq!(turned, [0., 4., 8., 1., 5., 9., 2., 6., 10., 3., 7., 11.]);
    let types = [(FloatDType::F64, "f64"), (FloatDType::F16, "f16"), (FloatDType::BF16, "bf16")];
    for (dtype, name) in types {
        for other in
            [tensor.clone().cast(dtype), tensor.clone().transpose().cast(dtype).transpose()]
        {
            let read = read(&other).statistics();
            assert_eq!((read.mean, read.zeros, read.subnormals), (Some(5.5), 1, 0), "{name}");
            assert_eq!(Numbers::of(&other).element_type(), name);
        }
    }
    let with_gradients = range(&Device::flex().autodiff()).require_grad();
    assert_eq!(read(&with_gradients).statistics().mean, Some(5.5));
}

fn assert_close(one: f64, other: f64, what: &str) {
    let size = one.abs().max(other.abs()).max(f64::from(f32::MIN_POSITIVE));
    assert!((one - other).abs() <= 1e-5 * size, "{what}: {one} {other}");
}

#[test]
fn a_device_makes_of_a_tensor_what_the_host_reads() {
    let device = Device::flex();
    for (name, kind, numbers) in hook::numbers_to_reduce() {
        let tensor = Tensor::<1>::from_floats(numbers.as_slice(), &device);
        let tensor = match kind {
            "f64" => tensor.cast(FloatDType::F64),
            "f16" => tensor.cast(FloatDType::F16),
            "bf16" => tensor.cast(FloatDType::BF16),
            _ => tensor,
        };
        hook::assert_reduces_as_read(&Numbers::of(&tensor), name);
    }
}

#[test]
fn the_change_of_a_parameter_is_reduced_as_a_difference() {
    let device = Device::flex();
    let (before, after) = (range(&device), range(&device) * 1.5);
    let kept = RefCell::new(None);
    reduce(&Numbers::changing(&before, Change::Begins(&kept)));
    let before = kept.take().expect("it is kept");
    let change = reduce(&Numbers::changing(&after, Change::Since(&before)));
    assert_close(change.shift * 12.0 + change.deviation, 33.0, "half of 66");
    assert_eq!((change.minimum, change.maximum, change.zeros), (0.0, 5.5, 1));
}

fn record(work: impl FnOnce()) -> NumericsReport {
    let profiler = Arc::new(NumericsProfiler::new().every(1));
    let active = activate(profiler.clone());
    work();
    profiler.step();
    drop(active);
    profiler.snapshot()
}

fn rows(report: &NumericsReport) -> Vec<(&str, &str)> {
    report.tensors.iter().map(|row| (row.role.name(), &*row.name)).collect()
}

#[derive(Module, Debug)]
struct Net {
    body: Vec<Linear>,
    head: Linear,
}

#[test]
fn a_step_tells_of_outputs_the_loss_gradients_parameters_and_updates() {
    let device = Device::flex().autodiff();
    let layer = || LinearConfig::new(3, 3).with_bias(false).init(&device);
    let mut net = Net { body: vec![layer()], head: LinearConfig::new(3, 2).init(&device) };
    let mut optimizer = SgdConfig::new().init();
    let weights =
        |net: &Net| net.body[0].weight.val().into_data().try_to_vec::<f32>().expect("f32");
    let before = weights(&net);
    let report = record(|| {
        let features =
            net.body[0].profile_forward("body.0", Tensor::ones([4, 3], &device), Linear::forward);
        let scores: Tensor<2> = net.head.profile_layer("head", |head| head.forward(features));
        let gradients = scores.square().mean().profile_backward();
        let gradients = GradientsParams::from_grads(gradients, &net);
        let told = StepTold::begin::<Net, _>(|| &net, &[&gradients]);
        net = optimizer.step(0.5, net.clone(), gradients);
        told.end::<Net, _>(|| &net);
    });
    let body = "[module]Linear: body.0";
    let mut expected = vec![("batch", body), ("output", body), ("output", "[module]Linear: head")];
    expected.push(("loss", "loss"));
    let names = ["body.0.weight", "head.weight", "head.bias"];
    expected.extend(names.iter().flat_map(|name| [("gradient", *name), ("parameter", *name)]));
    expected.extend(names.iter().map(|name| ("update", *name)));
    assert_eq!(rows(&report), expected);
    assert_eq!(report.first_not_finite, None);
    let changes = before.iter().zip(weights(&net));
    let changed: f64 =
        changes.map(|(before, after)| f64::from(after - before).powi(2)).sum::<f64>().sqrt();
    let row = |place: (&str, &str)| {
        let is_it = |row: &&mlprof_core::report::numerics::TensorRow| {
            (row.role.name(), &*row.name) == place
        };
        report.tensors.iter().find(is_it).expect("a row").last
    };
    let (update, gradient) = (row(("update", "body.0.weight")), row(("gradient", "body.0.weight")));
    assert!((update.l2_norm - changed).abs() < 1e-6 && changed > 0.0, "{update:?} {changed}");
    assert!((update.l2_norm - 0.5 * gradient.l2_norm).abs() < 1e-6, "{update:?} {gradient:?}");
}

#[test]
fn the_layer_that_makes_the_first_nan_is_named_with_what_it_was_given() {
    let device = Device::flex();
    let layer: Linear = LinearConfig::new(2, 2).init(&device);
    let profiler = Arc::new(NumericsProfiler::new().every(0));
    let active = activate(profiler.clone());
    for step in 0..3 {
        let input = Tensor::<1>::from_floats([2.0, 1.0 - step as f32], &device);
        let output = layer.profile_forward("double", input, |_, input| input * 2.0);
        let _ = layer.profile_forward("logarithm", output, |_, input: Tensor<1>| input.log());
        profiler.step();
    }
    drop(active);
    let first = profiler.snapshot().first_not_finite.expect("a NaN");
    assert_eq!(first.name, "[module]Linear: logarithm");
    assert_eq!((first.step, first.statistics.infinities), (1, 1));
    assert_eq!(first.input.expect("is known").minimum, Some(0.0));
}

#[test]
fn layers_with_several_outputs_tell_of_the_first_and_others_are_named_in_a_note() {
    let device = Device::flex();
    let lstm = LstmConfig::new(3, 2, true).init(&device);
    let report = record(|| {
        let input = Tensor::<3>::ones([4, 5, 3], &device);
        let (output, _) = lstm.profile_layer("lstm", |lstm| lstm.forward(input, None));
        assert_eq!(output.dims(), [4, 5, 2]);
        let pair = || (Tensor::<2>::ones([1, 6], &device), Tensor::<2>::ones([1, 7], &device));
        let _ = lstm.profile_layer("pair", |_| pair());
        assert_eq!(lstm.profile_layer("number", |_| 7), 7);
    });
    let shapes: Vec<_> = report.tensors.iter().map(|row| (&*row.name, &*row.shape)).collect();
    let expected: [(&str, &[u64]); 2] =
        [("[module]Lstm: lstm", &[4, 5, 2]), ("[module]Lstm: pair", &[1, 6])];
    assert_eq!(shapes, expected);
    let notes = report.header.notes;
    assert!(
        notes.iter().any(|note| note.starts_with(
            "[module]Lstm: number returns no floating-point \
                                                  tensor"
        )),
        "{notes:?}"
    );
}

#[test]
fn a_loss_is_told_of_once() {
    use burn::train::RegressionOutput;
    let device = Device::flex().autodiff();
    let output = || {
        let scores = Tensor::<2>::ones([2, 1], &device).require_grad();
        RegressionOutput::new(scores.clone().mean(), scores.clone(), scores)
    };
    let report = record(|| {
        let told = output();
        let _ = told.loss.profile_backward();
        tell_loss_of(&told);
        tell_loss_of(&output());
        tell_loss_of(&"no output of burn's");
    });
    assert_eq!((rows(&report), report.tensors[0].tensors), (vec![("loss", "loss")], 2));
}
