//! Tests that the Tensor profiler receives the program's allocations.

use std::sync::Arc;

use mlprof_core::hook::{OpScope, OpStart};
use mlprof_core::tensor::Schedule;
use mlprof_core::{
    Action, Observation, Profiler, ProfilerExt, Report, RunContext, Stage, TensorProfiler, activate,
};

use crate::turn;

#[test]
fn ops_have_memory() {
    let _turn = turn();
    let profiler = Arc::new(TensorProfiler::new().without_schedule().profile_memory(true));
    let active = activate(profiler.clone());
    let op = |name: &str, work: &mut dyn FnMut()| {
        let scope = OpScope::open(&OpStart::new(Action::op(name)));
        work();
        if let Some(scope) = scope {
            scope.close();
        }
    };
    let mut kept = Vec::new();
    kept.reserve_exact(1);
    op("test::keeps", &mut || {
        kept.push(vec![0_u8; 100_000]);
        drop(vec![0_u8; 7_000]);
    });
    op("test::passes", &mut || drop(vec![0_u8; 50_000]));
    op("test::frees", &mut || kept.clear());
    drop(active);
    drop(vec![0_u8; 9_000_000]); // no profiler is active
    profiler.teardown(None);
    let Some(Report::Tensor(report)) = profiler.report() else { panic!("its report") };
    let memory = |name: &str| {
        let rows = &report.key_averages.rows;
        let row = rows.iter().find(|row| row.name == name);
        row.unwrap_or_else(|| panic!("no {name} in {rows:#?}")).self_cpu_memory_bytes
    };
    assert!(report.key_averages.has_memory);
    assert_eq!(memory("test::keeps"), 100_000);
    assert_eq!(memory("test::passes"), 0);
    assert_eq!(memory("test::frees"), -100_000);
}

/// Covers a profiler that is active and also called directly, as in trainers. Allocations that it
/// makes while it holds its own locks must not be reported to it.
#[test]
fn a_profiler_that_is_called_directly_does_not_wait_for_itself() {
    let _turn = turn();
    let schedule = Schedule::new().wait(1).warmup(1).active(2);
    let profiler = TensorProfiler::new().schedule(schedule);
    let profiler = Arc::new(profiler.profile_memory(true));
    let mut guards = Vec::new();
    for stage in 0..40 {
        profiler.setup(Stage::Fit, &RunContext::default());
        guards.push(activate(profiler.clone()));
        for step in 0..8 {
            let note = format!("{stage}, {step}: {}", "a long note ".repeat(200));
            profiler.observe(&Observation::Note(&note));
            let _scope = profiler.profile(Action::new(&format!("step {step}")));
            drop(vec![0_u8; 5_000]);
            profiler.step();
        }
        assert!(profiler.report().is_some());
        assert!(!profiler.summary().is_empty());
        profiler.teardown(Some(Stage::Fit));
    }
}
