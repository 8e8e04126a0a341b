//! The rules, one file each.

mod allocation_churn;
mod baseline_cpu;
mod checkpoints;
mod data_waiting;
mod device_idle;
mod double_precision;
mod first_batch;
mod fp32_matmul;
mod frequent_validation;
mod gradients_in_evaluation;
mod growing_memory;
mod hidden_waits;
mod idle_steps;
mod large_copies;
mod lock_waits;
mod pageable_copies;
mod short_kernels;
mod slow_hooks;
mod synchronous_copies;
mod tiny_ops;
mod tuning_in_steps;
mod unaligned_matmul;
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
    &lock_waits::LockWaits,
    &double_precision::DoublePrecision,
    &pageable_copies::PageableCopies,
    &synchronous_copies::SynchronousCopies,
    &device_idle::DeviceIdle,
    &short_kernels::ShortKernels,
    &tuning_in_steps::TuningInSteps,
    &gradients_in_evaluation::GradientsInEvaluation,
    &growing_memory::GrowingMemory,
    &uneven_steps::UnevenSteps,
    &first_batch::FirstBatch,
    &idle_steps::IdleSteps,
    &allocation_churn::AllocationChurn,
    &large_copies::LargeCopies,
    &baseline_cpu::BaselineCpu,
    &tiny_ops::TinyOps,
    &fp32_matmul::Fp32Matmul,
    &unaligned_matmul::UnalignedMatmul,
];

/// What a report lacks that has no training loop in it.
const NO_LOOP: &str = "the report has no training steps: give the profiler to a trainer";
