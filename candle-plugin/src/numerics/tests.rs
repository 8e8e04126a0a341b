use std::cell::RefCell;
use std::sync::Arc;

use candle_core::{DType, Device, Var};
use candle_nn::{Linear, Module, RNN, SGD, VarMap};
use mlprof_core::hook::Reduced;
use mlprof_core::{NumericsProfiler, activate};
use mlprof_train::TrainOptimizer;

use super::*;
use crate::prelude::*;

fn statistics(tensor: &Tensor) -> mlprof_core::report::numerics::TensorStatistics {
    let numbers = Numbers::of(tensor);
    let mut reader = mlprof_core::report::numerics::StatisticsReader::of_shape(&numbers.shape());
    assert!(numbers.read(&mut reader));
    reader.statistics()
}

#[test]
fn all_numbers_of_a_view_are_read_and_no_others() {
    let tensor = Tensor::arange(0f32, 12., &Device::Cpu).and_then(|it| it.reshape((3, 4)));
    let tensor = tensor.expect("a tensor");
    let row = tensor.get(1).expect("a row");
    let column = tensor.t().and_then(|turned| turned.get(1)).expect("a column");
    assert_eq!((statistics(&row).minimum, statistics(&row).maximum), (Some(4.), Some(7.)));
    let column = statistics(&column);
    assert_eq!((column.count, column.minimum, column.maximum), (3, Some(1.), Some(9.)));
    assert_eq!(statistics(&tensor.t().expect("turned")).l1_norm, 66.0);
    for dtype in [DType::F64, DType::F16, DType::BF16, DType::U8, DType::U32, DType::I64] {
        let other = tensor.to_dtype(dtype).expect("converted");
        let read = statistics(&other);
        assert_eq!((read.mean, read.zeros, read.subnormals), (Some(5.5), 1, 0), "{dtype:?}");
    }
}

#[test]
fn a_device_makes_of_a_tensor_what_the_host_reads() {
    let of = |numbers: &[f32], dtype| {
        Tensor::new(numbers, &Device::Cpu).and_then(|it| it.to_dtype(dtype)).expect("a tensor")
    };
    let dtype = |name: &str| match name {
        "f64" => DType::F64,
        "f16" => DType::F16,
        "bf16" => DType::BF16,
        _ => DType::F32,
    };
    let cases = hook::numbers_to_reduce();
    let cases: Vec<_> =
        cases.iter().map(|(name, kind, numbers)| (*name, of(numbers, dtype(kind)))).collect();
    let many = &cases[0].1;
    let own = [
        ("turned", many.reshape((10, 100)).and_then(|it| it.t()).expect("turned")),
        ("subnormal", of(&[1e-30, -2e-30, 1e-40], DType::F32)),
        ("u32", of(&[1.0, 0.0, 7.0], DType::U32)),
        ("one", many.get(0).expect("a number")),
    ];
    for (name, tensor) in cases.iter().chain(&own) {
        hook::assert_reduces_as_read(&Numbers::of(tensor), name);
    }
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
    let var = Var::new(&[[1f32, 2.], [3., 4.]], &Device::Cpu).expect("a variable");
    let before = RefCell::new(None);
    let reduce = |change| {
        let numbers = Numbers { tensor: var.as_tensor(), change };
        numbers.reduce(Reduction::Statistics).expect("it can").read().expect("it has not failed")
    };
    let sum = |reduced: &Reduced| reduced.shift * 4.0 + reduced.deviation;
    assert_eq!(sum(&reduce(Change::Begins(&before))), 10.0);
    var.set(&var.as_tensor().affine(1.5, 0.0).expect("a tensor")).expect("set");
    let before = before.take().expect("it is kept");
    let change = reduce(Change::Since(&before));
    assert_eq!((sum(&change), change.minimum, change.maximum), (5.0, 0.5, 2.0));
}

/// Neighbouring values differ by a subnormal `f16`.
#[test]
fn the_change_of_16_bits_is_not_subnormal_in_them() {
    let numbers = |by: f32| {
        let wide = Tensor::new(&[0.001f32 * by, 0.002 * by], &Device::Cpu).expect("a tensor");
        wide.to_dtype(DType::F16).expect("a tensor")
    };
    let var = Var::from_tensor(&numbers(1.0)).expect("a variable");
    let before = RefCell::new(None);
    let reduce = |change| {
        let numbers = Numbers { tensor: var.as_tensor(), change };
        numbers.reduce(Reduction::Statistics).expect("it can").read().expect("it has not failed")
    };
    assert_eq!(reduce(Change::Begins(&before)).subnormals, 0);
    var.set(&numbers(1.01)).expect("set");
    let before = before.take().expect("it is kept");
    let change = reduce(Change::Since(&before));
    assert_eq!((change.subnormals, change.zeros), (0, 0));
}

/// In recorded steps, batches on any device are read.
#[test]
fn a_copy_on_the_host_is_the_same_tensor() {
    let tensor = Tensor::new(&[1f32, 2., 0.5], &Device::Cpu).expect("a tensor");
    let mut reader = mlprof_core::report::numerics::StatisticsReader::new(3);
    assert!(Numbers::of(&tensor).read_waiting(&mut reader));
    assert_eq!(reader.statistics(), statistics(&tensor));
}

#[test]
fn a_step_tells_of_outputs_the_loss_gradients_parameters_and_updates() {
    let profiler = Arc::new(NumericsProfiler::new().every(1));
    let vars = VarMap::new();
    let vb = seeded_var_builder(&vars, 1, DType::F32, &Device::Cpu);
    let head: ProfiledLayer<Linear> =
        vb.pp("head").profile_layer(|vb| candle_nn::linear(3, 2, vb)).expect("a layer");
    let mut optimizer =
        CandleOptimizer::<SGD>::new(vars_by_name(&vars), 0.5).expect("an optimizer");
    let before = optimizer.vars()[1].to_vec2::<f32>().expect("numbers");
    let active = activate(profiler.clone());
    let input = Tensor::ones((4, 3), DType::F32, &Device::Cpu).expect("a tensor");
    let loss = head.forward(&input).and_then(|it| it.sqr()?.mean_all()).expect("a loss");
    optimizer.backward(&loss, 1.0).expect("gradients");
    optimizer.step().expect("a step");
    profiler.step();
    drop(active);
    let report = profiler.snapshot();
    let rows: Vec<_> = report.tensors.iter().map(|row| (row.role.name(), &*row.name)).collect();
    let of_parameter = |name| [("gradient", name), ("parameter", name)];
    let head = "[module]Linear: head";
    let mut expected = vec![("batch", head), ("output", head), ("loss", "loss")];
    expected.extend(of_parameter("head.bias"));
    expected.extend(of_parameter("head.weight"));
    expected.extend([("update", "head.bias"), ("update", "head.weight")]);
    assert_eq!(rows, expected);
    let after = optimizer.vars()[1].to_vec2::<f32>().expect("numbers");
    let numbers = |rows: &[Vec<f32>]| rows.concat();
    let pairs = numbers(&before).into_iter().zip(numbers(&after));
    let changed: f64 =
        pairs.map(|(before, after)| (f64::from(after) - f64::from(before)).powi(2)).sum();
    let update = report.tensors.last().expect("rows").last.l2_norm;
    assert!((update - changed.sqrt()).abs() < 1e-9 && update > 0.0, "{update}, {changed}");
    assert_eq!(report.first_not_finite, None);
}

/// A recorded batch represents the batch. Otherwise, the input of the first layer does.
#[test]
fn a_batch_is_told_of_or_what_the_first_layer_is_given() {
    let hashes = |tells: bool, kind: DType| {
        let folder = tempfile::tempdir().expect("a folder");
        let profiler = Arc::new(NumericsProfiler::new().every(1).dirpath(folder.path()));
        let layer = (|x: &Tensor| x.relu()).profile_layer("layer");
        let active = activate(profiler.clone());
        let input = Tensor::new(&[1f32, 2., 0.5], &Device::Cpu).and_then(|it| it.to_dtype(kind));
        let input = input.expect("a tensor");
        if tells {
            record_batch("labels", &Tensor::new(&[7u32], &Device::Cpu).expect("a tensor"));
            record_batch("inputs", &input);
        }
        layer.forward(&input).and_then(|it| layer.forward(&it)).expect("a tensor");
        profiler.step();
        drop(active);
        let text = std::fs::read_to_string(&profiler.snapshot().files[0]).expect("a record");
        let rows = text.lines().skip(1).map(|line| {
            mlprof_core::report::numerics::RecordedTensor::from_line(line).expect("a tensor")
        });
        let batch = rows.filter(|row| row.role == TensorRole::Batch);
        let batch = batch.map(|row| (row.name, row.hash.expect("a batch has a hash")));
        batch.collect::<Vec<_>>()
    };
    let told = hashes(true, DType::F32);
    let names: Vec<_> = told.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["labels", "inputs"]);
    let seen = hashes(false, DType::F64);
    let [(name, hash)] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!((name.as_str(), hash), ("[module]closure: layer", &told[1].1));
}

/// A recurrent layer returns one state per step. All hidden states together are its output.
#[test]
fn recurrent_layers_tell_of_their_outputs() {
    let profiler = Arc::new(NumericsProfiler::new().every(1));
    let vars = VarMap::new();
    let vb = seeded_var_builder(&vars, 1, DType::F32, &Device::Cpu);
    let lstm = candle_nn::lstm(3, 2, Default::default(), vb.pp("lstm")).expect("a layer");
    let gru = candle_nn::gru(3, 2, Default::default(), vb.pp("gru")).expect("a layer");
    let (lstm, gru) = (lstm.profile_layer("lstm"), gru.profile_layer("gru"));
    let input = Tensor::ones((4, 5, 3), DType::F32, &Device::Cpu).expect("a tensor");
    let active = activate(profiler.clone());
    let states = lstm.seq(&input).expect("states");
    gru.seq_init(&input, &gru.zero_state(4).expect("a state")).expect("states");
    gru.step(
        &input.narrow(1, 0, 1).and_then(|it| it.squeeze(1)).expect("a step"),
        &gru.zero_state(4).expect("a state"),
    )
    .expect("a state");
    drop(active);
    let report = profiler.snapshot();
    let outputs: Vec<_> =
        report.tensors.iter().filter(|row| row.role == TensorRole::Output).collect();
    let rows: Vec<_> = outputs.iter().map(|row| (&*row.name, row.tensors, &*row.shape)).collect();
    let expected: [(&str, u64, &[u64]); 2] =
        [("[module]LSTM: lstm", 1, &[4, 5, 2]), ("[module]GRU: gru", 2, &[4, 2])];
    assert_eq!(rows, expected);
    let output = lstm.states_to_tensor(&states).expect("a tensor");
    assert_eq!(outputs[0].last, statistics(&output));
    assert!(output.abs().and_then(|it| it.sum_all()?.to_scalar::<f32>()).expect("a sum") > 0.0);
}

#[test]
fn the_layer_that_makes_the_first_nan_is_named() {
    let profiler = Arc::new(NumericsProfiler::new().every(0));
    let logarithm = (|x: &Tensor| x.log()).profile_layer("logarithm");
    let double = (|x: &Tensor| x * 2.0).profile_layer("double");
    let active = activate(profiler.clone());
    for step in 0..3 {
        let input = Tensor::new(&[2f32, 1.0 - step as f32], &Device::Cpu).expect("a tensor");
        let output = double.forward(&input).and_then(|it| logarithm.forward(&it));
        double.forward(&output.expect("a tensor")).expect("a tensor");
        profiler.step();
    }
    drop(active);
    let report = profiler.snapshot();
    let first = report.first_not_finite.as_ref().expect("a NaN");
    assert_eq!(first.name, "[module]closure: logarithm");
    assert_eq!((first.step, first.statistics.infinities), (1, 1));
    assert_eq!(first.input.expect("is known").minimum, Some(0.0));
    // The logarithm and its dependent value are not finite, in each of two steps.
    assert_eq!(report.not_finite, 4);
    assert_eq!(report.recorded_steps, 1, "the step after it");
}

/// Runs three layers and returns the first with non-finite values. `first` modifies the first
/// layer's output, and `between` the second layer's output.
fn first_in_a_step(
    first: impl Fn(Tensor) -> Result<Tensor>,
    between: impl Fn(Tensor) -> Result<Tensor>,
) -> mlprof_core::report::numerics::RecordedTensor {
    let profiler = Arc::new(NumericsProfiler::new().every(0));
    let vars = VarMap::new();
    let vb = seeded_var_builder(&vars, 1, DType::F32, &Device::Cpu);
    let layer = |name: &str| {
        let layer = vb.pp(name).profile_layer(|vb| candle_nn::linear(3, 3, vb));
        layer.expect("a layer")
    };
    let layers: [ProfiledLayer<Linear>; 3] = [layer("l1"), layer("l2"), layer("l3")];
    let optimizer = CandleOptimizer::<SGD>::new(vars_by_name(&vars), 0.5);
    let mut optimizer = optimizer.expect("an optimizer");
    let active = activate(profiler.clone());
    let input = Tensor::ones((4, 3), DType::F32, &Device::Cpu).expect("a tensor");
    let output = layers[0].forward(&input).and_then(&first);
    let output = output.and_then(|it| layers[1].forward(&it)).and_then(&between);
    let loss = output.and_then(|it| layers[2].forward(&it)?.sqr()?.mean_all()).expect("a loss");
    optimizer.backward(&loss, 1.0).expect("gradients");
    optimizer.step().expect("a step");
    profiler.step();
    drop(active);
    profiler.snapshot().first_not_finite.expect("a NaN")
}

/// Gradients are ordered by name and not by the backward pass.
#[test]
fn a_nan_that_a_layer_masks_is_named_by_the_layers_around_it() {
    let masked = |it: Tensor| it.affine(1e-9, -1.0)?.relu()?.log()?.affine(1e-3, 0.0)?.relu();
    let first = first_in_a_step(Ok, masked);
    assert_eq!((first.role, &*first.name), (TensorRole::Gradient, "l2.bias"));
    let said = first.what_is_not_finite();
    for part in [
        "The fault began in the backward pass of [module]Linear: l2 (created at candle-plugin/src/numerics/tests.rs:",
        "), or between [module]Linear: l3 (its gradients are finite; created at candle-plugin/src/numerics/tests.rs:",
    ] {
        assert!(said.contains(part), "{said}");
    }
    // This file belongs to the plugin, and locations inside the plugin are not reported.
    assert_eq!(first.location, None);
}

#[test]
fn a_nan_between_two_layers_is_named_by_both() {
    let first = first_in_a_step(|it| it.affine(1e-9, -1.0)?.log(), Ok);
    assert_eq!((first.role, &*first.name), (TensorRole::Output, "[module]Linear: l2"));
    let said = first.what_is_not_finite();
    let expected = "The fault began between [module]Linear: l1 (its output was finite; created at ";
    assert!(said.contains(expected) && !said.contains("called at"), "{said}");
}
