use std::cell::RefCell;
use std::sync::Arc;

use mlprof_core::hook::Reduced;
use mlprof_core::report::numerics::{StatisticsReader, TensorStatistics};
use mlprof_core::{NumericsProfiler, activate};
use mlprof_train::TrainOptimizer;
use tch::nn::{self, Module};

use super::*;
use crate::prelude::*;

fn statistics(tensor: &Tensor) -> TensorStatistics {
    let numbers = Numbers::of(tensor);
    let mut reader = StatisticsReader::of_shape(&numbers.shape());
    assert!(numbers.read(&mut reader));
    reader.statistics()
}

#[test]
fn all_numbers_of_a_view_are_read_and_no_others() {
    let tensor = Tensor::arange(12, (Kind::Float, Device::Cpu)).reshape([3, 4]);
    assert_eq!(
        (statistics(&tensor.get(1)).minimum, statistics(&tensor.get(1)).maximum),
        (Some(4.), Some(7.))
    );
    let column = statistics(&tensor.tr().get(1));
    assert_eq!((column.count, column.minimum, column.maximum), (3, Some(1.), Some(9.)));
    let turned = tensor.tr();
    let mut reader = StatisticsReader::new(12);
    assert!(Numbers::of(&turned).read(&mut reader));
    let order: Vec<_> = reader.sample().into_iter().flatten().collect();
    assert_eq!(order, [0., 4., 8., 1., 5., 9., 2., 6., 10., 3., 7., 11.]);
    for kind in [
        Kind::Double,
        Kind::Half,
        Kind::BFloat16,
        Kind::Uint8,
        Kind::Int8,
        Kind::Int16,
        Kind::Int,
        Kind::Int64,
    ] {
        let read = statistics(&tensor.to_kind(kind));
        assert_eq!((read.mean, read.zeros, read.subnormals), (Some(5.5), 1, 0), "{kind:?}");
    }
    assert!(!Numbers::of(&Tensor::new()).read(&mut StatisticsReader::new(0)), "none is there");
}

#[test]
fn a_device_makes_of_a_tensor_what_the_host_reads() {
    let of = |numbers: &[f32], kind| Tensor::from_slice(numbers).to_kind(kind);
    let kind = |name: &str| match name {
        "f64" => Kind::Double,
        "f16" => Kind::Half,
        "bf16" => Kind::BFloat16,
        _ => Kind::Float,
    };
    let cases = hook::numbers_to_reduce();
    let cases: Vec<_> =
        cases.iter().map(|(name, of_kind, numbers)| (*name, of(numbers, kind(of_kind)))).collect();
    let many = &cases[0].1;
    let own = [
        ("turned", many.reshape([10, 100]).tr()),
        ("subnormal", of(&[1e-30, -2e-30, 1e-40], Kind::Float)),
        ("i64", Tensor::from_slice(&[1i64, 0, -7])),
        ("one", many.get(0)),
        ("with gradients", many.copy().set_requires_grad(true)),
    ];
    for (name, tensor) in cases.iter().chain(&own) {
        hook::assert_reduces_as_read(&Numbers::of(tensor), name);
    }
    assert!(Numbers::of(&Tensor::new()).reduce(Reduction::Statistics).is_none(), "none is there");
    let begin = |wanted: &str| {
        let (_, tensor) = cases.iter().find(|(name, _)| *name == wanted).expect("a case");
        Numbers::of(tensor).reduce(Reduction::Statistics).expect("it can")
    };
    // Tensors of different types are read together.
    let all = ["many", "of 64 bits", "zeros", "empty"].map(begin);
    let maxima = all.map(|reducing| reducing.read().expect("it has not failed").maximum);
    assert!(maxima[0] > 0.7 && maxima[1] > 0.7 && maxima[2..] == [0.0, 0.0], "{maxima:?}");
}

#[test]
fn the_change_of_a_parameter_is_reduced_as_a_difference() {
    let mut tensor = Tensor::from_slice(&[1f32, 2., 3., 4.]).reshape([2, 2]);
    let before = RefCell::new(None);
    let reduce = |tensor: &Tensor, change| {
        let numbers = Numbers { tensor, change };
        numbers.reduce(Reduction::Statistics).expect("it can").read().expect("it has not failed")
    };
    let sum = |reduced: &Reduced| reduced.shift * 4.0 + reduced.deviation;
    assert_eq!(sum(&reduce(&tensor, Change::Begins(&before))), 10.0);
    // The change is in place, as in optimizers.
    let _ = tensor.g_mul_scalar_(1.5);
    let before = before.take().expect("it is kept");
    let change = reduce(&tensor, Change::Since(&before));
    assert_eq!((sum(&change), change.minimum, change.maximum), (5.0, 0.5, 2.0));
}

#[test]
fn numbers_of_16_bits_are_what_torch_takes_them_for() {
    struct Kept(Vec<f64>);
    impl NumberReader for Kept {
        fn read_f32(&mut self, _numbers: &[f32]) {
            panic!("they have 16 bits")
        }
        fn read_f64(&mut self, _numbers: &[f64]) {
            panic!("they have 16 bits")
        }
        fn read_each(&mut self, numbers: &mut dyn Iterator<Item = f64>, _least: f64) {
            self.0.extend(numbers);
        }
    }
    let all: Vec<i16> = (i16::MIN..=i16::MAX).collect();
    let bits = Tensor::from_slice(&all);
    for kind in [Kind::Half, Kind::BFloat16] {
        let numbers = bits.view_dtype(kind);
        let doubles = Vec::<f64>::try_from(numbers.to_kind(Kind::Double)).expect("numbers");
        let mut kept = Kept(Vec::new());
        assert!(Numbers::of(&numbers).read(&mut kept));
        assert_eq!(kept.0.len(), doubles.len());
        for (bits, (value, expected)) in all.iter().zip(kept.0.into_iter().zip(doubles)) {
            assert!(value == expected || value.is_nan() && expected.is_nan(), "{bits:x}: {value}");
        }
    }
}

#[test]
fn a_step_tells_of_outputs_the_loss_gradients_parameters_and_updates() {
    let profiler = Arc::new(NumericsProfiler::new().every(1));
    let store = nn::VarStore::new(Device::Cpu);
    let path = store.root() / "head";
    let head = nn::linear(&path, 3, 2, Default::default()).profile_layer(&path);
    let mut optimizer = TchOptimizer::new(nn::Sgd::default(), &store, 0.5).expect("an optimizer");
    let active = activate(profiler.clone());
    let loss =
        head.forward(&Tensor::ones([4, 3], (Kind::Float, Device::Cpu))).square().mean(Kind::Float);
    optimizer.backward(&loss, 1.0).expect("gradients");
    let gradient: f64 = optimizer.variables()[0].grad().norm().try_into().expect("a number");
    optimizer.step().expect("a step");
    profiler.step();
    drop(active);
    let report = profiler.snapshot();
    let mut rows: Vec<_> = report.tensors.iter().map(|row| (row.role.name(), &*row.name)).collect();
    let head = "[module]Linear: head";
    assert_eq!(rows[..3], [("batch", head), ("output", head), ("loss", "loss")]);
    rows.sort();
    let both = |role| [(role, "head.bias"), (role, "head.weight")];
    let expected = ["batch", "gradient", "loss", "output", "parameter", "update"]
        .into_iter()
        .flat_map(|role| match role {
            "loss" => vec![("loss", "loss")],
            "batch" | "output" => vec![(role, head)],
            role => both(role).to_vec(),
        });
    assert_eq!(rows, expected.collect::<Vec<_>>());
    let first = optimizer.variables()[0].size().len();
    let is_it = |row: &&mlprof_core::report::numerics::TensorRow| {
        row.role == hook::TensorRole::Update && row.shape.len() == first
    };
    // In plain gradient descent, the update is the gradient times the learning rate.
    let update = report.tensors.iter().find(is_it).expect("an update").last.l2_norm;
    assert!((update - 0.5 * gradient).abs() < 1e-6, "{update}, {gradient}");
}

#[test]
fn the_layer_that_makes_the_first_nan_is_named() {
    let profiler = Arc::new(NumericsProfiler::new().every(0));
    let logarithm = nn::func(|x| x.log()).profile_layer("logarithm");
    let active = activate(profiler.clone());
    for step in 0..3 {
        let _ = logarithm.forward(&Tensor::from_slice(&[2f32, 1.0 - step as f32]));
        profiler.step();
    }
    drop(active);
    let first = profiler.snapshot().first_not_finite.expect("a NaN");
    assert_eq!(first.name, "[module]Func: logarithm");
    assert_eq!((first.step, first.statistics.infinities), (1, 1));
    assert_eq!(first.input.expect("is known").minimum, Some(0.0));
}
