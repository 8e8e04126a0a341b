//! Tests of modules that call each other in a different structure than their paths.

use mlprof_core::hook::{DType, Direction, InputsBuilder, OpStart};
use mlprof_core::report::tensor::{ModuleStatistics, TensorReport};
use mlprof_core::tensor::GroupBy;
use mlprof_core::{Action, Profiler, ProfilerExt, Report, TensorProfiler};

/// Runs a matrix product of `2 × size` operations, as a forward op or as the backward op of a
/// forward op.
fn product(profiler: &TensorProfiler, size: i64, sequence: u32, direction: Direction) {
    let mut inputs = InputsBuilder::new();
    inputs.tensor(DType::Float32, &[1, size]);
    inputs.tensor(DType::Float32, &[size, 1]);
    let mut op = OpStart::new(Action::op("aten::mm"));
    (op.inputs, op.sequence) = (Some(&inputs), sequence);
    (op.forward_thread, op.direction) = (7, direction);
    profiler.start_op(&op);
    std::hint::black_box((0..200).sum::<u64>());
    profiler.stop(op.action).expect("was started");
}

fn forward(profiler: &TensorProfiler, size: i64, sequence: u32) {
    product(profiler, size, sequence, Direction::Forward);
}

fn call(profiler: &TensorProfiler, path: &str, inside: impl FnOnce()) {
    let _module = profiler.profile(Action::module("Layer", path));
    inside();
}

/// Collects every module with its total and its own operations, forward and backward.
fn operations(modules: &[ModuleStatistics], found: &mut Vec<(String, u64, [u64; 4])>) {
    for module in modules {
        let (total, own) = (&module.total, &module.own);
        let numbers =
            [total.forward_flops, own.forward_flops, total.backward_flops, own.backward_flops];
        found.push((module.path.clone(), module.calls, numbers));
        operations(&module.children, found);
    }
}

fn every<'report>(modules: &'report [ModuleStatistics], all: &mut Vec<&'report ModuleStatistics>) {
    for module in modules {
        all.push(module);
        every(&module.children, all);
    }
}

fn recorded(work: impl Fn(&TensorProfiler)) -> (TensorReport, TensorProfiler) {
    let profiler = TensorProfiler::new().without_schedule().export_trace(false);
    work(&profiler);
    profiler.describe();
    let Some(Report::Tensor(report)) = profiler.report() else { panic!("no report") };
    (report, profiler)
}

/// Runs two blocks in which the module paths do not match the calls.
fn model(profiler: &TensorProfiler) {
    for _ in 0..3 {
        call(profiler, "block", || {
            call(profiler, "block.attn", || {
                forward(profiler, 10, 1);
                // The callee has an unrelated path.
                call(profiler, "shared.dropout", || forward(profiler, 100, 2));
            });
            // This call is outside of the module that its path belongs to.
            call(profiler, "block.attn.proj", || forward(profiler, 1000, 3));
        });
        // This call is outside of all modules.
        call(profiler, "block.attn.proj", || forward(profiler, 10_000, 4));
        // The module is inside itself, directly and through another module.
        call(profiler, "loop", || {
            call(profiler, "loop", || forward(profiler, 100_000, 5));
            call(profiler, "loop.inner", || {
                call(profiler, "loop", || forward(profiler, 1_000_000, 6))
            });
        });
        for sequence in (1..=6).rev() {
            product(profiler, 1, sequence, Direction::Backward);
        }
    }
}

#[test]
fn operations_belong_to_the_calls_that_they_ran_in() {
    let (report, _) = recorded(model);
    let mut found = Vec::new();
    operations(&report.modules, &mut found);
    let each = |numbers: [u64; 4]| numbers.map(|number| 3 * 2 * number);
    let expected = [
        ("block", 3, each([1110, 0, 3, 0])),
        ("block.attn", 3, each([110, 10, 2, 1])),
        ("block.attn.proj", 6, each([11_000, 11_000, 2, 2])),
        ("shared", 0, each([100, 0, 1, 0])),
        ("shared.dropout", 3, each([100, 100, 1, 1])),
        ("loop", 9, each([1_100_000, 1_100_000, 2, 2])),
        ("loop.inner", 3, each([1_000_000, 0, 1, 0])),
    ];
    let expected = expected.map(|(path, calls, numbers)| (path.to_owned(), calls, numbers));
    assert_eq!(found, expected);
    // The own operations of all modules add up to the total.
    let own: u64 = found.iter().map(|(_, _, numbers)| numbers[1] + numbers[3]).sum();
    let rows = report.key_averages.rows.iter();
    assert_eq!(own, rows.map(|row| row.flops).sum::<u64>());
}

#[test]
fn times_of_modules_are_those_of_their_rows() {
    let (report, profiler) = recorded(model);
    let averages = profiler.key_averages(&GroupBy::name());
    let mut modules = Vec::new();
    every(&report.modules, &mut modules);
    let mut compared = 0;
    for module in modules.iter().filter(|module| module.calls > 0) {
        let name = format!("[module]Layer: {}", module.path);
        let row = averages.rows.iter().find(|row| row.name == name).expect("a row");
        let apart = (row.cpu_seconds - module.total.forward_seconds).abs();
        assert!(apart < 1e-9, "{name}: {} and {:?}", row.cpu_seconds, module.total);
        assert_eq!(row.calls, module.calls);
        compared += 1;
    }
    assert_eq!(compared, 6);
    let text = profiler.summary();
    assert!(text.contains("The tree shows paths, the numbers follow"), "{text}");
}
