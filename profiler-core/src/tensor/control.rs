//! Which stage and step run, and what is recorded of them.

use std::path::PathBuf;
use std::sync::Arc;

use super::fallback::Fallback;
use super::profile::Profile;
use super::recording::Recording;
use super::settings::Settings;
use crate::recorder::regions::Regions;
use crate::{RunContext, Stage, Unbound};
use profiler_events::StepPhase;

/// All stages that run.
pub(super) struct Control {
    /// A stage, then stages inside it. Never empty.
    running: Vec<StageRun>,
    /// The stage that ended last.
    finished: Option<StageRun>,
}

/// One stage of a run.
pub(super) struct StageRun {
    /// `None` outside of any stage.
    pub(super) stage: Option<Stage>,
    pub(super) run: RunContext,
    /// The step that runs, counted from 0.
    pub(super) step: u64,
    pub(super) phase: StepPhase,
    /// What the running cycle is recorded in, also while it warms up.
    pub(super) recording: Option<Arc<Recording>>,
    /// The first step of the running cycle that is kept.
    pub(super) first_step: u64,
    /// Cycles that are over.
    pub(super) cycles: u64,
    /// How many pauses are open.
    pub(super) pauses: u32,
    /// What is shown if no active step ever ends.
    pub(super) fallback: Fallback,
    /// What the cycles have shown so far.
    pub(super) profile: Profile,
    /// Regions of devices.
    pub(super) regions: Regions,
    /// The files that were written.
    pub(super) files: Vec<PathBuf>,
    /// What could not be done, in words.
    pub(super) notes: Vec<String>,
    /// Whether what comes before the first stage and after the last has a report of its own.
    keeps_what_no_stage_has: bool,
    /// What was told to nobody while the profiler was active.
    pub(super) unbound: Vec<Arc<Unbound>>,
}

impl StageRun {
    pub(super) fn new(stage: Option<Stage>, run: RunContext, settings: &Settings) -> Self {
        let mut begun = Self {
            stage,
            run,
            step: 0,
            phase: StepPhase::Skip,
            recording: None,
            first_step: 0,
            cycles: 0,
            pauses: 0,
            fallback: Fallback::new(stage, settings.schedule()),
            profile: Profile::default(),
            regions: Regions::default(),
            files: Vec::new(),
            notes: Vec::new(),
            keeps_what_no_stage_has: settings.records_without_steps,
            unbound: Vec::new(),
        };
        begun.phase = begun.phase_of_step(settings);
        begun
    }

    /// Outside of any stage, where nothing has been heard of.
    fn outside() -> Self {
        let settings = Settings::default();
        let run = Self::new(None, RunContext::default(), &settings);
        Self { fallback: Fallback::default(), ..run }
    }

    /// What is done with the step that runs.
    pub(super) fn phase_of_step(&self, settings: &Settings) -> StepPhase {
        match (self.stage, settings.schedule()) {
            // A sanity check is no training: its batches would be taken for the first steps.
            (Some(Stage::SanityCheck), _) => StepPhase::Skip,
            (_, Some(schedule)) => schedule.phase(self.step),
            (_, None) => StepPhase::Record,
        }
    }

    /// What threads record into now.
    pub(super) fn recording_now(&self) -> Option<&Arc<Recording>> {
        self.recording.as_ref().filter(|_| self.pauses == 0)
    }

    /// Whether anything was recorded or tried.
    fn is_idle(&self) -> bool {
        let is_recorded = match self.keeps_what_no_stage_has {
            true => self.recording.is_some(),
            // What was recorded in case that nothing else comes.
            false => self.recording.is_some() && !self.fallback.is_recording,
        };
        self.step == 0 && self.cycles == 0 && !is_recorded
    }

    /// Whether nothing is left of it when a stage begins.
    pub(super) fn is_replaced_by_a_stage(&self) -> bool {
        self.stage.is_none() && self.is_idle()
    }

    /// The report is a stage's own unless it is a sanity check, which has none.
    fn has_report(&self) -> bool {
        self.stage != Some(Stage::SanityCheck)
    }
}

impl Control {
    pub(super) fn new() -> Self {
        Self { running: vec![StageRun::outside()], finished: None }
    }

    /// The innermost running stage.
    pub(super) fn top(&mut self) -> &mut StageRun {
        if self.running.is_empty() {
            self.running = Self::new().running;
        }
        let last = self.running.len() - 1;
        &mut self.running[last]
    }

    /// The stage that a report made now is about: the innermost one that runs, or the one that
    /// ended last.
    pub(super) fn reported(&self) -> Option<&StageRun> {
        let running = self.running.iter().rfind(|run| run.has_report());
        match (running, &self.finished) {
            (Some(running), Some(finished)) if running.stage.is_none() && running.is_idle() => {
                Some(finished)
            }
            (running, finished) => running.or(finished.as_ref()),
        }
    }

    /// Begins a stage inside those that run; one that is outside of any stage and has nothing is
    /// replaced.
    pub(super) fn push(&mut self, mut run: StageRun) {
        run.unbound.clone_from(&self.top().unbound);
        run.unbound.retain(|unbound| !unbound.is_over());
        self.running.retain(|outer| !outer.is_replaced_by_a_stage());
        self.running.push(run);
        self.finished = None;
    }

    /// Ends `stage` and those inside it; `None`: the innermost that has a report.
    pub(super) fn pop(&mut self, stage: Option<Stage>) {
        let position = match stage {
            None => self.running.iter().rposition(StageRun::has_report),
            Some(_) => self.running.iter().rposition(|run| run.stage == stage),
        };
        let Some(position) = position else { return };
        self.running.truncate(position + 1);
        if let Some(mut ended) = self.running.pop()
            && ended.has_report()
        {
            ended.profile.end();
            self.finished = Some(ended);
        }
    }

    /// Ends those that run inside a report's stage, so that it is on top.
    pub(super) fn unwind_to_reported(&mut self) {
        if let Some(position) = self.running.iter().rposition(StageRun::has_report) {
            self.running.truncate(position + 1);
        }
    }
}
