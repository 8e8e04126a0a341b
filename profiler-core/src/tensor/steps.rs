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
            *control.top() = StageRun::new(None, run, &self.settings);
        }
        self.begin_recording_if_due();
        self.start_step();
        self.number()
    }

    /// The number of the step that runs, counted from 0 in its stage.
    pub fn step_num(&self) -> u64 {
        self.step.load(Ordering::Relaxed)
    }

    pub(super) fn next_step(&self) {
        let _ = self.number(); // the first sign of life may be the end of the first step
        if self.control().top().pauses > 0 {
            return;
        }
        self.stop_step();
        if self.settings.schedule.is_none() {
            return;
        }
        let (before, after) = {
            let mut control = self.control();
            let run = control.top();
            run.step += 1;
            self.step.store(run.step, Ordering::Relaxed);
            let after = run.phase_of_step(&self.settings);
            let before = std::mem::replace(&mut run.phase, after);
            // What was recorded in case there are no steps is as good as a warm-up.
            let was_provisional = std::mem::take(&mut run.is_provisional);
            (if was_provisional { StepPhase::Warmup } else { before }, after)
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
            && !self.control().top().is_provisional
        {
            let step = self.step.load(Ordering::Relaxed);
            let span = OpStart { sequence: step as u32, ..OpStart::new(step_action()) };
            writer::start_step(number, || self.current_recording(), &span, &self.clock);
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
        let recording =
            Recording::new(self.clock.ticks(), self.settings.max_events, self.memory.clone());
        let recording = Arc::new(recording);
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
            // The memory that it was given is ready for the steps that count.
            recording.discard();
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
            CycleName {
                number,
                // The one that runs is not over.
                steps: run.first_step..run.step,
                is_complete,
                stage: run.stage,
                run: run.run.clone(),
            }
        };
        let cycle = Cycle::take(&recording, name, ended);
        recording.end();
        {
            let mut control = self.control();
            let run = control.top();
            run.profile.add(&cycle);
            run.regions.merge(&recording.take_regions());
        }
        self.hand_over(&cycle);
    }

    /// Ends what the reported stage has under way, so that its report has everything.
    pub(super) fn finish_stage(&self) {
        self.control().unwind_to_reported();
        let (phase, steps) = {
            let mut control = self.control();
            let run = control.top();
            (std::mem::replace(&mut run.phase, StepPhase::Skip), run.step)
        };
        if let Some(number) = self.number() {
            // What comes after the last step is none; without any step it is all there is.
            if steps > 0 {
                writer::cancel(number, step_action(), false);
            }
        }
        match phase {
            StepPhase::Warmup => self.discard_recording(),
            // Without a schedule the whole stage is the cycle.
            _ => self.finish_cycle(self.settings.schedule.is_none()),
        }
    }

    /// The stage that runs, if any, goes on when this one is over.
    pub(super) fn begin_stage(&self, stage: Stage, run: &RunContext) {
        if self.recording.load(Ordering::Relaxed) == NOT_BEGUN {
            self.recording.store(NOT_RECORDING, Ordering::Relaxed);
        }
        self.interrupt_step();
        {
            let mut control = self.control();
            control.push(StageRun::new(Some(stage), run.clone(), &self.settings));
        }
        self.go_on();
    }

    pub(super) fn end_stage(&self, stage: Option<Stage>) {
        let is_reported = stage != Some(Stage::SanityCheck);
        if is_reported && (stage.is_none() || self.control().top().stage == stage) {
            self.finish_stage();
        }
        self.control().pop(stage);
        self.go_on();
    }

    pub(super) fn pause_steps(&self) {
        let is_first = {
            let mut control = self.control();
            let run = control.top();
            run.pauses += 1;
            run.pauses == 1
        };
        if is_first {
            self.interrupt_step();
            self.publish();
        }
    }

    pub(super) fn resume_steps(&self) {
        let was_last = {
            let mut control = self.control();
            let run = control.top();
            let was_last = run.pauses == 1;
            run.pauses = run.pauses.saturating_sub(1);
            was_last
        };
        if was_last {
            self.go_on();
        }
    }

    /// What comes now does not belong to the running step: its span ends, and is not even there if
    /// nothing has happened in it yet.
    fn interrupt_step(&self) {
        let Some(number) = self.number() else { return };
        if !writer::cancel(number, step_action(), true) {
            self.stop_step();
        }
        hook::flush();
    }

    /// The innermost stage goes on with its step, and with its recording if there is one.
    fn go_on(&self) {
        let resumes = self.control().top().recording.is_some();
        if resumes {
            // What was called meanwhile does not belong to it. Otherwise nobody has to wait.
            hook::flush();
        }
        self.publish();
        self.begin_recording_if_due();
        self.start_step();
    }
}
