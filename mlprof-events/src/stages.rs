//! Stages that run, one inside the other: the one rule by which they begin and end.

use std::ops::{Deref, DerefMut};

use crate::Stage;

/// Something that is kept for a stage, or for what is outside of any.
pub trait OfStage {
    /// The stage; `None` outside of any.
    fn stage(&self) -> Option<Stage>;
}

impl OfStage for Stage {
    fn stage(&self) -> Option<Stage> {
        Some(*self)
    }
}

/// The stages that run, outermost first, each with what is kept for it. Whichever thread says so:
///
/// * A stage begins inside those that run.
/// * The same one again starts anew: it, and what runs inside it, is thrown away.
/// * A stage that ends takes those with it that run inside it. One that does not run cannot end.
/// * Without a name the one ends that a report is about: the innermost that has a report of its own,
///   which a sanity check has only where nothing else runs.
/// * What is outside of any stage is around all of them, if it is kept at all, and does not end by itself.
///
/// So fit → validate → fit again is the second fit alone, and when of two trainings at once the one that
/// began first ends first, the other one's stage ends with it.
#[derive(Debug, Clone)]
pub struct Stages<T>(Vec<T>);

/// A stage that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended<T> {
    /// What was kept for it.
    pub own: T,
    /// Those that ran inside it, outermost first.
    pub inside: Vec<T>,
}

impl<T> Default for Stages<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: OfStage> Stages<T> {
    /// No stage, and `outside` around those to come.
    pub fn outside(outside: T) -> Self {
        Self(vec![outside])
    }

    /// Takes away what is outside of any stage, if it is kept.
    pub fn take_outside(&mut self) -> Option<T> {
        let is_outside = self.0.first().is_some_and(|first| first.stage().is_none());
        is_outside.then(|| self.0.remove(0))
    }

    /// Begins a stage; what is thrown away for it, outermost first.
    pub fn begin(&mut self, begun: T) -> Vec<T> {
        let again = begun.stage().and_then(|stage| self.position(Some(stage)));
        let thrown_away = again.map_or_else(Vec::new, |again| self.0.split_off(again));
        self.0.push(begun);
        thrown_away
    }

    /// Ends `stage`; `None`: the one that a report is about.
    pub fn end(&mut self, stage: Option<Stage>) -> Option<Ended<T>> {
        let position = self.position(stage)?;
        self.0[position].stage()?;
        let inside = self.0.split_off(position + 1);
        self.0.pop().map(|own| Ended { own, inside })
    }

    /// Where `stage` runs; `None`: what a report is about.
    pub fn position(&self, stage: Option<Stage>) -> Option<usize> {
        match stage {
            Some(_) => self.0.iter().rposition(|running| running.stage() == stage),
            None => self.reported(),
        }
    }

    /// What a report made now is about: the innermost that has one of its own, else the innermost.
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

    /// Each one has a number, so that two of the same name are told apart.
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
    fn what_is_outside_of_any_stage_stays_until_it_is_taken() {
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
