//! The distributed loop. Each device has a thread with its own model and optimizer and processes a
//! part of the data. The optimizer's step averages gradients between the devices.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use burn::data::dataloader::Progress;
use burn::data::dataloader::split::split_dataloader;
use burn::tensor::Device;
use burn::train::{
    Learner, LearnerModel, SupervisedTrainingEventProcessor, TrainLoader, ValidLoader,
};
use mlprof_core::{ProfilerExt, bound};

use super::agreement::Agreement;
use super::events::{Events, SharedProcessor, lock};
use super::multi::panic_message;
use super::run::{FitRun, Totals};
use super::single::train_epoch;
use crate::version::{self, WorkersProgress};

pub(super) fn fit<M: LearnerModel>(
    run: FitRun<M>,
    learner: Learner<M>,
    (train, valid): (TrainLoader<M>, ValidLoader<M>),
    devices: &[Device],
    starting_epoch: usize,
) -> (M, SupervisedTrainingEventProcessor<M>) {
    let profiler = run.profiler.clone();
    let setup = profiler.profile(run.actions.strategy_setup);
    let totals = Totals { train: train.num_items(), valid: valid.num_items() };
    let parts = split_dataloader(train.clone(), devices);
    let progress = WorkersProgress::new(&*train, &parts);
    let valid = valid.to_device(&devices[0].clone().inner());
    drop(setup);

    let (runs, processor) = split_run(run, devices.len(), progress);
    let mut workers = Vec::with_capacity(devices.len());
    for (index, ((run, part), device)) in runs.into_iter().zip(parts).zip(devices).enumerate() {
        let worker = Worker {
            run,
            learner: learner.clone(),
            device: device.clone(),
            train: part,
            valid: (index == 0).then(|| valid.clone()),
            totals,
            worker: index,
            peers: devices.len(),
        };
        workers.push(std::thread::spawn(bound(move || worker.fit(starting_epoch))));
    }
    let model = join(workers);
    match Arc::try_unwrap(processor) {
        Ok(shared) => {
            (model, shared.into_inner().unwrap_or_else(PoisonError::into_inner).processor)
        }
        Err(_) => unreachable!("all workers have ended"),
    }
}

type SharedEvents<M> = Arc<Mutex<SharedProcessor<M>>>;

/// Creates one run per device. The first one is the main run, and only it writes checkpoints.
fn split_run<M: LearnerModel>(
    run: FitRun<M>,
    devices: usize,
    progress: WorkersProgress,
) -> (Vec<FitRun<M>>, SharedEvents<M>) {
    let Events::Own(processor) = run.events else {
        unreachable!("a run begins with a processor of its own");
    };
    let processor = Arc::new(Mutex::new(SharedProcessor { processor, progress }));
    let validating = Arc::new(Mutex::new(()));
    let mut checkpointer = run.checkpointer;
    let agreement = Arc::new(Agreement::of(devices));
    let runs = (0..devices).map(|worker| FitRun {
        profiler: run.profiler.clone(),
        actions: run.actions,
        stop: run.stop.clone(),
        interrupter: run.interrupter.clone(),
        events: Events::Shared {
            processor: processor.clone(),
            validating: validating.clone(),
            worker,
        },
        checkpointer: checkpointer.take(),
        early_stopping: run.early_stopping.clone(),
        event_store: run.event_store.clone(),
        grad_accumulation: run.grad_accumulation,
        num_epochs: run.num_epochs,
        agreement: Some(agreement.clone()),
    });
    (runs.collect(), processor)
}

/// Joins all workers and returns the main worker's model. The first worker that panics ends the
/// run, because the others may wait for it forever.
fn join<M: LearnerModel>(workers: Vec<JoinHandle<M>>) -> M {
    let number = workers.len();
    let (sender, receiver) = channel();
    for (index, worker) in workers.into_iter().enumerate() {
        let sender = sender.clone();
        std::thread::spawn(move || sender.send((index, worker.join())));
    }
    drop(sender);
    let mut main_model = None;
    for (index, outcome) in receiver.iter().take(number) {
        match outcome {
            Ok(model) if index == 0 => main_model = Some(model),
            Ok(_) => {}
            Err(panic) => panic!(
                "Distributed data parallel worker {index} failed: {}",
                panic_message(&*panic)
            ),
        }
    }
    main_model.expect("every worker has answered, the main one too")
}

struct Worker<M: LearnerModel> {
    run: FitRun<M>,
    learner: Learner<M>,
    device: Device,
    train: TrainLoader<M>,
    /// The validation loader, which only the main worker has.
    valid: Option<ValidLoader<M>>,
    totals: Totals,
    worker: usize,
    peers: usize,
}

impl<M: LearnerModel> Worker<M> {
    fn fit(mut self, starting_epoch: usize) -> M {
        let profiler = self.run.profiler.clone();
        {
            let _scope = profiler.profile(self.run.actions.model_to_device);
            self.learner.fork(&self.device);
            self.learner.grad_sharded();
        }
        for epoch in starting_epoch..=self.run.num_epochs {
            self.run.say_epoch(epoch);
            self.begin_epoch(epoch);
            let progress = {
                let _scope = profiler.profile(self.run.actions.run_training_epoch);
                train_epoch(&mut self.run, &mut self.learner, &self.train, epoch, self.peers)
            };
            let is_last = if version::MAIN_WORKER_ENDS_EPOCH {
                self.end_epoch_for_all(epoch, progress)
            } else {
                self.end_epoch(epoch, progress)
            };
            if is_last {
                break;
            }
        }
        let model = self.learner.model();
        self.run.finish((self.learner, self.train, self.valid));
        model
    }

    /// Sends the event that begins the split, from the main worker only. burn does so before any
    /// worker begins its epoch.
    fn begin_epoch(&mut self, epoch: usize) {
        if self.valid.is_some()
            && let Some(progress) = self.run.events.workers(WorkersProgress::begin)
        {
            self.run.start_train_split(epoch, progress);
        }
        if version::MAIN_WORKER_ENDS_EPOCH {
            self.run.all_go_on(true);
        }
    }

    /// Ends a training epoch with burn 0.23. Only the main worker validates, sends events and
    /// decides. Returns `true` to all workers if this epoch was the last.
    fn end_epoch_for_all(&mut self, epoch: usize, mut progress: Progress) -> bool {
        let run = &mut self.run;
        run.resolve_total(&mut progress);
        let worker = self.worker;
        run.events.workers(|workers| workers.end(worker, progress));
        run.all_go_on(true); // all workers have reported their progress
        let Some(valid) = &self.valid else { return !run.all_go_on(true) };
        run.flush();
        if let Some(progress) = run.events.workers(|workers| workers.sum()) {
            run.end_train_split(epoch, progress);
        }
        if !run.should_stop() {
            run.validate(&self.learner, valid, epoch, self.totals);
            run.flush();
        }
        let mut stops = run.should_stop();
        if !stops {
            run.save_checkpoint(&self.learner, epoch);
            stops = run.stops_early(epoch);
        }
        !run.all_go_on(!stops)
    }

    /// Ends a training epoch with burn 0.22, including validation. Returns `true` to all workers if
    /// this epoch was the last. A worker that began another epoch alone would wait for the others
    /// forever.
    fn end_epoch(&mut self, epoch: usize, progress: Progress) -> bool {
        let run = &mut self.run;
        if self.valid.is_some() {
            run.end_train_split(epoch, progress);
        }
        // As in burn's loop, a stopped run is validated only if early stopping is configured.
        let goes_on = run.all_go_on(!run.should_stop());
        if !goes_on && run.early_stopping.is_none() {
            return true;
        }
        if let Some(valid) = &self.valid {
            let validating = run.events.validating();
            let _turn = validating.as_deref().map(lock);
            run.validate(&self.learner, valid, epoch, self.totals);
        }
        if run.early_stopping.is_some() {
            run.all_go_on(true); // waits for the main worker's validation, which completes the metrics
        }
        if run.checkpointer.is_some() || run.early_stopping.is_some() {
            run.flush();
        }
        if !run.all_go_on(!run.should_stop()) {
            return true;
        }
        run.save_checkpoint(&self.learner, epoch);
        let stops_early = run.stops_early(epoch);
        run.early_stopping.is_some() && !run.all_go_on(!stops_early)
    }
}
