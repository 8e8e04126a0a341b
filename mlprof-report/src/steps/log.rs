//! Log of finished steps in clock ticks. Its size is limited: when it is full, neighbouring steps
//! share an entry.

use super::durations::Histograms;
use super::{LongestStep, MOST_ENTRIES, SlowestAction, StepEntry, StepSeries};
use mlprof_events::{Action, ActionKind, Direction, Phase, Stage, names};

/// Part of a step's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepPart {
    /// Ticks spent waiting for data.
    Data,
    /// Forward pass, see [`StepEntry::forward_seconds`].
    Forward,
    /// Backward pass, see [`StepEntry::backward_seconds`].
    Backward,
    /// Optimizer, see [`StepEntry::optimizer_seconds`].
    Optimizer,
    /// Collectives, see [`StepEntry::collective_seconds`].
    Collective,
}

impl StepPart {
    /// All parts.
    pub const ALL: [Self; 5] =
        [Self::Data, Self::Forward, Self::Backward, Self::Optimizer, Self::Collective];

    /// Returns the part that an action and everything inside it belong to, or `None` if it is
    /// unknown.
    pub fn of_action(action: Action, direction: Direction) -> Option<Self> {
        if action.kind() == ActionKind::Action {
            if names::is_waiting_for_data(action.name()) {
                return Some(Self::Data);
            }
            if names::waits_for_other_ranks(action.name()) {
                return Some(Self::Collective);
            }
        }
        match Phase::of_action(action, direction)? {
            Phase::Forward => Some(Self::Forward),
            Phase::Backward => Some(Self::Backward),
            Phase::Optimizer => Some(Self::Optimizer),
            Phase::Other => None,
        }
    }

    /// Returns the ticks of this part in `parts`.
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

/// Ticks of each part of a step. The remaining time belongs to no part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StepParts {
    /// Ticks spent waiting for data.
    pub data: u64,
    /// Ticks of the forward pass, see [`StepEntry::forward_seconds`].
    pub forward: u64,
    /// Ticks of the backward pass, see [`StepEntry::backward_seconds`].
    pub backward: u64,
    /// Ticks of the optimizer, see [`StepEntry::optimizer_seconds`].
    pub optimizer: u64,
    /// Ticks in collectives, see [`StepEntry::collective_seconds`].
    pub collective: u64,
}

impl StepParts {
    /// Returns the sum of all parts, in ticks.
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

/// A finished step, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepTicks {
    /// Number of the step, see [`StepEntry::number`].
    pub number: u64,
    /// Start time in ticks.
    pub started: u64,
    /// Duration in ticks.
    pub elapsed: u64,
    /// Ticks of the step's parts.
    pub parts: StepParts,
    /// Action with the longest self time in the step, and this time in ticks.
    pub slowest: Option<(Action, u64)>,
}

/// One step, or a few consecutive steps.
#[derive(Debug, Clone, Copy)]
struct Place {
    count: u64,
    /// Sums over all steps, except `slowest`, which belongs to the longest step.
    all: StepTicks,
    /// Number of the longest step, and its duration in ticks.
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

/// Steps of a stage so far. *Memory*: 120 bytes for each of up to [`MOST_ENTRIES`] entries,
/// independent of the number of steps. When steps share entries, a few thousand histogram buckets
/// are added.
#[derive(Debug, Clone)]
pub struct StepLog {
    places: Vec<Place>,
    steps: u64,
    /// Number of steps that share an entry.
    shared_by: u64,
    /// Histograms of single steps, if steps share entries.
    single: Option<Box<Histograms>>,
}

impl Default for StepLog {
    fn default() -> Self {
        Self { places: Vec::new(), steps: 0, shared_by: 1, single: None }
    }
}

impl StepLog {
    /// Adds a step, which must be later than the ones before. *Cost*: one push, and one pass over
    /// the entries each time they are full. After the first time, each step also updates seven
    /// histograms.
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
                // Until now, each entry has one step.
                let mut single = Box::<Histograms>::default();
                self.places.iter().for_each(|place| add_to(&mut single, &place.all));
                add_to(&mut single, &step);
                self.single = Some(single);
            }
            self.halve();
            // The number of full entries is even, so the new step begins an entry of its own.
        }
        self.places.push(place);
    }

    /// Merges pairs of entries, so that twice as many steps share an entry.
    fn halve(&mut self) {
        self.shared_by *= 2;
        let halved = self.places.chunks(2).map(|pair| {
            let mut first = pair[0];
            pair[1..].iter().for_each(|next| first.merge(next));
            first
        });
        self.places = halved.collect();
    }

    /// Returns `true` if there are no steps.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the steps in seconds since the time `from`. The function `seconds` converts ticks.
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
            // Sums of ticks that a float cannot represent exactly are rounded.
            durations: self
                .single
                .as_ref()
                .map(|single| single.durations(|ticks| seconds(ticks.round() as u64))),
        }
    }
}

/// Adds one step and its parts, in the order of [`PARTS`](super::PARTS).
fn add_to(single: &mut Histograms, step: &StepTicks) {
    let StepParts { data, forward, backward, optimizer, collective } = step.parts;
    let other = step.elapsed.saturating_sub(step.parts.sum());
    let parts = [data, forward, backward, collective, optimizer, other];
    single.add(step.elapsed as f64, parts.map(|ticks| ticks as f64));
}
