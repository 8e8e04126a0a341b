//! Toy framework with a single weight. Its optimizer has a state, and its module saves the weight.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use mlprof_train::{
    Dtype, EpochContext, LrInterval, Mode, Optimizers, ReduceLrOnPlateau, Result, SavedState,
    SavedTensor, TrainModule, TrainOptimizer, TrainerState,
};

/// Weight and gradient.
pub type Number = Arc<Mutex<(f64, f64)>>;

/// Gradient descent with momentum.
pub struct Momentum {
    number: Number,
    velocity: f64,
    rate: f64,
}

pub fn tensor(value: f64) -> SavedTensor {
    SavedTensor::new(Dtype::F64, vec![], value.to_le_bytes().to_vec()).expect("eight bytes")
}

pub fn value(state: &SavedState, name: &str) -> Result<f64> {
    let tensor = state.tensor_like(name, Dtype::F64, &[])?;
    Ok(f64::from_le_bytes(tensor.bytes().try_into()?))
}

impl TrainOptimizer for Momentum {
    type Loss = (f64, f64);

    fn loss_value(&self, loss: &Self::Loss) -> Result<f64> {
        Ok(loss.0)
    }

    fn zero_grad(&mut self) -> Result<()> {
        self.number.lock().expect("number").1 = 0.0;
        Ok(())
    }

    fn backward(&mut self, loss: &Self::Loss, scale: f64) -> Result<()> {
        self.number.lock().expect("number").1 += loss.1 * scale;
        Ok(())
    }

    fn clip_gradients(&mut self, _max_norm: f64) -> Result<()> {
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        let mut number = self.number.lock().expect("number");
        self.velocity = 0.9 * self.velocity + number.1;
        number.0 -= self.rate * self.velocity;
        Ok(())
    }

    fn state(&self) -> Result<SavedState> {
        let mut state = SavedState::new();
        state.set_tensor("velocity", tensor(self.velocity));
        Ok(state)
    }

    fn load_state(&mut self, state: &SavedState) -> Result<()> {
        self.velocity = value(state, "velocity")?;
        Ok(())
    }

    fn learning_rate(&self) -> f64 {
        self.rate
    }

    fn set_learning_rate(&mut self, rate: f64) -> Result<()> {
        self.rate = rate;
        Ok(())
    }
}

/// Learns to multiply its input by three, and records its inputs and learning rates.
#[derive(Default)]
pub struct Saved {
    pub number: Number,
    pub inputs: Vec<f64>,
    pub rates: Vec<f64>,
    pub schedule: Option<LrInterval>,
    /// Enables a schedule that lowers the learning rate when the validation loss does not improve.
    pub plateau: bool,
    /// Number of batches between checkpoints, and their directory.
    pub save_every: Option<(usize, PathBuf)>,
    /// Value that the module adds to each checkpoint.
    pub note: String,
}

impl Saved {
    pub fn weight(&self) -> f64 {
        self.number.lock().expect("number").0
    }

    pub fn set_weight(&mut self, weight: f64) {
        self.number.lock().expect("number").0 = weight;
    }
}

impl TrainModule for Saved {
    type Batch = f64;
    type Optimizer = Momentum;

    fn configure_optimizers(&mut self) -> Result<Optimizers<Momentum>> {
        let optimizer = Momentum { number: self.number.clone(), velocity: 0.0, rate: 0.05 };
        let optimizers = Optimizers::new(optimizer);
        if self.plateau {
            // No epoch improves the loss by 3.0, so the schedule lowers the rate.
            let schedule =
                ReduceLrOnPlateau::new(Mode::Min).patience(1).absolute_threshold(3.0).factor(0.5);
            return Ok(optimizers.reduce_on_plateau(LrInterval::Epoch, "val_loss", schedule));
        }
        Ok(match self.schedule {
            Some(interval) => optimizers.lr_scheduler(interval, |done| 0.05 / (done + 1) as f64),
            None => optimizers,
        })
    }

    fn training_step(&mut self, input: &f64, trainer: &mut TrainerState) -> Result<(f64, f64)> {
        let error = (self.weight() - 3.0) * input;
        self.inputs.push(*input);
        self.rates.extend(trainer.learning_rate());
        Ok((error * error, 2.0 * error * input))
    }

    fn validation_step(&mut self, input: &f64, trainer: &mut TrainerState) -> Result<()> {
        trainer.log("val_loss", ((self.weight() - 3.0) * input).powi(2));
        Ok(())
    }

    fn on_train_batch_end(&mut self, trainer: &mut TrainerState) -> Result<()> {
        if let (Some((every, folder)), Some(index)) = (&self.save_every, trainer.batch_index())
            && (index + 1).is_multiple_of(*every)
        {
            let stem = format!("epoch={}-batch={}", trainer.epoch(), index + 1);
            trainer.save_checkpoint(folder, &stem);
        }
        Ok(())
    }

    fn weights(&mut self) -> Result<Option<SavedState>> {
        let mut weights = SavedState::new();
        weights.set_tensor("weight", tensor(self.weight()));
        Ok(Some(weights))
    }

    fn load_weights(&mut self, weights: &SavedState) -> Result<()> {
        let weight = value(weights, "weight")?;
        self.set_weight(weight);
        Ok(())
    }

    fn on_save_checkpoint(
        &mut self,
        checkpoint: &mut mlprof_train::Checkpoint,
        _trainer: &mut TrainerState,
    ) -> Result<()> {
        checkpoint.section_mut("note").set("text", &self.note);
        Ok(())
    }

    fn on_load_checkpoint(
        &mut self,
        checkpoint: &mlprof_train::Checkpoint,
        _trainer: &mut TrainerState,
    ) -> Result<()> {
        self.note = checkpoint.section("note").ok_or("no note")?.get("text")?;
        Ok(())
    }
}

/// Returns ten inputs, in an order that depends on the seed and the epoch.
pub fn shuffled(context: &EpochContext) -> impl Iterator<Item = Result<f64>> + use<> {
    let mut order: Vec<u64> = (1..=10).collect();
    let mixed = |it: &u64| {
        (it + 17 * context.seed + 101 * context.epoch as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    };
    order.sort_by_key(mixed);
    order.into_iter().map(|it| Ok(it as f64 / 10.0))
}

/// Returns the sorted names of the files in a folder.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<_> = entries.map(|it| name(it).into_string().expect("text")).collect();
    names.sort();
    names
}
