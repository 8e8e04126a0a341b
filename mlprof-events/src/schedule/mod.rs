//! Which steps are recorded.

mod error;
mod parse;

use serde::{Deserialize, Serialize};

pub use error::ScheduleError;

/// Which steps of a run are recorded, with the meaning that `torch.profiler.schedule` gives to the
/// same words: `skip_first` steps are left out once; then cycles follow, each of `wait` steps that
/// are not recorded, `warmup` steps that are recorded and thrown away, and `active` steps that are
/// kept. After `repeat` cycles nothing more is recorded; 0 is for ever.
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
    /// Steps at the very beginning that are not recorded.
    pub skip_first: u64,
    /// Whether the first cycle leaves out its `wait` steps, which `skip_first` may stand for: 0 is
    /// no, anything else yes.
    pub skip_first_wait: u64,
    /// Steps of each cycle that are not recorded.
    pub wait: u64,
    /// Steps of each cycle that are recorded and thrown away, so that what recording costs at its
    /// beginning is not in the numbers.
    pub warmup: u64,
    /// Steps of each cycle that are kept; at least 1.
    pub active: u64,
    /// How many cycles; 0 is for ever.
    pub repeat: u64,
}

/// What is done with a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepPhase {
    /// It is not recorded.
    Skip,
    /// It is recorded and thrown away.
    Warmup,
    /// It is kept.
    Record,
    /// It is kept, and the last one of its cycle.
    RecordAndSave,
}

impl Default for Schedule {
    /// As Lightning's `PyTorchProfiler`: one step of waiting, one of warm-up, three active ones; one
    /// cycle.
    fn default() -> Self {
        Self { skip_first: 0, skip_first_wait: 0, wait: 1, warmup: 1, active: 3, repeat: 1 }
    }
}

impl Schedule {
    /// The [default](Self::default).
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many steps are left out at the very beginning.
    #[must_use]
    pub const fn skip_first(self, skip_first: u64) -> Self {
        Self { skip_first, ..self }
    }

    /// Sets whether the first cycle leaves out its `wait` steps.
    #[must_use]
    pub const fn skip_first_wait(self, skips: bool) -> Self {
        Self { skip_first_wait: skips as u64, ..self }
    }

    /// Sets how many steps of each cycle are not recorded.
    #[must_use]
    pub const fn wait(self, wait: u64) -> Self {
        Self { wait, ..self }
    }

    /// Sets how many steps of each cycle are recorded and thrown away.
    #[must_use]
    pub const fn warmup(self, warmup: u64) -> Self {
        Self { warmup, ..self }
    }

    /// Sets how many steps of each cycle are kept.
    #[must_use]
    pub const fn active(self, active: u64) -> Self {
        Self { active, ..self }
    }

    /// Sets how many cycles there are; 0 is for ever.
    #[must_use]
    pub const fn repeat(self, repeat: u64) -> Self {
        Self { repeat, ..self }
    }

    /// Says why the schedule makes no sense, if it does not.
    ///
    /// # Errors
    ///
    /// [`ScheduleError`].
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

    /// What is done with step `step`, counted from 0. A schedule that makes no sense skips all.
    #[doc(hidden)]
    pub const fn phase(&self, step: u64) -> StepPhase {
        let Some(length) = self.cycle_length() else { return StepPhase::Skip };
        if step < self.skip_first || self.active == 0 {
            return StepPhase::Skip;
        }
        let mut step = step - self.skip_first;
        if self.skip_first_wait != 0 {
            // The first cycle begins after its wait.
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

    /// The first step that is kept, counted from 0.
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
    fn what_makes_no_sense_says_why() {
        let error = Schedule::new().active(0).check().expect_err("nothing is active");
        assert!(error.to_string().contains("active = 0"), "{error}");
        let error = Schedule::new().wait(u64::MAX).check().expect_err("too long");
        assert!(error.to_string().contains("smaller"), "{error}");
        assert_eq!(Schedule::new().wait(u64::MAX).phase(7), Skip);
        assert_eq!(Schedule::new().check(), Ok(()));
    }
}
