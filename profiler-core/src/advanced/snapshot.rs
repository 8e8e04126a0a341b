//! Copy of a call tree that no thread writes any more.

use rustc_hash::FxHashMap;

use mlprof_events::Action;

/// Calls and ticks of one edge of the tree.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) calls: u64,
    /// Number of resumptions: polls of an async function after the first.
    pub(super) resumptions: u64,
    pub(super) primitive: u64,
    pub(super) cumulative: u64,
    pub(super) own: u64,
}

impl Counts {
    /// Returns the counts with calls turned into resumptions.
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

/// Node of the tree. Place 0 is the thread itself.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    /// Called action or function, or `None` for the thread itself.
    pub(super) action: Option<Action>,
    /// Counts of calls that are not recursive.
    pub(super) counts: Counts,
    /// Indexes of the places called from here.
    pub(super) children: Vec<usize>,
    /// Recursive calls from here, which lead to an ancestor or to this place.
    pub(super) back: Vec<(Action, Counts)>,
}

impl Place {
    /// Returns a place with the counts of its calls so far.
    pub(super) fn called(action: Action, counts: Counts) -> Self {
        Self { action: Some(action), counts, ..Self::default() }
    }
}

/// Call tree as a list of places, in which children follow their parents. The first place always
/// exists and is the thread itself.
#[derive(Debug, Clone)]
pub(crate) struct TreeSnapshot {
    pub(super) places: Vec<Place>,
    /// Number of calls that did not get a place of their own.
    pub(super) overflowed: u64,
    /// Lookup tables for merging, by place and callee. The value is the callee's place, or its
    /// position among the recursive calls.
    children: FxHashMap<(usize, Action), usize>,
    back: FxHashMap<(usize, Action), usize>,
}

impl Default for TreeSnapshot {
    /// Returns the tree of a thread without calls.
    fn default() -> Self {
        Self {
            places: vec![Place::default()],
            overflowed: 0,
            children: FxHashMap::default(),
            back: FxHashMap::default(),
        }
    }
}

impl TreeSnapshot {
    /// Fills the lookup tables for [`merge`](Self::merge), if this has been the copy of one thread
    /// until now.
    fn index(&mut self) {
        if self.children.len() + 1 == self.places.len() {
            return;
        }
        for (parent, place) in self.places.iter().enumerate() {
            for child in &place.children {
                if let Some(action) = self.places[*child].action {
                    self.children.insert((parent, action), *child);
                }
            }
            for (position, (action, _)) in place.back.iter().enumerate() {
                self.back.insert((parent, *action), position);
            }
        }
    }

    /// Adds `counts` to the calls of `action` from `parent`. Returns the callee's place.
    pub(super) fn add_child(&mut self, parent: usize, action: Action, counts: Counts) -> usize {
        let next = self.places.len();
        let child = *self.children.entry((parent, action)).or_insert(next);
        if child == next {
            self.places.push(Place::called(action, Counts::default()));
            self.places[parent].children.push(child);
        }
        self.places[child].counts.add(counts);
        child
    }

    /// Adds `counts` to the recursive calls of `action` from `parent`.
    pub(super) fn add_back(&mut self, parent: usize, action: Action, counts: Counts) {
        let back = &mut self.places[parent].back;
        let position = *self.back.entry((parent, action)).or_insert(back.len());
        match back.get_mut(position) {
            Some((_, sum)) => sum.add(counts),
            None => back.push((action, counts)),
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.index();
        self.overflowed += other.overflowed;
        let mut open = vec![(0, 0)];
        while let Some((theirs, ours)) = open.pop() {
            let place = &other.places[theirs];
            for (action, counts) in &place.back {
                self.add_back(ours, *action, *counts);
            }
            for child in &place.children {
                let Some(action) = other.places[*child].action else { continue };
                let counts = other.places[*child].counts;
                open.push((*child, self.add_child(ours, action, counts)));
            }
        }
    }

    /// Returns the counts of every place, including recursive calls that lead back to it.
    pub(super) fn counts_with_recursion(&self) -> Vec<Counts> {
        enum Visit {
            Enter(usize),
            Leave(Action),
        }
        let mut counts: Vec<Counts> = self.places.iter().map(|place| place.counts).collect();
        // Places on the current path by action, innermost last. Recursive calls lead back to the
        // innermost one.
        let mut around: FxHashMap<Action, Vec<usize>> = FxHashMap::default();
        let mut visits = vec![Visit::Enter(0)];
        while let Some(visit) = visits.pop() {
            match visit {
                Visit::Enter(index) => {
                    let place = &self.places[index];
                    if let Some(action) = place.action {
                        around.entry(action).or_default().push(index);
                        visits.push(Visit::Leave(action));
                    }
                    for (callee, back) in &place.back {
                        if let Some(target) = around.get(callee).and_then(|places| places.last()) {
                            counts[*target].add(*back);
                        }
                    }
                    visits.extend(place.children.iter().map(|child| Visit::Enter(*child)));
                }
                Visit::Leave(action) => {
                    around.get_mut(&action).and_then(Vec::pop);
                }
            }
        }
        counts
    }

    /// Returns for every place the self time of it and all places below it, in ticks.
    pub(super) fn own_below(&self) -> Vec<u64> {
        let own = |place: &Place| -> u64 {
            place.counts.own + place.back.iter().map(|(_, counts)| counts.own).sum::<u64>()
        };
        let mut sums: Vec<u64> = self.places.iter().map(own).collect();
        // Children follow their parents.
        for (index, place) in self.places.iter().enumerate().rev() {
            sums[index] += place.children.iter().map(|child| sums[*child]).sum::<u64>();
        }
        sums
    }

    /// Returns for every place the number of actions on its path, including itself.
    pub(super) fn actions_around(&self) -> Vec<usize> {
        let mut around = vec![0; self.places.len()];
        for (index, place) in self.places.iter().enumerate() {
            let is_action = place.action.is_some_and(|action| action.kind().is_action());
            around[index] += usize::from(is_action);
            for child in &place.children {
                around[*child] = around[index];
            }
        }
        around
    }
}
