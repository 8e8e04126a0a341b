//! Places of actions, which describe their nesting.

use std::collections::{HashMap, HashSet};

use mlprof_core::Action;

/// Maximum number of places. Calls in further places are only counted in total.
pub(crate) const MOST_PLACES: usize = 512;

/// Parent of a top-level action.
pub(super) const OUTSIDE: u32 = u32::MAX;
/// Place of an action when the maximum number is reached.
pub(super) const NO_ROOM: u32 = u32::MAX - 1;

/// An action together with its parent.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Place {
    around: u32,
    action: Action,
}

/// All known places, indexed by number.
#[derive(Default)]
pub(super) struct Places {
    all: Vec<Place>,
    numbers: HashMap<Place, u32>,
    /// Actions that span several steps, such as an epoch. A client that begins to follow in the
    /// middle of such an action has not seen its start. These actions are therefore skipped as
    /// parents in the output.
    around_steps: HashSet<Action>,
}

/// Place as reported to clients.
pub(super) struct MergedPlace {
    pub(super) action: Action,
    /// Index of the parent among the reported places.
    pub(super) around: Option<usize>,
    /// Numbers of all places that are merged into this one.
    pub(super) numbers: Vec<usize>,
}

impl Places {
    /// Returns the number of the place of an action inside a parent.
    pub(super) fn number(&mut self, around: u32, action: Action) -> u32 {
        let place = Place { around, action };
        if let Some(number) = self.numbers.get(&place) {
            return *number;
        }
        if around == NO_ROOM || self.all.len() == MOST_PLACES {
            return NO_ROOM;
        }
        let number = self.all.len() as u32; // at most MOST_PLACES
        self.all.push(place);
        self.numbers.insert(place, number);
        number
    }

    pub(super) fn goes_on_around_steps(&mut self, action: Action) {
        if self.around_steps.len() < MOST_PLACES {
            self.around_steps.insert(action);
        }
    }

    /// Returns all places. Parents precede their children.
    pub(super) fn merged(&self) -> Vec<MergedPlace> {
        let mut told: Vec<MergedPlace> = Vec::new();
        let mut known: HashMap<(Option<usize>, Action), usize> = HashMap::new();
        let mut told_as: Vec<usize> = Vec::with_capacity(self.all.len());
        for (number, place) in self.all.iter().enumerate() {
            let mut around = place.around;
            while let Some(outer) = self.all.get(around as usize)
                && self.around_steps.contains(&outer.action)
            {
                around = outer.around;
            }
            let around = (around != OUTSIDE).then(|| told_as[around as usize]);
            let index = *known.entry((around, place.action)).or_insert_with(|| {
                told.push(MergedPlace { action: place.action, around, numbers: Vec::new() });
                told.len() - 1
            });
            told[index].numbers.push(number);
            told_as.push(index);
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_around_steps_are_siblings_of_their_contents() {
        let [epoch, batch, layer] =
            ["places epoch", "places batch", "places layer"].map(Action::new);
        let mut places = Places::default();
        let outside = places.number(OUTSIDE, batch);
        places.number(outside, layer);
        let whole = places.number(OUTSIDE, epoch);
        let inside = places.number(whole, batch);
        places.number(inside, layer);
        assert_eq!(places.merged().len(), 5);
        places.goes_on_around_steps(epoch);
        let told = places.merged();
        let all: Vec<_> = told.iter().map(|it| (it.action, it.around, it.numbers.len())).collect();
        assert_eq!(all, [(batch, None, 2), (layer, Some(0), 2), (epoch, None, 1)]);
    }

    #[test]
    fn there_is_no_room_for_more_than_so_many() {
        let mut places = Places::default();
        let actions: Vec<_> =
            (0..=MOST_PLACES).map(|it| Action::new(&format!("place {it}"))).collect();
        let numbers: Vec<_> = actions.iter().map(|it| places.number(OUTSIDE, *it)).collect();
        assert_eq!(numbers.iter().filter(|it| **it == NO_ROOM).count(), 1);
        assert_eq!(places.number(OUTSIDE, actions[0]), 0, "the others are still known");
        assert_eq!(places.number(NO_ROOM, actions[0]), NO_ROOM);
    }
}
