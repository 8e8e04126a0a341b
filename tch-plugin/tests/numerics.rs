//! Tests op outputs in the numerics profiler: it finds the op that produces the first non-finite
//! value.

mod turn;

use std::sync::Arc;

use mlprof_core::report::NumericsReport;
use mlprof_core::report::numerics::{RecordedTensor, TensorRow};
use mlprof_core::{NumericsProfiler, activate};
use mlprof_tch::prelude::*;
use tch::nn::{self, Module, OptimizerConfig, VarStore};
use tch::{Device, Kind, Tensor, kind::FLOAT_CPU};
use turn::turn;

/// Runs `steps` steps under a profiler that observes ops and records only the steps that it must
/// record.
fn watched(steps: u64, step: impl FnMut(u64)) -> NumericsReport {
    under(NumericsProfiler::new().every(0).ops(true), steps, step)
}

fn under(profiler: NumericsProfiler, steps: u64, mut step: impl FnMut(u64)) -> NumericsReport {
    mlprof_tch::ops::install();
    let profiler = Arc::new(profiler);
    let active = activate(profiler.clone());
    for number in 0..steps {
        step(number);
        profiler.step();
    }
    drop(active);
    profiler.snapshot()
}

fn first(report: &NumericsReport) -> &RecordedTensor {
    report.first_not_finite.as_ref().unwrap_or_else(|| panic!("nothing in {report:#?}"))
}

/// Returns the step, role and name of a tensor.
fn place(tensor: &RecordedTensor) -> (u64, &str, &str) {
    (tensor.step, tensor.role.name(), &tensor.name)
}

fn numbers(numbers: &[f32]) -> Tensor {
    Tensor::from_slice(numbers)
}

#[test]
fn a_logarithm_of_0_is_named_with_its_module_step_and_line() {
    let _turn = turn();
    let logarithm = nn::func(|x| x.relu().log()).profile_layer("logarithm");
    let double = nn::func(|x| x * 2.0).profile_layer("double");
    let report = watched(4, |step| {
        let output = logarithm.forward(&numbers(&[2.0, 2.0 - step as f32]));
        let _ = double.forward(&output);
    });
    let first = first(&report);
    assert_eq!(place(first), (2, "op_output", "[module]Func: logarithm > aten::log"));
    assert_eq!(first.statistics.infinities, 1);
    let input = first.input.expect("is known");
    assert_eq!((input.minimum, input.maximum, input.count), (Some(0.0), Some(2.0), 2));
    assert_eq!(report.first_op_not_finite, None, "it is the first one itself");
    let location = first.location.as_deref().unwrap_or("tch-plugin/tests/numerics.rs:");
    assert!(location.contains("tests/numerics.rs:"), "{location}");
    // The op and two modules are counted in each of two steps. The multiplication by two created no
    // new non-finite value.
    assert_eq!(report.not_finite, 6, "{report:#?}");
}

#[test]
fn a_division_by_a_variance_of_0_is_named() {
    let _turn = turn();
    let normal =
        nn::func(|x| (x - x.mean(Kind::Float)) / x.var(false).sqrt()).profile_layer("normal");
    let report = watched(3, |step| {
        let _ = normal.forward(&numbers(&[1.0, 1.0, if step == 1 { 1.0 } else { 2.0 }]));
    });
    let first = first(&report);
    assert_eq!(place(first), (1, "op_output", "[module]Func: normal > aten::div"));
    assert_eq!(first.statistics.nans, 3, "{report:#?}");
}

#[test]
fn a_number_that_a_gradient_makes_is_named_in_the_module_of_its_forward_op() {
    let _turn = turn();
    let root = nn::func(|x| x.sqrt()).profile_layer("root");
    let parameter = Tensor::from_slice(&[4_f32, 1.0]).set_requires_grad(true);
    let report = watched(3, |step| {
        let input = &parameter * numbers(&[1.0, if step == 1 { 0.0 } else { 1.0 }]);
        root.forward(&input).sum(Kind::Float).backward();
    });
    let first = first(&report);
    assert_eq!(place(first), (1, "backward_op_output", "[module]Func: root > aten::div"));
    assert!(first.input.expect("is known").is_finite());
}

#[test]
fn a_learning_rate_that_explodes_is_named_where_numbers_get_too_large() {
    let _turn = turn();
    let store = VarStore::new(Device::Cpu);
    let path = store.root() / "layer";
    let layer = nn::linear(&path, 2, 1, Default::default()).profile_layer(&path);
    let mut optimizer =
        nn::Sgd::default().build(&store, 1e20).expect("an optimizer").profile_optimizer();
    let report = watched(3, |_| {
        let output = layer.forward(&Tensor::ones([3, 2], FLOAT_CPU));
        optimizer.backward_step(&(output - 1.0).square().mean(Kind::Float));
    });
    let first = first(&report);
    assert_eq!(place(first), (1, "op_output", "aten::pow"), "its square is more than an f32 holds");
    let input = first.input.expect("is known");
    let largest = input.maximum.expect("numbers").abs().max(input.minimum.expect("numbers").abs());
    assert!(largest > 1e19 && input.is_finite(), "{input:?}");
}

#[test]
fn without_ops_the_next_step_names_the_op() {
    let _turn = turn();
    let logarithm = nn::func(|x| x.log()).profile_layer("logarithm");
    let run = |steps| {
        under(NumericsProfiler::new().every(0), steps, |step| {
            let _ = logarithm.forward(&numbers(&[2.0, 1.0 - step as f32]));
        })
    };
    let report = run(4);
    assert_eq!(place(first(&report)), (1, "output", "[module]Func: logarithm"));
    let op = report.first_op_not_finite.as_ref().expect("the step after it");
    assert_eq!(place(op), (2, "op_output", "[module]Func: logarithm > aten::log"));
    assert_eq!(report.recorded_steps, 1);
    // The op of step 3 is not observed.
    let ops: Vec<&TensorRow> = report.tensors.iter().filter(|row| row.role.is_of_op()).collect();
    assert!(ops.iter().all(|row| row.tensors == 1), "{ops:#?}");
    assert_eq!(run(2).first_op_not_finite, None, "there is no step after it");
}

#[test]
fn nothing_is_named_where_the_next_step_begins_with_nan() {
    let _turn = turn();
    let mut parameter = numbers(&[1.0]);
    let double = nn::func(|x| x * 2.0).profile_layer("double");
    let report = under(NumericsProfiler::new().every(0), 4, |step| {
        if step == 1 {
            parameter = numbers(&[f32::NAN]);
        }
        let _ = double.forward(&parameter);
    });
    assert_eq!(place(first(&report)), (1, "batch", "[module]Func: double"));
    assert_eq!(report.first_op_not_finite, None);
    let notes = &report.header.notes;
    assert!(notes.iter().any(|note| note.starts_with("no op is named: in step 2")), "{notes:?}");
}

#[test]
fn infinities_that_are_meant_are_none_and_what_they_make_is() {
    let _turn = turn();
    let scores = Tensor::zeros([2, 2], FLOAT_CPU);
    let attend = |mask: [bool; 4]| {
        let mask = Tensor::from_slice(&mask).view([2, 2]);
        let _ = scores.masked_fill(&mask, f64::NEG_INFINITY).softmax(-1, Kind::Float);
        let _ = Tensor::full([2], f64::NEG_INFINITY, FLOAT_CPU) + 1.0;
    };
    let report = watched(2, |_| attend([true, false, false, true]));
    assert_eq!((report.first_not_finite, report.not_finite), (None, 0));
    // The NaN comes from a row that is fully masked.
    let report = watched(2, |_| attend([true, true, false, false]));
    assert_eq!(place(first(&report)), (0, "op_output", "aten::_softmax"));
}

#[test]
fn tensors_changed_in_place_keep_their_earlier_values() {
    let _turn = turn();
    let report = watched(1, |_| {
        let mut tensor = numbers(&[0.0, 4.0]);
        let _ = tensor.log_();
        let _ = tensor.exp_();
    });
    let named = first(&report);
    assert_eq!(place(named), (0, "op_output", "aten::log_"));
    assert_eq!(named.input.expect("is known").maximum, Some(4.0));
    // An op that copies an existing NaN is not its origin.
    let report = watched(1, |_| {
        let mut tensor = numbers(&[f32::NAN]);
        let _ = tensor.g_add_scalar_(1.0);
    });
    assert_eq!(report.first_not_finite, None);
}

#[test]
fn a_cast_to_16_bits_is_named_whatever_was_in_the_memory_it_fills() {
    let _turn = turn();
    let report = watched(1, |_| {
        // The freed tensor contains NaN, and the next tensor of that size reuses its memory.
        drop(Tensor::full([64], f64::NAN, (Kind::Half, Device::Cpu)));
        let _ = numbers(&[1e5; 64]).to_kind(Kind::Half);
    });
    let named = first(&report);
    assert_eq!(place(named), (0, "op_output", "aten::copy_"));
    assert_eq!((&*named.element_type, named.statistics.infinities), ("f16", 64));
}

#[test]
fn created_tensors_are_reported_and_passed_ones_are_not() {
    let _turn = turn();
    let layer = nn::linear(VarStore::new(Device::Cpu).root(), 3, 2, Default::default());
    let layer = layer.profile_layer("layer");
    let report = under(NumericsProfiler::new().every(1).ops(true), 2, |_| {
        let output = layer.forward(&Tensor::ones([4, 3], FLOAT_CPU));
        let _ = output.view([2, 4]).tr().contiguous().empty_like();
        let _ = Tensor::cat(&[&output, &output], 0).split(4, 0);
    });
    let rows = report.tensors.iter().filter(|row| row.role.is_of_op());
    let ops: Vec<(&str, u64)> = rows.map(|row| (&*row.name, row.tensors)).collect();
    for op in ["[module]Linear: layer > aten::addmm", "aten::cat", "aten::copy_", "aten::fill_"] {
        assert!(ops.contains(&(op, 2)), "{op}: {ops:?}");
    }
    let handed_on = [
        "aten::linear",
        "aten::contiguous",
        "aten::view",
        "aten::t",
        "aten::transpose",
        "aten::split",
        "aten::expand",
    ];
    let is_wrong = |(name, _): &&(&str, u64)| {
        name.contains("empty") || handed_on.iter().any(|op| name.ends_with(op))
    };
    assert_eq!(ops.iter().find(is_wrong), None, "{ops:?}");
    assert_eq!(
        report.header.notes,
        ["no record was written, because it needs a directory: set dirpath"]
    );
}

#[test]
fn learning_is_the_same_to_the_last_bit_and_two_runs_are() {
    let _turn = turn();
    let train = |profiler: Option<NumericsProfiler>| {
        tch::manual_seed(3);
        let store = VarStore::new(Device::Cpu);
        let root = store.root();
        let net = nn::seq()
            .add(nn::linear(&root / "a", 4, 8, Default::default()).profile_layer("a"))
            .add_fn(|x| x.shallow_clone().relu_().dropout(0.5, true))
            .add(nn::linear(&root / "b", 8, 3, Default::default()).profile_layer("b"));
        let mut optimizer =
            nn::Adam::default().build(&store, 1e-2).expect("an optimizer").profile_optimizer();
        let mut step = |_| {
            let loss = net.forward(&Tensor::rand([16, 4], FLOAT_CPU)).square().mean(Kind::Float);
            optimizer.backward_step(&loss);
        };
        let report = profiler.map(|profiler| under(profiler, 6, &mut step));
        if report.is_none() {
            (0..6).for_each(step);
        }
        let mut variables: Vec<_> = store.variables().into_iter().collect();
        variables.sort_by(|one, other| one.0.cmp(&other.0));
        let bits = variables.iter().flat_map(|(_, tensor)| {
            let numbers = Vec::<f32>::try_from(tensor.flatten(0, -1)).expect("numbers");
            numbers.into_iter().map(f32::to_bits)
        });
        (bits.collect::<Vec<u32>>(), report.map(|report| report.tensors))
    };
    let all = || Some(NumericsProfiler::new().every(1).ops(true));
    let (plain, _) = train(None);
    let (recorded, rows) = train(all());
    assert_eq!(plain, recorded);
    let rows = rows.expect("a report");
    let of_role = |role: &str| rows.iter().filter(|row| row.role.name() == role).count();
    assert!(of_role("op_output") > 5 && of_role("backward_op_output") > 5, "{rows:#?}");
    let is_of_module = |row: &&TensorRow| {
        row.role.name() == "backward_op_output" && row.name.starts_with("[module]Linear: a > ")
    };
    assert!(rows.iter().any(|row| is_of_module(&row)), "{rows:#?}");
    assert_eq!(Some(rows), train(all()).1, "two runs are equal");
}
