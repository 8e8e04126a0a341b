//! Complete trainings with the trainer.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod common;

use std::sync::Arc;

use candle_core::{Device, Tensor};
use candle_nn::SGD;
use mlprof_candle::prelude::*;
use mlprof_train::{Result, TrainError};

use common::{HIDDEN_ROW, Net, OUT_ROW, Points, batches, calls, points, take_turn};

/// Trains, records every loss and learning rate, and fails on demand.
struct Learner {
    net: Net,
    interval: LrInterval,
    fails_at: Option<usize>,
    is_lost_at: Option<usize>,
    /// Bits of the losses.
    losses: Vec<u32>,
    rates: Vec<f64>,
}

impl Learner {
    fn new() -> Result<Self> {
        Ok(Self {
            net: Net::new()?,
            interval: LrInterval::Epoch,
            fails_at: None,
            is_lost_at: None,
            losses: Vec::new(),
            rates: Vec::new(),
        })
    }
}

impl TrainModule for Learner {
    type Batch = Points;
    type Optimizer = CandleOptimizer<SGD>;

    fn configure_optimizers(&mut self) -> Result<Optimizers<Self::Optimizer>> {
        let optimizer = CandleOptimizer::new(vars_by_name(&self.net.vars), 0.5)?;
        let halved = |done: usize| 0.5 / (1 << done) as f64;
        Ok(Optimizers::new(optimizer).lr_scheduler(self.interval, halved))
    }

    fn training_step(&mut self, batch: &Points, trainer: &mut TrainerState) -> Result<Tensor> {
        if self.fails_at == Some(self.losses.len()) {
            // A matrix product of incompatible shapes, which is a typical model error.
            batch.0.matmul(&batch.0)?;
        }
        let mut loss = self.net.loss(batch)?;
        if self.is_lost_at == Some(self.losses.len()) {
            loss = (loss * f64::NAN)?;
        }
        self.losses.push(loss.to_scalar::<f32>()?.to_bits());
        self.rates.extend(trainer.learning_rate());
        Ok(loss)
    }

    fn validation_step(&mut self, batch: &Points, trainer: &mut TrainerState) -> Result<()> {
        trainer.log("val_loss", self.net.loss(batch)?.to_scalar::<f32>()?.into());
        Ok(())
    }

    fn transfer_batch_to_device(&mut self, batch: Points, _: &mut TrainerState) -> Result<Points> {
        Ok(batch.move_to(&Device::Cpu)?)
    }
}

fn trainer<M: TrainModule>() -> Trainer<M> {
    Trainer::new().max_epochs(3).progress_bar(false)
}

#[test]
fn counts_are_what_the_loop_must_do() -> Result<()> {
    let _turn = take_turn();
    let profiler = Arc::new(SimpleProfiler::new());
    let mut trainer = trainer().accumulate_grad_batches(2).profiler(profiler.clone());
    let mut learner = Learner::new()?;
    let outcome = trainer.fit(&mut learner, &batches(5)?, Some(&batches(2)?))?;
    // Each epoch has 5 batches in steps of 2, 2 and 1.
    assert_eq!((outcome.epochs, outcome.steps), (3, 9));
    let strategy = |name: &str| format!("[Strategy]SingleDeviceStrategy.{name}");
    let module = |name: &str| format!("[LightningModule]Learner.{name}");
    let expected = [
        ("run_training_epoch".to_owned(), 3),
        ("run_training_batch".to_owned(), 15),
        (strategy("training_step"), 15),
        (strategy("backward"), 15),
        (strategy("read_loss"), 15),
        (module("optimizer_step"), 9),
        ("Optimizer.step".into(), 9),
        (module("optimizer_zero_grad"), 9),
        (module("configure_gradient_clipping"), 9),
        (module("lr_scheduler_step"), 3),
        (strategy("validation_step"), 6),
        // These are the forward passes of training and validation. The sanity check has its own
        // rows.
        (HIDDEN_ROW.to_owned(), 21),
        (OUT_ROW.to_owned(), 21),
    ];
    for (row, number) in expected {
        assert_eq!(calls(&profiler, &row), number, "{row}\n{}", profiler.summary());
    }
    Ok(())
}

/// An iterator like those of candle's data sets: it borrows the data and returns candle's errors.
struct RandomIter<'data> {
    points: &'data Points,
    left: usize,
    start: usize,
}

impl Iterator for RandomIter<'_> {
    type Item = candle_core::Result<Points>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.start = (self.start + 13) % 33;
        let part = |tensor: &Tensor| tensor.narrow(0, self.start, 8);
        Some(part(&self.points.0).and_then(|points| Ok((points, part(&self.points.1)?))))
    }
}

#[test]
fn a_closure_may_lend_its_data() -> Result<()> {
    let _turn = take_turn();
    let data = points(40)?;
    let random = |start, left| RandomIter { points: &data, left, start };
    let train = loader_fn(|epoch| random(epoch.epoch, 6));
    let val = |_: &EpochContext| random(0, 2).map(|batch| Ok(batch?));
    let profiler = Arc::new(SimpleProfiler::new());
    let mut learner = Learner::new()?;
    let outcome =
        trainer().profiler(Some(profiler.clone())).fit(&mut learner, &train, Some(&val))?;
    assert_eq!((outcome.epochs, outcome.steps, learner.losses.len()), (3, 18, 18));
    // Each of three epochs has 6 batches and one call that finds the end.
    let next = "[_TrainingEpochLoop].train_dataloader_next";
    assert_eq!(calls(&profiler, next), 21, "{}", profiler.summary());
    Ok(())
}

#[test]
fn learning_rates_follow_the_schedule() -> Result<()> {
    let _turn = take_turn();
    let mut by_epoch = Learner::new()?;
    trainer().fit(&mut by_epoch, &batches(2)?, None)?;
    assert_eq!(by_epoch.rates, [0.5, 0.5, 0.25, 0.25, 0.125, 0.125]);

    let mut by_step = Learner { interval: LrInterval::Step, ..Learner::new()? };
    trainer().max_epochs(2).accumulate_grad_batches(2).fit(&mut by_step, &batches(4)?, None)?;
    assert_eq!(by_step.rates, [0.5, 0.5, 0.25, 0.25, 0.125, 0.125, 0.0625, 0.0625]);
    // The trainer's learning rate reaches candle's optimizer: with a rate of 0, the weights do not
    // change.
    let mut optimizer = CandleOptimizer::<SGD>::new(vars_by_name(&by_step.net.vars), 0.5)?;
    let before = by_step.net.bits()?;
    optimizer.set_learning_rate(0.0)?;
    optimizer.backward(&by_step.net.loss(&batches(1)?[0])?, 1.0)?;
    optimizer.step()?;
    assert_eq!((optimizer.learning_rate(), by_step.net.bits()?), (0.0, before));
    Ok(())
}

#[test]
fn an_error_of_the_model_comes_back_after_the_report() -> Result<()> {
    let _turn = take_turn();
    let directory = tempfile::tempdir()?;
    let profiler = SimpleProfiler::new().dirpath(directory.path()).filename("run");
    let mut trainer = trainer().profiler(profiler);
    let mut learner = Learner { fails_at: Some(7), ..Learner::new()? };
    let error = trainer.fit(&mut learner, &batches(5)?, None).expect_err("shapes do not fit");
    assert!(matches!(error, TrainError::Module { hook: "training_step", .. }), "{error}");
    let message = format!("{error:?}");
    assert!(message.contains("at batch 2 of epoch 1") && message.contains("matmul"), "{message}");
    let report = std::fs::read_to_string(directory.path().join("fit-run.txt"))?;
    let row = report.lines().find(|line| line.contains("training_step")).expect("its row");
    assert_eq!(row.split('|').nth(3).map(str::trim), Some("8"), "{report}");
    assert!(report.contains(OUT_ROW), "{report}");
    Ok(())
}

#[test]
fn a_loss_that_is_no_number_ends_the_fit() -> Result<()> {
    let _turn = take_turn();
    let mut learner = Learner { is_lost_at: Some(3), ..Learner::new()? };
    let error = trainer().fit(&mut learner, &batches(5)?, None).expect_err("NaN");
    assert!(matches!(error, TrainError::InvalidLoss { .. }), "{error}");
    assert!(format!("{error:?}").contains("at batch 3 of epoch 0"), "{error}");
    Ok(())
}

#[test]
fn loss_curves_are_identical_with_and_without_a_profiler() -> Result<()> {
    let _turn = take_turn();
    let curve = |profiler: Option<&str>| -> Result<_> {
        let mut learner = Learner::new()?;
        let mut trainer = trainer().gradient_clip_val(0.2);
        if let Some(name) = profiler {
            trainer = trainer.profiler(name);
        }
        trainer.fit(&mut learner, &batches(20)?, Some(&batches(2)?))?;
        Ok((learner.losses.clone(), learner.net.bits()?))
    };
    let plain = curve(None)?;
    assert_eq!(plain.0.len(), 60);
    assert!(f32::from_bits(plain.0[59]) < f32::from_bits(plain.0[0]), "it learns");
    assert_eq!(curve(Some("simple"))?, plain);
    assert_eq!(curve(Some("advanced"))?, plain);
    Ok(())
}
