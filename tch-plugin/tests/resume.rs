//! Checks that a training resumed from a checkpoint has bit-identical weights to an uninterrupted
//! one.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod common;

use std::fmt::Debug;
use std::path::Path;

use common::{Net, data, turn};
use mlprof_tch::prelude::*;
use tch::nn::{self, OptimizerConfig};
use tch::{Device, Tensor};

/// Trains with a torch optimizer and stops on demand.
struct Learner<Config> {
    net: Net,
    config: Config,
    stops_at: Option<usize>,
    /// Dropout probability of the inputs in each step.
    dropout: f64,
}

impl<Config: OptimizerConfig + Copy> TrainModule for Learner<Config> {
    type Batch = (Tensor, Tensor);
    type Optimizer = TchOptimizer;

    fn configure_optimizers(&mut self) -> TrainResult<Optimizers<TchOptimizer>> {
        let optimizer = TchOptimizer::new(self.config, &self.net.store, 0.02)?;
        let lower = |epochs: usize| 0.02 * 0.7f64.powi(epochs as i32);
        Ok(Optimizers::new(optimizer).lr_scheduler(LrInterval::Epoch, lower))
    }

    fn training_step(
        &mut self,
        batch: &Self::Batch,
        _trainer: &mut TrainerState,
    ) -> TrainResult<Tensor> {
        let inputs = batch.0.dropout(self.dropout, true);
        Ok(self.net.loss(&(inputs, batch.1.shallow_clone())))
    }

    fn on_train_batch_end(&mut self, trainer: &mut TrainerState) -> TrainResult<()> {
        if self.stops_at == Some(trainer.global_step()) {
            trainer.stop("as if it were killed");
        }
        Ok(())
    }

    fn weights(&mut self) -> TrainResult<Option<SavedState>> {
        Ok(Some(saved_weights(&self.net.store)?))
    }

    fn load_weights(&mut self, weights: &SavedState) -> TrainResult<()> {
        load_weights(&self.net.store, weights)
    }
}

fn trainer<M: TrainModule>() -> Trainer<M> {
    Trainer::new().max_epochs(3).seed(5).progress_bar(false)
}

fn is_the_same_after_an_interruption<Config: OptimizerConfig + Copy + Debug>(
    config: Config,
    dropout: f64,
) {
    let start = Net::new();
    let learner = |stops_at| {
        let mut net = Net::new();
        net.store.copy(&start.store).expect("the same variables");
        Learner { net, config, stops_at, dropout }
    };
    let (inputs, classes) = data(48);
    let train = TensorLoader::new(inputs, classes, 8).expect("equal numbers").shuffled();
    let mut whole = learner(None);
    tch::manual_seed(7);
    trainer().fit(&mut whole, &train, None).expect("trained");
    // The stops are in the middle and at the end of an epoch.
    for steps in [8, 12] {
        let folder = tempfile::tempdir().expect("a folder");
        let mut killed = learner(Some(steps));
        tch::manual_seed(7);
        trainer().checkpoint_dir(folder.path()).fit(&mut killed, &train, None).expect("trained");
        assert_ne!(killed.net.weights(), whole.net.weights());
        let path = folder.path().join(format!("epoch=1-step={steps}.safetensors"));
        // The resumed network starts with different weights.
        let mut resumed = Learner { net: Net::new(), config, stops_at: None, dropout };
        tch::manual_seed(9);
        let fit = trainer().resume(&mut resumed, &path, &train, None);
        let outcome = fit.expect("resumed");
        assert_eq!((outcome.epochs, outcome.steps), (3, 18));
        assert_eq!(resumed.net.weights(), whole.net.weights(), "{config:?} {steps}");
    }
}

#[test]
fn dropout_goes_on_with_the_same_random_numbers() {
    let _turn = turn();
    is_the_same_after_an_interruption(nn::Adam::default(), 0.5);
}

#[test]
fn a_resumed_training_has_the_weights_of_one_that_was_not_interrupted() {
    let _turn = turn();
    is_the_same_after_an_interruption(nn::Adam::default(), 0.0);
    is_the_same_after_an_interruption(nn::Adam { amsgrad: true, ..Default::default() }, 0.0);
    is_the_same_after_an_interruption(nn::AdamW::default(), 0.0);
    is_the_same_after_an_interruption(nn::Sgd::default(), 0.0);
    is_the_same_after_an_interruption(nn::Sgd { momentum: 0.9, ..Default::default() }, 0.0);
    let centered = nn::RmsProp { momentum: 0.5, centered: true, ..Default::default() };
    is_the_same_after_an_interruption(centered, 0.0);
}

fn one_batch() -> TensorLoader {
    let (inputs, classes) = data(8);
    TensorLoader::new(inputs, classes, 8).expect("equal numbers")
}

/// Returns the error message for a rejected checkpoint.
fn refusal(path: &Path, config: impl OptimizerConfig + Copy, net: Net) -> String {
    let mut learner = Learner { net, config, stops_at: None, dropout: 0.0 };
    let before = learner.net.weights();
    let resumed = trainer().resume(&mut learner, path, &one_batch(), None);
    let error = resumed.expect_err("refused");
    assert!(matches!(error, TrainError::Resume { .. }), "{error}");
    assert_eq!(learner.net.weights(), before);
    format!("{error:?}")
}

#[test]
fn another_optimizer_and_another_model_are_refused() {
    let _turn = turn();
    let folder = tempfile::tempdir().expect("a folder");
    let mut learner =
        Learner { net: Net::new(), config: nn::Adam::default(), stops_at: None, dropout: 0.0 };
    let mut trainer = trainer().max_epochs(1).checkpoint_dir(folder.path());
    trainer.fit(&mut learner, &one_batch(), None).expect("trained");
    let path = folder.path().join("epoch=0-step=1.safetensors");
    let error = refusal(&path, nn::Sgd::default(), Net::new());
    assert!(error.contains("its optimizer is Adam, but the module's optimizer is SGD"), "{error}");
    let mut other = Net::new();
    other.store = nn::VarStore::new(Device::Cpu);
    let layer = nn::linear(other.store.root() / "hidden", 4, 9, Default::default());
    let error = refusal(&path, nn::Adam::default(), other);
    assert!(error.contains("hidden.") && error.contains(" instead of "), "{error}");
    drop(layer);
    // The file can also be loaded as plain weights.
    let mut net = Net::new();
    net.store.load(&path).expect("weights");
    assert_eq!(net.weights(), learner.net.weights());
}

#[test]
fn options_of_each_group_are_restored() {
    let _turn = turn();
    let make = || {
        let store = nn::VarStore::new(Device::Cpu);
        let (first, second) = (store.root() / "first", (store.root() / "second").set_group(1));
        let layers = [first, second].map(|it| nn::linear(&it, 4, 4, Default::default()));
        let optimizer = TchOptimizer::new(nn::Adam::default(), &store, 0.1).expect("valid");
        (store, layers, optimizer)
    };
    let step = |(_, layers, optimizer): &mut (_, [nn::Linear; 2], TchOptimizer), input: &Tensor| {
        use tch::nn::Module;
        let loss = layers[1].forward(&layers[0].forward(input)).square().sum(tch::Kind::Float);
        optimizer.zero_grad().expect("done");
        optimizer.backward(&loss, 1.0).expect("done");
        optimizer.step().expect("done");
    };
    let mut ours = make();
    let (input, _) = data(3);
    ours.2.inner_mut().set_learning_rate_group(1, 0.003).expect("there are two");
    ours.2.inner_mut().set_weight_decay_group(1, 0.1).expect("there are two");
    step(&mut ours, &input);
    let (weights, state) = (saved_weights(&ours.0).expect("saved"), ours.2.state().expect("saved"));
    let mut theirs = make();
    load_weights(&theirs.0, &weights).expect("loaded");
    theirs.2.load_state(&state).expect("loaded");
    assert_eq!(theirs.2.state().expect("saved"), state);
    step(&mut ours, &input);
    step(&mut theirs, &input);
    assert_eq!(saved_weights(&ours.0).expect("saved"), saved_weights(&theirs.0).expect("saved"));
}
