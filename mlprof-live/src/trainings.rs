//! Trainings of this process: their stages and step times.

use std::collections::VecDeque;
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use mlprof_core::{RunContext, Stage};
use mlprof_events::live::TrainingState;
use mlprof_events::{OfStage, Stages, progress};

use crate::epochs::Epochs;

/// Number of recent steps whose times are kept.
const LAST_STEPS: usize = 128;

/// Step durations by stage and rank.
#[cfg(any(feature = "metrics", feature = "otlp"))]
pub(crate) type StepDurations =
    std::collections::BTreeMap<(String, u32), crate::durations::Durations>;

/// All running trainings, each identified by the thread that reports it.
#[derive(Default)]
pub(crate) struct Trainings {
    /// Step durations of all trainings since the process began.
    #[cfg(any(feature = "metrics", feature = "otlp"))]
    pub(crate) step_durations: StepDurations,
    all: Vec<Training>,
    /// Number of the stage that began last.
    last: u64,
}

pub(crate) struct Training {
    thread: ThreadId,
    /// Nested stages; never empty.
    stages: Stages<Running>,
}

/// Running stage, or the steps of a loop outside any stage.
pub(crate) struct Running {
    /// Number of the stage, unique in the process.
    pub(crate) number: u64,
    pub(crate) stage: Option<Stage>,
    pub(crate) run: RunContext,
    /// Number of finished steps.
    pub(crate) steps: u64,
    pauses: u32,
    began: Instant,
    /// Time at which the running step began, or continued after a pause.
    since: Instant,
    /// Duration of the running step before its last pause.
    before: Duration,
    last_steps: VecDeque<Step>,
    /// Number of samples that the process had processed when the running step began.
    samples_before: u64,
    /// Time that the running step has waited for data; `None` if no client follows.
    waited: Option<Duration>,
    epochs: Epochs,
}

/// Duration of a step.
struct Step {
    took: Duration,
    /// Part of the duration spent waiting for data, if a client followed.
    waited: Option<Duration>,
    /// Number of samples processed during the step.
    samples: u64,
}

impl OfStage for Running {
    fn stage(&self) -> Option<Stage> {
        self.stage
    }
}

impl Running {
    fn new(number: u64, stage: Option<Stage>, run: RunContext, now: Instant) -> Self {
        Self {
            number,
            stage,
            run,
            steps: 0,
            pauses: 0,
            began: now,
            since: now,
            before: Duration::ZERO,
            last_steps: VecDeque::with_capacity(LAST_STEPS),
            samples_before: progress::samples(),
            waited: None,
            epochs: Epochs::default(),
        }
    }

    /// Adds the time that the thread has waited for data since the last call. `None` means that no
    /// client follows.
    fn waited(&mut self, waited: Option<Duration>) {
        self.waited = waited.map(|waited| self.waited.unwrap_or_default() + waited);
    }

    /// Records the end of a step. Returns `None` for a step of a validation that interrupts the
    /// steps.
    fn step(&mut self, now: Instant) -> Option<()> {
        if self.pauses > 0 {
            return None;
        }
        if self.last_steps.len() == LAST_STEPS {
            self.last_steps.pop_front();
        }
        let took = std::mem::take(&mut self.before) + (now - self.since);
        let samples_now = progress::samples();
        let samples = samples_now - std::mem::replace(&mut self.samples_before, samples_now);
        self.last_steps.push_back(Step { took, waited: self.waited.take(), samples });
        self.epochs.step(self.steps, progress::epoch().0);
        self.since = now;
        self.steps += 1;
        Some(())
    }

    fn pause(&mut self, now: Instant) {
        if self.pauses == 0 {
            self.before += now - self.since;
        }
        self.pauses += 1;
    }

    fn resume(&mut self, now: Instant) {
        self.pauses = self.pauses.saturating_sub(1);
        if self.pauses == 0 {
            self.since = now;
        }
    }

    /// Returns the share of the recent steps spent waiting for data, limited to steps that a client
    /// followed.
    fn waiting_for_data(&self) -> Option<f64> {
        let looked_at = self.last_steps.iter().filter_map(|step| Some((step.took, step.waited?)));
        let (took, waited) = looked_at.reduce(|all, step| (all.0 + step.0, all.1 + step.1))?;
        (!took.is_zero()).then(|| (waited.as_secs_f64() / took.as_secs_f64()).min(1.0))
    }

    /// Returns the number of samples per second in the recent steps.
    fn samples_per_second(&self) -> Option<f64> {
        let samples: u64 = self.last_steps.iter().map(|step| step.samples).sum();
        let took: Duration = self.last_steps.iter().map(|step| step.took).sum();
        (samples > 0 && !took.is_zero()).then(|| samples as f64 / took.as_secs_f64())
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.pauses > 0
    }
}

impl Training {
    /// Returns the innermost stage.
    pub(crate) fn top(&self) -> &Running {
        &self.stages[self.stages.len() - 1]
    }

    fn top_mut(&mut self) -> &mut Running {
        let last = self.stages.len() - 1;
        &mut self.stages[last]
    }

    fn state(
        &self,
        now: Instant,
        epoch: (Option<u64>, Option<u64>),
        loss: Option<f64>,
        is_only: bool,
    ) -> TrainingState {
        let top = self.top();
        let is_fit = top.stage == Some(Stage::Fit);
        let epoch = if is_fit { epoch } else { (None, None) };
        let (epoch_step, epoch_steps) = top.epochs.steps(top.steps, epoch.0);
        TrainingState {
            stage: top.stage,
            rank: top.run.rank,
            world_size: top.run.world_size,
            epoch: epoch.0,
            epochs: epoch.1,
            steps: top.steps,
            seconds: (now - top.began).as_secs_f64(),
            is_paused: top.is_paused(),
            last_steps: top.last_steps.iter().map(|step| step.took.as_secs_f64()).collect(),
            epoch_step,
            epoch_steps,
            // With several trainings, samples cannot be attributed to one of them.
            samples_per_second: top.samples_per_second().filter(|_| is_only),
            waiting_for_data: top.waiting_for_data(),
            loss: loss.filter(|_| is_fit),
        }
    }
}

impl Trainings {
    /// Returns `true` if no training runs.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Adds the time that a thread has waited for data since the last call. `None` means that no
    /// client follows.
    pub(crate) fn waited(&mut self, thread: ThreadId, waited: Option<Duration>) {
        if let Some(training) = self.of(thread) {
            training.top_mut().waited(waited);
        }
    }

    /// Returns the training that a thread reports on: its own one, or the only one in the process.
    fn of(&mut self, thread: ThreadId) -> Option<&mut Training> {
        let own = self.all.iter().position(|training| training.thread == thread);
        let lone = (self.all.len() == 1).then_some(0);
        own.or(lone).map(|index| &mut self.all[index])
    }

    fn new_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Records the start of a stage on this thread.
    pub(crate) fn begin(&mut self, thread: ThreadId, stage: Stage, run: &RunContext, now: Instant) {
        let begun = Running::new(self.new_number(), Some(stage), run.clone(), now);
        match self.all.iter_mut().find(|training| training.thread == thread) {
            Some(training) => {
                training.stages.take_outside();
                training.stages.begin(begun);
            }
            None => self.all.push(Training { thread, stages: Stages::outside(begun) }),
        }
    }

    /// Records the end of a stage; `None` stands for the stage of the current report.
    pub(crate) fn end(&mut self, thread: ThreadId, stage: Option<Stage>) {
        let Some(training) = self.of(thread) else { return };
        training.stages.end(stage);
        self.all.retain(|training| !training.stages.is_empty());
    }

    /// Records the end of a step. Returns its training, except for a step of a validation.
    pub(crate) fn step(&mut self, thread: ThreadId, now: Instant) -> Option<&Training> {
        if self.of(thread).is_none() {
            // This loop reports no stage, so the start of its first step is unknown.
            let outside =
                Running::new(self.new_number(), None, RunContext::from_environment(), now);
            self.all.push(Training { thread, stages: Stages::outside(outside) });
            let begun = self.of(thread)?;
            begun.top_mut().steps = 1;
            return Some(begun);
        }
        let training = self.of(thread)?;
        training.top_mut().step(now)?;
        #[cfg(any(feature = "metrics", feature = "otlp"))]
        self.count(thread);
        self.of(thread).map(|training| &*training)
    }

    /// Adds the last step to the durations.
    #[cfg(any(feature = "metrics", feature = "otlp"))]
    fn count(&mut self, thread: ThreadId) {
        let Some(top) = self.of(thread).map(|training| training.top()) else { return };
        let stage = top.stage.map_or_else(|| "none".to_owned(), |stage| stage.to_string());
        let (key, last) = ((stage, top.run.rank), top.last_steps.back().map(|step| step.took));
        if let Some(seconds) = last.as_ref().map(Duration::as_secs_f64) {
            self.step_durations.entry(key).or_default().add(seconds);
        }
    }

    pub(crate) fn pause(&mut self, thread: ThreadId, now: Instant) {
        if let Some(training) = self.of(thread) {
            training.top_mut().pause(now);
        }
    }

    pub(crate) fn resume(&mut self, thread: ThreadId, now: Instant) {
        if let Some(training) = self.of(thread) {
            training.top_mut().resume(now);
        }
    }

    /// Returns `true` if the stage runs without interruption, `false` if it is interrupted, and
    /// `None` if it is over.
    pub(crate) fn goes_on(&self, number: u64) -> Option<bool> {
        self.all.iter().find_map(|training| {
            let position = training.stages.iter().position(|running| running.number == number)?;
            let running = &training.stages[position];
            Some(position + 1 == training.stages.len() && !running.is_paused())
        })
    }

    pub(crate) fn states(&self, now: Instant) -> Vec<TrainingState> {
        let is_only = self.all.len() == 1;
        let epoch = if is_only { progress::epoch() } else { (None, None) };
        let loss = progress::loss().filter(|_| is_only);
        self.all.iter().map(|training| training.state(now, epoch, loss, is_only)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_those_of_the_innermost_stage_and_not_of_a_validation() {
        let (mut all, thread) = (Trainings::default(), std::thread::current().id());
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        all.begin(thread, Stage::Fit, &RunContext::default(), at(0));
        assert!(all.step(thread, at(2)).is_some());
        all.pause(thread, at(3));
        assert!(all.step(thread, at(9)).is_none(), "a batch of the validation");
        all.resume(thread, at(10));
        assert!(all.step(thread, at(12)).is_some());
        let [state] = &all.states(at(20))[..] else { panic!("one training") };
        assert_eq!((state.steps, state.seconds, state.is_paused), (2, 20.0, false));
        assert_eq!(state.last_steps, [2.0, 3.0], "without the validation");
        all.begin(thread, Stage::Test, &RunContext::default(), at(20));
        assert_eq!(all.states(at(20))[0].stage, Some(Stage::Test));
        all.end(thread, None);
        assert_eq!(all.states(at(20))[0].stage, Some(Stage::Fit));
        all.end(thread, Some(Stage::Fit));
        assert!(all.states(at(20)).is_empty());
    }

    #[test]
    fn two_trainings_are_told_apart_by_their_threads() {
        let mut all = Trainings::default();
        let (here, now) = (std::thread::current().id(), Instant::now());
        let there = std::thread::spawn(|| std::thread::current().id()).join().expect("a thread");
        all.begin(here, Stage::Fit, &RunContext::default(), now);
        all.begin(there, Stage::Predict, &RunContext::default(), now);
        assert!(all.step(there, now).is_some());
        let steps: Vec<_> = all.states(now).iter().map(|it| (it.stage, it.steps)).collect();
        assert_eq!(steps, [(Some(Stage::Fit), 0), (Some(Stage::Predict), 1)]);
        all.end(here, None);
        assert!(
            all.step(here, now).is_some(),
            "whoever steps where there is one training steps for it"
        );
        assert_eq!(all.states(now)[0].steps, 2);
    }

    #[test]
    fn samples_are_those_of_the_last_steps() {
        let (mut all, thread) = (Trainings::default(), std::thread::current().id());
        let start = Instant::now();
        all.begin(thread, Stage::Fit, &RunContext::default(), start);
        let of = |all: &Trainings| all.states(start)[0].samples_per_second;
        assert_eq!(of(&all), None);
        for step in 1..=4 {
            progress::samples_processed(32);
            all.step(thread, start + Duration::from_secs(2 * step));
        }
        assert_eq!(of(&all), Some(16.0));
        let there = std::thread::spawn(|| std::thread::current().id()).join().expect("a thread");
        all.begin(there, Stage::Fit, &RunContext::default(), start);
        assert_eq!(of(&all), None, "two trainings say so at once");
    }

    #[test]
    fn only_the_last_steps_are_kept() {
        let (mut all, thread) = (Trainings::default(), std::thread::current().id());
        let now = Instant::now();
        (0..1000).for_each(|_| assert!(all.step(thread, now).is_some()));
        let state = all.states(now).remove(0);
        assert_eq!((state.stage, state.steps, state.last_steps.len()), (None, 1000, LAST_STEPS));
    }
}
