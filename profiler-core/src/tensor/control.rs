//! Which stage and step run, and what is recorded of them.

use std::path::PathBuf;
use std::sync::Arc;

use super::profile::Profile;
use super::recording::Recording;
use super::schedule::StepPhase;
use super::settings::Settings;
use crate::recorder::regions::Regions;
use crate::{RunContext, Stage, Unbound};

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
    /// Whether what is recorded is kept only if no step ever ends.
    pub(super) is_provisional: bool,
    /// What the cycles have shown so far.
    pub(super) profile: Profile,
    /// Regions of devices.
    pub(super) regions: Regions,
    /// The files that were written.
    pub(super) files: Vec<PathBuf>,
    /// What could not be done, in words.
    pub(super) notes: Vec<String>,
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
            is_provisional: false,
            profile: Profile::default(),
            regions: Regions::default(),
            files: Vec::new(),
            notes: Vec::new(),
            unbound: Vec::new(),
        };
        begun.phase = begun.phase_of_step(settings);
        if begun.phase == StepPhase::Skip
            && settings.records_without_steps
            && stage != Some(Stage::SanityCheck)
        {
            begun.phase = StepPhase::Record;
            begun.is_provisional = true;
        }
        begun
    }

    /// What is done with the step that runs.
    pub(super) fn phase_of_step(&self, settings: &Settings) -> StepPhase {
        match (self.stage, settings.schedule) {
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
        self.step == 0 && self.cycles == 0 && self.recording.is_none()
    }

    /// The report is a stage's own unless it is a sanity check, which has none.
    fn has_report(&self) -> bool {
        self.stage != Some(Stage::SanityCheck)
    }
}

impl Control {
    pub(super) fn new() -> Self {
        let outside = StageRun::new(None, RunContext::default(), &Settings::default());
        Self { running: vec![outside], finished: None }
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
        self.running.retain(|outer| outer.stage.is_some() || !outer.is_idle());
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
