//! What a stage shows that ends before the first active step of its schedule does.
//!
//! A run may be shorter than its schedule: two batches, a crash, a loop that never calls `step()`. So
//! the first steps of a stage are recorded in case they are all that there is, and thrown away when
//! the first active step is over. A step that the schedule keeps pays nothing for that: to a recording
//! that is thrown away the first steps are what a warm-up is.

use super::settings::Settings;
use super::{Schedule, TensorProfiler};
use crate::Stage;
use crate::recorder::regions::Regions;
use mlprof_events::StepPhase;
use mlprof_trace::Cycle;
use mlprof_trace::internals::CycleName;

/// So many steps are recorded from the beginning of a stage on; those of a warm-up besides.
pub(super) const MOST_STEPS: u64 = 5;

/// So many events at most, 40 MiB: a loop that never calls `step()` is one endless first step.
const MOST_EVENTS: u64 = 1 << 20;

/// What is shown if no active step ever ends.
#[derive(Default)]
pub(super) struct Fallback {
    /// Whether no active step has ended yet.
    is_wanted: bool,
    /// Whether the running recording is one.
    pub(super) is_recording: bool,
    /// One that is over.
    taken: Option<Taken>,
}

/// Steps that were recorded and may be shown.
pub(super) struct Taken {
    pub(super) cycle: Cycle,
    pub(super) regions: Regions,
}

impl Fallback {
    /// That of a stage which begins. A sanity check has no report, and without a schedule, or where
    /// its first step is an active one, there is nothing to fall back from.
    pub(super) fn new(stage: Option<Stage>, schedule: Option<Schedule>) -> Self {
        let waits = schedule.is_some_and(|schedule| schedule.first_active() > 0);
        Self { is_wanted: waits && stage != Some(Stage::SanityCheck), ..Self::default() }
    }

    /// Whether the running step is recorded only in case that no active one comes.
    pub(super) fn wants(&self, phase: StepPhase) -> bool {
        match phase {
            StepPhase::Skip => self.is_wanted && self.taken.is_none(),
            StepPhase::Warmup => self.is_wanted,
            StepPhase::Record | StepPhase::RecordAndSave => false,
        }
    }

    /// Whether it is what a report would show if the stage ended now.
    pub(super) fn is_pending(&self) -> bool {
        self.is_recording || self.taken.is_some()
    }

    /// How many events it may have.
    pub(super) fn max_events(settings: &Settings) -> u64 {
        match settings.records_without_steps {
            true => settings.max_events,
            false => settings.max_events.min(MOST_EVENTS),
        }
    }

    /// An active step is over: from here on there is something better.
    #[must_use = "its memory is given back where no lock is held"]
    pub(super) fn end(&mut self) -> Option<Taken> {
        self.is_wanted = false;
        self.taken.take()
    }
}

impl TensorProfiler {
    /// Goes on with what is recorded as a fallback, unless the step that begins, in `after`, ends it;
    /// false if there is none.
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

    /// Ends the recording of a fallback and keeps it aside.
    fn take_fallback(&self) {
        let Some((recording, ended)) = self.take_recording() else { return };
        let cycle = self.cycle(false, recording.take(ended));
        recording.end();
        // What it keeps is not there for the steps that count, which would have to ask the system.
        recording.fill_pool(&cycle);
        let taken = Taken { cycle, regions: recording.take_regions() };
        let mut control = self.control();
        let fallback = &mut control.top().fallback;
        fallback.is_recording = false;
        let former = fallback.taken.replace(taken);
        drop(control);
        drop(former);
    }

    /// Forgets what was kept aside: an active step is over.
    pub(super) fn end_fallback(&self) {
        let taken = self.control().top().fallback.end();
        drop(taken);
    }

    /// The stage is over: what was kept aside is all that there is, unless an active step has ended.
    pub(super) fn show_fallback(&self) {
        let (is_better, taken) = {
            let mut control = self.control();
            let fallback = &mut control.top().fallback;
            // A warm-up that is under way is later, and warmer.
            (std::mem::take(&mut fallback.is_recording), fallback.end())
        };
        let Some(Taken { mut cycle, regions }) = taken.filter(|_| !is_better) else { return };
        cycle.number = self.name_of_cycle(false).number;
        self.keep(cycle, &regions);
    }

    /// What the cycle that ends now is called.
    pub(super) fn name_of_cycle(&self, is_complete: bool) -> CycleName {
        let mut control = self.control();
        let run = control.top();
        CycleName {
            number: run.cycles,
            // The step that runs is not over.
            steps: run.first_step..run.step,
            is_complete,
            stage: run.stage,
            run: run.run.clone(),
        }
    }

    /// Puts a cycle to the numbers of the stage and has it written.
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
