//! Conversion of allocations to levels over time, and to the list of allocations at the peak.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use super::categories::{Allocation, EarlierMemory, allocations, apply_labels};
use super::changes::Recorded;
use mlprof_report::tensor::memory_over_time::PeakMemory;

use super::{CATEGORIES, DeviceTimeline, Levels, MOST_SAMPLES, Peak, microseconds, place};
use crate::cycle::Cycle;
use mlprof_events::OrderExt;
use mlprof_events::{Action, MemoryCategory, MemoryDevice};

/// Bytes by category, in the order of [`CATEGORIES`].
type Bytes = [u64; CATEGORIES.len()];

/// Effect of one change on the level of a category.
struct Effect {
    /// Index of the change.
    place: usize,
    category: usize,
    bytes: i64,
    /// Set for a deallocation of memory from before the recording.
    is_from_before: bool,
}

/// Levels at one moment.
#[derive(Clone, Copy, Default)]
struct Level {
    time: i64,
    /// Index of the latest change that the levels include.
    place: usize,
    before: Bytes,
    since: Bytes,
}

impl Level {
    fn total(&self) -> u64 {
        self.before.iter().chain(&self.since).sum()
    }

    fn of(&self, category: usize) -> u64 {
        self.before[category] + self.since[category]
    }

    fn apply(&mut self, effect: &Effect) {
        let levels = if effect.is_from_before { &mut self.before } else { &mut self.since };
        let level = &mut levels[effect.category];
        *level = level.saturating_add_signed(effect.bytes);
    }
}

/// Returns the timeline of one memory. `end` is the end of the cycle.
pub(super) fn timeline(
    recorded: &Recorded,
    cycle: &Cycle,
    device: MemoryDevice,
    end: i64,
) -> DeviceTimeline {
    let mut allocations = allocations(recorded, device);
    let labelled_before = apply_labels(cycle, device, recorded, &mut allocations);
    let before = level_before(recorded, device, &labelled_before);
    let effects = effects(recorded, device, &allocations, labelled_before);
    let mut samples = Samples::new(before, recorded, &effects, end);
    let mut level = samples.peak;
    for of_one_change in effects.chunk_by(|one, other| one.place == other.place) {
        of_one_change.iter().for_each(|effect| level.apply(effect));
        level.place = of_one_change[0].place;
        level.time = recorded.changes[level.place].time;
        samples.add(level);
    }
    let peak = peak(recorded, &allocations, &samples.peak);
    let taken = samples.finish(end);
    let bytes_of = |category| taken.iter().map(|level| level.of(category)).collect::<Vec<u64>>();
    let levels = (0..CATEGORIES.len())
        .map(|category| Levels { category: CATEGORIES[category], bytes: bytes_of(category) });
    let allocated = |change: &&super::changes::Change| {
        change.change.device == device && change.change.bytes > 0
    };
    let allocated = || recorded.changes.iter().filter(allocated);
    DeviceTimeline {
        device,
        before: before.iter().sum(),
        allocations: allocated().count() as u64,
        allocated_bytes: allocated().map(|change| change.change.bytes.unsigned_abs()).sum(),
        times_us: taken.iter().map(|level| microseconds(level.time)).collect(),
        levels: levels.filter(|levels| levels.bytes.iter().any(|bytes| *bytes > 0)).collect(),
        peak,
    }
}

/// Returns the memory that was allocated before the first change, as far as it is known.
fn level_before(recorded: &Recorded, device: MemoryDevice, labelled: &EarlierMemory) -> Bytes {
    let mut before = Bytes::default();
    for (bytes, category) in labelled.values() {
        before[place(*category)] += bytes;
    }
    let first = recorded.changes.iter().find(|change| change.change.device == device);
    let total = first.map_or(0, |first| first.change.total_allocated);
    if total > 0 {
        let bytes = first.map_or(0, |first| first.change.bytes);
        let total = total.saturating_add_signed(bytes.saturating_neg());
        let labelled: u64 = before.iter().sum();
        before[place(MemoryCategory::Unknown)] += total.saturating_sub(labelled);
    }
    before
}

/// Returns the effects of all changes, in the order of the changes.
fn effects(
    recorded: &Recorded,
    device: MemoryDevice,
    allocations: &[Allocation],
    mut labelled_before: EarlierMemory,
) -> Vec<Effect> {
    let mut effects = Vec::with_capacity(allocations.len() * 2);
    let mut explained = HashSet::new();
    for allocation in allocations {
        let bytes = recorded.changes[allocation.allocated].change.bytes;
        let category = place(allocation.category);
        explained.insert(allocation.allocated);
        let allocated = allocation.allocated;
        effects.push(Effect { place: allocated, category, bytes, is_from_before: false });
        if let Some(freed) = allocation.freed {
            explained.insert(freed);
            effects.push(Effect { place: freed, category, bytes: -bytes, is_from_before: false });
        }
    }
    for (number, change) in recorded.changes.iter().enumerate() {
        let change = change.change;
        if change.device != device || explained.contains(&number) {
            continue;
        }
        let labelled = labelled_before.remove(&change.address).filter(|_| change.bytes < 0);
        let category = place(labelled.map_or(MemoryCategory::Unknown, |(_, category)| category));
        // Memory without an address may or may not be from before the recording.
        let is_from_before = change.address != 0;
        effects.push(Effect { place: number, category, bytes: change.bytes, is_from_before });
    }
    effects.order_by_key(|effect| effect.place);
    effects
}

/// Limited number of levels. Among levels close to each other, the highest is kept.
struct Samples {
    kept: Vec<Level>,
    peak: Level,
    last: Level,
    start: i64,
    /// Length of a neighbourhood in nanoseconds; 0 if all levels are kept.
    neighbourhood: i64,
}

impl Samples {
    fn new(before: Bytes, recorded: &Recorded, effects: &[Effect], end: i64) -> Self {
        let first = effects.first().map_or(0, |effect| recorded.changes[effect.place].time);
        let start = first.min(0);
        let level = Level { time: start, before, ..Level::default() };
        // Two levels are added at the ends.
        let many = MOST_SAMPLES as i64 - 2;
        let is_too_much = effects.len() as i64 > many;
        let neighbourhood = if is_too_much { (end - start).max(many) / many + 1 } else { 0 };
        Self { kept: vec![level], peak: level, last: level, start, neighbourhood }
    }

    fn add(&mut self, level: Level) {
        if level.total() > self.peak.total() {
            self.peak = level;
        }
        let number = |time: i64| (time - self.start).checked_div(self.neighbourhood);
        let of_last = self
            .kept
            .last_mut()
            .filter(|last| number(level.time).is_some() && number(last.time) == number(level.time));
        match of_last {
            Some(last) if level.total() >= last.total() => *last = level,
            Some(_) => {}
            None => self.kept.push(level),
        }
        self.last = level;
    }

    fn finish(mut self, end: i64) -> Vec<Level> {
        if self.last.time < end {
            self.kept.push(Level { time: end, ..self.last });
        }
        self.kept
    }
}

/// Key of a row: category, op, enclosing scope, and `true` for memory from before the recording.
type Row = (MemoryCategory, Option<Action>, Option<Action>, bool);

fn peak(recorded: &Recorded, allocations: &[Allocation], level: &Level) -> Peak {
    let mut rows: HashMap<Row, (u64, u64)> = HashMap::new();
    let began = level.since.iter().any(|bytes| *bytes > 0);
    let is_alive = |allocation: &&Allocation| {
        began
            && allocation.allocated <= level.place
            && allocation.freed.is_none_or(|freed| freed > level.place)
    };
    let mut unaddressed = level.since;
    for allocation in allocations.iter().filter(is_alive) {
        let change = &recorded.changes[allocation.allocated];
        let bytes = change.change.bytes.unsigned_abs();
        let row = (allocation.category, change.around.op, change.around.inside, false);
        let sums = rows.entry(row).or_default();
        *sums = (sums.0 + 1, sums.1 + bytes);
        let left = &mut unaddressed[place(allocation.category)];
        *left = left.saturating_sub(bytes);
    }
    for (category, (before, unaddressed)) in
        CATEGORIES.into_iter().zip(level.before.into_iter().zip(unaddressed))
    {
        if before > 0 {
            rows.insert((category, None, None, true), (0, before));
        }
        if unaddressed > 0 {
            rows.entry((category, None, None, false)).or_default().1 += unaddressed;
        }
    }
    let name = |action: Option<Action>| action.map(|action| action.name().to_owned());
    let mut alive: Vec<PeakMemory> = rows
        .into_iter()
        .map(|((category, op, inside, is_from_before), (allocations, bytes))| PeakMemory {
            category,
            op: name(op),
            inside: name(inside),
            is_from_before,
            allocations,
            bytes,
        })
        .collect();
    alive.order_by(|one, other| {
        let key = |row: &PeakMemory| (Reverse(row.bytes), row.op.clone(), row.inside.clone());
        key(one).cmp(&key(other))
    });
    Peak { time_us: microseconds(level.time), bytes: level.total(), alive }
}
