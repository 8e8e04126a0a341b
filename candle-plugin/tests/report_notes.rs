//! Checks that reports note what candle cannot record.

use std::sync::Arc;

use candle_core::{DType, Device, Module, Result, Tensor, Var};
use candle_nn::{Linear, Optimizer, SGD};
use mlprof_candle::prelude::*;
use mlprof_core::Report;

/// Returns the notes of a report for four recorded steps of a hand-written loop.
fn notes(profiler: TensorProfiler) -> Result<Vec<String>> {
    let weight = Var::ones((3, 4), DType::F32, &Device::Cpu)?;
    let mut optimizer = SGD::new(vec![weight.clone()], 0.1)?.profile_optimizer();
    let layer = Linear::new(weight.as_tensor().clone(), None).profile_layer("layer");
    let input = Tensor::ones((2, 4), DType::F32, &Device::Cpu)?;
    let profiler = Arc::new(profiler.export_trace(false));
    let active = activate(profiler.clone());
    for _ in 0..6 {
        optimizer.backward_step(&layer.forward(&input)?.sqr()?.mean_all()?)?;
        profiler.step();
    }
    profiler.teardown(None);
    drop(active);
    let Some(Report::Tensor(report)) = profiler.report() else { panic!("no report") };
    let rows = || report.key_averages.rows.iter();
    for row in ["[module]Linear: layer", "backward", "Optimizer.step"] {
        assert!(rows().any(|found| found.name == row && found.calls == 3), "{row}: {report:?}");
    }
    Ok(report.header.notes)
}

/// One test covers both cases, because frameworks and allocators are process-wide.
#[test]
fn notes_explain_how_to_record_ops_and_memory() -> Result<()> {
    const OPS: &str =
        "candle provides no hook for its tensor ops: run the program under `mlprof run --ops";
    const MEMORY: &str = "there is no memory, because no source reports it";
    let told = |notes: &[String], what: &str| notes.iter().any(|note| note.starts_with(what));
    let of_ops = notes(TensorProfiler::new())?;
    assert!(told(&of_ops, OPS) && !told(&of_ops, MEMORY), "{of_ops:#?}");
    let of_both = notes(TensorProfiler::new().profile_memory(true))?;
    assert!(told(&of_both, OPS) && told(&of_both, MEMORY), "{of_both:#?}");
    Ok(())
}

#[test]
fn reports_say_what_candle_is_and_trains_on() -> Result<()> {
    let profiler = Arc::new(SimpleProfiler::new());
    let active = activate(profiler.clone());
    let weight = Var::ones(3, DType::F32, &Device::Cpu)?;
    let _optimizer = ProfiledOptimizer::<SGD>::new(vec![weight], 0.1)?;
    drop(active);
    let Some(Report::Simple(report)) = profiler.report() else { panic!("no report") };
    let [candle] = &report.header.frameworks[..] else { panic!("{:?}", report.header) };
    assert_eq!((candle.name.as_str(), candle.version.as_deref()), ("candle", Some("0.11")));
    assert_eq!(candle.has("mkl"), candle_core::utils::has_mkl());
    assert_eq!(candle.threads, Some(candle_core::utils::get_num_threads() as u64));
    assert_eq!(candle.devices, ["cpu"]);
    Ok(())
}
