//! From step to step and from stage to stage: recordings that begin and end.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::control::StageRun;
use super::cycle::{Cycle, CycleName};
use super::recording::Recording;
use super::schedule::StepPhase;
use super::{NOT_BEGUN, NOT_RECORDING, TensorProfiler, writer};
use crate::hook::{self, OpStart};
use crate::{Action, ActionKind, RunContext, Stage};

/// The span of a step; which one is in its sequence number.
fn step_action() -> Action {
    Action::of_kind(ActionKind::Step, "ProfilerStep", None)
}

impl TensorProfiler {
    /// The first sign of life outside of any stage: the first step begins.
    #[cold]
    #[inline(never)]
    pub(super) fn begin(&self) -> Option<u64> {
        {
            let mut control = self.control();
            let begun = self.recording.compare_exchange(
                NOT_BEGUN,
                NOT_RECORDING,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            if begun.is_err() {
                drop(control);
                return self.number();
            }
            let run = RunContext::from_environment();
            *control.top() = StageRun::new(None, run, self.settings.schedule.as_ref());
        }
        self.begin_recording_if_due();
        self.number()
    }

    /// The number of the step that runs, counted from 0 in its stage.
    pub fn step_num(&self) -> u64 {
        self.step.load(Ordering::Relaxed)
    }

    pub(super) fn next_step(&self) {
        let _ = self.number(); // the first sign of life may be the end of the first step
        self.stop_step();
        let Some(schedule) = self.settings.schedule else { return };
        let (before, after) = {
            let mut control = self.control();
            let run = control.top();
            run.step += 1;
            self.step.store(run.step, Ordering::Relaxed);
            let skips = run.stage == Some(Stage::SanityCheck);
            let after = if skips { StepPhase::Skip } else { schedule.phase(run.step) };
            (std::mem::replace(&mut run.phase, after), after)
        };
        match (before, after) {
            (StepPhase::RecordAndSave, _) => self.finish_cycle(true),
            (StepPhase::Warmup, StepPhase::Warmup) => {}
            (StepPhase::Warmup, _) => self.discard_recording(),
            _ => {}
        }
        self.begin_recording_if_due();
        self.start_step();
    }

    /// Opens the span of the running step, if it is recorded.
    fn start_step(&self) {
        if self.settings.schedule.is_some()
            && let Some(number) = self.number()
        {
            let step = self.step.load(Ordering::Relaxed);
            let span = OpStart { sequence: step as u32, ..OpStart::new(step_action()) };
            writer::start_op(number, || self.current_recording(), &span, &self.clock);
            if hook::wants_context() {
                self.tell_context(number);
            }
        }
    }

    fn stop_step(&self) {
        if let Some(number) = self.number() {
            writer::stop(number, || self.current_recording(), step_action(), &self.clock);
        }
    }

    /// Begins a recording if the running step is to be recorded and none is under way.
    fn begin_recording_if_due(&self) {
        let is_due = {
            let mut control = self.control();
            let run = control.top();
            run.phase != StepPhase::Skip && run.recording.is_none() && run.pauses == 0
        };
        if !is_due {
            return;
        }
        // What was called before belongs to nobody.
        hook::flush();
        let recording = Arc::new(Recording::new(self.clock.ticks(), self.settings.max_events));
        {
            let mut control = self.control();
            let run = control.top();
            run.first_step = run.step;
            run.recording = Some(recording);
        }
        self.publish();
    }

    /// Makes the innermost stage's recording the one that threads record into.
    fn publish(&self) {
        let (recording, step) = {
            let mut control = self.control();
            let run = control.top();
            (run.recording_now().cloned(), run.step)
        };
        self.step.store(step, Ordering::Relaxed);
        let number = recording.as_ref().map_or(NOT_RECORDING, |recording| recording.number);
        *self.current() = recording;
        self.recording.store(number, Ordering::Release);
        hook::interest_changed();
    }

    /// Takes the recording of the innermost stage out of use.
    fn take_recording(&self) -> Option<(Arc<Recording>, u64)> {
        self.control().top().recording.as_ref()?;
        // While it is still the current one: what comes now belongs to it.
        hook::flush();
        let recording = self.control().top().recording.take()?;
        self.publish();
        let ended = self.clock.ticks();
        writer::finish(recording.number, ended);
        Some((recording, ended))
    }

    fn discard_recording(&self) {
        if let Some((recording, _)) = self.take_recording() {
            recording.end();
        }
    }

    /// Ends the running cycle and has it written.
    fn finish_cycle(&self, is_complete: bool) {
        let Some((recording, ended)) = self.take_recording() else { return };
        let name = {
            let mut control = self.control();
            let run = control.top();
            let number = run.cycles;
            run.cycles += 1;
            let last = if is_complete { run.step } else { run.step + 1 };
            CycleName {
                number,
                steps: run.first_step..last.max(run.first_step),
                is_complete,
                stage: run.stage,
                run: run.run.clone(),
            }
        };
        let cycle = Cycle::take(&recording, name, ended);
        recording.end();
        self.control().top().profile.add(&cycle);
        self.hand_over(&cycle);
    }

    /// Ends what the reported stage has under way, so that its report has everything.
    pub(super) fn finish_stage(&self) {
        self.stop_step();
        self.control().unwind_to_reported();
        let phase = self.control().top().phase;
        match phase {
            StepPhase::Warmup => self.discard_recording(),
            // Without a schedule the whole stage is the cycle.
            _ => self.finish_cycle(self.settings.schedule.is_none()),
        }
        self.control().top().phase = StepPhase::Skip;
    }

    pub(super) fn begin_stage(&self, stage: Stage, run: &RunContext) {
        {
            let mut control = self.control();
            let schedule = self.settings.schedule.as_ref();
            control.push(StageRun::new(Some(stage), run.clone(), schedule));
        }
        self.publish();
        self.begin_recording_if_due();
        self.start_step();
    }

    pub(super) fn end_stage(&self, stage: Option<Stage>) {
        if stage.is_none() || self.control().top().stage == stage {
            self.finish_stage();
        }
        self.control().pop(stage);
        self.publish();
    }

    pub(super) fn set_pauses(&self, change: impl FnOnce(u32) -> u32) {
        let (was_paused, is_paused) = {
            let mut control = self.control();
            let run = control.top();
            let before = run.pauses;
            run.pauses = change(before);
            (before > 0, run.pauses > 0)
        };
        if was_paused == is_paused {
            return;
        }
        if is_paused {
            // The step's span would count the pause.
            self.stop_step();
            hook::flush();
            self.publish();
        } else {
            hook::flush();
            self.publish();
            self.begin_recording_if_due();
            self.start_step();
        }
    }
}
