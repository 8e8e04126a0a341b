//! mlprof for [tch](https://docs.rs/tch): a training loop that says where its time went, and hooks
//! for loops of one's own.
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
//!     fn training_step(&mut self, batch: &Self::Batch, _: &mut TrainerState) -> TrainResult<Tensor> {
//!         let (inputs, classes) = batch;
//!         Ok(self.layers.forward(inputs).cross_entropy_for_logits(classes))
//!     }
//!
//!     fn validation_step(&mut self, batch: &Self::Batch, trainer: &mut TrainerState) -> TrainResult<()> {
//!         let (inputs, classes) = batch;
//!         let scores = self.layers.forward(inputs);
//!         let accuracy = scores.accuracy_for_logits(classes).f_double_value(&[])?;
//!         let weighted = LogOptions::new().weight(classes.numel() as f64);
//!         trainer.log_with("accuracy", accuracy, &weighted);
//!         Ok(())
//!     }
//!
//!     // All that follows may be left out.
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
//! tch::manual_seed(42); // the weights of a net are random, too
//! let mut net = Net::new(Device::cuda_if_available());
//! let inputs = Tensor::rand([300, 4], FLOAT_CPU);
//! let classes = inputs.narrow(1, 0, 3).argmax(1, false); // the largest of the first three
//! let train = TensorLoader::new(inputs, classes, 20)?.shuffled();
//!
//! let mut trainer = Trainer::new().max_epochs(20).seed(42).profiler("simple");
//! let outcome = trainer.fit(&mut net, &train, Some(&train))?; // prints FIT Profiler Report
//! assert_eq!(outcome.steps, 20 * 15);
//! assert!(outcome.metrics["accuracy"] > 0.9);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The report has a row for everything that the trainer does (see [`mlprof_train`]), one
//! for each forward of a layer that is [`profiled`](ProfileLayerExt), and one for whatever else the
//! program opens with [`profile!`](mlprof_core::profile!) or `#[profiled]`.
//!
//! | to | use |
//! |---|---|
//! | train under the trainer | [`TchOptimizer`], [`TensorLoader`] or any other [`DataLoader`](mlprof_train::DataLoader) |
//! | measure a loop of one's own | [`ProfileOptimizerExt`], [`ProfileBackwardExt`], [`Session`](mlprof_core::Session) |
//! | see the layers of a model | [`ProfileLayerExt`], [`ProfileLayerTExt`], [`ProfileRnnExt`] |
//! | move batches to a device | [`MoveTo`] |
//! | say, for the profiler of numbers, which batch a step has learned from | [`record_batch`] |
//! | see the ops of a loop that uses nothing of this crate | `use mlprof_tch as _;`, see [`ops`] |
//! | measure device time on the host | [`TchOptimizer::synchronize`], [`ProfiledOptimizer::synchronize`], [`synchronize`] |
//!
//! # Errors and panics
//!
//! tch has two of most methods: those without `f_` in front of their name panic where torch reports
//! an error. A trainer ends either way, and the report comes either way; but an error that is
//! returned from `training_step` (`loss.f_add(…)?`) can be told from a mistake in the program, and
//! comes back from `fit` with the place where it happened. This crate calls only those with `f_`,
//! except in [`ProfiledOptimizer`], where it calls what the program would have called, and
//! [`synchronize`].
//!
//! # Evaluation
//!
//! A trainer's validations, tests and predictions run without gradients, as within [`tch::no_grad`];
//! code there that needs them wraps itself in [`tch::with_grad`]. tch keeps no mode in a model:
//! pass `false` for `train` to layers that have it.
//!
//! # libtorch
//!
//! Works with tch 0.22 to 0.26, each with the libtorch that it asks for (2.9 for 0.22).
//!
//! # rusttorch
//!
//! rusttorch 0.4 is built on tch 0.26 and uses its tensors, so this crate works beside it. Ops are
//! recorded, forward and backward, [`ProfileBackwardExt`] measures the backward pass of its losses,
//! and [`saved_weights`] takes the variables of its models. Its layers and optimizers are types of
//! its own: [`profile!`](mlprof_core::profile!) around `forward` and `try_step` measures them. Give
//! rusttorch `default-features = false` where it should not download libtorch.

#![cfg_attr(docsrs, feature(doc_cfg))]
// Lines go through `output::say`: `eprintln!` panics where standard error is full or closed.
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

/// What a program that profiles its tch code usually needs; [`mlprof_core::prelude`] and
/// [`mlprof_train::prelude`] are part of it.
///
/// `profile!("name")` measures a scope, `#[profiled]` a function, a method or all of an `impl`
/// block.
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

/// The front page's example for candle, of which it says that it is the same with tch.
#[cfg(doctest)]
#[doc = include_str!("front_page.md")]
struct FrontPage;
