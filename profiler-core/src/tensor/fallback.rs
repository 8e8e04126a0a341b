//! Fallback recording of a stage that ends before the first active step of its schedule has ended.
//!
//! A run may be shorter than its schedule because of few batches, a crash or a loop that never
//! calls `step()`. The first steps of a stage are therefore recorded as a fallback, and discarded
//! when the first active step has ended. Active steps do not pay for this, because the discarded
//! recording serves as their warm-up.

use super::settings::Settings;
use super::{Schedule, TensorProfiler};
use crate::Stage;
use crate::recorder::regions::Regions;
use mlprof_events::StepPhase;
use mlprof_trace::Cycle;
use mlprof_trace::internals::CycleName;

/// Maximum number of steps to record at the beginning of a stage, in addition to the steps of a
/// warm-up.
pub(super) const MOST_STEPS: u64 = 5;

/// Maximum number of events, which is 40 MiB. It bounds a loop that never calls `step()` and so has
/// one endless first step.
const MOST_EVENTS: u64 = 1 << 20;

/// Recording to show if no active step ever ends.
#[derive(Default)]
pub(super) struct Fallback {
    /// Set while no active step has ended.
    is_wanted: bool,
    /// Set while the current recording is a fallback.
    pub(super) is_recording: bool,
    /// Finished fallback recording.
    taken: Option<RecordedSteps>,
}

/// Recorded steps that may be shown.
pub(super) struct RecordedSteps {
    pub(super) cycle: Cycle,
    pub(super) regions: Regions,
}

impl Fallback {
    /// Creates the fallback of a new stage. A sanity check needs none, because it has no report. A
    /// stage without a schedule, or with one whose first step is active, needs none either.
    pub(super) fn new(stage: Option<Stage>, schedule: Option<Schedule>) -> Self {
        let waits = schedule.is_some_and(|schedule| schedule.first_active() > 0);
        Self { is_wanted: waits && stage != Some(Stage::SanityCheck), ..Self::default() }
    }

    /// Returns `true` if the current step is only recorded as a fallback.
    pub(super) fn wants(&self, phase: StepPhase) -> bool {
        match phase {
            StepPhase::Skip => self.is_wanted && self.taken.is_none(),
            StepPhase::Warmup => self.is_wanted,
            StepPhase::Record | StepPhase::RecordAndSave => false,
        }
    }

    /// Returns `true` if a report would show the fallback if the stage ended now.
    pub(super) fn is_pending(&self) -> bool {
        self.is_recording || self.taken.is_some()
    }

    /// Returns the maximum number of events in a fallback recording.
    pub(super) fn max_events(settings: &Settings) -> u64 {
        match settings.records_without_steps {
            true => settings.max_events,
            false => settings.max_events.min(MOST_EVENTS),
        }
    }

    /// Ends the fallback, because an active step has ended. Returns its recording, if any.
    #[must_use = "its memory is given back where no lock is held"]
    pub(super) fn end(&mut self) -> Option<RecordedSteps> {
        self.is_wanted = false;
        self.taken.take()
    }
}

impl TensorProfiler {
    /// Continues a fallback recording, unless the step that begins, in phase `after`, ends it.
    /// Returns `false` if there is none.
    pub(super) fn continue_fallback(&self, after: StepPhase) -> bool {
        let is_over = {
            let mut control = self.control();
            let run = control.top();
            if !run.fallback.is_recording {
                return false;
            }
            let steps = run.step.saturating_sub(run.first_step);
            match after {
                StepPhase::Warmup => false,
                StepPhase::Skip => steps >= MOST_STEPS,
                StepPhase::Record | StepPhase::RecordAndSave => true,
            }
        };
        if is_over {
            self.take_fallback();
        }
        true
    }

    /// Ends a fallback recording and keeps its result.
    fn take_fallback(&self) {
        let Some((recording, ended)) = self.take_recording() else { return };
        let cycle = self.cycle(false, recording.take(ended));
        recording.end();
        // The pool is refilled, because the kept recording holds its memory. Otherwise active steps
        // would have to allocate from the system.
        recording.fill_pool(&cycle);
        let taken = RecordedSteps { cycle, regions: recording.take_regions() };
        let mut control = self.control();
        let fallback = &mut control.top().fallback;
        fallback.is_recording = false;
        let former = fallback.taken.replace(taken);
        drop(control);
        drop(former);
    }

    /// Discards the fallback, because an active step has ended.
    pub(super) fn end_fallback(&self) {
        let taken = self.control().top().fallback.end();
        drop(taken);
    }

    /// Reports the fallback at the end of a stage, unless an active step has ended.
    pub(super) fn show_fallback(&self) {
        let (is_better, taken) = {
            let mut control = self.control();
            let fallback = &mut control.top().fallback;
            // A warm-up that is still being recorded is preferred, because its steps are later.
            (std::mem::take(&mut fallback.is_recording), fallback.end())
        };
        let Some(RecordedSteps { mut cycle, regions }) = taken.filter(|_| !is_better) else {
            return;
        };
        cycle.number = self.name_of_cycle(false).number;
        self.keep(cycle, &regions);
    }

    /// Returns the name of the cycle that ends now.
    pub(super) fn name_of_cycle(&self, is_complete: bool) -> CycleName {
        let mut control = self.control();
        let run = control.top();
        CycleName {
            number: run.cycles,
            // The current step is excluded, because it has not ended.
            steps: run.first_step..run.step,
            is_complete,
            stage: run.stage,
            run: run.run.clone(),
        }
    }

    /// Adds a cycle to the stage's results and exports it.
    pub(super) fn keep(&self, cycle: Cycle, regions: &Regions) {
        if let Some(taker) = &self.settings.takes_cycles {
            self.control().top().cycles += 1;
            return taker(cycle);
        }
        {
            let mut control = self.control();
            let run = control.top();
            run.cycles += 1;
            run.profile.add(&cycle);
            run.regions.merge(regions);
        }
        self.hand_over(&cycle);
    }
}
