//! A copy of a call tree that no thread writes any more.

use rustc_hash::FxHashMap;

use mlprof_events::Action;

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

impl Place {
    /// With the calls that come down to it so far.
    pub(super) fn called(action: Action, counts: Counts) -> Self {
        Self { action: Some(action), counts, ..Self::default() }
    }
}

/// A call tree with its places in a list: children stand after their parents. There always is a
/// first place, the thread itself.
#[derive(Debug, Clone)]
pub(crate) struct TreeSnapshot {
    pub(super) places: Vec<Place>,
    /// Calls that no longer found a place of their own.
    pub(super) overflowed: u64,
    /// What has been merged into, by place and callee: the place of the callee, or the position among
    /// the recursive calls.
    children: FxHashMap<(usize, Action), usize>,
    back: FxHashMap<(usize, Action), usize>,
}

impl Default for TreeSnapshot {
    /// Of a thread that has called nothing.
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
    /// Fills in what [`merge`](Self::merge) looks up, if this has been a copy of one thread until now.
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

    /// Adds `counts` to the calls of `action` from `parent`; the place called.
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

    /// For every place the calls that came down to it and the recursive ones that led back to it.
    pub(super) fn counts_with_recursion(&self) -> Vec<Counts> {
        enum Visit {
            Enter(usize),
            Leave(Action),
        }
        let mut counts: Vec<Counts> = self.places.iter().map(|place| place.counts).collect();
        // On the way down, the innermost place last: recursive calls lead back to that.
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

    /// For every place the time that it and all below it had themselves, in ticks.
    pub(super) fn own_below(&self) -> Vec<u64> {
        let own = |place: &Place| -> u64 {
            place.counts.own + place.back.iter().map(|(_, counts)| counts.own).sum::<u64>()
        };
        let mut sums: Vec<u64> = self.places.iter().map(own).collect();
        // Children stand after their parents.
        for (index, place) in self.places.iter().enumerate().rev() {
            sums[index] += place.children.iter().map(|child| sums[*child]).sum::<u64>();
        }
        sums
    }

    /// For every place how many actions are around it, itself included.
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
