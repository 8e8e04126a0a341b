//! Which step of its epoch a stage is at.

use mlprof_events::progress;

/// What is known of the epochs of a stage.
#[derive(Default)]
pub(crate) struct Epochs {
    running: Option<u64>,
    /// So many steps of the stage were over when it began.
    before: u64,
    /// So many the last whole one had.
    last: Option<u64>,
}

impl Epochs {
    /// A step is over; `before`: so many were over before. `epoch`: the one that runs, as the trainer says.
    pub(crate) fn step(&mut self, before: u64, epoch: Option<u64>) {
        if epoch != self.running {
            // Where somebody has not seen its beginning nothing is known of its length.
            let follows = self.running.is_some_and(|running| Some(running + 1) == epoch);
            self.last = follows.then(|| before - self.before);
            (self.running, self.before) = (epoch, before);
        }
    }

    /// How many steps of the epoch that runs are over, and how many it has, where that is known.
    pub(crate) fn steps(&self, over: u64, epoch: Option<u64>) -> (Option<u64>, Option<u64>) {
        let over = match (epoch, self.running) {
            (None, _) => return (None, None),
            (epoch, running) if epoch == running => over - self.before,
            // It has begun, and none of its steps is over.
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
