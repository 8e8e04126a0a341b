//! A copy of a call tree that no thread writes any more.

use crate::action::Action;

/// Calls and ticks of one edge of the tree.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) calls: u64,
    /// How often a call went on: polls of an async function after the first.
    pub(super) resumptions: u64,
    pub(super) primitive: u64,
    pub(super) cumulative: u64,
    pub(super) own: u64,
}

impl Counts {
    /// Those of something that goes on, and is no call.
    pub(super) fn of_resumptions(self) -> Self {
        Self { calls: 0, primitive: 0, resumptions: self.calls, ..self }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.resumptions += other.resumptions;
        self.primitive += other.primitive;
        self.cumulative += other.cumulative;
        self.own += other.own;
    }
}

/// One place of the tree. Place 0 is the thread itself.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    /// `None` for the thread itself.
    pub(super) action: Option<Action>,
    /// Calls that came down to here.
    pub(super) counts: Counts,
    /// Indexes of the places called from here.
    pub(super) children: Vec<usize>,
    /// Recursive calls from here, to places further up (or to here).
    pub(super) back: Vec<(Action, Counts)>,
}

/// A call tree with its places in a list: children stand after their parents. There always is a
/// first place, the thread itself.
#[derive(Debug, Clone)]
pub(crate) struct TreeSnapshot {
    pub(super) places: Vec<Place>,
    /// Calls that no longer found a place of their own.
    pub(super) overflowed: u64,
}

impl Default for TreeSnapshot {
    /// Of a thread that has called nothing.
    fn default() -> Self {
        Self { places: vec![Place::default()], overflowed: 0 }
    }
}

impl TreeSnapshot {
    /// Adds `counts` to the calls of `action` from `parent`; the index of the place called, or
    /// `parent` for a recursive call.
    pub(super) fn place_or_insert(
        &mut self,
        parent: usize,
        action: Action,
        leads_back: bool,
        counts: Counts,
    ) -> usize {
        if leads_back {
            let back = &mut self.places[parent].back;
            match back.iter_mut().find(|(known, _)| *known == action) {
                Some((_, sum)) => sum.add(counts),
                None => back.push((action, counts)),
            }
            return parent;
        }
        let is_known = |child: &&usize| self.places[**child].action == Some(action);
        let child = match self.places[parent].children.iter().find(is_known) {
            Some(child) => *child,
            None => {
                let child = self.places.len();
                self.places.push(Place { action: Some(action), ..Place::default() });
                self.places[parent].children.push(child);
                child
            }
        };
        self.places[child].counts.add(counts);
        child
    }

    /// The calls that came down to a place and the recursive ones that led back to it.
    pub(super) fn counts_with_recursion(&self, index: usize) -> Counts {
        let mut counts = self.places[index].counts;
        let Some(action) = self.places[index].action else { return counts };
        let mut open = vec![index];
        while let Some(below) = open.pop() {
            let place = &self.places[below];
            for (_, back) in place.back.iter().filter(|(callee, _)| *callee == action) {
                counts.add(*back);
            }
            // Further down the action has a place of its own, which its calls lead back to.
            let is_other = |child: &&usize| self.places[**child].action != Some(action);
            open.extend(place.children.iter().filter(is_other));
        }
        counts
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.overflowed += other.overflowed;
        let mut open = vec![(0, 0)];
        while let Some((theirs, ours)) = open.pop() {
            let place = &other.places[theirs];
            for (action, counts) in &place.back {
                self.place_or_insert(ours, *action, true, *counts);
            }
            for child in &place.children {
                let Some(action) = other.places[*child].action else { continue };
                let counts = other.places[*child].counts;
                open.push((*child, self.place_or_insert(ours, action, false, counts)));
            }
        }
    }
}
