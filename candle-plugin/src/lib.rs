//! mlprof for [candle](https://github.com/huggingface/candle): a profiled training loop, and
//! profiling for hand-written training loops.
//!
//! # With the trainer
//!
//! candle has no trainer, but [`mlprof_train`] provides one. Implement [`TrainModule`] with a
//! [`CandleOptimizer`], and every part of the training is measured:
//!
//! ```
//! use candle_core::{DType, Device, Module, Tensor};
//! use candle_nn::{AdamW, Linear, ParamsAdamW, VarMap, linear, loss::mse};
//! use mlprof_candle::prelude::*;
//!
//! /// Learns y = 2x + 1.
//! struct Line { vars: VarMap, layer: ProfiledLayer<Linear> }
//!
//! impl TrainModule for Line {
//!     type Batch = (Tensor, Tensor);
//!     type Optimizer = CandleOptimizer<AdamW>;
//!
//!     fn configure_optimizers(&mut self) -> TrainResult<Optimizers<Self::Optimizer>> {
//!         let config = ParamsAdamW { lr: 0.1, ..Default::default() };
//!         Ok(CandleOptimizer::new(vars_by_name(&self.vars), config)?.into())
//!     }
//!
//!     fn training_step(
//!         &mut self,
//!         (x, y): &Self::Batch,
//!         _: &mut TrainerState,
//!     ) -> TrainResult<Tensor> {
//!         Ok(mse(&self.layer.forward(x)?, y)?)
//!     }
//!
//!     fn validation_step(
//!         &mut self,
//!         (x, y): &Self::Batch,
//!         trainer: &mut TrainerState,
//!     ) -> TrainResult<()> {
//!         trainer.log("val_loss", mse(&self.layer.forward(x)?, y)?.to_scalar::<f32>()?.into());
//!         Ok(())
//!     }
//! }
//!
//! let vars = VarMap::new();
//! let vb = seeded_var_builder(&vars, 42, DType::F32, &Device::Cpu);
//! let layer = vb.pp("layer").profile_layer(|vb| linear(1, 1, vb))?; // [module]Linear: layer
//! let mut line = Line { layer, vars };
//!
//! let x = Tensor::from_vec(vec![-1f32, 0., 1., 2.], (4, 1), &Device::Cpu)?;
//! let batches = vec![(x.clone(), ((x * 2.)? + 1.)?); 25];
//! let mut trainer = Trainer::new().max_epochs(8).gradient_clip_val(1.0).profiler("simple");
//! let outcome = trainer.fit(&mut line, &batches, Some(&batches))?; // prints FIT Profiler Report
//! assert_eq!((outcome.epochs, outcome.steps), (8, 200));
//! assert!(outcome.metrics["val_loss"] < 0.01, "{outcome:?}");
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! # In a hand-written loop
//!
//! A hand-written loop does not need the trainer. Each item in this table reports to the active
//! profiler, which a [`Session`](mlprof_core::Session) or [`activate`](mlprof_core::activate) sets.
//! Without an active profiler, each costs one relaxed load:
//!
//! | code | measured work |
//! |---|---|
//! | [`AdamW::new(…)?.profile_optimizer()`](ProfileOptimizerExt::profile_optimizer) | `backward` and `Optimizer.step` of any `candle_nn::Optimizer` |
//! | [`loss.profile_backward()?`](ProfileBackwardExt::profile_backward) | `backward` |
//! | [`vb.profile_layer(\|vb\| linear(64, 10, vb))?`](ProfileBuilderExt) | each forward pass of a layer, as `[module]Linear: encoder.head` |
//! | [`layer.profile_layer("encoder.head")`](ProfileLayerExt), [`profile_layer_t`](ProfileLayerTExt) | each forward pass of an existing layer, closure, `Sequential` or [`RNN`](ProfileRnnExt) |
//! | [`ProfiledLayer::measure`] | a forward pass with a signature that differs from `Module`'s |
//! | [`profile!`](mlprof_core::profile!), [`#[profiled]`](mlprof_core::prelude::profiled) | any other code |
//! | [`record_batch`] | nothing; it records a step's batch for the numerics profiler |
//!
//! # Host time is not device time
//!
//! On a CPU, candle executes ops immediately, so all times are execution times. On CUDA and Metal,
//! candle queues the work. A row then shows host time, and the first read of a value waits for all
//! earlier work. This crate does not wait for the device by default. To wait, use
//! [`CandleOptimizer::synchronize`], [`ProfiledOptimizer::synchronize`], or candle's own
//! `Device::synchronize` at the end of a scope.
//!
//! # Optimizers of other crates
//!
//! [`CandleOptimizer::with_optimizer`] accepts every [`Optimizer`](candle_nn::Optimizer) of candle
//! 0.11. The crate candle-optimisers has no compatible version: its newest version, 0.10.2,
//! implements the trait of candle 0.10. Its L-BFGS is incompatible in every version, because it
//! calls the model several times per step.
//!
//! # Seeds
//!
//! candle's random numbers [cannot be seeded on a CPU](seed_device). [`seeded_var_builder`] creates
//! reproducible weights on every device.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(feature = "tracing", doc = include_str!("tracing.md"))]
// Messages are printed by `output::say`, because `eprintln!` panics if standard error is full or
// closed.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod actions;
mod adam;
mod error;
mod evaluation;
mod framework;
mod gradients;
mod init;
mod memory;
mod module;
mod named_vars;
mod numerics;
mod optimizer;
mod profiled_optimizer;
mod transfer;
mod weights;

pub use error::Error;
pub use init::{detached_var_builder, seed_device, seeded_var_builder, vars_by_name};
#[cfg(feature = "tracing")]
pub use mlprof_core::tracing_layer::{self, ProfilerLayer};
pub use module::{
    ModulePath, ProfileBuilderExt, ProfileLayerExt, ProfileLayerTExt, ProfileRnnExt, ProfiledLayer,
    ProfiledLayerT,
};
pub use numerics::record_batch;
pub use optimizer::CandleOptimizer;
pub use profiled_optimizer::{ProfileBackwardExt, ProfileOptimizerExt, ProfiledOptimizer};
pub use transfer::MoveTo;
pub use weights::{load_weights, saved_weights};

/// The core of mlprof: sessions, profilers and their settings, and reports as values. Programs need
/// no separate dependency on it.
pub use mlprof_core;
pub use mlprof_core::{profile, profile_collective, profile_dynamic};
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
/// The training loop of mlprof.
pub use mlprof_train as train;

#[cfg(doc)]
use mlprof_train::TrainModule;

/// The items that most programs need to profile candle code, including [`mlprof_core::prelude`] and
/// [`mlprof_train::prelude`].
///
/// `profile!("name")` measures a scope. `#[profiled]` measures a function, a method or all methods
/// of an `impl` block:
///
/// ```
/// use mlprof_candle::prelude::*;
///
/// #[profiled]
/// fn load() -> u32 {
///     let _scope = profile!("read_file");
///     42
/// }
/// # assert_eq!(load(), 42);
/// ```
pub mod prelude {
    #[cfg(feature = "tracing")]
    pub use crate::ProfilerLayer;
    pub use crate::{
        CandleOptimizer, MoveTo, ProfileBackwardExt, ProfileBuilderExt, ProfileLayerExt,
        ProfileLayerTExt, ProfileOptimizerExt, ProfileRnnExt, ProfiledLayer, ProfiledLayerT,
        ProfiledOptimizer, detached_var_builder, load_weights, record_batch, saved_weights,
        seed_device, seeded_var_builder, vars_by_name,
    };
    #[cfg(feature = "cuda")]
    pub use mlprof_cuda::DeviceProfilerExt;
    pub use mlprof_train::prelude::*;
}

/// Runs the README's candle example as a doctest. It is tested here because mlprof-burn tests only
/// the burn examples.
#[cfg(doctest)]
#[doc = include_str!("front_page.md")]
struct FrontPage;

/// Runs the example of this crate's README as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// Runs the guide's page on callbacks and checkpoints as doctests.
#[cfg(doctest)]
#[doc = include_str!("../../docs/src/how-to/callbacks-and-checkpoints.md")]
struct CallbacksPage;

#[cfg(test)]
mod tests {
    #[test]
    fn the_guide_has_the_example_that_runs_as_a_test_here() {
        let page =
            include_str!("../../docs/src/candle.md").replace("```rust,ignore\n", "```rust\n");
        let shown = |line: &&str| !line.starts_with("# ");
        let example: Vec<_> = include_str!("front_page.md").lines().filter(shown).collect();
        assert!(page.contains(&example.join("\n")));
    }
}
