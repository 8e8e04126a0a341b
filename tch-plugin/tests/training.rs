//! Complete trainings on the CPU with the trainer.

mod common;

use std::sync::Arc;

use common::{Net, calls, data, turn};
use mlprof_core::{Profiler, SimpleProfiler};
use mlprof_tch::prelude::*;
use tch::nn::{self, OptimizerConfig};
use tch::{Device, Kind, Tensor, kind::FLOAT_CPU};

fn trainer<M: TrainModule>() -> Trainer<M> {
    Trainer::new().max_epochs(1).progress_bar(false)
}

fn loader(items: i64, batch_size: usize) -> TensorLoader {
    let (inputs, classes) = data(items);
    TensorLoader::new(inputs, classes, batch_size).expect("equal numbers")
}

/// Returns a profiler whose reports go to this directory.
fn quiet_simple(directory: &tempfile::TempDir) -> Arc<SimpleProfiler> {
    Arc::new(SimpleProfiler::new().dirpath(directory.path()).filename("report"))
}

/// Returns a new network with the same weights as `net`.
fn copy_of(net: &Net) -> Net {
    let mut copy = Net::new();
    copy.store.copy(&net.store).expect("the same variables");
    copy
}

/// Returns the largest difference between two networks, after `of` is applied to each variable.
fn largest_difference(left: &Net, right: &Net, of: impl Fn(&Tensor) -> Tensor) -> f64 {
    let right = right.store.variables();
    let pairs = left.store.variables();
    let pairs = pairs.iter().map(|(name, left)| (of(left), of(&right[name])));
    pairs.map(|(left, right)| (left - right).abs().max().double_value(&[])).fold(0.0, f64::max)
}

#[test]
fn two_accumulated_halves_are_one_whole_batch() {
    let _turn = turn();
    let mut whole = Net::new();
    let mut halves = copy_of(&whole);
    let before = copy_of(&whole);
    let (inputs, classes) = data(32);
    let batches = |size| {
        TensorLoader::new(inputs.shallow_clone(), classes.shallow_clone(), size).expect("equal")
    };
    trainer().fit(&mut whole, &batches(32), None).expect("it runs");
    let outcome =
        trainer().accumulate_grad_batches(2).fit(&mut halves, &batches(16), None).expect("it runs");
    assert_eq!((outcome.steps, halves.losses.len(), whole.losses.len()), (1, 2, 1));
    assert!(largest_difference(&whole, &before, Tensor::shallow_clone) > 1e-3, "it learned");
    let difference = largest_difference(&whole, &halves, Tensor::shallow_clone);
    assert!(difference < 1e-6, "{difference}");
}

#[test]
fn gradients_are_clipped_to_a_norm_as_tch_does() {
    let _turn = turn();
    let batch = data(16);
    let start = Net::new();
    for (max_norm, is_clipped) in [(0.01, true), (1e3, false)] {
        let [ours, theirs, untouched] = [0; 3].map(|_| copy_of(&start));
        let mut optimizer = TchOptimizer::new(nn::Sgd::default(), &ours.store, 0.1).expect("valid");
        for net in [&ours, &theirs, &untouched] {
            net.loss(&batch).backward();
        }
        optimizer.clip_gradients(max_norm).expect("torch can");
        nn::Sgd::default().build(&theirs.store, 0.1).expect("valid").clip_grad_norm(max_norm);
        assert!(largest_difference(&ours, &theirs, Tensor::grad) < 1e-8);
        let change = largest_difference(&ours, &untouched, Tensor::grad);
        // Gradients that need no clipping remain bit-identical.
        assert!(if is_clipped { change > 1e-3 } else { change == 0.0 }, "{max_norm} {change}");
    }
    let mut optimizer = TchOptimizer::new(nn::Sgd::default(), &start.store, 0.1).expect("valid");
    optimizer.clip_gradients(1.0).expect("no gradients, nothing to clip");
}

#[test]
fn the_trainer_clips_before_the_step() {
    let _turn = turn();
    let mut net = Net::new();
    let before = copy_of(&net);
    trainer().gradient_clip_val(1e-3).fit(&mut net, &loader(8, 8), None).expect("it runs");
    let moved: f64 = net
        .store
        .variables()
        .iter()
        .map(|(name, after)| {
            let change = after - &before.store.variables()[name];
            change.square().sum(Kind::Double).double_value(&[])
        })
        .sum();
    // Plain SGD moves the weights by rate × gradient.
    assert!((moved.sqrt() - 0.1 * 1e-3).abs() < 1e-6, "{}", moved.sqrt());
}

#[test]
fn counts_are_what_the_loop_must_do() {
    let _turn = turn();
    let directory = tempfile::tempdir().expect("temporary directory");
    let profiler = quiet_simple(&directory);
    let mut trainer = trainer()
        .max_epochs(3)
        .accumulate_grad_batches(2)
        .num_sanity_val_steps(0)
        .profiler(profiler.clone() as Arc<dyn Profiler>);
    let mut net = Net::new();
    trainer.fit(&mut net, &loader(50, 10), Some(&loader(20, 10))).expect("it runs");
    let report = profiler.snapshot();
    for (action, expected) in [
        ("run_training_epoch", 3),
        ("[_TrainingEpochLoop].train_dataloader_next", 15),
        ("run_training_batch", 15),
        ("[Strategy]SingleDeviceStrategy.training_step", 15),
        ("[Strategy]SingleDeviceStrategy.backward", 15),
        ("[LightningModule]Net.optimizer_zero_grad", 9),
        ("[LightningModule]Net.optimizer_step", 9),
        ("[LightningModule]Net.configure_gradient_clipping", 9),
        ("[_EvaluationLoop].val_next", 6),
        ("[Strategy]SingleDeviceStrategy.validation_step", 6),
        ("[module]Linear: hidden", 15 + 6),
        ("[module]Linear: out", 0),
    ] {
        assert_eq!(calls(&report, action), expected, "{action}\n{}", profiler.summary());
    }
}

#[test]
fn profilers_change_no_bit_of_a_training() {
    let _turn = turn();
    let train = || {
        tch::manual_seed(3);
        let mut net = Net::new();
        net.learning_rate = 0.2;
        (net, loader(60, 8).shuffled())
    };
    let run = |trainer: Trainer<Net>| {
        let (mut net, data) = train();
        trainer.max_epochs(3).seed(5).fit(&mut net, &data, Some(&data)).expect("it runs");
        let losses: Vec<u64> = net.losses.iter().map(|loss| loss.to_bits()).collect();
        (losses, net.weights())
    };
    let directory = tempfile::tempdir().expect("temporary directory");
    let without = run(trainer());
    assert_eq!(without.0.len(), 24);
    assert_ne!(without.0.first(), without.0.last(), "it learned");
    let simple = trainer().profiler(quiet_simple(&directory) as Arc<dyn Profiler>);
    assert_eq!(run(simple), without);
    let advanced = AdvancedProfiler::new().dirpath(directory.path()).filename("advanced");
    assert_eq!(run(trainer().profiler(advanced)), without);
}

#[test]
fn a_checkpoint_gives_the_weights_back() {
    let _turn = turn();
    struct Saved(Net);
    impl TrainModule for Saved {
        type Batch = (Tensor, Tensor);
        type Optimizer = TchOptimizer;
        fn configure_optimizers(&mut self) -> TrainResult<Optimizers<TchOptimizer>> {
            self.0.configure_optimizers()
        }
        fn training_step(&mut self, b: &Self::Batch, t: &mut TrainerState) -> TrainResult<Tensor> {
            self.0.training_step(b, t)
        }
        fn save_checkpoint(&mut self, path: &std::path::Path) -> TrainResult<()> {
            Ok(self.0.store.save(path)?)
        }
    }
    let directory = tempfile::tempdir().expect("temporary directory");
    let mut module = Saved(Net::new());
    trainer()
        .checkpoint_dir(directory.path())
        .fit(&mut module, &loader(16, 4), None)
        .expect("it runs");
    let mut loaded = Net::new();
    assert_ne!(loaded.weights(), module.0.weights());
    let file = directory.path().join("epoch=0-step=4.safetensors");
    loaded.store.load(file).expect("written whole");
    assert_eq!(loaded.weights(), module.0.weights());
}

#[test]
fn learning_rates_follow_a_schedule() {
    let _turn = turn();
    let net = Net::new();
    let mut optimizer = TchOptimizer::new(nn::Sgd::default(), &net.store, 0.5).expect("valid");
    assert_eq!(optimizer.learning_rate(), 0.5);
    optimizer.set_learning_rate(0.0).expect("a rate");
    assert_eq!(optimizer.learning_rate(), 0.0);
    let before = net.weights();
    optimizer.backward(&net.loss(&data(4)), 1.0).expect("a loss");
    optimizer.step().expect("there are gradients");
    assert_eq!(net.weights(), before, "torch has been told of it, too");
    assert!(TchOptimizer::new(nn::Sgd::default(), &net.store, -1.0).is_err());
}

#[test]
fn variables_added_later_are_trained_too() {
    let _turn = turn();
    let store = nn::VarStore::new(Device::Cpu);
    let mut optimizer = TchOptimizer::new(nn::Sgd::default(), &store, 1.0).expect("valid");
    let late = store.root().var("late", &[1], nn::Init::Const(5.0));
    optimizer.zero_grad().expect("torch can");
    optimizer.backward(&late.sum(Kind::Float), 1.0).expect("a loss");
    optimizer.step().expect("there is a gradient");
    assert_eq!(late.double_value(&[0]), 4.0);
}

#[test]
fn torch_failures_are_returned_as_errors() {
    let _turn = turn();
    let net = Net::new();
    let mut optimizer = TchOptimizer::new(nn::Sgd::default(), &net.store, 0.1).expect("valid");
    let several = net.layers_of_three();
    let error = format!("{:?}", optimizer.backward(&several, 1.0).expect_err("no scalar"));
    assert!(error.contains("scalar outputs"), "{error}");
    assert!(optimizer.loss_value(&several).is_err());
    let constant = Tensor::ones([1], FLOAT_CPU).sum(Kind::Float);
    assert!(optimizer.backward(&constant, 0.5).is_err(), "nothing to learn from");
    assert!(!optimizer.reading_waits(&constant));
}

impl Net {
    fn layers_of_three(&self) -> Tensor {
        nn::Module::forward(&self.layers, &Tensor::ones([1, 4], FLOAT_CPU))
    }
}

/// A module that fails at its third batch, by an error or by a panic of tch.
struct Faulty {
    net: Net,
    panics: bool,
    batches: usize,
}

impl TrainModule for Faulty {
    type Batch = (Tensor, Tensor);
    type Optimizer = TchOptimizer;

    fn configure_optimizers(&mut self) -> TrainResult<Optimizers<TchOptimizer>> {
        self.net.configure_optimizers()
    }

    fn training_step(
        &mut self,
        batch: &Self::Batch,
        trainer: &mut TrainerState,
    ) -> TrainResult<Tensor> {
        self.batches += 1;
        if self.batches == 3 {
            let misfit = Tensor::ones([7, 7], FLOAT_CPU);
            return Ok(if self.panics {
                batch.0.matmul(&misfit)
            } else {
                batch.0.f_matmul(&misfit)?
            });
        }
        self.net.training_step(batch, trainer)
    }
}

#[test]
fn a_misfit_in_a_step_ends_the_fit_after_its_report() {
    let _turn = turn();
    for panics in [false, true] {
        let directory = tempfile::tempdir().expect("temporary directory");
        let profiler: Arc<SimpleProfiler> = quiet_simple(&directory);
        let mut trainer = trainer().profiler(profiler.clone() as Arc<dyn Profiler>);
        let mut module = Faulty { net: Net::new(), panics, batches: 0 };
        let data = loader(20, 4);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            trainer.fit(&mut module, &data, None)
        }));
        if panics {
            let panic = outcome.expect_err("the panic goes on to the caller");
            let text = panic.downcast_ref::<String>().expect("what tch says");
            assert!(text.contains("shapes cannot be multiplied"), "{text}");
        } else {
            let error = format!("{:?}", outcome.expect("no panic").expect_err("it failed"));
            assert!(error.starts_with("training_step failed at batch 2 of epoch 0: "), "{error}");
            assert!(error.contains("shapes cannot be multiplied"), "{error}");
        }
        let report = std::fs::read_to_string(directory.path().join("fit-report.txt"));
        assert!(report.expect("written").contains("FIT Profiler Report"));
        let report = profiler.snapshot();
        assert_eq!(calls(&report, "[Strategy]SingleDeviceStrategy.training_step"), 3);
        assert_eq!(calls(&report, "[Strategy]SingleDeviceStrategy.backward"), 2);
        assert!(mlprof_core::active().is_none(), "nothing stays active");
        // The panic does not leave the weights locked.
        assert_eq!(module.net.weights().len(), 4);
    }
}

#[test]
fn gradients_are_clipped_by_value() {
    let _turn = turn();
    let store = nn::VarStore::new(Device::Cpu);
    let weight = store.root().var_copy("weight", &Tensor::from_slice(&[0.5f32, -3., 4.]));
    let mut optimizer = TchOptimizer::new(nn::Sgd::default(), &store, 0.1).expect("valid");
    optimizer.clip_gradients_by_value(1.0).expect("no gradients, nothing to clip");
    optimizer.backward(&weight.square().sum(Kind::Float), 1.0).expect("torch can");
    optimizer.clip_gradients_by_value(1.5).expect("torch can");
    assert_eq!(weight.grad(), Tensor::from_slice(&[1.0f32, -1.5, 1.5]));
}

/// A network that records whether gradients are enabled during its validation.
struct Watching {
    net: Net,
    recorded: Vec<bool>,
}

impl TrainModule for Watching {
    type Batch = (Tensor, Tensor);
    type Optimizer = TchOptimizer;

    fn configure_optimizers(&mut self) -> TrainResult<Optimizers<TchOptimizer>> {
        self.net.configure_optimizers()
    }

    fn training_step(&mut self, batch: &Self::Batch, _: &mut TrainerState) -> TrainResult<Tensor> {
        self.recorded.push(self.net.loss(batch).requires_grad());
        Ok(self.net.loss(batch))
    }

    fn validation_step(&mut self, batch: &Self::Batch, _: &mut TrainerState) -> TrainResult<()> {
        self.recorded.push(self.net.loss(batch).requires_grad());
        let wanted = tch::with_grad(|| self.net.loss(batch));
        assert!(wanted.requires_grad(), "where it is asked for");
        Ok(())
    }

    fn test_step(&mut self, batch: &Self::Batch, trainer: &mut TrainerState) -> TrainResult<()> {
        self.validation_step(batch, trainer)?;
        Err("in the middle of it".into())
    }
}

#[test]
fn evaluations_run_without_gradients_and_training_with_them() {
    let _turn = turn();
    let mut module = Watching { net: Net::new(), recorded: Vec::new() };
    let data = loader(8, 8);
    trainer().max_epochs(2).fit(&mut module, &data, Some(&data)).expect("it runs");
    assert_eq!(module.recorded, [false, true, false, true, false]);
    trainer().test(&mut module, &data).expect_err("it fails");
    assert_eq!(module.recorded.last(), Some(&false));
    assert!(module.net.loss(&common::data(4)).requires_grad(), "after an error, too");
}

/// A network that reads its gradients before each step.
struct Scaled {
    net: Net,
    scaler: Option<GradScaler>,
    /// Factor of the loss in each step.
    losses: Vec<f64>,
    gradients: Vec<Tensor>,
    scales: Vec<f64>,
}

impl Scaled {
    fn train(net: Net, scaler: Option<GradScaler>, losses: &[f64]) -> Self {
        let losses = losses.to_vec();
        let mut module = Self { net, scaler, losses, gradients: Vec::new(), scales: Vec::new() };
        let mut trainer = trainer().gradient_clip_val(0.01).stop_on_invalid_loss(false);
        let steps = 8 * module.losses.len() as i64;
        tch::manual_seed(5);
        trainer.fit(&mut module, &loader(steps, 8), None).expect("it runs");
        module
    }
}

impl TrainModule for Scaled {
    type Batch = (Tensor, Tensor);
    type Optimizer = TchOptimizer;

    fn configure_optimizers(&mut self) -> TrainResult<Optimizers<TchOptimizer>> {
        let optimizer = TchOptimizer::new(nn::Sgd::default(), &self.net.store, 0.1)?;
        Ok(match &self.scaler {
            Some(scaler) => optimizer.grad_scaler(scaler.clone()).into(),
            None => optimizer.into(),
        })
    }

    fn training_step(
        &mut self,
        batch: &Self::Batch,
        trainer: &mut TrainerState,
    ) -> TrainResult<Tensor> {
        Ok(self.net.loss(batch) * self.losses[trainer.global_step()])
    }

    fn on_before_optimizer_step(
        &mut self,
        optimizer: &mut TchOptimizer,
        _: &mut TrainerState,
    ) -> TrainResult<()> {
        self.gradients.push(optimizer.variables()[0].grad().copy());
        self.scales.extend(optimizer.scaler().map(GradScaler::scale));
        Ok(())
    }
}

#[test]
fn a_scaler_changes_no_gradient_that_can_be_kept() {
    let _turn = turn();
    let start = Net::new();
    let plain = Scaled::train(copy_of(&start), None, &[1.0; 3]);
    // Scaling by a power of two does not change any mantissa bit.
    let scaler = GradScaler::new().growth_interval(2).init_scale(1024.0);
    let scaled = Scaled::train(copy_of(&start), Some(scaler), &[1.0; 3]);
    assert_eq!(plain.gradients, scaled.gradients, "what hooks see");
    assert_eq!(largest_difference(&plain.net, &scaled.net, Tensor::shallow_clone), 0.0);
    assert!(largest_difference(&plain.net, &start, Tensor::shallow_clone) > 0.0, "it learned");
    assert_eq!(scaled.scales, [1024.0, 1024.0, 2048.0]);
}

#[test]
fn a_step_without_finite_gradients_is_left_out() {
    let _turn = turn();
    let start = Net::new();
    let scaler = || Some(GradScaler::new().init_scale(4.0));
    let lost = Scaled::train(copy_of(&start), scaler(), &[f64::INFINITY]);
    assert_eq!(largest_difference(&lost.net, &start, Tensor::shallow_clone), 0.0);
    let learned = Scaled::train(copy_of(&start), scaler(), &[f64::NAN, 1.0]);
    assert_eq!(learned.scales, [4.0, 2.0]);
    assert!(largest_difference(&learned.net, &start, Tensor::shallow_clone) > 0.0);
}
