//! Tests of the allocations that the Tensor profiler records, and of their categories.

mod models;
mod recorded;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use mlprof_core::hook::MemoryCategory;
use mlprof_core::tensor::TensorProfiler;
use mlprof_tch::prelude::*;
use models::digits_cnn;
use recorded::{Recorded, record, turn};
use tch::nn::{self, Module, OptimizerConfig};
use tch::{Device, Kind, Tensor, kind::FLOAT_CPU};

fn all() -> TensorProfiler {
    mlprof_tch::ops::install();
    TensorProfiler::new()
}

fn square(side: i64) -> Tensor {
    Tensor::ones([side, side], FLOAT_CPU)
}

#[test]
fn memory_is_recorded_where_it_is_wanted_on_every_thread_that_runs_ops() {
    let _turn = turn();
    let recorded = record(all().profile_memory(true), || {
        drop(square(100));
        std::thread::spawn(|| drop(square(50))).join().expect("no panic");
    });
    let sizes = |bytes: i64| recorded.memory.iter().filter(|change| change.bytes == bytes).count();
    assert_eq!([40_000, -40_000, 10_000, -10_000].map(sizes), [1; 4], "{:?}", recorded.memory);
    let threads: BTreeSet<_> = recorded.memory.iter().map(|change| change.thread).collect();
    assert_eq!(threads.len(), 2);
    assert!(recorded.memory.iter().all(|change| change.address != 0));
    assert!(record(all(), || drop(square(100))).memory.is_empty());
}

/// Returns the labels of this category, one per memory block.
fn labelled(recorded: &Recorded, category: MemoryCategory) -> BTreeSet<(u64, u64)> {
    let labels = recorded.labels.iter().filter(|label| label.category == category);
    labels.map(|label| (label.address, label.bytes)).collect()
}

#[test]
fn it_is_known_what_memory_is_for() {
    let _turn = turn();
    let mut training = digits_cnn(4);
    let recorded = record(all().profile_memory(true), || {
        training.step();
    });
    let bytes = |tensor: &Tensor| (tensor.numel() * tensor.kind().elt_size_in_bytes()) as u64;
    let place = |tensor: &Tensor| (tensor.data_ptr() as u64, bytes(tensor));
    let variables = training.store.variables();
    let parameters: BTreeSet<_> = variables.values().map(place).collect();
    assert_eq!(labelled(&recorded, MemoryCategory::Parameter), parameters);
    let trainable = training.optimizer.variables();
    let gradients: BTreeSet<_> = trainable.iter().map(|variable| place(&variable.grad())).collect();
    assert_eq!(labelled(&recorded, MemoryCategory::Gradient), gradients);
    // AdamW keeps two tensors per variable. It may also keep scalars that count the steps.
    let kept = labelled(&recorded, MemoryCategory::OptimizerState);
    let kept: u64 = kept.iter().map(|(_, bytes)| bytes).sum();
    let expected: u64 = 2 * trainable.iter().map(bytes).sum::<u64>();
    assert!(kept >= expected && kept < expected + 1000, "{kept} {expected}");

    // From the second step on, the optimizer allocates no new state, but its existing state is
    // known.
    let second = record(all().profile_memory(true), || {
        training.step();
    });
    let from_before = labelled(&second, MemoryCategory::OptimizerState);
    let bytes_from_before: u64 = from_before.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(bytes_from_before, expected);
    assert!(from_before.is_subset(&labelled(&recorded, MemoryCategory::OptimizerState)));
    assert_eq!(labelled(&second, MemoryCategory::Parameter), parameters);
}

/// Returns the bytes of optimizer state over time, in one step recorded after `earlier` other
/// steps.
fn state_over_time(earlier: usize, mut step: impl FnMut()) -> Vec<u64> {
    (0..earlier).for_each(|_| step());
    let timelines = Arc::new(Mutex::new(Vec::new()));
    let target = timelines.clone();
    let profiler = all().profile_memory(true).record_shapes(false).without_schedule();
    let profiler = Arc::new(profiler.on_trace_ready(move |cycle| {
        target.lock().expect("no panic").push(cycle.memory_timeline());
    }));
    let active = activate(profiler.clone());
    step();
    profiler.teardown(None);
    drop(active);
    let timeline = timelines.lock().expect("no panic").remove(0);
    let levels = timeline.devices.into_iter().flat_map(|device| device.levels);
    let of_state = levels.filter(|levels| levels.category == MemoryCategory::OptimizerState);
    of_state.flat_map(|levels| levels.bytes).collect()
}

#[test]
fn earlier_optimizer_state_exists_from_the_start_of_a_recording() {
    let _turn = turn();
    let input = Tensor::rand([16, 8], FLOAT_CPU);
    let store = nn::VarStore::new(Device::Cpu);
    let layer = nn::linear(store.root(), 8, 64, Default::default());
    let loss = || layer.forward(&input).square().mean(Kind::Float);
    let parameters = (8 * 64 + 64) * 4;

    let mut adam = nn::Adam::default().build(&store, 0.1).expect("valid").profile_optimizer();
    let kept = state_over_time(2, || adam.backward_step(&loss()));
    assert!(!kept.is_empty() && kept.iter().all(|bytes| *bytes == 2 * parameters), "{kept:?}");

    let momentum = nn::Sgd { momentum: 0.9, ..nn::Sgd::default() };
    let mut sgd = momentum.build(&store, 0.1).expect("valid").profile_optimizer();
    let kept = state_over_time(2, || sgd.backward_step(&loss()));
    assert!(!kept.is_empty() && kept.iter().all(|bytes| *bytes == parameters), "{kept:?}");

    let mut plain = nn::Sgd::default().build(&store, 0.1).expect("valid").profile_optimizer();
    assert_eq!(state_over_time(2, || plain.backward_step(&loss())), [0; 0], "it keeps nothing");
}

#[test]
fn batches_and_the_variables_of_a_loop_of_ones_own_are_known_too() {
    let _turn = turn();
    let store = nn::VarStore::new(Device::Cpu);
    let layer = nn::linear(store.root(), 8, 1, Default::default());
    let mut optimizer = nn::Sgd::default().build(&store, 0.1).expect("valid").profile_optimizer();
    let mut place = 0;
    let recorded = record(all().profile_memory(true), || {
        let batch = Tensor::rand([16, 8], FLOAT_CPU).move_to(Device::Cpu).expect("it is there");
        place = batch.data_ptr() as u64;
        optimizer.backward_step(&layer.forward(&batch).square().mean(Kind::Float));
    });
    assert_eq!(labelled(&recorded, MemoryCategory::Input), BTreeSet::from([(place, 16 * 8 * 4)]));
    let sizes = |category| -> Vec<u64> {
        let mut sizes: Vec<_> = labelled(&recorded, category).iter().map(|label| label.1).collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(sizes(MemoryCategory::Parameter), [4, 32]);
    assert_eq!(sizes(MemoryCategory::Gradient), [4, 32]);
}
