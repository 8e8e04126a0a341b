//! Profilers of a run.

use std::sync::Arc;

use super::results::output_of;
#[cfg(feature = "numerics")]
use crate::NumericsProfiler;
#[cfg(feature = "tensor")]
use crate::TensorProfiler;
use crate::allocation::AllocationProfiler;
#[cfg(feature = "tensor")]
use crate::profiler::accepted;
use crate::report::LineCountRestriction;
use crate::{AdvancedProfiler, Error, Output, Profiler, output};
#[cfg(feature = "tensor")]
use mlprof_events::run::TensorSettings;
use mlprof_events::run::{AdvancedSettings, RunSettings};

/// Creates the profilers that a run's settings request. Their file names begin with `name`.
pub(super) fn make(settings: &RunSettings, name: &str) -> Result<Vec<Arc<dyn Profiler>>, Error> {
    let mut parts: Vec<Arc<dyn Profiler>> = Vec::new();
    not_built(settings).for_each(|missing| output::say(format_args!("mlprof: {missing}")));
    #[cfg(feature = "tensor")]
    if let Some(tensor) = &settings.tensor {
        parts.push(accepted(Arc::new(make_tensor(tensor, output_of(settings, name, "ops"))))?);
    }
    #[cfg(feature = "numerics")]
    if let Some(numerics) = &settings.numerics {
        let output = output_of(settings, name, "numerics");
        let profiler = NumericsProfiler::new().every(numerics.every).ops(true).output_to(output);
        parts.push(Arc::new(profiler));
    }
    if let Some(advanced) = &settings.advanced {
        parts.push(Arc::new(make_advanced(advanced, output_of(settings, name, "functions"))));
    }
    if settings.allocations {
        let output = output_of(settings, name, "memory");
        parts.push(Arc::new(AllocationProfiler::new().output_to(output)));
    }
    Ok(parts)
}

/// Returns an error for each requested profiler that this program is built without.
fn not_built(settings: &RunSettings) -> impl Iterator<Item = Error> {
    let tensor = settings.tensor.as_ref().map(|_| Error::NotBuilt { profiler: "tensor" });
    let numerics = settings.numerics.as_ref().map(|_| Error::NotBuilt { profiler: "numerics" });
    [
        tensor.filter(|_| cfg!(not(feature = "tensor"))),
        numerics.filter(|_| cfg!(not(feature = "numerics"))),
    ]
    .into_iter()
    .flatten()
}

#[cfg(feature = "tensor")]
fn make_tensor(settings: &TensorSettings, output: Output) -> TensorProfiler {
    let group_by = settings.group_by;
    let mut profiler = TensorProfiler::new()
        .group_by_input_shapes(group_by.input_shapes)
        .group_by_stack_n(group_by.stack)
        .group_by_module(group_by.module)
        .group_by_phase(group_by.phase)
        .profile_memory(settings.memory)
        .memory_timeline(settings.memory)
        .flame(settings.flame)
        .with_flops(settings.with_flops)
        .with_stack(settings.with_stack)
        .output_to(output);
    if let Some(rows) = settings.row_limit {
        profiler = profiler.row_limit(rows);
    }
    match settings.schedule {
        None => profiler.record_without_steps(true),
        Some(schedule) => profiler.schedule(schedule),
    }
}

fn make_advanced(settings: &AdvancedSettings, output: Output) -> AdvancedProfiler {
    let restriction = settings.line_count.map(LineCountRestriction::Lines).unwrap_or_default();
    AdvancedProfiler::new()
        .line_count_restriction(restriction)
        .dump_stats(settings.dump_stats)
        .output_to(output)
}
