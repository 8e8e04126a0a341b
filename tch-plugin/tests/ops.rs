//! Tests the ops that the Tensor profiler records: inputs, threads and recording windows.

mod models;
mod recorded;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, PoisonError};

use mlprof_core::hook::{DType, OpStart, TensorShape};
use mlprof_core::tensor::{Schedule, TensorProfiler};
use mlprof_core::{
    Action, ActionKind, Interest, NeverStarted, Profiler, SimpleProfiler, activate, profile,
};
use mlprof_tch::prelude::*;
use models::{digits_cnn, transformer};
use recorded::{Recorded, collecting, record, turn};
use tch::nn::{self, Module};
use tch::{Device, Kind, Tensor, kind::FLOAT_CPU};

fn all() -> TensorProfiler {
    mlprof_tch::ops::install();
    TensorProfiler::new()
}

fn square(side: i64) -> Tensor {
    Tensor::ones([side, side], FLOAT_CPU)
}

/// Returns the inputs of the only op with this name.
fn inputs_of(recorded: &Recorded, name: &str) -> Vec<TensorShape> {
    let mut ops = recorded.of_name(name);
    let op = ops.next().unwrap_or_else(|| panic!("no {name} in {recorded:#?}"));
    assert!(ops.next().is_none(), "{name} ran more than once");
    op.inputs.clone().expect("inputs are recorded")
}

#[test]
fn inputs_come_with_shapes_and_types() {
    let _turn = turn();
    use TensorShape::{Integers, List, NotATensor, Tensor as Shape};
    let kinds = [
        (Kind::Double, DType::Float64),
        (Kind::Float, DType::Float32),
        (Kind::Half, DType::Float16),
        (Kind::BFloat16, DType::BFloat16),
        (Kind::Float8e5m2, DType::Float8),
        (Kind::Int64, DType::Int64),
        (Kind::Int, DType::Int32),
        (Kind::Int16, DType::Int16),
        (Kind::Int8, DType::Int8),
        (Kind::Uint8, DType::UInt8),
        (Kind::Bool, DType::Bool),
        (Kind::ComplexFloat, DType::Complex64),
        (Kind::ComplexDouble, DType::Complex128),
    ];
    for (kind, expected) in kinds {
        let tensor = Tensor::empty([2, 0, 3], (kind, Device::Cpu));
        let recorded = record(all(), || drop(tensor.view([0])));
        let inputs = inputs_of(&recorded, "aten::view");
        assert_eq!(inputs, [Shape(expected, vec![2, 0, 3]), NotATensor], "{kind:?}");
    }
    let (scalar, deep) = (Tensor::from(1.0_f32), Tensor::ones([1; 12], FLOAT_CPU));
    let image = Tensor::ones([2, 4, 8, 8], FLOAT_CPU);
    let weight = Tensor::ones([6, 2, 3, 3], FLOAT_CPU);
    let recorded = record(all(), || {
        let _ = scalar.f_mul(&deep);
        let _ = Tensor::cat(&[square(1), square(1)], 0);
        let _ = image.f_conv2d::<Tensor>(&weight, None, [2, 1], [1, 0], [1, 1], 2);
        let _ = image.f_sum_dim_intlist([2_i64, 3].as_slice(), false, Kind::Float);
    });
    let float = |shape: &[i64]| Shape(DType::Float32, shape.to_vec());
    assert_eq!(inputs_of(&recorded, "aten::mul"), [float(&[]), float(&[1; 12])]);
    let list = List(vec![float(&[1, 1]), float(&[1, 1])]);
    assert_eq!(inputs_of(&recorded, "aten::cat"), [list, NotATensor]);
    let numbers = |values: &[i64]| Integers(values.to_vec());
    assert_eq!(
        inputs_of(&recorded, "aten::conv2d"),
        [
            float(&[2, 4, 8, 8]),
            float(&[6, 2, 3, 3]),
            NotATensor,
            numbers(&[2, 1]),
            numbers(&[1, 0]),
            numbers(&[1, 1]),
            numbers(&[2]),
        ]
    );
    // Integer arguments are recorded only for ops whose work depends on them.
    let sum = inputs_of(&recorded, "aten::sum");
    assert_eq!(sum[0], float(&[2, 4, 8, 8]));
    assert!(sum[1..].iter().all(|input| *input == NotATensor), "{sum:?}");
}

#[test]
fn a_list_of_more_tensors_than_fit_on_the_stack_is_whole() {
    let _turn = turn();
    let many: Vec<Tensor> = (0..1000).map(|_| square(2)).collect();
    let recorded = record(all(), || drop(Tensor::stack(&many, 0)));
    let inputs = inputs_of(&recorded, "aten::stack");
    let TensorShape::List(tensors) = &inputs[0] else { panic!("{inputs:?}") };
    assert_eq!(tensors.len(), 1000);
}

#[test]
fn ops_lie_in_the_actions_and_layers_around_them() {
    let _turn = turn();
    let store = nn::VarStore::new(Device::Cpu);
    let layer = nn::linear(store.root(), 2, 2, Default::default()).profile_layer("head");
    let recorded = record(all(), || {
        let _scope = profile!("forward");
        let _ = layer.forward(&square(2));
    });
    let find = |name| recorded.of_name(name).next().unwrap_or_else(|| panic!("no {name}"));
    let nested = ["forward", "[module]Linear: head", "aten::linear", "aten::addmm"].map(find);
    for pair in nested.windows(2) {
        assert!(pair[0].start <= pair[1].start && pair[1].end() <= pair[0].end(), "{pair:?}");
        assert!(pair[0].depth < pair[1].depth);
    }
    let kinds = nested.map(|op| op.kind);
    assert_eq!(kinds, [ActionKind::Action, ActionKind::Module, ActionKind::Op, ActionKind::Op]);
}

#[test]
fn nodes_of_autograd_and_what_is_in_them_are_backward() {
    let _turn = turn();
    let mut training = transformer(2, 4);
    training.step();
    let recorded = record(all(), || {
        training.step();
    });
    let nodes: Vec<_> =
        recorded.ops.iter().filter(|op| op.name.starts_with("autograd::engine")).collect();
    assert!(nodes.len() > 30);
    let is_inside = |start, end| nodes.iter().any(|node| node.start <= start && end <= node.end());
    for op in recorded.only_ops() {
        assert_eq!(op.is_backward, is_inside(op.start, op.end()), "{op:?}");
    }
    // A node and its forward op share two numbers.
    let gelu = recorded.of_name("GeluBackward0").next().expect("a node");
    assert!(gelu.sequence > 0 && gelu.forward_thread > 0);
    let forward = recorded
        .of_name("aten::gelu")
        .filter(|op| (op.sequence, op.forward_thread) == (gelu.sequence, gelu.forward_thread));
    assert_eq!(forward.count(), 1);
}

#[test]
fn only_the_active_steps_of_each_cycle_are_recorded() {
    let _turn = turn();
    mlprof_tch::ops::install();
    let schedule = Schedule::new().wait(1).warmup(1).active(2).repeat(3);
    let profiler = TensorProfiler::new().schedule(schedule);
    let (profiler, cycles) = collecting(profiler);
    let active = activate(profiler.clone());
    for step in 0..14_i64 {
        // The size identifies the step.
        let _ = square(step + 1).exp();
        profiler.step();
    }
    profiler.teardown(None);
    drop(active);
    let _ = square(100).exp();
    let cycles = cycles.lock().unwrap_or_else(PoisonError::into_inner);
    let sizes = cycles.iter().map(|cycle| {
        let sizes = cycle.of_name("aten::exp").map(|op| match op.inputs.as_deref() {
            Some([TensorShape::Tensor(_, sizes)]) => sizes[0] - 1,
            other => panic!("{other:?}"),
        });
        sizes.collect::<Vec<_>>()
    });
    assert_eq!(sizes.collect::<Vec<_>>(), [[2, 3], [6, 7], [10, 11]]);
}

#[test]
fn threads_record_side_by_side_and_may_outlive_the_recording() {
    let _turn = turn();
    const THREADS: usize = 8;
    const EACH: usize = 50;
    let (begin, end) = (Arc::new(Barrier::new(THREADS + 1)), Arc::new(Barrier::new(THREADS + 1)));
    let mut workers = Vec::new();
    let recorded = record(all(), || {
        for number in 1..=THREADS {
            let (begin, end) = (begin.clone(), end.clone());
            workers.push(std::thread::spawn(move || {
                begin.wait();
                for _ in 0..EACH {
                    let ones = square(number as i64).set_requires_grad(true);
                    ones.matmul(&ones).sum(Kind::Float).backward();
                }
                end.wait();
                // The recording has ended or is about to end.
                for _ in 0..EACH {
                    let _ = square(1).exp();
                }
            }));
        }
        begin.wait();
        end.wait();
    });
    for worker in workers {
        worker.join().expect("no panic");
    }
    let ops = recorded.of_name("aten::mm").map(|op| op.thread);
    assert_eq!(ops.collect::<BTreeSet<_>>().len(), THREADS);
    // The op runs once in forward and twice in backward.
    assert_eq!(recorded.of_name("aten::mm").count(), THREADS * EACH * 3);
    assert_eq!(recorded.dropped, 0);
}

#[test]
fn recordings_come_and_go_while_other_threads_are_in_ops() {
    let _turn = turn();
    let stop = AtomicBool::new(false);
    let rounds = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                let ones = square(8).set_requires_grad(true);
                while !stop.load(Ordering::Relaxed) {
                    ones.matmul(&ones).relu().sum(Kind::Float).backward();
                    rounds.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for number in 0..40 {
            let profiler = all().record_shapes(number % 2 == 0).profile_memory(number % 3 == 0);
            let recorded = record(profiler, || {
                let before = rounds.load(Ordering::Relaxed);
                while rounds.load(Ordering::Relaxed) < before + 3 {
                    let _ = square(2).exp();
                }
            });
            assert!(recorded.of_name("aten::exp").count() > 0);
            for op in recorded.only_ops() {
                assert!(op.nanoseconds < 60_000_000_000, "{op:?}");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let after = record(all(), || drop(square(2).exp()));
    assert_eq!(after.of_name("aten::exp").count(), 1);
}

#[test]
fn an_op_that_fails_ends_and_so_does_its_thread() {
    let _turn = turn();
    let recorded = record(all(), || {
        let outcome = std::thread::spawn(|| {
            let _scope = profile!("doomed");
            square(2).matmul(&square(3))
        })
        .join();
        assert!(outcome.is_err(), "tch panics");
        let outcome = catch_unwind(AssertUnwindSafe(|| square(2).matmul(&square(3))));
        assert!(outcome.is_err());
        assert!(square(2).f_matmul(&square(3)).is_err());
        let _ = square(2).exp();
    });
    assert_eq!(recorded.of_name("aten::matmul").count(), 3);
    assert!(recorded.ops.iter().all(|op| !op.is_unfinished));
    let after = recorded.of_name("aten::exp").next().expect("recording goes on");
    assert_eq!(after.depth, 0, "nothing stayed open");
    assert_eq!(recorded.of_name("doomed").count(), 1);
}

#[test]
fn the_innermost_of_several_profilers_records() {
    let _turn = turn();
    let (outer, outer_cycles) = collecting(all().without_schedule());
    let outer_active = activate(outer.clone());
    let _ = square(2).exp();
    let inner = record(all().record_shapes(false), || drop(square(2).log()));
    let simple = activate(Arc::new(SimpleProfiler::new()));
    let _ = square(2).sin();
    drop(simple);
    let _ = square(2).cos();
    outer.teardown(None);
    drop(outer_active);
    let outer = outer_cycles.lock().unwrap_or_else(PoisonError::into_inner).remove(0);
    let count = |recorded: &Recorded, name: &str| recorded.of_name(name).count();
    assert_eq!(
        ["aten::exp", "aten::log", "aten::sin", "aten::cos"].map(|op| count(&outer, op)),
        [1, 0, 0, 1]
    );
    assert_eq!(["aten::exp", "aten::log", "aten::cos"].map(|op| count(&inner, op)), [0, 1, 0]);
    assert!(inner.only_ops().all(|op| op.inputs.is_none()));
    assert!(outer.only_ops().all(|op| op.inputs.is_some()));
}

/// A profiler that panics or runs an op while it receives an op.
struct Awkward {
    panics: bool,
    started: Mutex<Vec<&'static str>>,
}

impl Profiler for Awkward {
    fn start(&self, _action: Action) {}
    fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
        let _ = square(2).sin();
        Ok(())
    }
    fn interest(&self) -> Interest {
        Interest::ACTIONS | Interest::OPS
    }
    fn start_op(&self, op: &OpStart<'_>) {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).push(op.action.name());
        let _ = square(2).cos();
        assert!(!self.panics, "as it was told to");
    }
}

#[test]
fn a_profiler_that_panics_or_runs_ops_itself_does_no_harm() {
    let _turn = turn();
    mlprof_tch::ops::install();
    let input = square(2);
    for panics in [false, true] {
        let profiler = Arc::new(Awkward { panics, started: Mutex::default() });
        let active = activate(profiler.clone());
        assert_eq!(input.exp().double_value(&[0, 0]), 1.0_f64.exp() as f32 as f64);
        drop(active);
        let started = profiler.started.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(started[0], "aten::exp");
        assert!(!started.contains(&"aten::cos") && !started.contains(&"aten::sin"), "{started:?}");
    }
}

#[test]
fn recording_does_not_change_training_results() {
    let _turn = turn();
    let losses = |recorded: bool| -> Vec<u64> {
        tch::manual_seed(11);
        let mut training = digits_cnn(8);
        let mut losses = Vec::new();
        let mut learn = || losses.extend((0..5).map(|_| training.step().to_bits()));
        if recorded {
            record(all().profile_memory(true), learn);
        } else {
            learn();
        }
        losses
    };
    assert_eq!(losses(true), losses(false));
}

#[test]
fn nothing_is_recorded_once_nobody_wants_it() {
    let _turn = turn();
    let recorded = record(all(), || {});
    assert_eq!(recorded.only_ops().count(), 0);
    let simple = Arc::new(SimpleProfiler::new());
    let active = activate(simple.clone());
    let _ = square(2).exp();
    drop(active);
    assert!(simple.snapshot().actions.is_empty());
    assert!(mlprof_tch::ops::is_supported());
}
