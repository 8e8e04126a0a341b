//! The rules, one file each.

mod allocation_churn;
mod baseline_cpu;
mod checkpoints;
mod crowded_cores;
mod data_waiting;
mod dead_activation;
mod device_idle;
mod double_precision;
mod exploding_gradient;
mod first_batch;
mod fp32_matmul;
mod frequent_validation;
mod gradients_in_evaluation;
mod growing_memory;
mod hidden_waits;
mod idle_cores;
mod idle_steps;
mod large_copies;
mod lock_waits;
mod lost_precision;
mod memory_limit;
mod not_finite;
mod pageable_copies;
mod short_kernels;
mod slow_hooks;
mod slow_matmul;
mod synchronous_copies;
mod tiny_ops;
mod troubles;
mod tuning_in_steps;
mod unaligned_matmul;
mod uneven_steps;
mod unfused_ops;
mod unoptimized_build;
mod update_ratio;
mod vanishing_gradient;

use super::rule::Rule;

/// All of them.
pub(super) static ALL: &[&dyn Rule] = &[
    &not_finite::NotFinite,
    &exploding_gradient::RULE,
    &vanishing_gradient::RULE,
    &dead_activation::RULE,
    &update_ratio::RULE,
    &lost_precision::RULE,
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
    &memory_limit::MemoryLimit,
    &uneven_steps::UnevenSteps,
    &first_batch::FirstBatch,
    &idle_steps::IdleSteps,
    &idle_cores::IdleCores,
    &crowded_cores::CrowdedCores,
    &allocation_churn::AllocationChurn,
    &large_copies::LargeCopies,
    &baseline_cpu::BaselineCpu,
    &slow_matmul::SlowMatmul,
    &tiny_ops::TinyOps,
    &unfused_ops::UnfusedOps,
    &fp32_matmul::Fp32Matmul,
    &unaligned_matmul::UnalignedMatmul,
];

/// What a report lacks that has no training loop in it.
const NO_LOOP: &str = "the report has no training steps: give the profiler to a trainer";
