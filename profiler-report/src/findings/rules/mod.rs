//! The rules, one file each.

mod allocation_churn;
mod checkpoints;
mod data_waiting;
mod device_idle;
mod double_precision;
mod first_batch;
mod frequent_validation;
mod hidden_waits;
mod idle_steps;
mod large_copies;
mod pageable_copies;
mod slow_hooks;
mod uneven_steps;
mod unoptimized_build;

use super::rule::Rule;

/// All of them.
pub(super) static ALL: &[&dyn Rule] = &[
    &unoptimized_build::UnoptimizedBuild,
    &data_waiting::DataWaiting,
    &frequent_validation::FrequentValidation,
    &checkpoints::Checkpoints,
    &slow_hooks::SlowHooks,
    &hidden_waits::HiddenWaits,
    &double_precision::DoublePrecision,
    &pageable_copies::PageableCopies,
    &device_idle::DeviceIdle,
    &uneven_steps::UnevenSteps,
    &first_batch::FirstBatch,
    &idle_steps::IdleSteps,
    &allocation_churn::AllocationChurn,
    &large_copies::LargeCopies,
];

/// What a report lacks that has no training loop in it.
const NO_LOOP: &str = "the report has no training steps: give the profiler to a trainer";
