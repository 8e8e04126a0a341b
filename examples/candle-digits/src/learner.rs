//! The training module of the network.

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_nn::{AdamW, ParamsAdamW, VarBuilder, VarMap};
use digits::Plant;
use mlprof_candle::prelude::*;
use mlprof_train::Result;

use crate::data::Batch;
use crate::net::DigitNet;

const LEARNING_RATE: f64 = 2e-3;

/// The network with its variables and their device.
#[expect(missing_debug_implementations, reason = "VarMap has none")]
pub struct Learner {
    vars: VarMap,
    net: DigitNet,
    /// A network with the same variables, for which candle records no computation graph.
    evaluated: DigitNet,
    device: Device,
    plant: Option<Plant>,
}

impl Learner {
    /// Creates a network whose weights are determined by `seed`.
    ///
    /// # Errors
    ///
    /// Returns candle's error.
    pub fn new(seed: u64, device: &Device) -> candle_core::Result<Self> {
        let vars = VarMap::new();
        let net = DigitNet::new(&seeded_var_builder(&vars, seed, DType::F32, device))?;
        let evaluated = DigitNet::new(&detached_var_builder(&vars, DType::F32, device))?;
        Ok(Self { vars, net, evaluated, device: device.clone(), plant: None })
    }

    /// Evaluates with the trained network, for which candle records the computation graph.
    ///
    /// # Errors
    ///
    /// Returns candle's error.
    pub fn evaluating_with_gradients(mut self) -> candle_core::Result<Self> {
        let variables = VarBuilder::from_varmap(&self.vars, DType::F32, &self.device);
        self.evaluated = DigitNet::new(&variables)?;
        Ok(self)
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
    /// Returns candle's error for the file.
    pub fn weights(mut self, file: Option<&Path>) -> candle_core::Result<Self> {
        if let Some(file) = file {
            self.vars.load(file)?;
        }
        Ok(self)
    }

    /// Returns the network's variables, which the network shares.
    pub fn vars(&self) -> &VarMap {
        &self.vars
    }

    fn log(&self, batch: &Batch, trainer: &mut TrainerState, names: [&str; 2]) -> Result<()> {
        let (loss, accuracy) = self.evaluated.judge(batch)?;
        let weight = batch.size()? as f64;
        let weighted = LogOptions::new().weight(weight);
        trainer.log_with(names[0], loss, &weighted);
        trainer.log_with(names[1], accuracy, &weighted);
        Ok(())
    }
}

impl TrainModule for Learner {
    type Batch = Batch;
    type Optimizer = CandleOptimizer<AdamW>;

    fn configure_optimizers(&mut self) -> Result<Optimizers<Self::Optimizer>> {
        let rate = LEARNING_RATE * Plant::of_learning_rate(self.plant);
        let config = ParamsAdamW { lr: rate, ..ParamsAdamW::default() };
        let optimizer = CandleOptimizer::new(vars_by_name(&self.vars), config)?;
        // The learning rate decreases after each epoch.
        let schedule = move |epochs: usize| rate * 0.95f64.powf(epochs as f64);
        Ok(Optimizers::new(optimizer).lr_scheduler(LrInterval::Epoch, schedule))
    }

    fn training_step(&mut self, batch: &Batch, trainer: &mut TrainerState) -> Result<Tensor> {
        record_batch("images", &batch.images);
        record_batch("classes", &batch.classes);
        let plant = Plant::in_step(self.plant, trainer.global_step() as u64);
        Ok(self.net.planted_loss(batch, plant)?)
    }

    fn batch_size(&self, batch: &Batch) -> Option<usize> {
        batch.size().ok()
    }

    fn validation_step(&mut self, batch: &Batch, trainer: &mut TrainerState) -> Result<()> {
        self.log(batch, trainer, ["val_loss", "val_accuracy"])
    }

    fn test_step(&mut self, batch: &Batch, trainer: &mut TrainerState) -> Result<()> {
        self.log(batch, trainer, ["test_loss", "test_accuracy"])
    }

    fn transfer_batch_to_device(
        &mut self,
        batch: Batch,
        _trainer: &mut TrainerState,
    ) -> Result<Batch> {
        Ok(batch.move_to(&self.device)?)
    }

    fn seed_everything(&mut self, seed: u64) -> Result<()> {
        Ok(seed_device(&self.device, seed)?)
    }

    fn weights(&mut self) -> Result<Option<SavedState>> {
        Ok(Some(saved_weights(&self.vars)?))
    }

    fn load_weights(&mut self, weights: &SavedState) -> Result<()> {
        load_weights(&self.vars, weights)
    }
}
