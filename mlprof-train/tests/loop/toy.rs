//! Toy framework: one weight that learns to multiply its input by three.

use std::fmt::Write;
use std::sync::{Arc, Mutex};

use mlprof_core::report::SimpleReport;
use mlprof_core::{Action, NeverStarted, Profiler, Report, SimpleProfiler, Stage};
use mlprof_train::{
    Callback, HookContext, LogOptions, LrInterval, Optimizers, Result, TrainModule, TrainOptimizer,
    Trainer, TrainerState,
};

/// Weight and gradient. The module and its optimizer share them, as real frameworks share tensors.
#[derive(Clone, Default)]
pub struct Weight(Arc<Mutex<(f64, f64)>>);

impl Weight {
    pub fn get(&self) -> f64 {
        self.0.lock().expect("weight").0
    }

    pub fn gradient(&self) -> f64 {
        self.0.lock().expect("weight").1
    }

    fn change(&self, change: impl FnOnce(&mut (f64, f64))) {
        change(&mut self.0.lock().expect("weight"));
    }
}

/// Gradient descent.
pub struct Descent {
    weight: Weight,
    rate: f64,
    /// Makes the loss behave like one on an accelerator, where reading waits.
    pub waits: bool,
}

impl TrainOptimizer for Descent {
    /// Loss and its derivative with respect to the weight.
    type Loss = (f64, f64);

    fn loss_value(&self, loss: &Self::Loss) -> Result<f64> {
        Ok(loss.0)
    }

    fn reading_waits(&self, _loss: &Self::Loss) -> bool {
        self.waits
    }

    fn zero_grad(&mut self) -> Result<()> {
        self.weight.change(|(_, gradient)| *gradient = 0.0);
        Ok(())
    }

    fn backward(&mut self, loss: &Self::Loss, scale: f64) -> Result<()> {
        self.weight.change(|(_, gradient)| *gradient += loss.1 * scale);
        Ok(())
    }

    fn clip_gradients(&mut self, max_norm: f64) -> Result<()> {
        self.weight.change(|(_, gradient)| *gradient = gradient.clamp(-max_norm, max_norm));
        Ok(())
    }

    fn clip_gradients_by_value(&mut self, max_value: f64) -> Result<()> {
        // Clipping to half of the value lets tests distinguish the two algorithms.
        self.clip_gradients(max_value / 2.0)
    }

    fn step(&mut self) -> Result<()> {
        self.weight.change(|(weight, gradient)| *weight -= self.rate * *gradient);
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

/// Batch with a single input.
pub type Batch = f64;

/// Module whose behaviour tests can configure.
#[derive(Default)]
pub struct Triple {
    pub weight: Weight,
    pub losses: Vec<f64>,
    /// Gradients just before each optimizer step.
    pub gradients: Vec<f64>,
    /// Stage of each validation pass, and the number of training batches before it.
    pub validated: Vec<(Stage, usize)>,
    pub rates: Vec<f64>,
    pub rate: Option<f64>,
    pub schedule: Option<LrInterval>,
    /// Replaces `schedule` if it is set.
    pub configure: Option<fn(Optimizers<Descent>) -> Optimizers<Descent>>,
    pub waits: bool,
    /// Training batch, counted over all epochs, at which a failure happens, and the kind of
    /// failure.
    pub trouble: Option<(usize, Trouble)>,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Trouble {
    Error,
    Panic,
    NotANumber,
    Stop,
}

impl TrainModule for Triple {
    type Batch = Batch;
    type Optimizer = Descent;

    fn configure_optimizers(&mut self) -> Result<Optimizers<Descent>> {
        let rate = self.rate.unwrap_or(0.05);
        let optimizer = Descent { weight: self.weight.clone(), rate, waits: self.waits };
        let optimizers = Optimizers::new(optimizer);
        if let Some(configure) = self.configure {
            return Ok(configure(optimizers));
        }
        Ok(match self.schedule {
            Some(interval) => optimizers.lr_scheduler(interval, |done| 0.05 / (done + 1) as f64),
            None => optimizers,
        })
    }

    fn training_step(&mut self, input: &f64, trainer: &mut TrainerState) -> Result<(f64, f64)> {
        let error = (self.weight.get() - 3.0) * input;
        let loss = error * error;
        let trouble = self.trouble.filter(|(batch, _)| *batch == self.losses.len());
        self.losses.push(loss);
        trainer.log("train_loss", loss);
        match trouble.map(|(_, trouble)| trouble) {
            Some(Trouble::Error) => return Err("the tensor has the wrong shape".into()),
            Some(Trouble::Panic) => panic!("index out of range in training_step"),
            Some(Trouble::NotANumber) => return Ok((f64::NAN, 0.0)),
            Some(Trouble::Stop) => trainer.stop("enough"),
            None => {}
        }
        Ok((loss, 2.0 * error * input))
    }

    fn validation_step(&mut self, input: &f64, trainer: &mut TrainerState) -> Result<()> {
        let loss = ((self.weight.get() - 3.0) * input).powi(2);
        trainer.log_with("val_loss", loss, &LogOptions::new().weight(2.0));
        Ok(())
    }

    fn on_validation_end(&mut self, trainer: &mut TrainerState) -> Result<()> {
        self.validated.push((trainer.stage(), self.losses.len()));
        Ok(())
    }

    fn test_step(&mut self, input: &f64, trainer: &mut TrainerState) -> Result<()> {
        trainer.log("test_loss", ((self.weight.get() - 3.0) * input).powi(2));
        Ok(())
    }

    fn on_before_optimizer_step(
        &mut self,
        _optimizer: &mut Descent,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        self.gradients.push(self.weight.gradient());
        self.rates.extend(trainer.learning_rate());
        Ok(())
    }

    fn save_checkpoint(&mut self, path: &std::path::Path) -> Result<()> {
        Ok(std::fs::write(path, self.weight.get().to_string())?)
    }

    fn checkpoint_extension(&self) -> &'static str {
        "txt"
    }
}

/// Creates a trainer of three epochs without progress output.
pub fn trainer<M: TrainModule>() -> Trainer<M> {
    Trainer::new().max_epochs(3).progress_bar(false)
}

/// Returns inputs from 0.1 upwards.
pub fn inputs(number: usize) -> Vec<f64> {
    (1..=number).map(|input| input as f64 / 10.0).collect()
}

/// Simple profiler that writes its report to a file, for tests to read.
pub struct Watched {
    pub profiler: Arc<SimpleProfiler>,
    pub directory: tempfile::TempDir,
}

impl Watched {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("temporary directory");
        let profiler = SimpleProfiler::new().dirpath(directory.path()).filename("toy");
        Self { profiler: Arc::new(profiler), directory }
    }

    pub fn report(&self) -> SimpleReport {
        match self.profiler.report() {
            Some(Report::Simple(report)) => report,
            other => panic!("{other:?}"),
        }
    }

    /// Returns how often an action ended. Rows of the sanity check have separate labels.
    pub fn calls(&self, label: &str) -> u64 {
        let report = self.report();
        report.actions.iter().find(|row| row.label() == label).map_or(0, |row| row.calls)
    }

    /// Returns the report that was written for a stage.
    pub fn delivered(&self, stage: &str) -> String {
        let file = self.directory.path().join(format!("{stage}-toy.txt"));
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file:?}: {error}"))
    }
}

/// Records the nesting of started actions as an indented list.
#[derive(Default)]
pub struct Transcript(Mutex<(usize, String)>);

impl Transcript {
    pub fn text(&self) -> String {
        self.0.lock().expect("transcript").1.clone()
    }
}

impl Profiler for Transcript {
    fn start(&self, action: Action) {
        let mut transcript = self.0.lock().expect("transcript");
        let depth = transcript.0;
        let _ = writeln!(transcript.1, "{:width$}{}", "", action.name(), width = depth * 2);
        transcript.0 += 1;
    }

    fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
        self.0.lock().expect("transcript").0 -= 1;
        Ok(())
    }
}

/// Calls a closure with the name of each hook that a fit or a test calls.
pub struct OnHooks<F>(pub F);

macro_rules! forward_hooks {
    ($($hook:ident)*) => {
        impl<M: TrainModule, F: FnMut(&'static str, &mut TrainerState)> Callback<M> for OnHooks<F> {$(
            fn $hook(&mut self, _: &mut HookContext<'_, M>, trainer: &mut TrainerState) -> Result<()> {
                (self.0)(stringify!($hook), trainer);
                Ok(())
            }
        )*}
    };
}

forward_hooks!(
    on_fit_start on_fit_end on_train_start on_train_end on_train_epoch_start on_train_epoch_end
    on_train_batch_start on_train_batch_end on_validation_start on_validation_end
    on_validation_epoch_start on_validation_epoch_end on_validation_batch_end on_test_start
    on_test_end on_test_epoch_end on_predict_epoch_end on_predict_end on_sanity_check_start
    on_sanity_check_end
);

/// List to which hooks append.
pub type Record<T> = Arc<Mutex<Vec<T>>>;
