//! All rules, one file each.

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

/// All rules, in the order in which they are applied.
pub(super) static ALL: &[&Rule] = &[
    &not_finite::RULE,
    &exploding_gradient::RULE,
    &vanishing_gradient::RULE,
    &dead_activation::RULE,
    &update_ratio::RULE,
    &lost_precision::RULE,
    &unoptimized_build::RULE,
    &data_waiting::RULE,
    &frequent_validation::RULE,
    &checkpoints::RULE,
    &slow_hooks::RULE,
    &hidden_waits::RULE,
    &lock_waits::RULE,
    &double_precision::RULE,
    &pageable_copies::RULE,
    &synchronous_copies::RULE,
    &device_idle::RULE,
    &short_kernels::RULE,
    &tuning_in_steps::RULE,
    &gradients_in_evaluation::RULE,
    &growing_memory::RULE,
    &memory_limit::RULE,
    &uneven_steps::RULE,
    &first_batch::RULE,
    &idle_steps::RULE,
    &idle_cores::RULE,
    &crowded_cores::RULE,
    &allocation_churn::RULE,
    &large_copies::RULE,
    &baseline_cpu::RULE,
    &slow_matmul::RULE,
    &tiny_ops::RULE,
    &unfused_ops::RULE,
    &fp32_matmul::RULE,
    &unaligned_matmul::RULE,
];

/// Message for a report without a training loop.
const NO_LOOP: &str = "the report has no training steps: give the profiler to a trainer";
