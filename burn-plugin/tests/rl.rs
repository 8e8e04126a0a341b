//! Checks that a profiled reinforcement learning run behaves like burn's own, and that every part
//! is measured.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use burn::module::Module;
use burn::nn::loss::{MseLoss, Reduction};
use burn::nn::{Linear, LinearConfig};
use burn::optim::{GradientsParams, ModuleOptimizer, SgdConfig};
use burn::rl::{
    Batchable, Environment, LearnerTransitionBatch, Policy, PolicyLearner, PolicyState,
    RLTrainOutput, SliceAccess, StepResult, ToAction, ToObservation,
};
use burn::tensor::{Device, Int, Tensor};
use burn::train::{
    OffPolicyConfig, RLComponents, RLComponentsMarker, RLComponentsTypes, RLEventProcessorType,
    RLResult, RLStrategies, RLStrategy, RLTraining,
};
use common::{Recorder, alone, interrupt};
use mlprof_burn::INTERRUPTED;
use mlprof_burn::prelude::*;
use mlprof_core::{Action, NeverStarted, Observation, Stage, profile};

/// A row of numbers, used as an observation, an action or a policy input.
#[derive(Clone, Debug)]
struct Row(Tensor<2>);

impl Batchable for Row {
    fn batch(rows: Vec<Self>) -> Self {
        Self(Tensor::cat(rows.into_iter().map(|row| row.0).collect(), 0))
    }

    fn unbatch(self) -> Vec<Self> {
        self.0.split(1, 0).into_iter().map(Self).collect()
    }
}

impl SliceAccess for Row {
    fn zeros_like(sample: &Self, capacity: usize, device: &Device) -> Self {
        Self(SliceAccess::zeros_like(&sample.0, capacity, device))
    }

    fn select(self, dim: usize, indices: Tensor<1, Int>) -> Self {
        Self(SliceAccess::select(self.0, dim, indices))
    }

    fn slice_assign_inplace(&mut self, index: usize, value: Self) {
        self.0.slice_assign_inplace(index, value.0);
    }
}

/// A walk of ten steps along a line.
#[derive(Clone)]
struct Walk {
    position: f32,
    steps: usize,
}

#[derive(Clone)]
struct Position(f32);

#[derive(Clone)]
struct Pace(f32);

impl ToObservation<Row> for Position {
    fn to_observation(&self, device: &Device) -> Row {
        Row(Tensor::from_data([[self.0]], device))
    }
}

impl ToAction<Row> for Pace {
    fn to_action(&self, device: &Device) -> Row {
        Row(Tensor::from_data([[self.0]], device))
    }
}

impl From<Row> for Pace {
    fn from(row: Row) -> Self {
        Self(row.0.into_scalar())
    }
}

impl Environment for Walk {
    type State = Position;
    type Action = Pace;

    const MAX_STEPS: usize = 10;

    fn state(&self) -> Position {
        Position(self.position)
    }

    fn step(&mut self, pace: Pace) -> StepResult<Position> {
        let _scope = profile!("environment_step");
        self.position += pace.0;
        self.steps += 1;
        StepResult {
            next_state: self.state(),
            reward: f64::from(self.position),
            done: self.steps == Self::MAX_STEPS,
            truncated: false,
        }
    }

    fn reset(&mut self) {
        self.position = 0.0;
        self.steps = 0;
    }
}

/// A policy whose steps do not depend on training. Every run then sees the same transitions,
/// regardless of when its environments receive a new policy.
#[derive(Clone, Debug)]
struct Walker {
    net: Linear,
}

#[derive(Clone)]
struct Weights(Linear);

impl PolicyState for Weights {
    type Record = ();

    fn into_record(self) {}

    fn load_record(&self, (): ()) -> Self {
        self.clone()
    }
}

impl Policy for Walker {
    type Observation = Row;
    type ActionDistribution = Row;
    type Action = Row;
    type ActionContext = ();
    type PolicyState = Weights;

    fn forward(&mut self, observation: Row) -> Row {
        Row(self.net.forward(observation.0))
    }

    fn action(&mut self, observation: Row, _deterministic: bool) -> (Row, Vec<()>) {
        let paces = observation.0.sin().add_scalar(1.5);
        let contexts = vec![(); paces.dims()[0]];
        (Row(paces), contexts)
    }

    fn update(&mut self, update: Weights) {
        self.net = update.0;
    }

    fn state(&self) -> Weights {
        Weights(self.net.clone())
    }

    fn to_device(mut self, device: &Device) -> Self {
        self.net = self.net.to_device(device);
        self
    }

    fn load_record(self, (): ()) -> Self {
        self
    }
}

/// Learns the reward of an observation.
struct Agent {
    policy: Walker,
    optimizer: ModuleOptimizer,
    device: Device,
}

impl Agent {
    fn new() -> Self {
        let device = Device::flex().autodiff();
        device.seed(7);
        let policy = Walker { net: LinearConfig::new(1, 1).init(&device) };
        Self { policy, optimizer: SgdConfig::new().init(), device }
    }
}

impl PolicyLearner for Agent {
    type TrainContext = ();
    type InnerPolicy = Walker;
    type Record = ();

    fn train(&mut self, batch: LearnerTransitionBatch<Walker>) -> RLTrainOutput<(), Weights> {
        let output = self.policy.net.forward(batch.states.0);
        let loss = MseLoss::new().forward(output, batch.rewards, Reduction::Mean);
        let gradients = GradientsParams::from_grads(loss.profile_backward(), &self.policy.net);
        self.policy.net = self.optimizer.step(1e-3, self.policy.net.clone(), gradients);
        RLTrainOutput { policy: self.policy.state(), item: () }
    }

    fn policy(&self) -> Walker {
        self.policy.clone()
    }

    fn update_policy(&mut self, policy: Walker) {
        self.policy = policy;
    }

    fn record(&self) {}

    fn load_record(self, (): ()) -> Self {
        self
    }

    fn device(&self) -> Device {
        self.device.clone()
    }
}

type Components<Init> = RLComponentsMarker<Walk, Init, Agent>;

/// Runs the training. burn counts from 1, so there are 49 environment steps, of which the last 42
/// yield a batch. Two evaluations follow steps 20 and 40.
fn train(
    directory: &Path,
    profile: impl FnOnce(OffPolicyConfig) -> OffPolicyConfig,
    recorder: Option<Arc<Recorder>>,
) -> Vec<u32> {
    let walk = || Walk { position: 0.0, steps: 0 };
    let config = OffPolicyConfig::new().with_train_batch_size(8).with_eval_interval(20);
    let strategy = RLStrategies::OffPolicyStrategy(profile(config)).profiler(recorder).unwrap();
    let result = RLTraining::new(directory, walk)
        .with_application_logger(None)
        .with_inference_device(Device::flex())
        .num_steps(50)
        .with_learning_strategy(strategy)
        .launch(Agent::new());
    assert!(result.error.is_none() && result.interrupted.is_none());
    let net = result.policy.net;
    let values = [net.weight.val().flatten::<1>(0, 1), net.bias.unwrap().val()];
    let values = values.map(|tensor| tensor.into_data().try_to_vec::<f32>().unwrap());
    values.concat().into_iter().map(f32::to_bits).collect()
}

#[test]
fn it_learns_the_same_to_the_bit() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let same = |config| config;
    let plain = train(directory.path(), same, None);
    assert_eq!(plain, train(directory.path(), same, None), "the training must be repeatable");
    assert_eq!(plain, train(directory.path(), same, Some(Recorder::new())));
    let twice = |config: OffPolicyConfig| config.with_train_steps(2);
    assert_ne!(plain, train(directory.path(), twice, Some(Recorder::new())), "settings count");
}

#[test]
fn everything_is_counted_exactly() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::new();
    train(directory.path(), |config| config, Some(recorder.clone()));
    recorder.assert_balanced_but_for(&["environment_step"]);
    assert_eq!((recorder.stages(), recorder.reports()), (vec![Stage::Fit], 1));
    let (steps, batches, evaluations) = (49, 42, 2);
    let mut calls = recorder.all_calls();
    // The environments are one step ahead of the loop. Each evaluation environment makes ten steps.
    let walked = calls.remove("environment_step").unwrap();
    assert!(walked >= steps + 10 * evaluations, "{walked}");
    let mut expected = BTreeMap::from([
        ("[Strategy]OffPolicy.setup", 1),
        ("run_environment_steps", steps),
        ("replay_buffer_push", steps),
        ("update_policy", batches - 1),
        ("run_training_batch", batches),
        ("replay_buffer_sample", batches),
        ("[PolicyLearner]Agent.training_step", batches),
        ("backward", batches),
        ("[Callback]EventProcessor.on_train_batch_end", batches),
        ("[Callback]EventProcessor.on_validation_start", evaluations),
        ("run_evaluation_episodes", evaluations),
        ("[Callback]EventProcessor.on_validation_end", evaluations),
        ("teardown", 1),
    ]);
    if cfg!(burn_0_23) {
        expected.insert("flush_events", evaluations);
    }
    assert_eq!(calls, expected);
    assert_eq!(recorder.parent("backward"), Some("[PolicyLearner]Agent.training_step"));
    assert_eq!(recorder.parent("[PolicyLearner]Agent.training_step"), Some("run_training_batch"));
    assert_eq!((recorder.steps(), recorder.pauses()), (batches, evaluations));
    assert!(!recorder.shares_a_thread("environment_step", "run_training_batch"));
}

/// Trains with this strategy.
fn launch(
    directory: &Path,
    strategy: RLStrategies<Components<fn() -> Walk>>,
    walk: fn() -> Walk,
) -> RLResult<Walker> {
    RLTraining::new(directory, walk)
        .with_application_logger(None)
        .with_inference_device(Device::flex())
        .num_steps(50)
        .with_learning_strategy(strategy)
        .launch(Agent::new())
}

fn off_policy() -> RLStrategies<Components<fn() -> Walk>> {
    let config = OffPolicyConfig::new().with_train_batch_size(8).with_train_steps(3);
    RLStrategies::OffPolicyStrategy(config)
}

/// A profiler that requests the end of a training after a number of batches.
struct Impatient {
    batches: AtomicUsize,
    most: usize,
}

impl Profiler for Impatient {
    fn start(&self, _action: Action) {}

    fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
        Ok(())
    }

    fn observe(&self, observation: &Observation<'_>) {
        match observation {
            Observation::StepEnd => {
                self.batches.fetch_add(1, Ordering::Relaxed);
            }
            Observation::Control(control) if self.batches.load(Ordering::Relaxed) >= self.most => {
                control.stop("that is enough");
            }
            _ => {}
        }
    }
}

#[test]
fn a_profiler_that_has_a_reason_ends_the_training_after_the_batch() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let impatient = Arc::new(Impatient { batches: AtomicUsize::new(0), most: 4 });
    let strategy = off_policy().profiler(impatient.clone()).unwrap();
    let result = launch(directory.path(), strategy, || Walk { position: 0.0, steps: 0 });
    // The stop is in the middle of the three batches that follow an environment step.
    assert_eq!(impatient.batches.load(Ordering::Relaxed), 4);
    let reason = result.interrupted.unwrap().reason.unwrap();
    assert_eq!(reason, "the profiler stopped the training: that is enough");
}

#[test]
fn ctrl_c_ends_the_training_with_a_report_in_the_folder_that_was_named() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let settings =
        StageSettings::new().on_interrupt(Interrupt::Return).log_dir(directory.path().join("logs"));
    let profiler = SimpleProfiler::new().filename("run");
    let strategy = off_policy().profiler_with(profiler, settings).unwrap();
    static WALKS: AtomicUsize = AtomicUsize::new(0);
    let walk = || {
        if WALKS.fetch_add(1, Ordering::Relaxed) == 0 {
            interrupt().unwrap();
        }
        Walk { position: 0.0, steps: 0 }
    };
    let result = launch(directory.path(), strategy, walk);
    assert_eq!(result.interrupted.unwrap().reason.as_deref(), Some(INTERRUPTED));
    let report = std::fs::read_to_string(directory.path().join("logs/fit-run.txt")).unwrap();
    assert!(report.contains("loop: burn's off-policy loop on Flex"), "{report}");
}

/// A custom strategy that returns immediately.
struct Idle(AtomicUsize);

impl<RLC: RLComponentsTypes> RLStrategy<RLC> for Idle {
    fn train_loop(
        &self,
        components: RLComponents<RLC>,
        agent: &mut RLC::LearningAgent,
        _starting_epoch: usize,
        _env_init: RLC::EnvInit,
    ) -> (RLC::Policy, RLEventProcessorType<RLC>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        (agent.policy(), components.event_processor)
    }
}

#[test]
fn a_custom_strategy_is_measured_as_a_whole() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (recorder, idle) = (Recorder::new(), Arc::new(Idle(AtomicUsize::new(0))));
    let walk: fn() -> Walk = || Walk { position: 0.0, steps: 0 };
    let custom = |idle: &Arc<Idle>| -> RLStrategies<Components<fn() -> Walk>> {
        RLStrategies::Custom(idle.clone())
    };
    assert!(custom(&idle).profiler("smiple").is_err());
    RLTraining::new(directory.path(), walk)
        .with_application_logger(None)
        .with_learning_strategy(custom(&idle).profiler(recorder.clone()).unwrap())
        .launch(Agent::new());
    assert_eq!(idle.0.load(Ordering::Relaxed), 1);
    recorder.assert_balanced();
    assert_eq!(recorder.all_calls(), BTreeMap::from([("[Strategy]Custom.train", 1)]));
    assert_eq!(recorder.reports(), 1);
}
