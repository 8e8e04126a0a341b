//! mlprof for [burn](https://burn.dev): one line more, and a training says where its time went.
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
//!         .profiler("simple"); // "simple" | "advanced" | a profiler of your own | an Option of these
//!     training.launch(learner) // prints: FIT Profiler Report …
//! }
//! ```
//!
//! `launch` returns an error for an unknown profiler, before anything is trained. Where a function
//! has to return burn's own `SupervisedTraining`, profile its strategy:
//! [`with_training_strategy(strategy.profiler("simple")?)`](ProfileStrategyExt). Where burn's own
//! `Evaluator` is returned, profile the returned one:
//! [`evaluator.profiler("simple")?`](ProfileEvaluatorExt).
//!
//! Supported and tested: burn 0.22 (0.22.1). The package `mlprof-burn-next`, in the folder `next`,
//! is this crate built with burn 0.23.0-pre.1. It has the same items, and no features `cubecl` and
//! `cuda`.
//!
//! # Features
//!
//! The plugin turns on no backend and not `fusion`, so `Device::default()` and all results are the
//! same with and without it. Features are turned on beside burn's own:
//!
//! | feature | what it adds |
//! |---|---|
//! | `train` | `.profiler(…)` on trainings, evaluations and strategies, metrics, renderers. burn-train itself enables the backend Flex |
//! | `rl` | reinforcement learning |
//! | `autodiff` (default) | [`ProfileBackwardExt`], [`ProfileOptimizerExt`] |
//! | `dataset` (default) | [`ProfiledBatcher`], [`profile_loader`] |
//! | `flex` | numerics reads tensors of Flex in place, instead of a copy |
//! | `cubecl` | ops, fused blocks and kernels of CubeCL devices, beside burn's `fusion`; device time of actions |
//! | `cuda` | `cubecl`, and kernels and copies as NVIDIA's driver reports them |
//!
//! A crate with a model alone takes `default-features = false`: [`ProfileLayerExt`] needs no
//! feature, `profile_backward` needs `autodiff`.
//!
//! # What is kept, and what must come after `.profiler(…)`
//!
//! A profiled training runs burn's loop, step by step the same, with every part measured;
//! weights, metrics and checkpoints come out equal. The report's header names the loop that ran.
//!
//! burn's own type does not let another crate read one setting back:
//! **`with_training_strategy` must come after `.profiler(…)`**, or it does not run. Two ways keep a
//! strategy wherever it is set: a training that begins as [`ProfiledTraining::new`], and a
//! strategy that is profiled itself,
//! [`with_training_strategy(strategy.profiler("simple")?)`](ProfileStrategyExt).
//!
//! | strategy | what is measured |
//! |---|---|
//! | one device (the default) | everything in [`actions`] |
//! | several devices, main or sharded optimizer | everything; `training_step` on each device's thread |
//! | distributed data parallel | everything, on each device's thread (this project's tests run it without communication between the devices: burn has no CPU backend for that) |
//! | your own | its loaders, metrics and renderer, its `train` as a whole; its steps only where it or the model says so |
//!
//! # What only you can tell apart
//!
//! - Forward and backward run inside one call of burn's `TrainStep::step`. Write
//!   [`loss.profile_backward()`](ProfileBackwardExt::profile_backward) in it instead of
//!   `loss.backward()`.
//! - Whatever happens inside the model: [`profile!`](mlprof_core::profile!) and `#[profiled]`
//!   report to the training's profiler while it runs.
//! - Reading items and batching them (the move to the device included): wrap the batcher in a
//!   [`ProfiledBatcher`].
//!
//! # Tensor ops
//!
//! The Tensor profiler (`.profiler("tensor")`) shows actions and functions on every device; on
//! CubeCL devices (wgpu, CUDA, …), with this crate's feature `cubecl`, also every op with its
//! shapes, fused blocks and kernels: see [`ops`]. Each training batch is a step of its schedule, on
//! several devices together, and each batch of an evaluation; the validation between epochs is
//! none. A training strategy of your own calls
//! [`ProfilerExt::step`](mlprof_core::ProfilerExt::step) itself.
//!
//! # Device time
//!
//! With the feature `cubecl` a profiler that [measures
//! devices](mlprof_core::SimpleProfiler::measure_devices) has the device's time beside the host's
//! for each action, and `profile_device` times one region. Both need neither `fusion` nor the
//! Tensor profiler; a loop of your own calls [`ops::install`] first. Replays of captured graphs are
//! actions where `capture` of this crate captures them.
//!
//! # Numbers
//!
//! [`NumericsProfiler`](mlprof_core::NumericsProfiler) (`.profiler("numerics")`) sees what modules
//! return that are [`profile_layer`](ProfileLayerExt::profile_layer), the loss, and gradients,
//! parameters and their updates by the names that they have in the model. On flex they are read in
//! place. On other devices each is reduced where it is, by some thirty ops that no other profiler
//! counts, and what came of that is read when the batch has ended: what is not finite is then in
//! the parameters already. With `stop_on_nan` the fit ends there, with a reason that says where it
//! began. A loop, a training strategy or an agent of your own tells of modules and losses, and of
//! the rest with [`optimizer.profile_step(…)`](ProfileOptimizerExt::profile_step). For `mlprof
//! compare-numerics`, which puts two runs beside each other, a training says what its random
//! numbers are seeded with ([`seeded_with`](ProfiledTraining::seeded_with)), and a step which batch
//! it is given ([`record_batch`]).
//!
//! # Metrics and the renderer
//!
//! burn runs them on a thread of their own. What the loop pays for them, waiting included, is
//! `[Callback]EventProcessor.…`. On their own thread, metrics and a renderer that are set *after*
//! `.profiler(…)` are measured one by one (`[Metric]….update`, `[MetricsRenderer].…`). All that this
//! thread does is measured as `[EventProcessor].process_…` if
//! [`measure_event_thread`](ProfiledTraining::measure_event_thread) asks for it.
//! Not covered: the threads on which burn writes metric logs and checkpoint files.
//!
//! # When something goes wrong
//!
//! The report comes at the end of every fit and evaluation, also after early stopping, an
//! interruption, an error of a data loader or a panic in a step. Ctrl-C ends the program as it does
//! without a profiler, and the report comes first; see
//! [`on_interrupt`](ProfiledTraining::on_interrupt) for who wants to go on. While burn's terminal
//! dashboard (its feature `tui`) still has the terminal, reports are printed on the main screen, where
//! they stand when it closes.
//!
//! # burn's feature `tracing`
//!
//! With this crate's feature `tracing`, beside burn's own, burn's spans are rows, once
//! [`mlprof_core`]'s `ProfilerLayer` is part of a subscriber that is installed before `launch`.
//! (burn's own logger then finds its place taken, and `experiment.log` stays empty; where burn's
//! comes first, installing another one fails.) They tell of data that is moved, not of ops: those
//! come as said above. On flex there are:
//!
//! | span | what it is |
//! |---|---|
//! | `float_from_data` | making a tensor of a batch, on a device with gradients (not in validation) |
//! | `float_to_device` | moving a parameter of the model to the device of the training |
//! | `float_into_data` | reading a tensor with gradients; asynchronous, so it counts once to be polled and once to be dropped |
//! | `block_on` | waiting for the value of any tensor, by a metric on its thread, too |
//!
//! For the Advanced and the Tensor profiler they are functions; `ProfilerLayer::new().as_actions()`
//! shows them to the Simple one. CubeCL devices have more (`into_contiguous`, launches), which were not
//! tried here.
//!
//! # Reinforcement learning
//!
//! With this crate's feature `rl`, beside burn's own, a strategy of burn's `RLTraining` is profiled:
//! `training.with_learning_strategy(strategy.profiler("simple")?)`, see the module `rl`.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Lines go through `output::say`: `eprintln!` panics where standard error is full or closed.
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

/// What a program that profiles its burn code usually needs; [`mlprof_core::prelude`] is part of
/// it.
///
/// `profile!("name")` measures a scope, `#[profiled]` a function, a method or all of an `impl`
/// block.
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

/// The core of mlprof, which programs need not depend on beside this crate: sessions, profilers and their
/// settings, reports as values.
pub use mlprof_core;
pub use mlprof_core::{Error, profile, profile_collective, profile_dynamic};

/// NVIDIA's devices: kernels, copies and counters come by themselves, regions by its functions.
#[cfg(feature = "cuda")]
pub use mlprof_cuda as cuda;
/// The doors into a training that runs: `MLPROF_LIVE=1`, or [`live::start`]; with the feature `capture` TensorBoard's, too:
/// `MLPROF_CAPTURE_PORT=6009`, or `live::capture`; with `metrics` Prometheus': `MLPROF_METRICS_PORT=9464`, or `live::metrics`;
/// with `otlp` OpenTelemetry's: `OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318`.
#[cfg(feature = "live")]
pub use mlprof_live as live;

/// The examples of the front page, run as tests; that for candle in mlprof-candle.
#[cfg(all(doctest, feature = "train"))]
#[doc = include_str!("../../README.md")]
struct FrontPage;
