//! Begins and ends recordings at steps and stages.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::control::StageRun;
use super::fallback::Fallback;
use super::recording::Recording;
use super::{NOT_BEGUN, NOT_RECORDING, TensorProfiler, writer};
use crate::hook::{self, OpStart};
use crate::{Action, ActionKind, RunContext, Stage};
use mlprof_events::StepPhase;

/// Returns the action for step spans. The sequence number of a span gives the step.
fn step_action() -> Action {
    Action::of_kind(ActionKind::Step, "ProfilerStep", None)
}

impl TensorProfiler {
    /// Begins the first step, when the first event arrives outside of any stage.
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

    /// Returns the number of the current step, counted from 0 in its stage.
    pub fn step_num(&self) -> u64 {
        self.step.load(Ordering::Relaxed)
    }

    pub(super) fn next_step(&self) {
        let _ = self.number(); // the end of the first step may be the first event
        if self.control().top().pauses > 0 {
            return;
        }
        self.stop_step();
        if self.settings.schedule().is_none() {
            return;
        }
        let (before, after) = {
            let mut control = self.control();
            let run = control.top();
            run.step += 1;
            self.step.store(run.step, Ordering::Relaxed);
            let after = run.phase_of_step(&self.settings);
            (std::mem::replace(&mut run.phase, after), after)
        };
        match (before, after) {
            (StepPhase::RecordAndSave, _) => self.finish_cycle(true),
            (StepPhase::Record, _) => {}
            (StepPhase::Warmup, StepPhase::Warmup) => {}
            _ if self.continue_fallback(after) => {}
            (StepPhase::Warmup, _) => self.discard_recording(),
            _ => {}
        }
        if matches!(before, StepPhase::Record | StepPhase::RecordAndSave) {
            self.end_fallback();
        }
        self.begin_recording_if_due();
        self.start_step();
    }

    /// Opens the span of the current step, if it is recorded.
    fn start_step(&self) {
        if self.settings.schedule().is_some()
            && let Some(number) = self.number()
        {
            let step = self.step.load(Ordering::Relaxed);
            let span = OpStart { sequence: step as u32, ..OpStart::new(step_action()) };
            writer::start_step(number, || self.current_recording(), &span, &self.clock);
            if crate::instrumentation::wants_context() {
                self.tell_context(number);
            }
        }
    }

    fn stop_step(&self) {
        if let Some(number) = self.number() {
            writer::stop(number, || self.current_recording(), step_action(), &self.clock);
        }
    }

    /// Begins a recording if the current step needs one and none is active.
    fn begin_recording_if_due(&self) {
        let (is_due, is_fallback) = {
            let mut control = self.control();
            let run = control.top();
            let is_fallback = run.fallback.wants(run.phase);
            let is_wanted = run.phase != StepPhase::Skip || is_fallback;
            (is_wanted && run.recording.is_none() && run.pauses == 0, is_fallback)
        };
        if !is_due {
            return;
        }
        // Work submitted earlier does not belong to the recording, so it is delivered first.
        crate::instrumentation::flush();
        let max_events = match is_fallback {
            true => Fallback::max_events(&self.settings),
            false => self.settings.max_events,
        };
        let recording = Recording::new(self.clock.ticks(), max_events, self.memory.clone());
        let recording = Arc::new(recording);
        {
            let mut control = self.control();
            let run = control.top();
            run.first_step = run.step;
            run.recording = Some(recording);
            run.fallback.is_recording = is_fallback;
        }
        self.publish();
    }

    /// Makes threads record into the recording of the innermost stage.
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

    /// Removes and returns the recording of the innermost stage, with its end in clock ticks.
    pub(super) fn take_recording(&self) -> Option<(Arc<Recording>, u64)> {
        self.control().top().recording.as_ref()?;
        // The flush happens while the recording is still current, so that delivered events belong
        // to it.
        crate::instrumentation::flush();
        let recording = self.control().top().recording.take()?;
        self.publish();
        let ended = self.clock.ticks();
        writer::finish(recording.number, ended);
        Some((recording, ended))
    }

    fn discard_recording(&self) {
        if let Some((recording, _)) = self.take_recording() {
            recording.end();
            // Its memory returns to the pool, ready for the active steps.
            recording.discard();
        }
    }

    /// Ends the current cycle and exports it.
    fn finish_cycle(&self, is_complete: bool) {
        let Some((recording, ended)) = self.take_recording() else { return };
        let cycle = self.cycle(is_complete, recording.take(ended));
        recording.end();
        // A cycle after the last step may be empty.
        if is_complete || !cycle.steps.is_empty() || !cycle.is_empty() {
            self.keep(cycle, &recording.take_regions());
        }
    }

    /// Ends pending recordings of the reported stage, so that its report is complete.
    pub(super) fn finish_stage(&self) {
        if !self.has_begun() {
            return;
        }
        let depth = self.control().depth_of(None);
        self.throw_away_inside(depth);
        let (phase, steps, is_fallback) = {
            let mut control = self.control();
            let run = control.top();
            let phase = std::mem::replace(&mut run.phase, StepPhase::Skip);
            (phase, run.step, run.fallback.is_recording)
        };
        if let Some(number) = self.number() {
            // After the last step, the open span is not a full step and is removed. Without any
            // finished step, it holds the only data and is kept.
            if steps > 0 || is_fallback {
                writer::cancel(number, step_action(), false);
            }
        }
        self.show_fallback();
        match phase {
            StepPhase::Warmup if !is_fallback => self.discard_recording(),
            // Without a schedule, the whole stage is one cycle.
            _ => self.finish_cycle(self.settings.schedule().is_none()),
        }
    }

    /// Begins a stage. The current stage, if any, is interrupted and continues when this one ends.
    pub(super) fn begin_stage(&self, stage: Stage, run: &RunContext) {
        if self.recording.load(Ordering::Relaxed) == NOT_BEGUN {
            self.recording.store(NOT_RECORDING, Ordering::Relaxed);
        }
        let said = self.output.environment().and_then(|environment| environment.schedule);
        self.settings.take_schedule(said);
        self.interrupt_step();
        let again = self.control().depth_of(Some(stage));
        self.throw_away_inside(again);
        if again.is_some() || self.control().top().is_nothing() {
            self.discard_recording();
        }
        {
            let mut control = self.control();
            control.begin(StageRun::new(Some(stage), run.clone(), &self.settings));
        }
        self.go_on();
    }

    /// Discards the stages inside the one at this depth. Their recordings are not reported.
    fn throw_away_inside(&self, depth: Option<usize>) {
        let Some(depth) = depth else { return };
        while self.control().is_deeper_than(depth) {
            self.discard_recording();
            self.control().throw_away_below(depth);
        }
    }

    pub(super) fn end_stage(&self, stage: Option<Stage>) {
        if !self.has_begun() {
            return;
        }
        let Some(depth) = self.control().depth_of(stage) else { return };
        self.throw_away_inside(Some(depth));
        if stage != Some(Stage::SanityCheck) {
            self.finish_stage();
        }
        self.control().end(stage);
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

    /// Ends the span of the current step, because further events do not belong to it. A span
    /// without events is removed.
    fn interrupt_step(&self) {
        let Some(number) = self.number() else { return };
        if !writer::cancel(number, step_action(), true) {
            self.stop_step();
        }
        if let Some(recording) = &self.control().top().recording {
            recording.pause(self.clock.ticks());
        }
        crate::instrumentation::flush();
    }

    /// Continues the current step of the innermost stage, and its recording if there is one.
    fn go_on(&self) {
        let resumes = self.control().top().recording.is_some();
        if resumes {
            // Work submitted during the interruption does not belong to the recording. Without a
            // recording, waiting for it is unnecessary.
            crate::instrumentation::flush();
        }
        self.publish();
        self.begin_recording_if_due();
        if let Some(recording) = self.control().top().recording_now() {
            recording.go_on(self.clock.ticks());
        }
        self.start_step();
    }
}
