//! mlprof for [burn](https://burn.dev): profiles a training with one additional line of code.
//!
//! ```no_run
//! use burn::train::{Learner, LearnerModel, LearningResult, SupervisedTraining};
//! use burn::train::{TrainLoader, ValidLoader};
//! use mlprof_burn::prelude::*;
//!
//! fn train<M: LearnerModel>(
//!     learner: Learner<M>,
//!     train: TrainLoader<M>,
//!     valid: ValidLoader<M>,
//! ) -> Result<LearningResult<M>, mlprof_burn::Error> {
//!     let training = SupervisedTraining::new("/tmp/run", train, valid)
//!         .num_epochs(3)
//!         .profiler("simple"); // "simple" | "advanced" | a custom profiler | an Option of these
//!     training.launch(learner) // prints: FIT Profiler Report …
//! }
//! ```
//!
//! `launch` returns an error for an unknown profiler before any training starts. Two extension
//! traits keep burn's own types:
//!
//! - If a function must return burn's `SupervisedTraining`, profile its strategy:
//!   [`with_training_strategy(strategy.profiler("simple")?)`](ProfileStrategyExt).
//! - If a function returns burn's `Evaluator`, profile the returned evaluator:
//!   [`evaluator.profiler("simple")?`](ProfileEvaluatorExt).
//!
//! Supported and tested version: burn 0.22 (0.22.1). The package `mlprof-burn-next`, in the folder
//! `next`, builds this crate with burn 0.23.0-pre.1. It has the same items, but not the features
//! `cubecl` and `cuda`.
//!
//! # Features
//!
//! The plugin enables neither a backend nor `fusion`. `Device::default()` and all results are
//! therefore the same with and without it. Some features of this crate require the corresponding
//! feature of burn:
//!
//! | feature | enables |
//! |---|---|
//! | `train` | `.profiler(…)` on trainings, evaluations and strategies; profiled metrics and renderers. burn-train itself enables the backend Flex |
//! | `rl` | reinforcement learning |
//! | `autodiff` (default) | [`ProfileBackwardExt`], [`ProfileOptimizerExt`] |
//! | `dataset` (default) | [`ProfiledBatcher`], [`profile_loader`] |
//! | `flex` | reading Flex tensors in place for numerics, instead of copying them |
//! | `cubecl` | ops, fused blocks and kernels of CubeCL devices (requires burn's `fusion`); device time of actions |
//! | `cuda` | `cubecl`; kernels and copies from NVIDIA's driver |
//!
//! A crate that only defines a model uses `default-features = false`: [`ProfileLayerExt`] needs no
//! feature, and `profile_backward` needs `autodiff`.
//!
//! # Settings before and after `.profiler(…)`
//!
//! A profiled training runs the same steps as burn's own loop and measures every part. Weights,
//! metrics and checkpoints are identical. The report's header names the loop that ran.
//!
//! **Call `with_training_strategy` after `.profiler(…)`**. A strategy that was set before does not
//! run, because burn's type does not allow another crate to read this setting. Two alternatives
//! keep a strategy regardless of the order:
//!
//! - Create the training with [`ProfiledTraining::new`].
//! - Profile the strategy itself:
//!   [`with_training_strategy(strategy.profiler("simple")?)`](ProfileStrategyExt).
//!
//! | strategy | measured parts |
//! |---|---|
//! | one device (the default) | all actions of [`actions`] |
//! | several devices, main or sharded optimizer | all actions; `training_step` on each device's thread |
//! | distributed data parallel | all actions, on each device's thread (tested without communication between the devices, because burn has no CPU backend for it) |
//! | custom | loaders, metrics, renderer, and `train` as a whole; steps only if the strategy or the model reports them |
//!
//! # Separating forward, backward and data loading
//!
//! - Forward and backward run inside one call of burn's `TrainStep::step`. To separate them,
//!   replace `loss.backward()` in that function with
//!   [`loss.profile_backward()`](ProfileBackwardExt::profile_backward).
//! - Code inside the model is measured by [`profile!`](mlprof_core::profile!) and `#[profiled]`.
//!   Both report to the training's profiler while it runs.
//! - Batching, which includes the move to the device, is separated from reading items if the
//!   batcher is wrapped in a [`ProfiledBatcher`].
//!
//! # Tensor ops
//!
//! The Tensor profiler (`.profiler("tensor")`) shows actions and functions on every device. On
//! CubeCL devices (wgpu, CUDA, …), with this crate's feature `cubecl`, it also shows fused blocks,
//! kernels, and every op with its shapes: see [`ops`].
//!
//! Each training batch is one step of the profiler's schedule, also on several devices. Each batch
//! of an evaluation is a step too. Batches of the validation between epochs are not steps. A custom
//! training strategy calls [`ProfilerExt::step`](mlprof_core::ProfilerExt::step) itself.
//!
//! # Device time
//!
//! With the feature `cubecl`, a profiler that [measures
//! devices](mlprof_core::SimpleProfiler::measure_devices) shows the device time of each action next
//! to its host time. `profile_device` times a single region. Both need neither `fusion` nor the
//! Tensor profiler. A hand-written loop calls [`ops::install`] first. Replays of a captured graph
//! are actions if the graph was captured with this crate's `capture`.
//!
//! # Numerics
//!
//! [`NumericsProfiler`](mlprof_core::NumericsProfiler) (`.profiler("numerics")`) observes these
//! tensors:
//!
//! - the outputs of modules that are called through
//!   [`profile_layer`](ProfileLayerExt::profile_layer)
//! - the loss
//! - gradients, parameters and parameter updates, by their names in the model
//!
//! On flex, the tensors are read in place. On other devices, about thirty ops reduce each tensor on
//! the device, and no other profiler counts these ops. The results are read after the batch has
//! ended, when non-finite values have already reached the parameters. With `stop_on_nan` the fit
//! ends at that point, and the reason names the tensor where the non-finite values first appeared.
//!
//! A hand-written loop, a custom training strategy or an agent reports modules with
//! [`profile_layer`](ProfileLayerExt::profile_layer) and the loss with
//! [`profile_backward`](ProfileBackwardExt::profile_backward). Gradients, parameters and updates
//! are reported by [`optimizer.profile_step(…)`](ProfileOptimizerExt::profile_step).
//!
//! `mlprof compare-numerics` compares two runs. For it, a training records its random seed
//! ([`seeded_with`](ProfiledTraining::seeded_with)), and a step records its batch
//! ([`record_batch`]).
//!
//! # Metrics and the renderer
//!
//! burn runs metrics and the renderer on a separate event thread. The rows
//! `[Callback]EventProcessor.…` show the cost for the loop, including waiting. Metrics and a
//! renderer that are set *after* `.profiler(…)` are measured one by one on the event thread
//! (`[Metric]….update`, `[MetricsRenderer].…`).
//! [`measure_event_thread`](ProfiledTraining::measure_event_thread) measures all work of this
//! thread as `[EventProcessor].process_…`. The threads on which burn writes metric logs and
//! checkpoint files are not measured.
//!
//! # Early ends, errors and Ctrl-C
//!
//! The report is printed at the end of every fit and evaluation. This includes a fit that ends by
//! early stopping, an interruption, a data loader error or a panic in a step.
//!
//! Ctrl-C ends the program as it does without a profiler, but the report is printed first.
//! [`on_interrupt`](ProfiledTraining::on_interrupt) lets the program continue instead.
//!
//! burn's terminal dashboard (its feature `tui`) uses the alternate screen. Reports that are
//! printed meanwhile go to the main screen and are visible after the dashboard closes.
//!
//! # burn's feature `tracing`
//!
//! With the feature `tracing` of this crate and of burn, burn's spans appear as rows. This requires
//! a subscriber with [`mlprof_core`]'s `ProfilerLayer` that is installed before `launch`. burn's
//! own logger then cannot be installed, and `experiment.log` stays empty. If burn's logger is
//! installed first, installing another subscriber fails. The spans cover data movement and not ops
//! (see "Tensor ops" for those). On flex there are these spans:
//!
//! | span | meaning |
//! |---|---|
//! | `float_from_data` | creation of a batch tensor on a device with gradients (not in validation) |
//! | `float_to_device` | move of a model parameter to the training device |
//! | `float_into_data` | read of a tensor with gradients; asynchronous, so it is counted once when polled and once when dropped |
//! | `block_on` | wait for the value of any tensor, also by metrics on the event thread |
//!
//! The Advanced and the Tensor profiler show the spans as functions.
//! `ProfilerLayer::new().as_actions()` also shows them in the Simple profiler. CubeCL devices emit
//! more spans (`into_contiguous`, launches), which were not tested here.
//!
//! # Reinforcement learning
//!
//! With the feature `rl` of this crate and of burn, a strategy of burn's `RLTraining` is profiled
//! by `training.with_learning_strategy(strategy.profiler("simple")?)`. See the module `rl`.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Messages are printed by `output::say`, because `eprintln!` panics if standard error is full or
// closed.
#![deny(clippy::print_stderr, clippy::print_stdout)]

#[doc(hidden)]
pub mod actions;
#[cfg(feature = "autodiff")]
mod backward;
#[cfg(feature = "dataset")]
mod batcher;
#[cfg(any(feature = "cubecl", feature = "dataset"))]
mod cube;
#[cfg(feature = "cubecl")]
mod device_time;
#[cfg(any(feature = "autodiff", feature = "cubecl"))]
mod direction;
#[cfg(feature = "train")]
mod evaluation;
mod framework;
#[cfg(feature = "cubecl")]
mod graph;
#[cfg(feature = "dataset")]
mod loader;
#[cfg(feature = "cubecl")]
mod lock;
#[cfg(feature = "train")]
mod metric;
mod module;
mod numerics;
pub mod ops;
#[cfg(feature = "autodiff")]
mod optimizer;
#[cfg(feature = "train")]
mod processor;
#[cfg(feature = "train")]
mod progress;
#[cfg(feature = "train")]
mod renderer;
#[cfg(feature = "rl")]
pub mod rl;
#[cfg(feature = "train")]
mod screen;
#[cfg(feature = "train")]
mod session;
#[cfg(feature = "train")]
mod stop;
#[cfg(feature = "train")]
mod strategy;
#[cfg(feature = "train")]
mod test_model;
#[cfg(feature = "train")]
mod training;
#[cfg(feature = "train")]
mod tuples;
mod version;

#[cfg(feature = "autodiff")]
pub use backward::ProfileBackwardExt;
#[cfg(feature = "dataset")]
pub use batcher::ProfiledBatcher;
#[cfg(feature = "cubecl")]
pub use device_time::{ActiveDeviceScope, DeviceProfilerExt, DeviceScope, Queue, profile_device};
#[cfg(feature = "train")]
pub use evaluation::{
    ModelUnderTest, ProfileEvaluationExt, ProfileEvaluatorExt, ProfiledEvaluator,
    ProfiledEvaluatorBuilder, TestMetricTuple, TestTextMetricTuple,
};
#[cfg(feature = "cubecl")]
pub use graph::{ProfiledGraph, capture};
#[cfg(feature = "dataset")]
pub use loader::profile_loader;
#[cfg(feature = "train")]
pub use metric::ProfiledMetric;
pub use module::ProfileLayerExt;
pub use numerics::record_batch;
#[cfg(feature = "autodiff")]
pub use optimizer::ProfileOptimizerExt;
#[cfg(feature = "train")]
pub use progress::ProfiledProgressLogger;
#[cfg(feature = "train")]
pub use renderer::ProfiledRenderer;
#[cfg(feature = "train")]
pub use session::StageSettings;
#[cfg(feature = "train")]
pub use stop::INTERRUPTED;
#[cfg(feature = "train")]
pub use strategy::ProfileStrategyExt;
#[cfg(feature = "train")]
pub use test_model::TestModel;
#[cfg(feature = "train")]
pub use training::{MetricTuple, ProfileTrainingExt, ProfiledTraining, TextMetricTuple};

/// The items that most programs need to profile burn code, including [`mlprof_core::prelude`].
///
/// `profile!("name")` measures a scope. `#[profiled]` measures a function, a method or all methods
/// of an `impl` block.
pub mod prelude {
    #[cfg(feature = "cubecl")]
    pub use crate::DeviceProfilerExt;
    #[cfg(feature = "autodiff")]
    pub use crate::{ProfileBackwardExt, ProfileOptimizerExt};
    #[cfg(feature = "train")]
    pub use crate::{
        ProfileEvaluationExt, ProfileEvaluatorExt, ProfileStrategyExt, ProfileTrainingExt,
        StageSettings,
    };
    pub use crate::{ProfileLayerExt, record_batch};
    #[cfg(feature = "dataset")]
    pub use crate::{ProfiledBatcher, profile_loader};
    pub use mlprof_core::prelude::*;
}

/// The core of mlprof: sessions, profilers and their settings, and reports as values. Programs need
/// no separate dependency on it.
pub use mlprof_core;
pub use mlprof_core::{Error, profile, profile_collective, profile_dynamic};

/// Profiling of NVIDIA devices. Kernels, copies and counters are recorded automatically; regions
/// are marked with this module's functions.
#[cfg(feature = "cuda")]
pub use mlprof_cuda as cuda;
/// Access to a running training from outside the process:
///
/// - `MLPROF_LIVE=1` or [`live::start`] enables the mlprof commands.
/// - `MLPROF_CAPTURE_PORT=6009` or `live::capture` serves TensorBoard (feature `capture`).
/// - `MLPROF_METRICS_PORT=9464` or `live::metrics` serves Prometheus (feature `metrics`).
/// - `OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318` exports to OpenTelemetry (feature `otlp`).
#[cfg(feature = "live")]
pub use mlprof_live as live;

/// Runs the README's burn examples as doctests. The candle example is tested in mlprof-candle.
#[cfg(all(doctest, feature = "train"))]
#[doc = include_str!("../../README.md")]
struct FrontPage;

/// Compiles the example of this crate's README as a doctest.
#[cfg(all(doctest, feature = "train"))]
#[doc = include_str!("../README.md")]
struct Readme;
