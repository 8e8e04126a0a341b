//! Steps as they are over, in ticks: so many at most, then neighbours share a place.

use super::durations::Histograms;
use super::{LongestStep, MOST_ENTRIES, SlowestAction, StepEntry, StepSeries};
use mlprof_events::{Action, ActionKind, Direction, Phase, Stage, names};

/// What a part of a step goes into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepPart {
    /// Waiting for data.
    Data,
    /// As in [`StepEntry::forward_seconds`].
    Forward,
    /// As in [`StepEntry::backward_seconds`].
    Backward,
    /// As in [`StepEntry::optimizer_seconds`].
    Optimizer,
    /// As in [`StepEntry::collective_seconds`].
    Collective,
}

impl StepPart {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Data, Self::Forward, Self::Backward, Self::Optimizer, Self::Collective];

    /// What an action tells of itself and of what runs inside; `None` if nothing.
    pub fn told_by(action: Action, direction: Direction) -> Option<Self> {
        if action.kind() == ActionKind::Action {
            if names::is_waiting_for_data(action.name()) {
                return Some(Self::Data);
            }
            if names::waits_for_other_ranks(action.name()) {
                return Some(Self::Collective);
            }
        }
        match Phase::told_by(action, direction)? {
            Phase::Forward => Some(Self::Forward),
            Phase::Backward => Some(Self::Backward),
            Phase::Optimizer => Some(Self::Optimizer),
            Phase::Other => None,
        }
    }

    /// Its ticks.
    pub fn of(self, parts: &mut StepParts) -> &mut u64 {
        match self {
            Self::Data => &mut parts.data,
            Self::Forward => &mut parts.forward,
            Self::Backward => &mut parts.backward,
            Self::Optimizer => &mut parts.optimizer,
            Self::Collective => &mut parts.collective,
        }
    }
}

/// What a step's time went into, in ticks. What is in none of them is the rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepParts {
    /// Waiting for data.
    pub data: u64,
    /// As in [`StepEntry::forward_seconds`].
    pub forward: u64,
    /// As in [`StepEntry::backward_seconds`].
    pub backward: u64,
    /// As in [`StepEntry::optimizer_seconds`].
    pub optimizer: u64,
    /// As in [`StepEntry::collective_seconds`].
    pub collective: u64,
}

impl StepParts {
    /// All parts together.
    pub fn sum(&self) -> u64 {
        self.data + self.forward + self.backward + self.optimizer + self.collective
    }
}

impl std::ops::AddAssign for StepParts {
    fn add_assign(&mut self, other: Self) {
        self.data += other.data;
        self.forward += other.forward;
        self.backward += other.backward;
        self.optimizer += other.optimizer;
        self.collective += other.collective;
    }
}

/// A step that is over, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepTicks {
    /// As in [`StepEntry::number`].
    pub number: u64,
    /// When it began.
    pub started: u64,
    /// How long it took.
    pub elapsed: u64,
    /// What of it went into what.
    pub parts: StepParts,
    /// What took the most time itself, and how much.
    pub slowest: Option<(Action, u64)>,
}

/// One step, or a few that followed each other.
#[derive(Debug, Clone, Copy)]
struct Place {
    count: u64,
    /// Of all of them, but for `slowest`, which is the longest one's.
    all: StepTicks,
    /// The number of the longest, and how long it took.
    longest: (u64, u64),
}

impl Place {
    fn merge(&mut self, next: &Self) {
        self.count += next.count;
        self.all.elapsed += next.all.elapsed;
        self.all.parts += next.all.parts;
        if next.longest.1 > self.longest.1 {
            self.longest = next.longest;
            self.all.slowest = next.all.slowest;
        }
    }
}

/// The steps of a stage so far. *Memory*: 120 bytes for each of up to [`MOST_ENTRIES`] places, however
/// many steps there are, and once steps share places, a few thousand buckets of histograms.
#[derive(Debug, Clone)]
pub struct StepLog {
    places: Vec<Place>,
    steps: u64,
    /// So many steps share a place.
    shared_by: u64,
    /// Single steps, once places are shared.
    single: Option<Box<Histograms>>,
}

impl Default for StepLog {
    fn default() -> Self {
        Self { places: Vec::new(), steps: 0, shared_by: 1, single: None }
    }
}

impl StepLog {
    /// One more step, later than those before. *Cost*: a push; each time that the places are full, one
    /// pass over them. Past those, the buckets of seven histograms are found besides.
    pub fn add(&mut self, step: StepTicks) {
        self.steps += 1;
        if let Some(single) = &mut self.single {
            add_to(single, &step);
        }
        let place = Place { count: 1, all: step, longest: (step.number, step.elapsed) };
        if let Some(last) = self.places.last_mut().filter(|last| last.count < self.shared_by) {
            return last.merge(&place);
        }
        if self.places.len() == MOST_ENTRIES {
            if self.single.is_none() {
                // Until here each place has one step.
                let mut single = Box::<Histograms>::default();
                self.places.iter().for_each(|place| add_to(&mut single, &place.all));
                add_to(&mut single, &step);
                self.single = Some(single);
            }
            self.halve();
            // An even number of full places: the new one begins a place of its own.
        }
        self.places.push(place);
    }

    /// Two and two share a place from here on.
    fn halve(&mut self) {
        self.shared_by *= 2;
        let halved = self.places.chunks(2).map(|pair| {
            let mut first = pair[0];
            pair[1..].iter().for_each(|next| first.merge(next));
            first
        });
        self.places = halved.collect();
    }

    /// Whether there are no steps.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The steps in seconds, `from` a moment on, as `seconds` makes them of ticks.
    pub fn series(
        &self,
        stage: Option<Stage>,
        from: u64,
        seconds: impl Fn(u64) -> f64,
    ) -> StepSeries {
        let entry = |place: &Place| {
            let StepTicks { number, started, elapsed, parts, slowest } = place.all;
            StepEntry {
                number,
                count: place.count,
                start_seconds: seconds(started.saturating_sub(from)),
                seconds: seconds(elapsed),
                data_seconds: seconds(parts.data),
                forward_seconds: seconds(parts.forward),
                backward_seconds: seconds(parts.backward),
                optimizer_seconds: seconds(parts.optimizer),
                collective_seconds: seconds(parts.collective),
                other_seconds: seconds(elapsed.saturating_sub(parts.sum())),
                longest: (place.count > 1).then(|| LongestStep {
                    number: place.longest.0,
                    seconds: seconds(place.longest.1),
                }),
                slowest: slowest.map(|(action, ticks)| SlowestAction {
                    name: action.name().to_owned(),
                    seconds: seconds(ticks),
                }),
            }
        };
        StepSeries {
            stage,
            steps: self.steps,
            entries: self.places.iter().map(entry).collect(),
            // Sums of ticks that a float cannot hold exactly are rounded.
            durations: self
                .single
                .as_ref()
                .map(|single| single.durations(|ticks| seconds(ticks.round() as u64))),
        }
    }
}

/// Counts one step and its parts, in the order of [`PARTS`](super::PARTS).
fn add_to(single: &mut Histograms, step: &StepTicks) {
    let StepParts { data, forward, backward, optimizer, collective } = step.parts;
    let other = step.elapsed.saturating_sub(step.parts.sum());
    let parts = [data, forward, backward, collective, optimizer, other];
    single.add(step.elapsed as f64, parts.map(|ticks| ticks as f64));
}
