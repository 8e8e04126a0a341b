//! Classification of host memory in the Tensor profiler's timeline.

use std::sync::{Arc, Mutex};

use candle_core::{DType, Device, Module, Result, Tensor};
use candle_nn::{AdamW, Linear, Optimizer, ParamsAdamW, VarMap, linear};
use mlprof_candle::prelude::*;
use mlprof_core::Report;
use mlprof_core::allocation::TrackingAllocator;
use mlprof_core::hook::MemoryCategory;
use mlprof_core::trace::memory::MemoryTimeline;

#[global_allocator]
static ALLOCATOR: TrackingAllocator = TrackingAllocator::new();

/// Size of weight and bias in bytes. Each is larger than 1 kB.
const PARAMETERS: u64 = (64 * 512 + 512) * 4;

fn net() -> Result<(VarMap, Linear)> {
    let vars = VarMap::new();
    let vb = seeded_var_builder(&vars, 1, DType::F32, &Device::Cpu);
    let layer = linear(64, 512, vb)?;
    Ok((vars, layer))
}

/// Records the memory of a step after two unrecorded ones. Returns its timeline and the report's
/// notes.
fn third_step(mut step: impl FnMut() -> Result<()>) -> Result<(MemoryTimeline, Vec<String>)> {
    step()?;
    step()?;
    let timelines = Arc::new(Mutex::new(Vec::new()));
    let target = timelines.clone();
    let profiler = TensorProfiler::new().without_schedule().profile_memory(true);
    let profiler = Arc::new(profiler.on_trace_ready(move |cycle| {
        target.lock().expect("no panic").push(cycle.memory_timeline());
    }));
    let active = activate(profiler.clone());
    step()?;
    profiler.teardown(None);
    drop(active);
    let timeline = timelines.lock().expect("no panic").remove(0);
    let Some(Report::Tensor(report)) = profiler.report() else { panic!("no report") };
    let mut notes = report.header.notes;
    notes.retain(|note| note.contains("optimizer"));
    Ok((timeline, notes))
}

/// Returns the minimum and maximum of a category over time, in bytes.
fn level(timeline: &MemoryTimeline, category: MemoryCategory) -> (u64, u64) {
    let levels = timeline.devices.iter().flat_map(|device| &device.levels);
    let bytes = || levels.clone().filter(|of| of.category == category).flat_map(|of| &of.bytes);
    (bytes().copied().min().unwrap_or(0), bytes().copied().max().unwrap_or(0))
}

#[test]
fn adamw_state_is_known_from_the_start_of_a_recording() -> Result<()> {
    let config = || ParamsAdamW { lr: 0.1, ..ParamsAdamW::default() };
    let x = Tensor::ones((2, 64), DType::F32, &Device::Cpu)?;

    let (vars, layer) = net()?;
    let loss = || layer.forward(&x)?.sqr()?.mean_all();
    let mut optimizer = ProfiledOptimizer::<AdamW>::new(vars_by_name(&vars), config())?;
    let (timeline, notes) = third_step(|| optimizer.backward_step(&loss()?))?;
    assert_eq!(notes, [""; 0]);
    assert_eq!(level(&timeline, MemoryCategory::Parameter), (PARAMETERS, PARAMETERS));
    let two_moments = (2 * PARAMETERS, 2 * PARAMETERS);
    assert_eq!(level(&timeline, MemoryCategory::OptimizerState), two_moments);

    let (vars, layer) = net()?;
    let loss = || layer.forward(&x)?.sqr()?.mean_all();
    let mut optimizer =
        CandleOptimizer::<AdamW>::new(vars_by_name(&vars), config()).expect("variables");
    let (timeline, notes) = third_step(|| {
        let _step = mlprof_core::profile!("optimizer_step");
        optimizer.zero_grad().expect("nothing to fail");
        optimizer.backward(&loss()?, 1.0).expect("reached");
        optimizer.step().expect("stepped");
        Ok(())
    })?;
    assert_eq!(level(&timeline, MemoryCategory::Parameter), (PARAMETERS, PARAMETERS));
    // Memory that is allocated in a step and stays alive, such as accumulated gradients here,
    // counts in addition.
    let (least, _) = level(&timeline, MemoryCategory::OptimizerState);
    assert_eq!(least, 2 * PARAMETERS);
    assert_eq!(notes, [""; 0]);

    // The optimizer existed before and does not expose its state.
    let (vars, layer) = net()?;
    let loss = || layer.forward(&x)?.sqr()?.mean_all();
    let mut optimizer = AdamW::new(vars_by_name(&vars), config())?.profile_optimizer();
    let (timeline, notes) = third_step(|| optimizer.backward_step(&loss()?))?;
    assert_eq!(level(&timeline, MemoryCategory::OptimizerState), (0, 0));
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("`ProfiledOptimizer::<AdamW>::new(vars, config)`"), "{notes:?}");
    Ok(())
}
