//! mlprof for [candle](https://github.com/huggingface/candle): a training loop with a profiler,
//! and a profiler for the training loop that you have.
//!
//! # With the trainer
//!
//! candle has no trainer; [`mlprof_train`] has one. Write a [`TrainModule`] with a
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
//!     fn training_step(&mut self, (x, y): &Self::Batch, _: &mut TrainerState) -> TrainResult<Tensor> {
//!         Ok(mse(&self.layer.forward(x)?, y)?)
//!     }
//!
//!     fn validation_step(&mut self, (x, y): &Self::Batch, trainer: &mut TrainerState) -> TrainResult<()> {
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
//! # In a loop of your own
//!
//! Nothing of the trainer is needed. Each of these reports to the active profiler, the one of a
//! [`Session`](mlprof_core::Session) or of [`activate`](mlprof_core::activate), and costs one
//! relaxed load when there is none:
//!
//! | write | to measure |
//! |---|---|
//! | [`AdamW::new(…)?.profile_optimizer()`](ProfileOptimizerExt::profile_optimizer) | `backward` and `Optimizer.step` of any `candle_nn::Optimizer` |
//! | [`loss.profile_backward()?`](ProfileBackwardExt::profile_backward) | `backward` |
//! | [`vb.profile_layer(\|vb\| linear(64, 10, vb))?`](ProfileBuilderExt) | each forward of a layer, as `[module]Linear: encoder.head` |
//! | [`layer.profile_layer("encoder.head")`](ProfileLayerExt), [`profile_layer_t`](ProfileLayerTExt) | the same of a layer, closure or `Sequential` that exists; of an [`RNN`](ProfileRnnExt), too |
//! | [`ProfiledLayer::measure`] | a forward that is no `Module`'s |
//! | [`profile!`](mlprof_core::profile!), [`#[profiled]`](mlprof_core::prelude::profiled) | anything else |
//! | [`record_batch`] | for the profiler of numbers: which batch a step has learned from |
//!
//! # Host time is not device time
//!
//! On a CPU candle works when it is called, and all times are those of the work. CUDA and Metal
//! queue it: a row then shows what the host spent, and whoever reads a value first waits for
//! everything before it. Nothing in this crate waits unless it is asked to:
//! [`CandleOptimizer::synchronize`], [`ProfiledOptimizer::synchronize`], or candle's own
//! `Device::synchronize` at the end of a scope of yours.
//!
//! # Optimizers of other crates
//!
//! Every [`Optimizer`](candle_nn::Optimizer) of candle 0.11 can be measured and can train:
//! [`CandleOptimizer::with_optimizer`]. The crate candle-optimisers has none yet: its newest version,
//! 0.10.2, implements the trait of candle 0.10. Its L-BFGS could not train here in any version, since
//! it calls the model itself, several times per step.
//!
//! # Seeds
//!
//! candle's random numbers [cannot be seeded on a CPU](seed_device). [`seeded_var_builder`] makes
//! weights that can be repeated anyway.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(feature = "tracing", doc = include_str!("tracing.md"))]
// Lines go through `output::say`: `eprintln!` panics where standard error is full or closed.
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

/// The core of mlprof, which programs need not depend on beside this crate: sessions, profilers and their
/// settings, reports as values.
pub use mlprof_core;
pub use mlprof_core::{profile, profile_collective, profile_dynamic};
/// NVIDIA's devices: kernels, copies and counters come by themselves, regions by its functions.
#[cfg(feature = "cuda")]
pub use mlprof_cuda as cuda;
/// The doors into a training that runs: `MLPROF_LIVE=1`, or [`live::start`]; with the feature `capture` TensorBoard's, too:
/// `MLPROF_CAPTURE_PORT=6009`, or `live::capture`; with `metrics` Prometheus': `MLPROF_METRICS_PORT=9464`, or `live::metrics`;
/// with `otlp` OpenTelemetry's: `OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318`.
#[cfg(feature = "live")]
pub use mlprof_live as live;
/// The training loop.
pub use mlprof_train as train;

#[cfg(doc)]
use mlprof_train::TrainModule;

/// What a program that profiles its candle code usually needs; [`mlprof_core::prelude`] and
/// [`mlprof_train::prelude`] are part of it.
///
/// `profile!("name")` measures a scope, `#[profiled]` a function, a method or all of an `impl`
/// block:
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

/// The front page's example for candle, run as a test here: there it stands beside one for burn.
#[cfg(doctest)]
#[doc = include_str!("front_page.md")]
struct FrontPage;

/// The guide's page on callbacks and checkpoints.
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
