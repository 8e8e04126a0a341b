//! The loops that run under a profiler: burn's own, step by step the same, with every part
//! measured.

mod ddp;
mod multi;
mod run;
mod single;

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use burn::data::dataloader::DataLoader;
use burn::tensor::Device;
use burn::tensor::distributed::DistributedContext;
use burn::train::MultiDeviceOptim;
use burn::train::{
    CustomLearningStrategy, ExecutionStrategy, InferenceStep, Learner, LearnerModel,
    LearningResult, SupervisedLearningStrategy, SupervisedTrainingEventProcessor, TrainLoader,
    TrainStep, TrainingComponents, TrainingStrategy, ValidLoader,
};
use profiler_core::{Action, Profiler};

use crate::actions::{self, FitActions};
use crate::loader::LoaderHooks;
use crate::ops;
use crate::processor::profiled_processor;
use crate::screen::MainScreen;
use crate::session::OpenAction;
use crate::stop::StopSignal;
use run::{FitRun, lock};

/// Which loop runs.
enum Kind<M: LearnerModel> {
    /// One device; `None` is the model's own.
    Single(Option<Device>),
    Multi(Vec<Device>, MultiDeviceOptim),
    Ddp {
        devices: Vec<Device>,
        /// Keeps the communication between the devices up.
        _context: DistributedContext,
    },
    Custom(CustomLearningStrategy<M>),
}

/// The strategy that `.profiler(…)` puts in the place of burn's.
pub(crate) struct ProfiledStrategy<M: LearnerModel> {
    kind: Kind<M>,
    gradient_checkpointing: bool,
    /// Whether settings may have been made that burn does not let us see.
    says_what_runs: bool,
    measures_event_thread: bool,
    profiler: Arc<dyn Profiler>,
    stop: StopSignal,
    setup: RefCell<Option<OpenAction>>,
}

impl<M: LearnerModel> ProfiledStrategy<M> {
    /// The counterpart of what the user asked for, or of burn's default.
    pub(crate) fn new(
        strategy: Option<TrainingStrategy<M>>,
        gradient_checkpointing: bool,
        measures_event_thread: bool,
        profiler: Arc<dyn Profiler>,
        stop: StopSignal,
    ) -> Self {
        let is_distributed = matches!(
            strategy,
            Some(TrainingStrategy::Default(ExecutionStrategy::DistributedDataParallel { .. }))
        );
        let says_what_runs = strategy.is_none() || !gradient_checkpointing || is_distributed;
        let kind = match strategy {
            None => Kind::Single(None),
            Some(TrainingStrategy::Custom(strategy)) => Kind::Custom(strategy),
            Some(TrainingStrategy::Default(strategy)) => match strategy {
                ExecutionStrategy::SingleDevice(device) => Kind::Single(Some(device)),
                ExecutionStrategy::MultiDevice(mut devices, _) if devices.len() == 1 => {
                    Kind::Single(devices.pop())
                }
                ExecutionStrategy::MultiDevice(devices, optim) => Kind::Multi(devices, optim),
                ExecutionStrategy::DistributedDataParallel { devices, context } => {
                    Kind::Ddp { devices, _context: context }
                }
            },
        };
        let setup = OpenAction::start(&profiler, Action::new(actions::SETUP));
        let setup = RefCell::new(Some(setup));
        Self {
            kind,
            gradient_checkpointing,
            says_what_runs,
            measures_event_thread,
            profiler,
            stop,
            setup,
        }
    }

    fn name(&self) -> &'static str {
        match &self.kind {
            Kind::Single(_) => "SingleDevice",
            Kind::Multi(..) => "MultiDevice",
            Kind::Ddp { .. } => "DistributedDataParallel",
            Kind::Custom(_) => "Custom",
        }
    }

    /// As burn prepares the devices of its own loops.
    fn prepare(&self, device: Device) -> Device {
        let device = if device.is_autodiff() { device } else { device.autodiff() };
        if self.gradient_checkpointing { device.gradient_checkpointing() } else { device }
    }

    /// Once per process as long as the same runs: a search over many trainings is not told the same
    /// again and again.
    fn say_what_runs(&self, learner: &Learner<M>) {
        static SAID: Mutex<Option<String>> = Mutex::new(None);
        if !self.says_what_runs {
            return;
        }
        let message = self.what_runs(learner);
        let mut said = lock(&SAID);
        if said.as_ref() != Some(&message) {
            let _screen = MainScreen::show();
            eprintln!("mlprof: {message}");
            *said = Some(message);
        }
    }

    fn what_runs(&self, learner: &Learner<M>) -> String {
        let loop_name = match &self.kind {
            Kind::Single(device) => {
                let device = device.clone().or_else(|| learner.model().devices().first().cloned());
                device.map_or("one device".to_owned(), |device| format!("one device, {device:?}"))
            }
            Kind::Multi(devices, optim) => format!("{} devices, {optim:?}", devices.len()),
            Kind::Ddp { devices, .. } => format!(
                "{} devices, distributed, in a loop of mlprof's own that could not be tried on \
                 such devices yet",
                devices.len()
            ),
            Kind::Custom(_) => {
                return "your own training strategy runs unchanged; its loaders, metrics and \
                        renderer are measured, its steps only where it or the model says so"
                    .to_owned();
            }
        };
        let checkpointing = if self.gradient_checkpointing { "on" } else { "off" };
        format!(
            "training on {loop_name}, gradient checkpointing {checkpointing} (a strategy or \
             gradient checkpointing set before .profiler(…) is lost: set it after)"
        )
    }

    fn train_custom(
        &self,
        strategy: &CustomLearningStrategy<M>,
        learner: Learner<M>,
        loaders: (TrainLoader<M>, ValidLoader<M>),
        components: TrainingComponents<M>,
    ) -> LearningResult<M> {
        ops::install_all(&*self.profiler, &learner.model().devices());
        let _all = OpenAction::start(&self.profiler, Action::new(actions::CUSTOM_STRATEGY));
        let train = self.hooks(actions::TRAIN_DATALOADER, actions::TRAIN_DATALOADER_NEXT);
        let valid = self.hooks(actions::VAL_DATALOADER, actions::VAL_NEXT);
        strategy.train(learner, train.wrap(loaders.0), valid.wrap(loaders.1), components)
    }

    fn hooks(&self, iter: &str, next: &str) -> LoaderHooks {
        LoaderHooks {
            profiler: self.profiler.clone(),
            iter: Some(Action::new(iter)),
            next: Action::new(next),
            batch: None,
            stop: Some(self.stop.clone()),
        }
    }
}

impl<M: LearnerModel> SupervisedLearningStrategy<M> for ProfiledStrategy<M> {
    fn train(
        &self,
        learner: Learner<M>,
        dataloader_train: Arc<dyn DataLoader<<M as TrainStep>::Input>>,
        dataloader_valid: Arc<dyn DataLoader<<M as InferenceStep>::Input>>,
        mut components: TrainingComponents<M>,
    ) -> LearningResult<M> {
        self.setup.take();
        self.say_what_runs(&learner);
        if self.measures_event_thread {
            components.event_processor =
                profiled_processor::<M>(components.event_processor, self.profiler.clone());
        }
        if let Kind::Custom(strategy) = &self.kind {
            let loaders = (dataloader_train, dataloader_valid);
            return self.train_custom(strategy, learner, loaders, components);
        }
        let actions = FitActions::new::<M>(self.name());
        let on_fit_start = OpenAction::start(&self.profiler, actions.on_fit_start);
        let measured = MeasuredLoop {
            strategy: self,
            actions,
            on_fit_start: RefCell::new(Some(on_fit_start)),
            on_fit_end: RefCell::new(None),
        };
        // burn's own `train`, which sends the first event, calls `fit` below, and ends the run.
        let result = measured.train(learner, dataloader_train, dataloader_valid, components);
        measured.on_fit_end.take();
        result
    }

    fn fit(
        &self,
        components: TrainingComponents<M>,
        learner: Learner<M>,
        dataloader_train: TrainLoader<M>,
        dataloader_valid: ValidLoader<M>,
        starting_epoch: usize,
    ) -> (M, SupervisedTrainingEventProcessor<M>) {
        let stop = self.stop.clone();
        let start = |devices: &[Device]| {
            let devices: Vec<_> = devices.iter().cloned().map(|d| self.prepare(d)).collect();
            ops::install_all(&*self.profiler, &devices);
            (devices, FitActions::new::<M>(self.name()))
        };
        let loaders = (dataloader_train, dataloader_valid);
        match &self.kind {
            Kind::Single(device) => {
                let device = device.clone().unwrap_or_else(|| learner.model().devices()[0].clone());
                let (devices, actions) = start(&[device]);
                let run = FitRun::new(self.profiler.clone(), actions, stop, components);
                single::fit(run, learner, loaders, &devices[0], starting_epoch)
            }
            Kind::Multi(devices, optim) => {
                let (devices, actions) = start(devices);
                let run = FitRun::new(self.profiler.clone(), actions, stop, components);
                multi::fit(run, learner, loaders, &devices, *optim, starting_epoch)
            }
            Kind::Ddp { devices, .. } => {
                let (devices, actions) = start(devices);
                let run = FitRun::new(self.profiler.clone(), actions, stop, components);
                ddp::fit(run, learner, loaders, &devices, starting_epoch)
            }
            // Reached only by somebody who calls `fit` by hand: `train` hands over earlier.
            Kind::Custom(strategy) => {
                strategy.fit(components, learner, loaders.0, loaders.1, starting_epoch)
            }
        }
    }
}

/// Adds what comes before and after `fit` in burn's own `train`: from its beginning to `fit` it
/// sends the first event; after `fit` it makes the summary, sends the last event and waits until
/// all have been worked on.
struct MeasuredLoop<'strategy, M: LearnerModel> {
    strategy: &'strategy ProfiledStrategy<M>,
    actions: FitActions,
    on_fit_start: RefCell<Option<OpenAction>>,
    on_fit_end: RefCell<Option<OpenAction>>,
}

impl<M: LearnerModel> SupervisedLearningStrategy<M> for MeasuredLoop<'_, M> {
    fn fit(
        &self,
        components: TrainingComponents<M>,
        learner: Learner<M>,
        dataloader_train: TrainLoader<M>,
        dataloader_valid: ValidLoader<M>,
        starting_epoch: usize,
    ) -> (M, SupervisedTrainingEventProcessor<M>) {
        self.on_fit_start.take();
        let outcome = self.strategy.fit(
            components,
            learner,
            dataloader_train,
            dataloader_valid,
            starting_epoch,
        );
        let on_fit_end = OpenAction::start(&self.strategy.profiler, self.actions.on_fit_end);
        self.on_fit_end.replace(Some(on_fit_end));
        outcome
    }
}
