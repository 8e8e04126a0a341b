//! The training module of the network.

use std::path::Path;

use digits::Plant;
use mlprof_tch::prelude::*;
use tch::nn::{self, VarStore};
use tch::{Device, TchError, Tensor};

use crate::{Batch, DigitNet};

/// Learning rate of all programs of this example.
pub const LEARNING_RATE: f64 = 2e-3;

/// The network and its variables.
#[derive(Debug)]
pub struct Learner {
    pub(crate) variables: VarStore,
    net: DigitNet,
    plant: Option<Plant>,
}

impl Learner {
    /// Creates a network whose weights are determined by `seed`.
    pub fn new(seed: u64, device: Device) -> Self {
        tch::manual_seed(seed as i64);
        let variables = VarStore::new(device);
        let net = DigitNet::new(&variables.root());
        Self { variables, net, plant: None }
    }

    /// Plants a mistake.
    #[must_use]
    pub fn plant(self, plant: Option<Plant>) -> Self {
        Self { plant, ..self }
    }

    /// Loads the weights of a checkpoint, if one is given.
    ///
    /// # Errors
    ///
    /// Returns torch's error for the file.
    pub fn weights(mut self, file: Option<&Path>) -> Result<Self, TchError> {
        if let Some(file) = file {
            self.variables.load(file)?;
        }
        Ok(self)
    }

    fn log(&self, batch: &Batch, trainer: &mut TrainerState, names: [&str; 2]) -> TrainResult<()> {
        let (loss, accuracy) = self.net.judge(batch)?;
        let weight = batch.classes.numel() as f64;
        let weighted = LogOptions::new().weight(weight);
        trainer.log_with(names[0], loss, &weighted);
        trainer.log_with(names[1], accuracy, &weighted);
        Ok(())
    }
}

impl TrainModule for Learner {
    type Batch = Batch;
    type Optimizer = TchOptimizer;

    fn configure_optimizers(&mut self) -> TrainResult<Optimizers<TchOptimizer>> {
        let rate = LEARNING_RATE * Plant::of_learning_rate(self.plant);
        let optimizer = TchOptimizer::new(nn::Adam::default(), &self.variables, rate)?;
        // The learning rate decreases after each epoch.
        let schedule = move |epochs: usize| rate * 0.95f64.powf(epochs as f64);
        Ok(Optimizers::new(optimizer).lr_scheduler(LrInterval::Epoch, schedule))
    }

    fn training_step(&mut self, batch: &Batch, trainer: &mut TrainerState) -> TrainResult<Tensor> {
        record_batch("images", &batch.images);
        record_batch("classes", &batch.classes);
        let plant = Plant::in_step(self.plant, trainer.global_step() as u64);
        Ok(self.net.planted_loss(batch, plant)?)
    }

    fn batch_size(&self, batch: &Batch) -> Option<usize> {
        Some(batch.classes.numel())
    }

    fn validation_step(&mut self, batch: &Batch, trainer: &mut TrainerState) -> TrainResult<()> {
        self.log(batch, trainer, ["val_loss", "val_accuracy"])
    }

    fn test_step(&mut self, batch: &Batch, trainer: &mut TrainerState) -> TrainResult<()> {
        self.log(batch, trainer, ["test_loss", "test_accuracy"])
    }

    fn transfer_batch_to_device(
        &mut self,
        batch: Batch,
        _trainer: &mut TrainerState,
    ) -> TrainResult<Batch> {
        Ok(batch.move_to(self.variables.device())?)
    }

    fn seed_everything(&mut self, seed: u64) -> TrainResult<()> {
        tch::manual_seed(seed as i64);
        Ok(())
    }

    fn weights(&mut self) -> TrainResult<Option<SavedState>> {
        Ok(Some(saved_weights(&self.variables)?))
    }

    fn load_weights(&mut self, weights: &SavedState) -> TrainResult<()> {
        load_weights(&self.variables, weights)
    }
}
