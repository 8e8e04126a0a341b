//! The loop on one device.

use burn::data::dataloader::Progress;
use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::Device;
use burn::train::{
    Learner, LearnerModel, SupervisedTrainingEventProcessor, TrainLoader, TrainStep, TrainingItem,
    ValidLoader,
};
use mlprof_core::{Profiler, ProfilerExt};

use super::events::Events;
use super::run::{FitRun, Samples, Totals};
use crate::numerics::{self, StepTold};
use crate::version;

pub(super) fn fit<M: LearnerModel>(
    mut run: FitRun<M>,
    mut learner: Learner<M>,
    (train, valid): (TrainLoader<M>, ValidLoader<M>),
    device: &Device,
    starting_epoch: usize,
) -> (M, SupervisedTrainingEventProcessor<M>) {
    let setup = run.profiler.profile(run.actions.strategy_setup);
    let train = train.to_device(device);
    let valid = valid.to_device(&device.clone().inner());
    let totals = Totals { train: train.num_items(), valid: valid.num_items() };
    learner.fork(device);
    drop(setup);

    run.run_epochs(&mut learner, &valid, totals, starting_epoch, |run, learner, epoch| {
        train_epoch(run, learner, &train, epoch, 1)
    });

    let model = learner.model();
    match run.finish((learner, train, valid)) {
        Events::Own(processor) => (model, processor),
        Events::Shared { .. } => unreachable!("a single thread has its own processor"),
    }
}

/// Runs one epoch over `loader` and returns the loader's progress. `peers` is the number of
/// processes or devices that process other parts of the data. It is used for the displayed
/// iteration.
pub(super) fn train_epoch<M: LearnerModel>(
    run: &mut FitRun<M>,
    learner: &mut Learner<M>,
    loader: &TrainLoader<M>,
    epoch: usize,
    peers: usize,
) -> Progress {
    log::info!("Executing training step for epoch {epoch}");
    let profiler = run.profiler.clone();
    let actions = run.actions;
    let mut accumulation = Accumulation::new(run.grad_accumulation);
    let mut iteration = 0;
    let mut samples = Samples::default();
    let mut batches = {
        let _scope = profiler.profile(actions.train_dataloader);
        loader.iter()
    };
    run.iterator_made(epoch, || batches.progress());
    while let Some(batch) = run.next_training_batch(&mut *batches, actions.train_next) {
        iteration += version::iterations_per_batch(peers);
        log::info!("Iteration {iteration}");
        let progress = batches.progress();
        samples.are(progress.items_processed);

        let is_last = version::is_last_batch(&progress);
        let output = train_batch(run, &*profiler, learner, &mut accumulation, batch, is_last);
        let item = TrainingItem::new(output, progress, Some(iteration), Some(learner.lr_current()));
        run.train_item(item);
        run.end_step();
        // Several workers leave together, before the next batch.
        if run.should_stop() && run.agreement.is_none() {
            break;
        }
    }
    if run.applies_last_window()
        && let Some(gradients) = accumulation.rest()
    {
        update(run, &*profiler, learner, gradients);
    }
    batches.progress()
}

/// Runs forward and backward, and then scheduler and optimizer unless gradients are still being
/// accumulated.
fn train_batch<M: LearnerModel>(
    run: &FitRun<M>,
    profiler: &dyn Profiler,
    learner: &mut Learner<M>,
    accumulation: &mut Accumulation<M>,
    batch: <M as TrainStep>::Input,
    is_last: bool,
) -> <M as TrainStep>::Output {
    let actions = run.actions;
    let _batch = profiler.profile(actions.run_training_batch);
    let output = {
        let _scope = profiler.profile(actions.training_step);
        learner.train_step(batch)
    };
    numerics::tell_loss_of(&output.item);
    if !run.all_go_on(!run.is_stopped_by_profiler()) {
        return output.item; // stops before non-finite values reach the parameters
    }
    let gradients = match accumulation.steps {
        None => Some(output.grads),
        Some(steps) => {
            let _scope = profiler.profile(actions.accumulate);
            accumulation.add(steps, learner, output.grads, is_last)
        }
    };
    if let Some(gradients) = gradients {
        update(run, profiler, learner, gradients);
    }
    output.item
}

/// Runs the scheduler and the optimizer.
fn update<M: LearnerModel>(
    run: &FitRun<M>,
    profiler: &dyn Profiler,
    learner: &mut Learner<M>,
    gradients: GradientsParams,
) {
    {
        let _scope = profiler.profile(run.actions.lr_scheduler_step);
        learner.lr_step();
    }
    let told = StepTold::begin::<M, _>(|| learner.model(), &[&gradients]);
    {
        let _scope = profiler.profile(run.actions.optimizer_update);
        learner.optimizer_step(gradients);
    }
    told.end::<M, _>(|| learner.model());
}

/// Gradients accumulated over several batches.
struct Accumulation<M> {
    steps: Option<usize>,
    done: usize,
    gradients: GradientsAccumulator<M>,
}

impl<M: LearnerModel> Accumulation<M> {
    fn new(steps: Option<usize>) -> Self {
        Self { steps, done: 0, gradients: GradientsAccumulator::new() }
    }

    /// Adds gradients. Returns their sum if accumulation is complete or this is the last batch.
    fn add(
        &mut self,
        steps: usize,
        learner: &Learner<M>,
        gradients: GradientsParams,
        is_last: bool,
    ) -> Option<GradientsParams> {
        self.gradients.accumulate(&learner.model(), gradients);
        self.done += 1;
        if steps <= self.done || is_last { self.rest() } else { None }
    }

    /// Returns the sum of the gradients that the optimizer has not used yet, or `None` if there are
    /// none.
    fn rest(&mut self) -> Option<GradientsParams> {
        (std::mem::take(&mut self.done) > 0).then(|| self.gradients.grads())
    }
}
