//! mlprof for [tch](https://docs.rs/tch): a profiled training loop, and profiling for hand-written
//! training loops.
//!
//! ```
//! use tch::nn::{self, Module};
//! use tch::{Device, Kind, Tensor, kind::FLOAT_CPU};
//! use mlprof_tch::prelude::*;
//!
//! struct Net {
//!     store: nn::VarStore,
//!     layers: nn::Sequential,
//! }
//!
//! impl Net {
//!     fn new(device: Device) -> Self {
//!         let store = nn::VarStore::new(device);
//!         let root = &store.root();
//!         let layers = nn::seq()
//!             .add(nn::linear(root / "hidden", 4, 16, Default::default()).profile_layer("hidden"))
//!             .add_fn(|input| input.relu())
//!             .add(nn::linear(root / "out", 16, 3, Default::default()).profile_layer("out"));
//!         Self { store, layers }
//!     }
//! }
//!
//! impl TrainModule for Net {
//!     type Batch = (Tensor, Tensor);
//!     type Optimizer = TchOptimizer;
//!
//!     fn configure_optimizers(&mut self) -> TrainResult<Optimizers<TchOptimizer>> {
//!         Ok(TchOptimizer::new(nn::Adam::default(), &self.store, 1e-2)?.into())
//!     }
//!
//!     fn training_step(
//!         &mut self,
//!         batch: &Self::Batch,
//!         _: &mut TrainerState,
//!     ) -> TrainResult<Tensor> {
//!         let (inputs, classes) = batch;
//!         Ok(self.layers.forward(inputs).cross_entropy_for_logits(classes))
//!     }
//!
//!     fn validation_step(
//!         &mut self,
//!         batch: &Self::Batch,
//!         trainer: &mut TrainerState,
//!     ) -> TrainResult<()> {
//!         let (inputs, classes) = batch;
//!         let scores = self.layers.forward(inputs);
//!         let accuracy = scores.accuracy_for_logits(classes).f_double_value(&[])?;
//!         let weighted = LogOptions::new().weight(classes.numel() as f64);
//!         trainer.log_with("accuracy", accuracy, &weighted);
//!         Ok(())
//!     }
//!
//!     // The remaining methods are optional.
//!     fn transfer_batch_to_device(
//!         &mut self,
//!         batch: Self::Batch,
//!         _: &mut TrainerState,
//!     ) -> TrainResult<Self::Batch> {
//!         Ok(batch.move_to(self.store.device())?)
//!     }
//!
//!     fn weights(&mut self) -> TrainResult<Option<SavedState>> {
//!         Ok(Some(saved_weights(&self.store)?)) // for `checkpoint_dir`
//!     }
//!
//!     fn load_weights(&mut self, weights: &SavedState) -> TrainResult<()> {
//!         load_weights(&self.store, weights) // to resume from a checkpoint
//!     }
//!
//!     fn seed_everything(&mut self, seed: u64) -> TrainResult<()> {
//!         tch::manual_seed(seed as i64);
//!         Ok(())
//!     }
//! }
//!
//! tch::manual_seed(42); // the initial weights are random
//! let mut net = Net::new(Device::cuda_if_available());
//! let inputs = Tensor::rand([300, 4], FLOAT_CPU);
//! // The class is the index of the largest of the first three inputs.
//! let classes = inputs.narrow(1, 0, 3).argmax(1, false);
//! let train = TensorLoader::new(inputs, classes, 20)?.shuffled();
//!
//! let mut trainer = Trainer::new().max_epochs(20).seed(42).profiler("simple");
//! let outcome = trainer.fit(&mut net, &train, Some(&train))?; // prints FIT Profiler Report
//! assert_eq!(outcome.steps, 20 * 15);
//! assert!(outcome.metrics["accuracy"] > 0.9);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The report has a row for each of these:
//!
//! - every part of the trainer (see [`mlprof_train`])
//! - each forward pass of a layer wrapped with [`profile_layer`](ProfileLayerExt)
//! - every scope that the program opens with [`profile!`](mlprof_core::profile!) or `#[profiled]`
//!
//! | task | API |
//! |---|---|
//! | train with the trainer | [`TchOptimizer`], [`TensorLoader`] or any other [`DataLoader`](mlprof_train::DataLoader) |
//! | profile a hand-written loop | [`ProfileOptimizerExt`], [`ProfileBackwardExt`], [`Session`](mlprof_core::Session) |
//! | show the layers of a model | [`ProfileLayerExt`], [`ProfileLayerTExt`], [`ProfileRnnExt`] |
//! | move batches to a device | [`MoveTo`] |
//! | record a step's batch for the numerics profiler | [`record_batch`] |
//! | record the ops of a loop that uses no item of this crate | `use mlprof_tch as _;`, see [`ops`] |
//! | include execution time on the device in host times | [`TchOptimizer::synchronize`], [`ProfiledOptimizer::synchronize`], [`synchronize`] |
//!
//! # Errors and panics
//!
//! Most tch methods exist in two variants. Methods without the prefix `f_` panic if torch reports
//! an error. The training ends and the report is printed in both cases. However, an error returned
//! from `training_step` (`loss.f_add(…)?`) is distinguishable from a bug in the program. `fit`
//! returns it together with the location where it occurred.
//!
//! This crate calls only the `f_` variants, with two exceptions: [`ProfiledOptimizer`], which calls
//! the same methods as the program would, and [`synchronize`].
//!
//! # Evaluation
//!
//! A trainer runs validations, tests and predictions without gradients, as inside [`tch::no_grad`].
//! Code that needs gradients there uses [`tch::with_grad`]. tch models have no training mode: pass
//! `false` for `train` to layers with this parameter.
//!
//! # libtorch
//!
//! Supported versions: tch 0.22 to 0.26, each with the libtorch version that it requires (2.9 for
//! 0.22).
//!
//! # rusttorch
//!
//! rusttorch 0.4 uses tch 0.26 and its tensors, so this crate works with it:
//!
//! - Ops are recorded, forward and backward.
//! - [`ProfileBackwardExt`] measures the backward pass of its losses.
//! - [`saved_weights`] accepts the variables of its models.
//!
//! Its layers and optimizers are separate types. Measure them with
//! [`profile!`](mlprof_core::profile!) around `forward` and `try_step`. Use `default-features =
//! false` for rusttorch if it should not download libtorch.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Messages are printed by `output::say`, because `eprintln!` panics if standard error is full or
// closed.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod actions;
mod device;
#[cfg(all(feature = "kineto-oracle", records_ops))]
#[doc(hidden)]
pub mod floor;
mod grad_scaler;
#[cfg(all(feature = "kineto-oracle", records_ops))]
#[doc(hidden)]
pub mod kineto;
mod loader;
mod module;
mod numerics;
pub mod ops;
mod optimizer;
mod profiled_optimizer;
mod saved;

pub use device::{MoveTo, synchronize};
pub use grad_scaler::GradScaler;
pub use loader::TensorLoader;
pub use module::{
    ModulePath, ProfileLayerExt, ProfileLayerTExt, ProfileRnnExt, ProfiledLayer, ProfiledLayerT,
};
pub use numerics::record_batch;
pub use optimizer::TchOptimizer;
pub use profiled_optimizer::{ProfileBackwardExt, ProfileOptimizerExt, ProfiledOptimizer};
pub use saved::{load_weights, saved_weights};

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

/// The items that most programs need to profile tch code, including [`mlprof_core::prelude`] and
/// [`mlprof_train::prelude`].
///
/// `profile!("name")` measures a scope. `#[profiled]` measures a function, a method or all methods
/// of an `impl` block.
pub mod prelude {
    pub use crate::{
        GradScaler, MoveTo, ProfileBackwardExt, ProfileLayerExt, ProfileLayerTExt,
        ProfileOptimizerExt, ProfileRnnExt, ProfiledLayer, ProfiledLayerT, ProfiledOptimizer,
        TchOptimizer, TensorLoader, load_weights, record_batch, saved_weights,
    };
    #[cfg(feature = "cuda")]
    pub use mlprof_cuda::DeviceProfilerExt;
    pub use mlprof_train::prelude::*;
}

/// Runs the tch variant of the README's candle example as a doctest.
#[cfg(doctest)]
#[doc = include_str!("front_page.md")]
struct FrontPage;

/// Runs the example of this crate's README as a doctest.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
