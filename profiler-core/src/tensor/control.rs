//! Current stages and steps, and what is recorded of them.

use std::path::PathBuf;
use std::sync::Arc;

use super::fallback::Fallback;
use super::recording::Recording;
use super::settings::Settings;
use crate::recorder::regions::Regions;
use crate::{RunContext, Stage, UnattributedWork};
use mlprof_events::{OfStage, Stages, StepPhase};
use mlprof_trace::internals::Profile;

/// All running stages.
pub(super) struct Control {
    /// Running stages, never empty. Outside of all stages, it holds one entry without a stage. That
    /// entry stays below the stages if it has something to report.
    running: Stages<StageRun>,
    /// The stage that ended last.
    finished: Option<StageRun>,
}

/// State of one stage.
pub(super) struct StageRun {
    /// The stage, or `None` for the entry outside of all stages.
    pub(super) stage: Option<Stage>,
    pub(super) run: RunContext,
    /// Current step, counted from 0.
    pub(super) step: u64,
    pub(super) phase: StepPhase,
    /// Recording of the current cycle, including its warm-up.
    pub(super) recording: Option<Arc<Recording>>,
    /// First step of the current cycle that is kept.
    pub(super) first_step: u64,
    /// Number of finished cycles.
    pub(super) cycles: u64,
    /// Number of open pauses.
    pub(super) pauses: u32,
    /// Recording to show if no active step ever ends.
    pub(super) fallback: Fallback,
    /// Results of the cycles so far.
    pub(super) profile: Profile,
    /// Device regions of the cycles so far.
    pub(super) regions: Regions,
    /// Files written so far.
    pub(super) files: Vec<PathBuf>,
    /// Messages about operations that failed.
    pub(super) notes: Vec<String>,
    /// Set if work outside of all stages has its own report.
    keeps_what_no_stage_has: bool,
    /// Work that could not be attributed to any profiler while this one was active.
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

    /// Creates the initial entry outside of all stages.
    fn outside() -> Self {
        let settings = Settings::default();
        let run = Self::new(None, RunContext::default(), &settings);
        Self { fallback: Fallback::default(), ..run }
    }

    /// Returns the phase of the current step.
    pub(super) fn phase_of_step(&self, settings: &Settings) -> StepPhase {
        match (self.stage, settings.schedule()) {
            // A sanity check is not training. Otherwise its batches would count as the first steps.
            (Some(Stage::SanityCheck), _) => StepPhase::Skip,
            (_, Some(schedule)) => schedule.phase(self.step),
            (_, None) => StepPhase::Record,
        }
    }

    /// Returns the recording that threads currently record into.
    pub(super) fn recording_now(&self) -> Option<&Arc<Recording>> {
        self.recording.as_ref().filter(|_| self.pauses == 0)
    }

    /// Returns `true` if no step was taken, no cycle finished and no recording is kept.
    fn is_idle(&self) -> bool {
        let is_recorded = match self.keeps_what_no_stage_has {
            true => self.recording.is_some(),
            // A fallback recording does not count, because it is only kept in case nothing else
            // follows.
            false => self.recording.is_some() && !self.fallback.is_recording,
        };
        self.step == 0 && self.cycles == 0 && !is_recorded
    }

    /// Returns `true` for the entry outside of all stages while it is unused. An unused entry is
    /// removed when a stage begins, and is not reported.
    pub(super) fn is_nothing(&self) -> bool {
        self.stage.is_none() && self.is_idle()
    }

    /// Returns `true` unless the stage is a sanity check, which has no report of its own.
    fn has_report(&self) -> bool {
        self.stage != Some(Stage::SanityCheck)
    }
}

impl Control {
    pub(super) fn new() -> Self {
        Self { running: Stages::outside(StageRun::outside()), finished: None }
    }

    /// Returns the innermost running stage.
    pub(super) fn top(&mut self) -> &mut StageRun {
        let last = self.running.len() - 1;
        &mut self.running[last]
    }

    /// Returns the stage for a report made now: the innermost running one, or the one that ended
    /// last.
    pub(super) fn reported(&self) -> Option<&StageRun> {
        let running = self.running.reported().map(|position| &self.running[position]);
        let running = running.filter(|run| run.has_report());
        match (running, &self.finished) {
            (Some(running), Some(finished)) if running.is_nothing() => Some(finished),
            (running, finished) => running.or(finished.as_ref()),
        }
    }

    /// Returns the number of running entries up to `stage`, if it runs. The entry outside of all
    /// stages counts. `None` stands for the stage of a report made now.
    pub(super) fn depth_of(&self, stage: Option<Stage>) -> Option<usize> {
        self.running.position(stage).map(|position| position + 1)
    }

    /// Returns `true` if more than `depth` stages are running.
    pub(super) fn is_deeper_than(&self, depth: usize) -> bool {
        self.running.len() > depth
    }

    /// Begins a stage inside the running ones. It replaces an unused entry outside of all stages.
    pub(super) fn begin(&mut self, mut run: StageRun) {
        run.unattributed.clone_from(&self.top().unattributed);
        run.unattributed.retain(|unattributed| !unattributed.is_over());
        if self.running.first().is_some_and(StageRun::is_nothing) {
            self.running.take_outside();
        }
        self.running.begin(run);
        self.finished = None;
    }

    /// Discards the innermost stage if more than `depth` are still running. `depth` is at least 1.
    /// Another thread may have ended the stage since the caller checked.
    pub(super) fn throw_away_below(&mut self, depth: usize) {
        if self.is_deeper_than(depth) {
            let innermost = self.top().stage;
            self.running.end(innermost);
        }
    }

    /// Ends `stage`. For `None`, ends the stage of a report made now, or the entry outside of all
    /// stages.
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
