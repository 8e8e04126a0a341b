//! Schedules that select the steps to record.

mod error;
mod parse;

use serde::{Deserialize, Serialize};

pub use error::ScheduleError;

/// Schedule of the recorded steps of a run. The words have the same meaning as in
/// `torch.profiler.schedule`:
///
/// - `skip_first` steps are skipped once at the beginning.
/// - Then cycles follow. Each consists of `wait` steps that are not recorded, `warmup` steps that
///   are recorded and discarded, and `active` steps that are kept.
/// - Recording ends after `repeat` cycles; 0 means that cycles repeat forever.
///
/// ```
/// use mlprof_core::tensor::{Schedule, StepPhase};
///
/// let schedule = Schedule::new().wait(1).warmup(1).active(2).repeat(1);
/// let phases: Vec<_> = (0..6).map(|step| schedule.phase(step)).collect();
/// use StepPhase::*;
/// assert_eq!(phases, [Skip, Warmup, Record, RecordAndSave, Skip, Skip]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Schedule {
    /// Number of steps at the very beginning that are not recorded.
    pub skip_first: u64,
    /// Value other than 0 if the first cycle omits its `wait` steps, for example because
    /// `skip_first` replaces them.
    pub skip_first_wait: u64,
    /// Number of steps of each cycle that are not recorded.
    pub wait: u64,
    /// Number of steps of each cycle that are recorded and discarded. They keep the initial cost of
    /// recording out of the results.
    pub warmup: u64,
    /// Number of steps of each cycle that are kept, at least 1.
    pub active: u64,
    /// Number of cycles; 0 repeats forever.
    pub repeat: u64,
}

/// Phase of a step in the schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepPhase {
    /// The step is not recorded.
    Skip,
    /// The step is recorded and discarded.
    Warmup,
    /// The step is kept.
    Record,
    /// The step is kept and is the last of its cycle.
    RecordAndSave,
}

impl Default for Schedule {
    /// Returns the schedule of Lightning's `PyTorchProfiler`: one cycle with one wait step, one
    /// warm-up step and three active steps.
    fn default() -> Self {
        Self { skip_first: 0, skip_first_wait: 0, wait: 1, warmup: 1, active: 3, repeat: 1 }
    }
}

impl Schedule {
    /// Returns the [default](Self::default) schedule.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of steps that are skipped at the very beginning.
    #[must_use]
    pub const fn skip_first(self, skip_first: u64) -> Self {
        Self { skip_first, ..self }
    }

    /// Omits the `wait` steps of the first cycle if `skips` is `true`.
    #[must_use]
    pub const fn skip_first_wait(self, skips: bool) -> Self {
        Self { skip_first_wait: skips as u64, ..self }
    }

    /// Sets the number of steps of each cycle that are not recorded.
    #[must_use]
    pub const fn wait(self, wait: u64) -> Self {
        Self { wait, ..self }
    }

    /// Sets the number of steps of each cycle that are recorded and discarded.
    #[must_use]
    pub const fn warmup(self, warmup: u64) -> Self {
        Self { warmup, ..self }
    }

    /// Sets the number of steps of each cycle that are kept.
    #[must_use]
    pub const fn active(self, active: u64) -> Self {
        Self { active, ..self }
    }

    /// Sets the number of cycles; 0 repeats forever.
    #[must_use]
    pub const fn repeat(self, repeat: u64) -> Self {
        Self { repeat, ..self }
    }

    /// Checks that the schedule is valid.
    ///
    /// # Errors
    ///
    /// Returns a [`ScheduleError`] with the reason why the schedule is invalid.
    #[doc(hidden)]
    pub const fn check(&self) -> Result<(), ScheduleError> {
        if self.active == 0 {
            return Err(ScheduleError::NothingActive);
        }
        match self.cycle_length() {
            Some(_) => Ok(()),
            None => Err(ScheduleError::TooLong),
        }
    }

    const fn cycle_length(&self) -> Option<u64> {
        match self.wait.checked_add(self.warmup) {
            Some(before) => before.checked_add(self.active),
            None => None,
        }
    }

    /// Returns the phase of step `step`, counted from 0. An invalid schedule skips all steps.
    #[doc(hidden)]
    pub const fn phase(&self, step: u64) -> StepPhase {
        let Some(length) = self.cycle_length() else { return StepPhase::Skip };
        if step < self.skip_first || self.active == 0 {
            return StepPhase::Skip;
        }
        let mut step = step - self.skip_first;
        if self.skip_first_wait != 0 {
            // The first cycle begins after its wait steps.
            let Some(moved) = step.checked_add(self.wait) else { return StepPhase::Skip };
            step = moved;
        }
        if self.repeat != 0 && step / length >= self.repeat {
            return StepPhase::Skip;
        }
        let place = step % length;
        if place < self.wait {
            StepPhase::Skip
        } else if place < self.wait + self.warmup {
            StepPhase::Warmup
        } else if place < length - 1 {
            StepPhase::Record
        } else {
            StepPhase::RecordAndSave
        }
    }

    /// Returns the first step that is kept, counted from 0.
    #[doc(hidden)]
    pub const fn first_active(&self) -> u64 {
        let wait = if self.skip_first_wait != 0 { 0 } else { self.wait };
        self.skip_first.saturating_add(wait).saturating_add(self.warmup)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use StepPhase::{Record, RecordAndSave, Skip, Warmup};

    fn phases(schedule: Schedule, steps: u64) -> Vec<StepPhase> {
        (0..steps).map(|step| schedule.phase(step)).collect()
    }

    #[test]
    fn cycles_repeat_for_ever_or_so_many_times() {
        let schedule = Schedule::new().wait(1).warmup(1).active(2).repeat(0);
        let cycle = [Skip, Warmup, Record, RecordAndSave];
        assert_eq!(phases(schedule, 12), cycle.repeat(3));
        let twice = phases(schedule.repeat(2).skip_first(2), 14);
        assert_eq!(twice[..2], [Skip; 2]);
        assert_eq!(twice[2..10], cycle.repeat(2));
        assert_eq!(twice[10..], [Skip; 4]);
        assert_eq!(schedule.first_active(), 2);
    }

    #[test]
    fn the_first_wait_can_be_left_out() {
        let schedule = Schedule::new().skip_first(1).wait(2).warmup(1).active(1).repeat(2);
        let schedule = schedule.skip_first_wait(true);
        let expected = [Skip, Warmup, RecordAndSave, Skip, Skip, Warmup, RecordAndSave, Skip];
        assert_eq!(phases(schedule, 8), expected);
        assert_eq!(schedule.first_active(), 2);
    }

    #[test]
    fn every_step_of_a_schedule_of_one_is_saved() {
        let schedule = Schedule::new().wait(0).warmup(0).active(1).repeat(0);
        assert_eq!(phases(schedule, 3), [RecordAndSave; 3]);
    }

    #[test]
    fn invalid_schedules_state_the_reason() {
        let error = Schedule::new().active(0).check().expect_err("nothing is active");
        assert!(error.to_string().contains("active = 0"), "{error}");
        let error = Schedule::new().wait(u64::MAX).check().expect_err("too long");
        assert!(error.to_string().contains("smaller"), "{error}");
        assert_eq!(Schedule::new().wait(u64::MAX).phase(7), Skip);
        assert_eq!(Schedule::new().check(), Ok(()));
    }
}
