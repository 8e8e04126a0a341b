//! The loops that run under a profiler. They repeat burn's own loops step by step and measure every
//! part.

mod agreement;
mod ddp;
mod events;
mod multi;
mod profile;
mod run;
mod single;

use std::cell::RefCell;
use std::sync::Arc;

use burn::data::dataloader::DataLoader;
use burn::tensor::Device;
use burn::tensor::distributed::DistributedContext;
use burn::train::MultiDeviceOptim;
use burn::train::{
    CustomLearningStrategy, ExecutionStrategy, InferenceStep, Learner, LearnerModel,
    LearningResult, SupervisedLearningStrategy, SupervisedTrainingEventProcessor, TrainLoader,
    TrainStep, TrainingComponents, TrainingStrategy, ValidLoader,
};
use mlprof_core::output::say;
use mlprof_core::{Action, Interrupt, Observation, Profiler};

use crate::actions::{self, FitActions};
use crate::framework::device_name;
use crate::loader::LoaderHooks;
use crate::ops;
use crate::processor::profiled_processor;
use crate::session::{OpenAction, StageSettings};
use crate::stop::StopSignal;
pub use profile::ProfileStrategyExt;
#[cfg(feature = "rl")]
pub(crate) use profile::sealed;
use run::FitRun;

/// The kind of loop that runs.
enum Kind<M: LearnerModel> {
    /// A loop on one device; `None` selects the model's device.
    Single(Option<Device>),
    Multi(Vec<Device>, MultiDeviceOptim),
    Ddp {
        devices: Vec<Device>,
        /// Keeps the communication between the devices alive.
        _context: DistributedContext,
    },
    Custom(CustomLearningStrategy<M>),
}

/// Loop settings passed to `.profiler(…)`.
pub(crate) struct Loop<M: LearnerModel> {
    pub(crate) strategy: Option<TrainingStrategy<M>>,
    pub(crate) gradient_checkpointing: bool,
    pub(crate) measures_event_thread: bool,
}

/// The strategy with which `.profiler(…)` replaces burn's strategy.
pub(crate) struct ProfiledStrategy<M: LearnerModel> {
    kind: Kind<M>,
    gradient_checkpointing: bool,
    measures_event_thread: bool,
    profiler: Arc<dyn Profiler>,
    stop: RefCell<StopSignal>,
    setup: RefCell<Option<OpenAction>>,
    /// Settings of the session that this strategy begins itself, if any.
    begins_session: RefCell<Option<StageSettings>>,
}

impl<M: LearnerModel> ProfiledStrategy<M> {
    /// Creates the profiled counterpart of the user's strategy, or of burn's default strategy, for
    /// an existing session.
    pub(crate) fn new(which: Loop<M>, profiler: Arc<dyn Profiler>, stop: StopSignal) -> Self {
        let setup = OpenAction::start(&profiler, Action::new(actions::SETUP));
        let strategy = Self::of(which, profiler, stop);
        strategy.setup.replace(Some(setup));
        strategy
    }

    /// Creates a profiled strategy that begins its own session when it trains.
    pub(crate) fn with_session(
        strategy: Option<TrainingStrategy<M>>,
        profiler: Arc<dyn Profiler>,
        settings: StageSettings,
    ) -> Self {
        let which = Loop { strategy, gradient_checkpointing: false, measures_event_thread: false };
        // This signal is a placeholder. Ctrl-C is handled from the beginning of the training.
        let strategy = Self::of(which, profiler, StopSignal::new(Interrupt::Terminate));
        strategy.begins_session.replace(Some(settings));
        strategy
    }

    fn of(which: Loop<M>, profiler: Arc<dyn Profiler>, stop: StopSignal) -> Self {
        let kind = match which.strategy {
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
        Self {
            kind,
            gradient_checkpointing: which.gradient_checkpointing,
            measures_event_thread: which.measures_event_thread,
            profiler,
            stop: RefCell::new(stop),
            setup: RefCell::new(None),
            begins_session: RefCell::new(None),
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

    /// Prepares the device as burn's own loops do. Gradient checkpointing that was enabled before
    /// `.profiler(…)` cannot be read. It is still used if the model's device has it enabled. burn
    /// refuses to mix devices with and without it in one operation, so both must agree anyway.
    fn prepare(&self, device: Device, model: &Device) -> Device {
        let device = if device.is_autodiff() { device } else { device.autodiff() };
        let checkpoints = self.gradient_checkpointing || is_checkpointing(model);
        if checkpoints { device.gradient_checkpointing() } else { device }
    }

    /// Adds the name of the running loop to the report.
    fn note_loop(&self, devices: &[Device]) {
        let names: Vec<_> = devices.iter().map(device_name).collect();
        let (number, names) = (names.len(), names.join(", "));
        let note = match &self.kind {
            Kind::Single(_) => format!("loop: burn's single-device loop on {names}"),
            Kind::Multi(_, MultiDeviceOptim::OptimMainDevice) => {
                format!("loop: burn's loop on {number} devices, optimizer on the main one: {names}")
            }
            Kind::Multi(_, MultiDeviceOptim::OptimSharded) => {
                format!("loop: burn's loop on {number} devices, optimizer sharded: {names}")
            }
            Kind::Ddp { .. } => format!(
                "loop: burn's distributed loop on {number} devices, in mlprof's copy, which is not \
                 tested on such devices: {names}"
            ),
            Kind::Custom(_) => "loop: the program's own training strategy. Its steps are measured \
                                only if it or the model reports them"
                .to_owned(),
        };
        self.profiler.observe(&Observation::StageNote(&note));
    }

    fn train_custom(
        &self,
        strategy: &CustomLearningStrategy<M>,
        learner: Learner<M>,
        loaders: (TrainLoader<M>, ValidLoader<M>),
        components: TrainingComponents<M>,
    ) -> LearningResult<M> {
        ops::install_all(&*self.profiler, &learner.model().devices());
        self.note_loop(&[]);
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
            stop: Some(self.stop.borrow().clone()),
            installs_ops: false,
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
        let _session = self.begins_session.take().map(|settings| {
            let stop = StopSignal::new(settings.interrupt);
            self.stop.replace(stop.with_interrupter(components.interrupter.clone()));
            settings.begin(&self.profiler)
        });
        self.setup.take();
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
        // burn's own `train` sends the first event, calls `fit` below, and ends the run.
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
        let stop = self.stop.borrow().clone();
        let model = learner.model().devices()[0].clone();
        let start = |devices: &[Device]| {
            let devices: Vec<_> =
                devices.iter().cloned().map(|device| self.prepare(device, &model)).collect();
            ops::install_all(&*self.profiler, &devices);
            self.note_loop(&devices);
            (devices, FitActions::new::<M>(self.name()))
        };
        let loaders = (dataloader_train, dataloader_valid);
        match &self.kind {
            Kind::Single(device) => {
                let device = device.clone().unwrap_or_else(|| model.clone());
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
            // `train` delegates to the custom strategy earlier, so this is reached only if user
            // code calls `fit` directly.
            Kind::Custom(strategy) => {
                strategy.fit(components, learner, loaders.0, loaders.1, starting_epoch)
            }
        }
    }
}

/// Measures the parts before and after `fit` in burn's own `train`. Before `fit`, burn sends the
/// first event. After it, burn creates the summary, sends the last event and waits until all events
/// are processed.
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

impl<M: LearnerModel> Drop for ProfiledStrategy<M> {
    fn drop(&mut self) {
        if self.begins_session.borrow().is_some() && !std::thread::panicking() {
            say("mlprof: nothing was measured, because the training was not launched after \
                 .profiler(…) or received another training strategy; profile that strategy with \
                 strategy.profiler(…)");
        }
    }
}

fn is_checkpointing(device: &Device) -> bool {
    let checkpointing = device.clone().inner().autodiff().gradient_checkpointing();
    device.gradient_checkpointing_strategy() == checkpointing.gradient_checkpointing_strategy()
}
