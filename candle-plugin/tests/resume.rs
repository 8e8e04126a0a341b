//! Checks that a training resumed from a checkpoint has bit-identical weights to an uninterrupted
//! one.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod common;

use std::path::Path;

use candle_core::Tensor;
use candle_nn::{AdamW, Optimizer, ParamsAdamW, SGD};
use mlprof_candle::prelude::*;
use mlprof_train::{Result, SavedState, TrainError};

use common::{Net, Points, batches};

/// Trains with a candle optimizer and stops on demand.
struct Learner<O, Config> {
    net: Net,
    /// Creates the optimizer for the network's variables.
    make: fn(&Net, Config) -> Result<CandleOptimizer<O>>,
    config: Config,
    stops_at: Option<usize>,
}

impl<O: Optimizer + 'static, Config: Clone> TrainModule for Learner<O, Config> {
    type Batch = Points;
    type Optimizer = CandleOptimizer<O>;

    fn configure_optimizers(&mut self) -> Result<Optimizers<Self::Optimizer>> {
        let optimizer = (self.make)(&self.net, self.config.clone())?;
        let rate = optimizer.learning_rate();
        let lower = move |epochs: usize| rate * 0.7f64.powi(epochs as i32);
        Ok(Optimizers::new(optimizer).lr_scheduler(LrInterval::Epoch, lower))
    }

    fn training_step(&mut self, batch: &Points, _trainer: &mut TrainerState) -> Result<Tensor> {
        Ok(self.net.loss(batch)?)
    }

    fn on_train_batch_end(&mut self, trainer: &mut TrainerState) -> Result<()> {
        if self.stops_at == Some(trainer.global_step()) {
            trainer.stop("as if it were killed");
        }
        Ok(())
    }

    fn weights(&mut self) -> Result<Option<SavedState>> {
        Ok(Some(saved_weights(&self.net.vars)?))
    }

    fn load_weights(&mut self, weights: &SavedState) -> Result<()> {
        load_weights(&self.net.vars, weights)
    }
}

/// Returns the batches in an order that depends on seed and epoch.
fn shuffled(context: &EpochContext) -> impl Iterator<Item = Result<Points>> + use<> {
    let mut batches = batches(6).expect("made");
    let turn = (context.seed as usize + context.epoch) % 6;
    batches.rotate_left(turn);
    batches.into_iter().map(Ok)
}

fn trainer<M: TrainModule>() -> Trainer<M> {
    Trainer::new().max_epochs(3).seed(5).progress_bar(false)
}

fn is_the_same_after_an_interruption<O: Optimizer + 'static, Config: Clone>(
    make: fn(&Net, Config) -> Result<CandleOptimizer<O>>,
    config: &Config,
) -> Result<()> {
    let learner = |stops_at| -> Result<_> {
        Ok(Learner { net: Net::new()?, make, config: config.clone(), stops_at })
    };
    let mut whole = learner(None)?;
    trainer().fit(&mut whole, &shuffled, None)?;
    // The stops are in the middle and at the end of an epoch.
    for steps in [8, 12] {
        let folder = tempfile::tempdir()?;
        let mut killed = learner(Some(steps))?;
        trainer().checkpoint_dir(folder.path()).fit(&mut killed, &shuffled, None)?;
        assert_ne!(killed.net.bits()?, whole.net.bits()?);
        let path = folder.path().join(format!("epoch=1-step={steps}.safetensors"));
        let mut resumed = learner(None)?;
        let outcome = trainer().resume(&mut resumed, &path, &shuffled, None)?;
        assert_eq!((outcome.epochs, outcome.steps), (3, 18));
        assert_eq!(resumed.net.bits()?, whole.net.bits()?);
    }
    Ok(())
}

#[test]
fn a_resumed_training_has_the_weights_of_one_that_was_not_interrupted() -> Result<()> {
    let adam = ParamsAdamW { lr: 0.02, ..ParamsAdamW::default() };
    is_the_same_after_an_interruption::<AdamW, _>(
        |net, config| Ok(CandleOptimizer::new(vars_by_name(&net.vars), config)?),
        &adam,
    )?;
    // The order of these variables changes from run to run, so they must be matched by name.
    is_the_same_after_an_interruption::<AdamW, _>(
        |net, config| {
            let mut vars = vars_by_name(&net.vars);
            vars.reverse();
            Ok(CandleOptimizer::new(vars, config)?)
        },
        &adam,
    )?;
    is_the_same_after_an_interruption::<SGD, _>(
        |net, config| Ok(CandleOptimizer::new(net.vars.all_vars(), config)?),
        &0.3,
    )
}

/// Returns the error message for a checkpoint that this optimizer rejects.
fn refusal<O: Optimizer + 'static, Config: Clone>(
    path: &Path,
    make: fn(&Net, Config) -> Result<CandleOptimizer<O>>,
    config: &Config,
) -> Result<String> {
    let mut learner = Learner { net: Net::new()?, make, config: config.clone(), stops_at: None };
    let before = learner.net.bits()?;
    let error = trainer().resume(&mut learner, path, &shuffled, None);
    let error = error.expect_err("refused");
    assert!(matches!(error, TrainError::Resume { .. }), "{error}");
    assert_eq!(learner.net.bits()?, before);
    Ok(format!("{error:?}"))
}

#[test]
fn state_of_another_optimizer_and_hidden_state_are_refused() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("epoch=0-step=6.safetensors");
    let fit = |mut learner: Learner<AdamW, ParamsAdamW>| -> Result<()> {
        trainer().max_epochs(1).checkpoint_dir(folder.path()).fit(&mut learner, &shuffled, None)?;
        Ok(())
    };
    let config = ParamsAdamW::default();
    let make = |net: &Net, config| Ok(CandleOptimizer::new(vars_by_name(&net.vars), config)?);
    fit(Learner { net: Net::new()?, make, config: config.clone(), stops_at: None })?;
    let error = refusal::<SGD, f64>(
        &path,
        |net, rate| Ok(CandleOptimizer::new(vars_by_name(&net.vars), rate)?),
        &0.1,
    )?;
    assert!(error.contains("its optimizer is AdamW, but the module's optimizer is SGD"), "{error}");
    let error = refusal::<AdamW, ParamsAdamW>(
        &path,
        |net, config| {
            let mut vars = vars_by_name(&net.vars);
            vars.pop();
            Ok(CandleOptimizer::new(vars, config)?)
        },
        &config,
    )?;
    assert!(error.contains("it has 8 moments instead of the optimizer's 6"), "{error}");

    std::fs::remove_file(&path)?;
    let make = |net: &Net, config| {
        let vars = vars_by_name(&net.vars);
        let adam = AdamW::new(vars.clone(), config)?;
        Ok(CandleOptimizer::with_optimizer(adam, vars)?)
    };
    fit(Learner { net: Net::new()?, make, config: config.clone(), stops_at: None })?;
    let error = refusal::<AdamW, ParamsAdamW>(&path, make, &config)?;
    assert!(error.contains("create the optimizer with CandleOptimizer::new"), "{error}");
    // The file can still be loaded as plain weights.
    let net = Net::new()?;
    let mut vars = net.vars.clone();
    vars.load(&path)?;
    Ok(())
}

#[test]
fn weights_of_another_model_change_nothing() -> Result<()> {
    let net = Net::new()?;
    let before = net.bits()?;
    let refused = |change: &dyn Fn(&mut SavedState)| -> Result<String> {
        let other = Net::new()?;
        for var in vars_by_name(&other.vars) {
            var.set(&var.zeros_like()?)?;
        }
        let mut weights = saved_weights(&other.vars)?;
        change(&mut weights);
        let error = load_weights(&net.vars, &weights).expect_err("refused").to_string();
        assert_eq!(net.bits()?, before);
        Ok(error)
    };
    let more = |weights: &mut SavedState| {
        let bias = weights.tensor("net.out.bias").expect("there").clone();
        weights.set_tensor("net.third.bias", bias);
    };
    assert!(refused(&more)?.contains("the model has no variable \"net.third.bias\""));
    let other_shape = |weights: &mut SavedState| {
        let bias = weights.tensor("net.hidden.bias").expect("there").clone();
        weights.set_tensor("net.out.bias", bias);
    };
    let error = refused(&other_shape)?;
    let expected = "\"net.out.bias\" has the type F32 and the shape [16] instead of F32 and [2]";
    assert!(error.contains(expected), "{error}");
    let fewer = |weights: &mut SavedState| {
        let kept = weights.tensor("net.out.bias").expect("there").clone();
        *weights = SavedState::new();
        weights.set_tensor("net.out.bias", kept);
    };
    assert!(refused(&fewer)?.contains("it has no tensor"));
    Ok(())
}
