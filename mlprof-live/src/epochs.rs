//! Tracks the position of a stage within its epoch.

use mlprof_events::progress;

/// Epoch state of a stage.
#[derive(Default)]
pub(crate) struct Epochs {
    running: Option<u64>,
    /// Number of steps of the stage that were over when the running epoch began.
    before: u64,
    /// Number of steps in the last complete epoch.
    last: Option<u64>,
}

impl Epochs {
    /// Records the end of a step. `before` is the number of steps that were already over, and
    /// `epoch` the running epoch as reported by the trainer.
    pub(crate) fn step(&mut self, before: u64, epoch: Option<u64>) {
        if epoch != self.running {
            // The length of an epoch is known only if its first step was also observed.
            let follows = self.running.is_some_and(|running| Some(running + 1) == epoch);
            self.last = follows.then(|| before - self.before);
            (self.running, self.before) = (epoch, before);
        }
    }

    /// Returns the number of finished steps in the running epoch, and the epoch's total number of
    /// steps, if known.
    pub(crate) fn steps(&self, over: u64, epoch: Option<u64>) -> (Option<u64>, Option<u64>) {
        let over = match (epoch, self.running) {
            (None, _) => return (None, None),
            (epoch, running) if epoch == running => over - self.before,
            // The epoch has begun, but none of its steps is over.
            _ => 0,
        };
        (Some(over), progress::steps_of_epoch().or(self.last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_an_epoch_are_counted_from_its_first_one() {
        let mut epochs = Epochs::default();
        assert_eq!(epochs.steps(0, None), (None, None));
        assert_eq!(epochs.steps(0, Some(0)), (Some(0), None));
        (0..5).for_each(|before| epochs.step(before, Some(0)));
        assert_eq!(epochs.steps(5, Some(0)), (Some(5), None));
        assert_eq!(epochs.steps(5, Some(1)), (Some(0), None), "it has just begun");
        epochs.step(5, Some(1));
        assert_eq!(epochs.steps(6, Some(1)), (Some(1), Some(5)));
        epochs.step(6, None);
        assert_eq!(epochs.steps(7, None), (None, None));
    }
}
