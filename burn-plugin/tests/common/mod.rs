//! A small model on synthetic data, and a profiler that counts calls.

#![allow(dead_code, clippy::unwrap_used)]

pub mod event_log;
pub mod local;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::{Dataset, DatasetError, InMemDataset};
use burn::module::Module;
use burn::nn::loss::{MseLoss, Reduction};
use burn::nn::{Linear, LinearConfig};
use burn::optim::AdamConfig;
use burn::optim::lr_scheduler::constant::ConstantLr;
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor, TensorData};
use burn::train::{
    InferenceStep, Learner, RegressionOutput, SupervisedTraining, TrainOutput, TrainStep,
};
use mlprof_burn::ProfileBackwardExt;
use mlprof_core::{Action, NeverStarted, Observation, Profiler, RunContext, Stage};

/// Serialises tests of one program, because they share the active profiler, burn's random numbers
/// and the signals.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    receive_interrupts();
    alone
}

/// Raises SIGINT, as Ctrl-C does.
pub fn interrupt() -> Result<(), DatasetError> {
    signal_hook::low_level::raise(signal_hook::consts::SIGINT).map_err(DatasetError::new)
}

/// Enables SIGINT. A test in the background of a shell inherits an ignored SIGINT, and the signal
/// handler correctly keeps it ignored.
fn receive_interrupts() {
    #[cfg(unix)]
    // SAFETY: `SIG_DFL` and the restored value are valid dispositions for `SIGINT`. Tests that
    // change the disposition run one at a time.
    unsafe {
        let old = libc::signal(libc::SIGINT, libc::SIG_DFL);
        if old != libc::SIG_IGN {
            libc::signal(libc::SIGINT, old);
        }
    }
}

/// Counts starts, and checks that starts and stops are properly nested on every thread.
#[derive(Default)]
pub struct Recorder(Mutex<Recorded>);

#[derive(Default)]
struct Recorded {
    calls: BTreeMap<&'static str, usize>,
    open: BTreeMap<String, Vec<Action>>,
    crossed: Vec<&'static str>,
    threads: BTreeMap<&'static str, Vec<ThreadId>>,
    parents: BTreeMap<&'static str, Option<&'static str>>,
    stages: Vec<Stage>,
    notes: Vec<String>,
    reports: usize,
    steps: usize,
    pauses: usize,
}

impl Recorder {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn calls(&self, name: &str) -> usize {
        self.recorded().calls.get(name).copied().unwrap_or(0)
    }

    pub fn all_calls(&self) -> BTreeMap<&'static str, usize> {
        self.recorded().calls.clone()
    }

    /// Returns the number of threads on which an action ran.
    pub fn threads(&self, name: &str) -> usize {
        self.recorded().threads.get(name).map_or(0, Vec::len)
    }

    pub fn shares_a_thread(&self, one: &str, other: &str) -> bool {
        let recorded = self.recorded();
        recorded.threads[one].iter().any(|thread| recorded.threads[other].contains(thread))
    }

    /// Returns the enclosing action at the latest start of an action.
    pub fn parent(&self, name: &str) -> Option<&'static str> {
        self.recorded().parents.get(name).copied().flatten()
    }

    pub fn steps(&self) -> usize {
        self.recorded().steps
    }

    pub fn pauses(&self) -> usize {
        self.recorded().pauses
    }

    pub fn reports(&self) -> usize {
        self.recorded().reports
    }

    pub fn notes(&self) -> Vec<String> {
        self.recorded().notes.clone()
    }

    pub fn stages(&self) -> Vec<Stage> {
        self.recorded().stages.clone()
    }

    /// Asserts that every started action was stopped, innermost first.
    pub fn assert_balanced(&self) {
        self.assert_balanced_but_for(&[]);
    }

    /// Asserts the same as [`assert_balanced`](Self::assert_balanced), but ignores actions in
    /// `unfinished`. Detached threads may still be inside them.
    pub fn assert_balanced_but_for(&self, unfinished: &[&str]) {
        let recorded = self.recorded();
        assert!(recorded.crossed.is_empty(), "stopped out of order: {:?}", recorded.crossed);
        let open = recorded.open.values().flatten();
        let open: Vec<_> = open.filter(|action| !unfinished.contains(&action.name())).collect();
        assert!(open.is_empty(), "still open: {open:?}");
    }
}

impl Profiler for Recorder {
    fn start(&self, action: Action) {
        let mut recorded = self.recorded();
        let thread = std::thread::current().id();
        *recorded.calls.entry(action.name()).or_default() += 1;
        let threads = recorded.threads.entry(action.name()).or_default();
        if !threads.contains(&thread) {
            threads.push(thread);
        }
        let open = recorded.open.entry(format!("{thread:?}")).or_default();
        let parent = open.last().map(|action| action.name());
        open.push(action);
        recorded.parents.insert(action.name(), parent);
    }

    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        let mut recorded = self.recorded();
        let thread = format!("{:?}", std::thread::current().id());
        let innermost = recorded.open.entry(thread).or_default().pop();
        if innermost != Some(action) {
            recorded.crossed.push(action.name());
        }
        innermost.map(|_| ()).ok_or(NeverStarted(action))
    }

    fn setup(&self, stage: Stage, _run: &RunContext) {
        self.recorded().stages.push(stage);
    }

    fn observe(&self, observation: &Observation<'_>) {
        let mut recorded = self.recorded();
        match observation {
            Observation::StepEnd => recorded.steps += 1,
            Observation::StepsPaused => recorded.pauses += 1,
            Observation::Note(text) | Observation::StageNote(text) => {
                recorded.notes.push((*text).to_owned());
            }
            _ => {}
        }
    }

    fn describe(&self) {
        self.recorded().reports += 1;
    }
}

pub type Item = ([f32; 4], f32);

/// Returns synthetic items. Those in `panics` make a training step panic.
pub fn items(number: usize) -> Vec<Item> {
    let value = |index: usize| ((index * 2_654_435_761) % 1000) as f32 / 500.0 - 1.0;
    let item = |index: usize| {
        let x = std::array::from_fn(|feature| value(index * 4 + feature + 1));
        (x, x.iter().sum::<f32>() * 0.3 + x[0] * x[1])
    };
    (0..number).map(item).collect()
}

/// An item on which a step panics.
pub const PANIC: Item = ([f32::NAN; 4], 0.0);

#[derive(Clone, Debug)]
pub struct Batch {
    pub x: Tensor<2>,
    pub y: Tensor<2>,
}

/// A batcher that records the devices passed to it.
#[derive(Clone, Default)]
pub struct Items {
    pub devices: Arc<Mutex<Vec<Device>>>,
}

impl Batcher<Item, Batch> for Items {
    fn batch(&self, items: Vec<Item>, device: &Device) -> Batch {
        self.devices.lock().unwrap().push(device.clone());
        let number = items.len();
        let x: Vec<f32> = items.iter().flat_map(|item| item.0).collect();
        let y: Vec<f32> = items.iter().map(|item| item.1).collect();
        Batch {
            x: Tensor::from_data(TensorData::new(x, [number, 4]), device),
            y: Tensor::from_data(TensorData::new(y, [number, 1]), device),
        }
    }
}

#[derive(Module, Debug)]
pub struct Mlp {
    input: Linear,
    output: Linear,
}

impl Mlp {
    pub fn new(device: &Device) -> Self {
        Self {
            input: LinearConfig::new(4, 8).init(device),
            output: LinearConfig::new(8, 1).init(device),
        }
    }

    fn forward(&self, batch: Batch) -> RegressionOutput {
        let output = self.output.forward(relu(self.input.forward(batch.x)));
        let loss = MseLoss::new().forward(output.clone(), batch.y.clone(), Reduction::Mean);
        RegressionOutput::new(loss, output, batch.y)
    }

    /// Returns the bits of every weight.
    pub fn weights(&self) -> Vec<u32> {
        let tensors = [
            self.input.weight.val().flatten::<1>(0, 1),
            self.input.bias.as_ref().unwrap().val(),
            self.output.weight.val().flatten::<1>(0, 1),
            self.output.bias.as_ref().unwrap().val(),
        ];
        let values = tensors.map(|tensor| tensor.into_data().try_to_vec::<f32>().unwrap());
        values.concat().into_iter().map(f32::to_bits).collect()
    }
}

impl TrainStep for Mlp {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> TrainOutput<RegressionOutput> {
        let is_nan = batch.x.clone().sum().into_scalar::<f32>().is_nan();
        assert!(!is_nan, "a step that panics");
        let output = self.forward(batch);
        TrainOutput::new(self, output.loss.profile_backward(), output)
    }
}

impl InferenceStep for Mlp {
    type Input = Batch;
    type Output = RegressionOutput;

    fn step(&self, batch: Batch) -> RegressionOutput {
        self.forward(batch)
    }
}

pub fn loader(items: Vec<Item>) -> Arc<dyn DataLoader<Batch>> {
    DataLoaderBuilder::new(Items::default()).batch_size(16).build(InMemDataset::new(items))
}

/// A loader that calls a hook before item `at`. The hook may return an error.
pub struct Hooked<F> {
    pub items: Vec<Item>,
    pub at: usize,
    pub hook: F,
}

impl<F: Fn() -> Result<(), DatasetError> + Send + Sync> Dataset<Item> for Hooked<F> {
    fn get(&self, index: usize) -> Result<Item, DatasetError> {
        if index == self.at {
            (self.hook)()?;
        }
        Ok(self.items[index])
    }

    fn len(&self) -> usize {
        self.items.len()
    }
}

pub fn hooked_loader(
    at: usize,
    hook: impl Fn() -> Result<(), DatasetError> + Send + Sync + 'static,
) -> Arc<dyn DataLoader<Batch>> {
    let dataset = Hooked { items: items(100), at, hook };
    DataLoaderBuilder::new(Items::default()).batch_size(16).build(dataset)
}

/// Returns a training with 100 items in 7 training batches and 32 items in 2 validation batches.
pub fn training(directory: &std::path::Path) -> SupervisedTraining<Mlp> {
    training_on(directory, loader(items(100)))
}

pub fn training_on(
    directory: &std::path::Path,
    train: Arc<dyn DataLoader<Batch>>,
) -> SupervisedTraining<Mlp> {
    SupervisedTraining::new(directory, train, loader(items(32)))
        .num_epochs(2)
        .with_application_logger(None)
}

/// Returns the same learner in every call.
pub fn learner(learning_rate: f64) -> Learner<Mlp> {
    learner_on(&Device::flex().autodiff(), learning_rate)
}

pub fn learner_on(device: &Device, learning_rate: f64) -> Learner<Mlp> {
    device.seed(7);
    let model = Mlp::new(device);
    Learner::new(model, AdamConfig::new().init(), ConstantLr::from(learning_rate))
}
