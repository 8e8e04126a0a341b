//! The distributed loop: a thread per device, each with a model and an optimizer of its own over
//! its part of the data; gradients are averaged between them inside the optimizer's step.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use burn::data::dataloader::split::split_dataloader;
use burn::tensor::Device;
use burn::train::{
    Learner, LearnerEvent, LearnerModel, SupervisedTrainingEventProcessor, TrainLoader, ValidLoader,
};
use profiler_core::{ProfilerExt, bound};

use super::agreement::Agreement;
use super::multi::panic_message;
use super::run::{Events, FitRun, Totals, lock};
use super::single::train_epoch;

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
    let parts = split_dataloader(train, devices);
    let valid = valid.to_device(&devices[0].clone().inner());
    drop(setup);

    let (runs, processor) = split_run(run, devices.len());
    let mut workers = Vec::with_capacity(devices.len());
    for (index, ((run, part), device)) in runs.into_iter().zip(parts).zip(devices).enumerate() {
        let worker = Worker {
            run,
            learner: learner.clone(),
            device: device.clone(),
            train: part,
            valid: (index == 0).then(|| valid.clone()),
            totals,
            peers: devices.len(),
        };
        workers.push(std::thread::spawn(bound(move || worker.fit(starting_epoch))));
    }
    let model = join(workers);
    match Arc::try_unwrap(processor) {
        Ok(processor) => (model, processor.into_inner().unwrap_or_else(PoisonError::into_inner)),
        Err(_) => unreachable!("all workers have ended"),
    }
}

type SharedEvents<M> = Arc<Mutex<SupervisedTrainingEventProcessor<M>>>;

/// One run per device; the first one is the main one and alone makes checkpoints.
fn split_run<M: LearnerModel>(run: FitRun<M>, devices: usize) -> (Vec<FitRun<M>>, SharedEvents<M>) {
    let Events::Own(processor) = run.events else {
        unreachable!("a run begins with a processor of its own");
    };
    let processor = Arc::new(Mutex::new(processor));
    let validating = Arc::new(Mutex::new(()));
    let mut checkpointer = run.checkpointer;
    let agreement = Arc::new(Agreement::of(devices));
    let runs = (0..devices).map(|index| FitRun {
        profiler: run.profiler.clone(),
        actions: run.actions,
        stop: run.stop.clone(),
        interrupter: run.interrupter.clone(),
        events: Events::Shared {
            processor: processor.clone(),
            validating: validating.clone(),
            is_main: index == 0,
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

/// The main worker's model. The first worker that panics ends the run, whichever it is: the
/// others may wait for it for ever.
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
    /// The main worker's alone.
    valid: Option<ValidLoader<M>>,
    totals: Totals,
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
            if self.valid.is_some() {
                self.run.start_train_split(epoch, self.totals);
            }
            {
                let _scope = profiler.profile(self.run.actions.run_training_epoch);
                train_epoch(&mut self.run, &mut self.learner, &self.train, epoch, self.peers);
            }
            if self.end_epoch(epoch) {
                break;
            }
        }
        let model = self.learner.model();
        self.run.finish((self.learner, self.train, self.valid));
        model
    }

    /// Validation and what follows. True if this epoch was the last, for all workers alike: one
    /// that began another epoch alone would wait for the others for ever.
    fn end_epoch(&mut self, epoch: usize) -> bool {
        let run = &mut self.run;
        if self.valid.is_some() {
            run.train_event(run.actions.on_train_epoch_end, LearnerEvent::EndSplit(epoch));
        }
        // As in burn's loop, a validation follows with early stopping alone.
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
            run.all_go_on(true); // metrics are complete when the main worker has validated
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
