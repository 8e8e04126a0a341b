//! Which stage and step run, and what is recorded of them.

use std::path::PathBuf;
use std::sync::Arc;

use super::fallback::Fallback;
use super::recording::Recording;
use super::settings::Settings;
use crate::recorder::regions::Regions;
use crate::{RunContext, Stage, UnattributedWork};
use mlprof_events::{OfStage, Stages, StepPhase};
use mlprof_trace::internals::Profile;

/// All stages that run.
pub(super) struct Control {
    /// Never empty: before the first stage and after the last there is what is outside of any. That
    /// stays around the stages if it has something to report.
    running: Stages<StageRun>,
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
    pub(super) unattributed: Vec<Arc<UnattributedWork>>,
}

impl OfStage for StageRun {
    fn stage(&self) -> Option<Stage> {
        self.stage
    }
}

impl StageRun {
    pub(super) fn new(stage: Option<Stage>, run: RunContext, settings: &Settings) -> Self {
        let mut begun = Self {
            stage,
            run,
            step: settings.first_step,
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
            unattributed: Vec::new(),
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

    /// What is outside of any stage, where nothing has happened: nothing is left of it when a stage
    /// begins, and when it ends.
    pub(super) fn is_nothing(&self) -> bool {
        self.stage.is_none() && self.is_idle()
    }

    /// The report is a stage's own unless it is a sanity check, which has none.
    fn has_report(&self) -> bool {
        self.stage != Some(Stage::SanityCheck)
    }
}

impl Control {
    pub(super) fn new() -> Self {
        Self { running: Stages::outside(StageRun::outside()), finished: None }
    }

    /// The innermost running stage.
    pub(super) fn top(&mut self) -> &mut StageRun {
        let last = self.running.len() - 1;
        &mut self.running[last]
    }

    /// The stage that a report made now is about: the innermost one that runs, or the one that
    /// ended last.
    pub(super) fn reported(&self) -> Option<&StageRun> {
        let running = self.running.reported().map(|position| &self.running[position]);
        let running = running.filter(|run| run.has_report());
        match (running, &self.finished) {
            (Some(running), Some(finished)) if running.is_nothing() => Some(finished),
            (running, finished) => running.or(finished.as_ref()),
        }
    }

    /// How many stages run, what is outside of any included, up to `stage` (`None`: the one that a
    /// report is about), if that runs.
    pub(super) fn depth_of(&self, stage: Option<Stage>) -> Option<usize> {
        self.running.position(stage).map(|position| position + 1)
    }

    /// Whether more stages run than so many.
    pub(super) fn is_deeper_than(&self, depth: usize) -> bool {
        self.running.len() > depth
    }

    /// Begins a stage inside those that run; what is outside of any and has nothing is replaced.
    pub(super) fn begin(&mut self, mut run: StageRun) {
        run.unattributed.clone_from(&self.top().unattributed);
        run.unattributed.retain(|unattributed| !unattributed.is_over());
        if self.running.first().is_some_and(StageRun::is_nothing) {
            self.running.take_outside();
        }
        self.running.begin(run);
        self.finished = None;
    }

    /// Throws the innermost stage away if still more run than `depth`, which is not 0: another thread may
    /// have ended it since it was asked.
    pub(super) fn throw_away_below(&mut self, depth: usize) {
        if self.is_deeper_than(depth) {
            let innermost = self.top().stage;
            self.running.end(innermost);
        }
    }

    /// Ends `stage`; `None`: the one that a report is about, or what is outside of any.
    pub(super) fn end(&mut self, stage: Option<Stage>) {
        let ended = match self.running.end(stage) {
            Some(ended) => Some(ended.own),
            None if stage.is_none() => self.running.take_outside(),
            None => return,
        };
        if self.running.is_empty() {
            self.running = Self::new().running;
        }
        let is_reported = |ended: &StageRun| ended.has_report() && !ended.is_nothing();
        if let Some(mut ended) = ended.filter(is_reported) {
            ended.profile.end();
            self.finished = Some(ended);
        }
    }
}
