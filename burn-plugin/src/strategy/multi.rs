//! The loop on several devices. Each device processes its own batch on its own thread. Then the
//! optimizer runs on the main device, or sharded over all devices.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use burn::data::dataloader::split::split_dataloader;
use burn::data::dataloader::{DataLoaderIterator, Progress};
use burn::optim::{GradientsAccumulator, GradientsParams, MultiGradientsParams};
use burn::tensor::Device;
use burn::train::train::{MultiDeviceStepError, WorkerFailure};
use burn::train::{
    Learner, LearnerModel, MultiDeviceOptim, SupervisedTrainingEventProcessor, TrainLoader,
    TrainOutput, TrainStep, TrainingItem, ValidLoader,
};
use mlprof_core::{Profiler, ProfilerExt, bound};

use super::events::Events;
use super::run::{FitRun, Samples, Totals};
use crate::actions::FitActions;
use crate::numerics::{self, StepTold};
use crate::version;

type Input<M> = <M as TrainStep>::Input;
type Output<M> = <M as TrainStep>::Output;
type Batches<'a, M> = Box<dyn DataLoaderIterator<Input<M>> + 'a>;

pub(super) fn fit<M: LearnerModel>(
    mut run: FitRun<M>,
    mut learner: Learner<M>,
    (train, valid): (TrainLoader<M>, ValidLoader<M>),
    devices: &[Device],
    optim: MultiDeviceOptim,
    starting_epoch: usize,
) -> (M, SupervisedTrainingEventProcessor<M>) {
    let setup = run.profiler.profile(run.actions.strategy_setup);
    let main_device = &devices[0];
    let total = train.num_items();
    let train = split_dataloader(train, devices);
    let valid = valid.to_device(&main_device.clone().inner());
    let totals = Totals { train: total, valid: valid.num_items() };
    learner.fork(main_device);
    drop(setup);

    run.run_epochs(&mut learner, &valid, totals, starting_epoch, |run, learner, epoch| {
        let progress = train_epoch(run, learner, &train, epoch, devices, optim);
        // A sharded optimizer leaves the parameters distributed over the devices.
        if matches!(optim, MultiDeviceOptim::OptimSharded) && !run.should_stop() {
            learner.fork(main_device);
        }
        progress
    });

    let model = learner.model();
    match run.finish((learner, train, valid)) {
        Events::Own(processor) => (model, processor),
        Events::Shared { .. } => unreachable!("a single thread has its own processor"),
    }
}

fn train_epoch<M: LearnerModel>(
    run: &mut FitRun<M>,
    learner: &mut Learner<M>,
    loaders: &[TrainLoader<M>],
    epoch: usize,
    devices: &[Device],
    optim: MultiDeviceOptim,
) -> Progress {
    log::info!("Executing training step for epoch {epoch} on devices {devices:?}");
    let profiler = run.profiler.clone();
    let actions = run.actions;
    let mut batches: Vec<Batches<'_, M>> = {
        let _scope = profiler.profile(actions.train_dataloader);
        loaders.iter().map(|loader| loader.iter()).collect()
    };
    run.iterator_made(epoch, || progress_of_all::<M>(&batches));
    let workers = Workers::<M>::start(devices, &profiler, actions);
    let mut gradients = Gradients::new(optim, devices);
    let mut iteration = 0;
    let mut samples = Samples::default();
    while !run.stops_before_fetch() {
        // A device begins when it has its batch, while the next device's batch is being fetched.
        // The combined batch begins when all devices have theirs.
        let sent = workers.send(&*profiler, actions, &mut batches, &learner.model());
        if sent.number == 0 && sent.failure.is_none() {
            break;
        }
        let outcome = match sent.failure {
            None => {
                let _batch = profiler.profile(actions.run_training_batch);
                let outputs = workers.collect(sent.number);
                outputs.map(|outputs| {
                    let is_last = version::is_last_batch(&sent.progress);
                    train_batches(run, &*profiler, learner, outputs, &mut gradients, is_last)
                })
            }
            Some(failure) => {
                // All responses are awaited, so that no worker is still running when the run ends.
                let _ = workers.collect(sent.number);
                Err(failure)
            }
        };
        let items = match outcome {
            Ok(items) => items,
            Err(error) => {
                run.interrupter.fail(error);
                break;
            }
        };
        for item in items {
            iteration += 1;
            samples.are(sent.progress.items_processed);
            let lr = Some(learner.lr_current());
            let item = TrainingItem::new(item, sent.progress.clone(), Some(iteration), lr);
            run.train_item(item);
        }
        run.end_step();
        if run.should_stop() {
            break;
        }
    }
    if run.applies_last_window() && gradients.steps > 0 {
        update(&*profiler, learner, &mut gradients, actions);
    }
    progress_of_all::<M>(&batches)
}

fn progress_of_all<M: LearnerModel>(batches: &[Batches<'_, M>]) -> Progress {
    version::aggregate(batches.iter().map(|batches| batches.progress()))
}

/// Accumulates the gradients of all devices, one batch each, and runs the optimizer when
/// accumulation is complete.
fn train_batches<M: LearnerModel>(
    run: &FitRun<M>,
    profiler: &dyn Profiler,
    learner: &mut Learner<M>,
    outputs: Vec<DeviceOutput<M>>,
    gradients: &mut Gradients<'_, M>,
    is_last: bool,
) -> Vec<Output<M>> {
    let actions = run.actions;
    let items = {
        let _scope = profiler.profile(actions.accumulate);
        gradients.add(learner, outputs)
    };
    if run.is_stopped_by_profiler() {
        return items; // stops before non-finite values reach the parameters
    }
    if run.grad_accumulation.unwrap_or(1) <= gradients.steps || is_last {
        update(profiler, learner, gradients, actions);
    }
    items
}

/// Runs the scheduler and the optimizer.
fn update<M: LearnerModel>(
    profiler: &dyn Profiler,
    learner: &mut Learner<M>,
    gradients: &mut Gradients<'_, M>,
    actions: FitActions,
) {
    gradients.steps = 0;
    {
        let _scope = profiler.profile(actions.lr_scheduler_step);
        learner.lr_step();
    }
    gradients.optimize(learner, profiler, actions);
}

/// Gradients of all devices, accumulated until the optimizer uses them.
struct Gradients<'a, M> {
    devices: &'a [Device],
    /// One accumulator on the main device, or one per device if the optimizer is sharded.
    sums: Vec<GradientsAccumulator<M>>,
    is_sharded: bool,
    steps: usize,
}

impl<'a, M: LearnerModel> Gradients<'a, M> {
    fn new(optim: MultiDeviceOptim, devices: &'a [Device]) -> Self {
        let is_sharded = matches!(optim, MultiDeviceOptim::OptimSharded);
        let number = if is_sharded { devices.len() } else { 1 };
        let sums = (0..number).map(|_| GradientsAccumulator::new()).collect();
        Self { devices, sums, is_sharded, steps: 0 }
    }

    fn add(&mut self, learner: &Learner<M>, outputs: Vec<DeviceOutput<M>>) -> Vec<Output<M>> {
        self.steps += 1;
        let mut items = Vec::with_capacity(outputs.len());
        for DeviceOutput { device_id, output } in outputs {
            if self.is_sharded {
                self.sums[device_id].accumulate(&learner.model(), output.grads);
            } else {
                let grads = output.grads.to_device(&self.devices[0], &learner.model());
                self.sums[0].accumulate(&learner.model(), grads);
            }
            items.push(output.item);
        }
        items
    }

    fn optimize(&mut self, learner: &mut Learner<M>, profiler: &dyn Profiler, actions: FitActions) {
        let sums: Vec<GradientsParams> =
            self.sums.iter_mut().map(GradientsAccumulator::grads).collect();
        let told = StepTold::begin::<M, _>(|| learner.model(), &sums.iter().collect::<Vec<_>>());
        {
            let _scope = profiler.profile(actions.optimizer_update);
            let devices = self.devices.iter().cloned();
            if self.is_sharded {
                let grads = sums.into_iter().zip(devices).collect();
                learner.optimizer_step_multi(MultiGradientsParams { grads });
            } else {
                sums.into_iter().for_each(|sum| learner.optimizer_step(sum));
            }
        }
        told.end::<M, _>(|| learner.model());
    }
}

struct DeviceOutput<M: LearnerModel> {
    device_id: usize,
    output: TrainOutput<Output<M>>,
}

struct Task<M: LearnerModel> {
    batch: Input<M>,
    model: M,
}

/// Batches that were sent to devices, at most one per device.
struct SentBatches {
    number: usize,
    progress: Progress,
    /// A loader error, after which no more batches were fetched.
    failure: Option<MultiDeviceStepError>,
}

/// One thread per device, for one epoch.
struct Workers<M: LearnerModel> {
    tasks: Vec<Sender<Task<M>>>,
    outputs: Receiver<Result<DeviceOutput<M>, WorkerFailure>>,
}

impl<M: LearnerModel> Workers<M> {
    fn start(devices: &[Device], profiler: &Arc<dyn Profiler>, actions: FitActions) -> Self {
        let (sender, outputs) = channel();
        let tasks = devices.iter().enumerate().map(|(device_id, device)| {
            let (task_sender, tasks) = channel::<Task<M>>();
            let (device, profiler) = (device.clone(), profiler.clone());
            let sender = sender.clone();
            std::thread::spawn(bound(move || {
                // The iteration ends when the loop drops its ends of both channels.
                for task in tasks {
                    let step = || step_on_device(&*profiler, actions, task, &device);
                    let answer = match catch_unwind(AssertUnwindSafe(step)) {
                        Ok(output) => Ok(DeviceOutput { device_id, output }),
                        Err(panic) => {
                            Err(WorkerFailure { device_id, message: panic_message(&*panic) })
                        }
                    };
                    if sender.send(answer).is_err() {
                        break;
                    }
                }
            }));
            task_sender
        });
        Self { tasks: tasks.collect(), outputs }
    }

    /// Fetches a batch for each device and sends it.
    fn send(
        &self,
        profiler: &dyn Profiler,
        actions: FitActions,
        batches: &mut [Batches<'_, M>],
        model: &M,
    ) -> SentBatches {
        let (mut number, mut failure) = (0, None);
        let mut parts = Vec::with_capacity(batches.len());
        for (tasks, batches) in self.tasks.iter().zip(&mut *batches) {
            let batch = {
                let _scope = profiler.profile(actions.train_next);
                batches.next()
            };
            match batch {
                Some(Ok(batch)) => {
                    let task = Task { batch, model: model.clone() };
                    number += usize::from(tasks.send(task).is_ok());
                    parts.push(batches.progress());
                }
                Some(Err(error)) => {
                    failure = Some(MultiDeviceStepError::Dataset(error));
                    break;
                }
                None => {}
            }
        }
        let progress = if version::COUNTS_ENDED_LOADERS {
            progress_of_all::<M>(batches)
        } else {
            version::aggregate(parts)
        };
        SentBatches { number, progress, failure }
    }

    /// Receives all responses in order of arrival, even if one of them is an error.
    fn collect(&self, sent: usize) -> Result<Vec<DeviceOutput<M>>, MultiDeviceStepError> {
        let (mut outputs, mut failures) = (Vec::with_capacity(sent), Vec::new());
        for answer in self.outputs.iter().take(sent) {
            match answer {
                Ok(output) => outputs.push(output),
                Err(failure) => failures.push(failure),
            }
        }
        if failures.is_empty() { Ok(outputs) } else { Err(MultiDeviceStepError::Workers(failures)) }
    }
}

fn step_on_device<M: LearnerModel>(
    profiler: &dyn Profiler,
    actions: FitActions,
    task: Task<M>,
    device: &Device,
) -> TrainOutput<Output<M>> {
    let model = {
        let _scope = profiler.profile(actions.model_to_device);
        task.model.fork(device)
    };
    let output = {
        let _scope = profiler.profile(actions.training_step);
        TrainStep::step(&model, task.batch)
    };
    numerics::tell_loss_of(&output.item);
    output
}

pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    if let Some(message) = panic.downcast_ref::<&str>() {
        (*message).to_owned()
    } else if let Some(message) = panic.downcast_ref::<String>() {
        message.clone()
    } else {
        "unknown panic in a training worker".to_owned()
    }
}
