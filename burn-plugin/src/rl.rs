//! `.profiler(…)` for reinforcement learning (feature `rl`, requires burn's feature `rl`).
//!
//! burn's `RLTraining` does not expose its strategy, but accepts one. Profiling is therefore
//! applied to the strategy. The training keeps its type and all its settings:
//!
//! ```no_run
//! use burn::rl::SliceAccess;
//! use burn::train::{OffPolicyConfig, RLComponentsTypes, RLResult, RLStrategies, RLTraining};
//! use mlprof_burn::prelude::*;
//!
//! fn train<RLC>(
//!     training: RLTraining<RLC>,
//!     agent: RLC::LearningAgent,
//! ) -> Result<RLResult<RLC::Policy>, mlprof_burn::Error>
//! where
//!     RLC: RLComponentsTypes + 'static,
//!     RLC::PolicyObs: SliceAccess,
//!     RLC::PolicyAction: SliceAccess,
//! {
//!     let strategy = RLStrategies::OffPolicyStrategy(OffPolicyConfig::new().with_num_envs(4));
//!     Ok(training.with_learning_strategy(strategy.profiler("simple")?).launch(agent))
//! }
//! ```
//!
//! | name | measured work |
//! |---|---|
//! | `[Strategy]OffPolicy.setup` | creating the environments' threads and the replay buffer |
//! | `run_environment_steps` | waiting for the environments' next steps and sending them to the metrics |
//! | `replay_buffer_push` | reading these steps and adding them to the replay buffer |
//! | `update_policy` | sending the latest policy to the environments |
//! | `run_training_batch` | one batch: the next two rows, and reading the policy's state |
//! | `replay_buffer_sample` | sampling transitions from the replay buffer |
//! | `[PolicyLearner]….training_step` | the agent's `train`: forward, backward and optimizer |
//! | `[Callback]EventProcessor.….` | sending an event to the event thread, including waiting while its queue is full |
//! | `run_evaluation_episodes` | the evaluation episodes, including sending the policy |
//! | `flush_events` | waiting for the event thread after an evaluation (burn 0.23) |
//! | `save_checkpoint`, `teardown` | as in a supervised training |
//!
//! All rows belong to the loop's thread. Environments and policies run user code on burn's threads;
//! `profile!` in `Environment::step` or `Policy::action` measures it. A training batch is a step of
//! the Tensor profiler's schedule. Evaluations run between steps. A custom strategy is measured as
//! a whole, as `[Strategy]Custom.train`.
//!
//! A profiler such as `NumericsProfiler::stop_on_nan` can end the training after the current batch.
//! Ctrl-C ends the program after the report. Reports go to the profiler's configured destination.
//! [`strategy.profiler_with("simple", settings)`](ProfileStrategyExt::profiler_with) changes the
//! effect of Ctrl-C and the report directory.

use std::sync::Arc;

use burn::data::dataloader::Progress;
use burn::rl::{AsyncPolicy, Policy, PolicyLearner, SliceAccess, TransitionBuffer};
use burn::rl::{ToAction, ToObservation};
use burn::tensor::Tensor;
use burn::train::{
    AgentEnvAsyncLoop, AgentEnvLoop, AgentEvaluationEvent, AsyncAgentEnvLoopConfig,
    CustomRLStrategy, EvaluationItem, EventProcessorTraining, MultiAgentEnvLoop, OffPolicyConfig,
    RLComponents, RLComponentsTypes, RLEvent, RLEventProcessorType, RLResult, RLStrategies,
    RLStrategy,
};
use mlprof_core::names::{hook, short_type_name};
use mlprof_core::{Action, Error, Interrupt, IntoProfiler, Observation, Profiler, ProfilerExt};

use crate::actions;
use crate::framework::device_name;
use crate::ops;
use crate::session::{OpenAction, Pause, StageSettings};
use crate::stop::{StopSignal, is_stopped_by_profiler};
use crate::strategy::{ProfileStrategyExt, sealed};
use crate::version;

impl<RLC: RLComponentsTypes + 'static> sealed::Strategy for RLStrategies<RLC> {}

impl<RLC> ProfileStrategyExt for RLStrategies<RLC>
where
    RLC: RLComponentsTypes + 'static,
    RLC::PolicyObs: SliceAccess,
    RLC::PolicyAction: SliceAccess,
{
    fn profiler_with(
        self,
        profiler: impl IntoProfiler,
        settings: StageSettings,
    ) -> Result<Self, Error> {
        let profiler = mlprof_core::resolve(profiler.into_profiler()?);
        if !profiler.is_enabled() {
            return Ok(self);
        }
        Ok(Self::Custom(Arc::new(ProfiledRLStrategy { strategy: self, profiler, settings })))
    }
}

/// The strategy with which `.profiler(…)` replaces burn's strategy.
struct ProfiledRLStrategy<RLC: RLComponentsTypes> {
    strategy: RLStrategies<RLC>,
    profiler: Arc<dyn Profiler>,
    settings: StageSettings,
}

impl<RLC: RLComponentsTypes> ProfiledRLStrategy<RLC> {
    fn chosen(&self, stop: StopSignal) -> Chosen<'_, RLC> {
        match &self.strategy {
            RLStrategies::OffPolicyStrategy(config) => {
                Chosen::OffPolicy(MeasuredLoop { config, profiler: &self.profiler, stop })
            }
            RLStrategies::Custom(strategy) => Chosen::Custom(strategy),
        }
    }
}

enum Chosen<'strategy, RLC: RLComponentsTypes> {
    OffPolicy(MeasuredLoop<'strategy>),
    Custom(&'strategy CustomRLStrategy<RLC>),
}

impl<RLC> RLStrategy<RLC> for ProfiledRLStrategy<RLC>
where
    RLC: RLComponentsTypes,
    RLC::PolicyObs: SliceAccess,
    RLC::PolicyAction: SliceAccess,
{
    fn train(
        &self,
        agent: RLC::LearningAgent,
        components: RLComponents<RLC>,
        env_init: RLC::EnvInit,
    ) -> RLResult<RLC::Policy> {
        // The signal handler outlives the session, so that the requesting signal does not truncate
        // the report.
        let stop = StopSignal::new(self.settings.interrupt);
        let stop = stop.with_interrupter(components.interrupter.clone());
        let _session = self.settings.begin(&self.profiler);
        ops::install_all(&*self.profiler, &[agent.device(), components.inference_device.clone()]);
        let note = match &self.strategy {
            RLStrategies::OffPolicyStrategy(_) => {
                format!("loop: burn's off-policy loop on {}", device_name(&agent.device()))
            }
            RLStrategies::Custom(_) => "loop: the program's own training strategy, measured as a \
                                        whole"
                .to_owned(),
        };
        self.profiler.observe(&Observation::StageNote(&note));
        match self.chosen(stop.clone()) {
            // burn's own `train` sends the first event, calls `train_loop` below, and ends the run.
            Chosen::OffPolicy(measured) => measured.train(agent, components, env_init),
            Chosen::Custom(strategy) => {
                let _following = stop.follow();
                let _all = OpenAction::start(&self.profiler, Action::new(actions::CUSTOM_STRATEGY));
                strategy.train(agent, components, env_init)
            }
        }
    }

    /// Runs the strategy's own loop. `train` delegates earlier, so this is reached only if user
    /// code calls it directly.
    fn train_loop(
        &self,
        components: RLComponents<RLC>,
        agent: &mut RLC::LearningAgent,
        starting_epoch: usize,
        env_init: RLC::EnvInit,
    ) -> (RLC::Policy, RLEventProcessorType<RLC>) {
        match self.chosen(StopSignal::new(Interrupt::Terminate)) {
            Chosen::OffPolicy(measured) => {
                measured.train_loop(components, agent, starting_epoch, env_init)
            }
            Chosen::Custom(strategy) => {
                strategy.train_loop(components, agent, starting_epoch, env_init)
            }
        }
    }
}

/// Action handles of a training, created once before the loop.
struct RLActions {
    setup: Action,
    environment_steps: Action,
    push: Action,
    update_policy: Action,
    batch: Action,
    sample: Action,
    training_step: Action,
    on_batch_end: Action,
    on_evaluation_start: Action,
    episodes: Action,
    on_evaluation_end: Action,
    flush_events: Action,
    save_checkpoint: Action,
    teardown: Action,
}

impl RLActions {
    fn new<A>() -> Self {
        let event = |hook| Action::new(&actions::event(hook));
        Self {
            setup: Action::new(&actions::strategy("OffPolicy", "setup")),
            environment_steps: Action::new("run_environment_steps"),
            push: Action::new("replay_buffer_push"),
            update_policy: Action::new("update_policy"),
            batch: Action::new(actions::RUN_TRAINING_BATCH),
            sample: Action::new("replay_buffer_sample"),
            training_step: Action::new(&hook(
                "PolicyLearner",
                short_type_name::<A>(),
                "training_step",
            )),
            on_batch_end: event("on_train_batch_end"),
            on_evaluation_start: event("on_validation_start"),
            episodes: Action::new("run_evaluation_episodes"),
            on_evaluation_end: event("on_validation_end"),
            flush_events: Action::new(actions::FLUSH_EVENTS),
            save_checkpoint: Action::new(actions::SAVE_CHECKPOINT),
            teardown: Action::new(actions::TEARDOWN),
        }
    }
}

/// burn's off-policy loop with every part measured.
struct MeasuredLoop<'strategy> {
    config: &'strategy OffPolicyConfig,
    profiler: &'strategy Arc<dyn Profiler>,
    stop: StopSignal,
}

impl<RLC> RLStrategy<RLC> for MeasuredLoop<'_>
where
    RLC: RLComponentsTypes,
    RLC::PolicyObs: SliceAccess,
    RLC::PolicyAction: SliceAccess,
{
    fn train_loop(
        &self,
        components: RLComponents<RLC>,
        agent: &mut RLC::LearningAgent,
        starting_epoch: usize,
        env_init: RLC::EnvInit,
    ) -> (RLC::Policy, RLEventProcessorType<RLC>) {
        let profiler = self.profiler;
        let config = self.config;
        let actions = RLActions::new::<RLC::LearningAgent>();
        let mut events = components.event_processor;
        let mut checkpointer = components.checkpointer;
        let interrupter = components.interrupter;
        let device = components.inference_device;

        let setup = profiler.profile(actions.setup);
        let mut environments = MultiAgentEnvLoop::<RLC>::new(
            config.num_envs,
            env_init.clone(),
            AsyncPolicy::new(config.num_envs.min(config.autobatch_size), agent.policy()),
            false,
            false,
            &device,
        );
        let evaluation = AsyncAgentEnvLoopConfig { eval: true, deterministic: true, id: 0 };
        let mut evaluation = AgentEnvAsyncLoop::<RLC>::new(
            env_init,
            AsyncPolicy::new(1, agent.policy()),
            evaluation,
            &device,
            None,
            None,
        );
        let mut buffer = TransitionBuffer::<RLC::PolicyObs, RLC::PolicyAction>::new(
            config.replay_buffer_size,
            &agent.device(),
        );
        drop(setup);

        let mut next_evaluation = config.eval_interval + starting_epoch - 1;
        let mut progress =
            Progress::new(starting_epoch, components.num_steps, Some("steps".to_string()));
        let mut update: Option<<RLC::Policy as Policy>::PolicyState> = None;
        'training: while progress.items_processed < components.num_steps {
            self.stop.check();
            if interrupter.should_stop() {
                if let Some(interruption) = interrupter.interruption() {
                    let reason = interruption.reason.as_deref().unwrap_or("reason unknown");
                    log::info!("Training interrupted: {reason}");
                }
                break;
            }
            let previous_steps = progress.items_processed;
            let items = {
                let _scope = profiler.profile(actions.environment_steps);
                let interval = config.train_interval;
                environments.run_steps(interval, &mut events, &interrupter, &mut progress)
            };
            for item in &items {
                let _scope = profiler.profile(actions.push);
                let transition = &item.transition;
                let device = environments.device();
                let state: RLC::PolicyObs = transition.state.clone().to_observation(&device);
                let next: RLC::PolicyObs = transition.next_state.clone().to_observation(&device);
                let action: RLC::PolicyAction = transition.action.clone().to_action(&device);
                let reward = first(&transition.reward);
                let is_done = first(&transition.done) > 0.5;
                buffer.push(state, next, action, reward, is_done);
            }
            if buffer.len() >= config.train_batch_size
                && progress.items_processed >= config.warmup_steps
            {
                if let Some(update) = &update {
                    let _scope = profiler.profile(actions.update_policy);
                    environments.update_policy(update.clone());
                }
                for _ in 0..config.train_steps {
                    let output = {
                        let _batch = profiler.profile(actions.batch);
                        let batch = {
                            let _scope = profiler.profile(actions.sample);
                            buffer.sample(config.train_batch_size)
                        };
                        let output = {
                            let _scope = profiler.profile(actions.training_step);
                            agent.train(batch)
                        };
                        update = Some(agent.policy().state());
                        output
                    };
                    let item = EvaluationItem::new(output.item, progress.clone(), None);
                    {
                        let _scope = profiler.profile(actions.on_batch_end);
                        let handed_over = events.process_train(RLEvent::TrainStep(item));
                        interrupter.fail_on_error(handed_over);
                    }
                    profiler.step();
                    if is_stopped_by_profiler(&**profiler, &interrupter) {
                        continue 'training;
                    }
                }
            }
            if next_evaluation > previous_steps && next_evaluation <= progress.items_processed {
                let _pause = Pause::begin(profiler);
                {
                    let _scope = profiler.profile(actions.on_evaluation_start);
                    let event = AgentEvaluationEvent::Start(config.eval_episodes);
                    interrupter.fail_on_error(events.process_valid(event));
                }
                let episodes = config.eval_episodes;
                let trajectories = {
                    let _scope = profiler.profile(actions.episodes);
                    evaluation.update_policy(agent.policy().state());
                    evaluation.run_episodes(episodes, &mut events, &interrupter, &mut progress)
                };
                if let Some(checkpointer) = &mut checkpointer {
                    let _scope = profiler.profile(actions.save_checkpoint);
                    let policy = environments.policy();
                    checkpointer.checkpoint(
                        &policy,
                        agent,
                        next_evaluation,
                        &components.event_store,
                    );
                }
                next_evaluation += config.eval_interval;
                if version::FLUSHES_AT_SPLIT_END {
                    let _scope = profiler.profile(actions.flush_events);
                    interrupter.fail_on_error(events.flush());
                }
                let _scope = profiler.profile(actions.on_evaluation_end);
                let event = version::end_evaluation(trajectories.len(), episodes);
                interrupter.fail_on_error(events.process_valid(event));
            }
        }
        let _scope = profiler.profile(actions.teardown);
        drop((environments, evaluation, buffer, checkpointer));
        (agent.policy(), events)
    }
}

/// Returns the value of a transition's reward or flag, which it reads as burn's loop does.
fn first(value: &Tensor<1>) -> f32 {
    value.try_to_vec_as::<f32>().expect("an environment's values can be read")[0]
}
