//! Nested stages, with the rules by which they begin and end.

use std::ops::{Deref, DerefMut};

use crate::Stage;

/// Data that is kept for a stage, or for the time outside of all stages.
pub trait OfStage {
    /// Returns the stage, or `None` for the time outside of all stages.
    fn stage(&self) -> Option<Stage>;
}

impl OfStage for Stage {
    fn stage(&self) -> Option<Stage> {
        Some(*self)
    }
}

/// Running stages, outermost first, with the data kept for each of them. The rules are the same for
/// all threads:
///
/// * A stage begins inside those that are running.
/// * If a running stage begins again, it is discarded together with the stages inside it, and
///   starts anew.
/// * A stage that ends also ends the stages inside it. A stage that is not running cannot end.
/// * If no stage is named, the stage that a report covers ends. That is the innermost stage with
///   its own report. A sanity check has its own report only if it is the only stage.
/// * Data for the time outside of all stages encloses all of them, if it is kept, and does not end
///   by itself.
///
/// For example, fit → validate → fit leaves only the second fit. If two training runs overlap and
/// the first one ends first, the stage of the second one ends with it.
#[derive(Debug, Clone)]
pub struct Stages<T>(Vec<T>);

/// A stage that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended<T> {
    /// Data that was kept for the stage.
    pub own: T,
    /// Data of the stages inside it, outermost first.
    pub inside: Vec<T>,
}

impl<T> Default for Stages<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: OfStage> Stages<T> {
    /// Creates a list without stages, with `outside` enclosing those to come.
    pub fn outside(outside: T) -> Self {
        Self(vec![outside])
    }

    /// Removes and returns the data for the time outside of all stages, if it is kept.
    pub fn take_outside(&mut self) -> Option<T> {
        let is_outside = self.0.first().is_some_and(|first| first.stage().is_none());
        is_outside.then(|| self.0.remove(0))
    }

    /// Begins a stage and returns the discarded data, outermost first.
    pub fn begin(&mut self, begun: T) -> Vec<T> {
        let again = begun.stage().and_then(|stage| self.position(Some(stage)));
        let thrown_away = again.map_or_else(Vec::new, |again| self.0.split_off(again));
        self.0.push(begun);
        thrown_away
    }

    /// Ends `stage`, or the stage that a report covers if it is `None`.
    pub fn end(&mut self, stage: Option<Stage>) -> Option<Ended<T>> {
        let position = self.position(stage)?;
        self.0[position].stage()?;
        let inside = self.0.split_off(position + 1);
        self.0.pop().map(|own| Ended { own, inside })
    }

    /// Returns the index of `stage`, or of the stage that a report covers if it is `None`.
    pub fn position(&self, stage: Option<Stage>) -> Option<usize> {
        match stage {
            Some(_) => self.0.iter().rposition(|running| running.stage() == stage),
            None => self.reported(),
        }
    }

    /// Returns the index of the stage that a report made now would cover: the innermost stage with
    /// its own report, or else the innermost stage.
    pub fn reported(&self) -> Option<usize> {
        let has_report = |running: &T| running.stage() != Some(Stage::SanityCheck);
        self.0.iter().rposition(has_report).or(self.0.len().checked_sub(1))
    }
}

impl<T> Deref for Stages<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for Stages<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Stage::{Fit, Predict, SanityCheck, Test, Validate};

    /// Stage with a number, which distinguishes two stages with the same name.
    #[derive(Debug, PartialEq, Eq)]
    struct Numbered(Option<Stage>, u32);

    impl OfStage for Numbered {
        fn stage(&self) -> Option<Stage> {
            self.0
        }
    }

    fn begun(stages: impl IntoIterator<Item = Stage>) -> Stages<Stage> {
        let mut running = Stages::default();
        for stage in stages {
            assert_eq!(running.begin(stage), []);
        }
        running
    }

    #[test]
    fn the_same_stage_again_starts_anew() {
        let mut running = Stages::default();
        for (number, stage) in (0..).zip([Fit, Validate]) {
            assert_eq!(running.begin(Numbered(Some(stage), number)), []);
        }
        let thrown_away = running.begin(Numbered(Some(Fit), 2));
        assert_eq!(thrown_away, [Numbered(Some(Fit), 0), Numbered(Some(Validate), 1)]);
        assert_eq!(*running, [Numbered(Some(Fit), 2)]);
        assert_eq!(running.begin(Numbered(Some(Validate), 3)), []);
        assert_eq!(running.begin(Numbered(Some(Validate), 4)), [Numbered(Some(Validate), 3)]);
        assert_eq!(running.len(), 2, "fit goes on");
    }

    #[test]
    fn stages_end_with_those_inside_them_in_whatever_order_they_are_told_to() {
        let mut running = begun([Fit, Validate, Test]);
        let ended = running.end(Some(Validate));
        assert_eq!(ended, Some(Ended { own: Validate, inside: vec![Test] }));
        assert_eq!(running.end(Some(Test)), None, "it has ended with the other one");
        assert_eq!(running.end(Some(Predict)), None, "it never ran");
        assert_eq!(*running, [Fit]);
        assert_eq!(running.end(None), Some(Ended { own: Fit, inside: vec![] }));
        assert_eq!(running.end(None), None);
    }

    #[test]
    fn a_sanity_check_is_part_of_what_is_around_it() {
        let mut running = begun([Fit, SanityCheck]);
        assert_eq!(running.reported(), Some(0));
        assert_eq!(running.end(None), Some(Ended { own: Fit, inside: vec![SanityCheck] }));
        let mut alone = begun([SanityCheck]);
        assert_eq!(alone.reported(), Some(0));
        assert_eq!(alone.end(None), Some(Ended { own: SanityCheck, inside: vec![] }));
        let mut inside = begun([Fit, SanityCheck]);
        assert_eq!(inside.end(Some(SanityCheck)).map(|ended| ended.own), Some(SanityCheck));
        assert_eq!(*inside, [Fit]);
    }

    #[test]
    fn notes_outside_of_stages_stay_until_taken() {
        let mut running = Stages::outside(Numbered(None, 0));
        assert_eq!(running.end(None), None);
        assert_eq!(running.begin(Numbered(Some(Fit), 1)), []);
        assert_eq!(running.begin(Numbered(Some(Fit), 2)), [Numbered(Some(Fit), 1)]);
        assert_eq!(running.take_outside(), Some(Numbered(None, 0)));
        assert_eq!(running.take_outside(), None);
        assert_eq!(*running, [Numbered(Some(Fit), 2)]);
    }

    #[test]
    fn two_trainings_that_end_in_the_order_of_their_beginnings_leave_nothing() {
        let mut running = begun([Fit, Validate]);
        assert!(running.end(Some(Fit)).is_some());
        assert!(running.end(Some(Validate)).is_none());
        assert!(running.is_empty());
    }
}
