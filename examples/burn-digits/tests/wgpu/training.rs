//! Tests a training with burn-train: every op is attributed to the step and the action that called
//! it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use burn::backend::StreamId;
use burn::backend::fusion::observer::{BlockOperations, FusionObservation, FusionObserver};
use burn::backend::ir::OperationIr;
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::AdamConfig;
use burn::optim::lr_scheduler::constant::ConstantLr;
use burn::tensor::{Device, Tensor};
use burn::train::{Learner, SupervisedTraining};
use burn_digits::data::{Batch, Digit, DigitBatcher, splits};
use burn_digits::model::DigitNet;
use mlprof_burn::ProfileTrainingExt;
use mlprof_core::hook::Direction;
use mlprof_core::tensor::Schedule;
use mlprof_core::{IntoProfiler, Profiler, TensorProfiler, names};

use crate::recorded::{Cycles, Place, Recorded, alone, assert_all_kernels_have_owners, device};

pub const STEPS: usize = 5;
/// The first recorded step, counted from 0.
const FIRST: u64 = 2;
const RECORDED: u64 = STEPS as u64 - FIRST;
const BATCH: usize = 8;

/// Counts the ops that one thread calls, independently of the profiler.
#[derive(Default)]
pub struct Count {
    ops: AtomicUsize,
    /// Number of ops when each batch was created.
    at_batches: Mutex<Vec<usize>>,
    stream: Mutex<Option<StreamId>>,
}

impl FusionObserver for Count {
    fn registered(&self, op: &OperationIr) {
        let is_loop = *self.stream.lock().unwrap() == Some(StreamId::current());
        if is_loop && !matches!(op, OperationIr::Drop(_)) {
            self.ops.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn block_starts(&self, _block: BlockOperations<'_>) {}

    fn block_ran(&self) {}
}

/// A batcher that records the count between two steps, after all called ops were registered.
#[derive(Clone)]
struct CountingBatcher(Arc<Count>);

impl Batcher<Digit, Batch> for CountingBatcher {
    fn batch(&self, digits: Vec<Digit>, device: &Device) -> Batch {
        *self.0.stream.lock().unwrap() = Some(StreamId::current());
        device.sync().unwrap();
        self.0.at_batches.lock().unwrap().push(self.0.ops.load(Ordering::Relaxed));
        DigitBatcher.batch(digits, device)
    }
}

fn loader(digits: &[Digit], count: &Arc<Count>) -> Arc<dyn DataLoader<Batch>> {
    let batcher = CountingBatcher(count.clone());
    DataLoaderBuilder::new(batcher).batch_size(BATCH).build(InMemDataset::new(digits.to_vec()))
}

/// The bits of every weight.
#[derive(Default)]
struct Weights(Vec<u32>);

impl ModuleVisitor for Weights {
    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        let values = parameter.val().into_data().try_to_vec::<f32>().unwrap();
        self.0.extend(values.into_iter().map(f32::to_bits));
    }
}

/// Runs several training steps and a validation, identical in each call, and returns the weights.
pub fn train(profiler: impl IntoProfiler, count: &Arc<Count>) -> Vec<u32> {
    let device = device().autodiff();
    device.seed(7);
    let digits = splits(7).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let train = loader(&digits.train[..STEPS * BATCH], count);
    let valid = loader(&digits.valid[..BATCH], count);
    let learner =
        Learner::new(DigitNet::new(&device), AdamConfig::new().init(), ConstantLr::from(2e-3));
    let result = SupervisedTraining::new(directory.path(), train, valid)
        .num_epochs(1)
        .with_application_logger(None)
        .profiler(profiler)
        .launch(learner)
        .unwrap();
    assert!(result.error.is_none() && result.interrupted.is_none());
    let mut weights = Weights::default();
    result.model.visit(&mut weights);
    weights.0
}

/// Trains with a recording profiler and another profiler. Returns the weights and the recording of
/// the last steps.
pub fn record_training(
    count: &Arc<Count>,
    beside: Option<Arc<dyn Profiler>>,
) -> (Vec<u32>, Recorded) {
    let cycles = Cycles::default();
    let schedule = Schedule::new().wait(1).warmup(FIRST - 1).active(RECORDED).repeat(1);
    let tensor = cycles.of(TensorProfiler::new().schedule(schedule));
    let tensor: Arc<dyn Profiler> = Arc::new(tensor);
    let profilers: Vec<_> = std::iter::once(tensor).chain(beside).collect();
    let weights = train(profilers, count);
    let mut cycles = cycles.take();
    assert_eq!(cycles.len(), 1);
    (weights, cycles.remove(0))
}

/// Returns the thread of the loop, which trains the batches.
fn loop_thread(recorded: &Recorded) -> u64 {
    let places = recorded.ops().filter_map(|op| op.place.as_ref());
    let mut in_batches = places.filter(|place| place.is_in(names::RUN_TRAINING_BATCH));
    in_batches.next().expect("ops in batches").thread
}

fn steps(recorded: &Recorded) -> BTreeMap<u64, usize> {
    let thread = loop_thread(recorded);
    let mut steps = BTreeMap::new();
    let places = recorded.ops().filter_map(|op| op.place.as_ref());
    for place in places.filter(|place| place.thread == thread) {
        *steps.entry(place.step).or_default() += 1;
    }
    steps
}

#[test]
fn the_ops_attributed_to_a_step_are_those_that_were_called_in_it() {
    let _alone = alone();
    let plain = train("none", &Arc::default());

    let count = Arc::new(Count::default());
    let counting = FusionObservation::new(count.clone());
    let (weights, recorded) = record_training(&count, None);
    drop(counting);
    assert_eq!(weights, plain, "profiling changes no weight");
    assert_eq!(recorded.dropped, 0);

    let at = count.at_batches.lock().unwrap().clone();
    assert_eq!(at.len(), STEPS + 1, "the last one is the validation's batch");
    let called = (FIRST as usize..STEPS).map(|step| (step as u64, at[step + 1] - at[step]));
    assert_eq!(steps(&recorded), called.collect::<BTreeMap<_, _>>());
    println!("ops per step: {:?}, blocks: {}", steps(&recorded), recorded.fused().count());

    assert_all_kernels_have_owners(&recorded);
    assert_phases(&recorded);
}

/// Asserts that ops are attributed to the actions that were open at their calls.
fn assert_phases(recorded: &Recorded) {
    let thread = loop_thread(recorded);
    let is_loops = |place: &&Place| place.thread == thread;
    let mut phases: BTreeMap<&str, usize> = BTreeMap::new();
    for op in recorded.ops() {
        let Some(place) = op.place.as_ref().filter(is_loops) else { continue };
        let is_backward = place.is_in(names::BACKWARD) || op.name.ends_with("_backward");
        assert_eq!(op.direction == Direction::Backward, is_backward, "{op:?}");
        let phase = [names::BACKWARD, names::OPTIMIZER_UPDATE, "[TrainStep]DigitNet.training_step"];
        let phase = phase.into_iter().find(|phase| place.is_in(phase)).unwrap_or("elsewhere");
        *phases.entry(phase).or_default() += 1;
    }
    println!("{phases:?}");
    let count = |phase| phases.get(phase).copied().unwrap_or(0);
    for phase in [names::BACKWARD, names::OPTIMIZER_UPDATE, "[TrainStep]DigitNet.training_step"] {
        assert!(count(phase) >= RECORDED as usize, "{phase}: {phases:?}");
    }
    let names = recorded.op_counts();
    for (op, per_step) in [("burn::conv2d", 2), ("burn::conv2d_weight_backward", 2)] {
        assert_eq!(names.get(op), Some(&(per_step * RECORDED as usize)), "{names:?}");
    }
    assert!(names.keys().any(|name| ["burn::linear", "burn::matmul"].contains(name)), "{names:?}");
}
