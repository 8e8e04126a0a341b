//! Sums per step, small enough to be kept for every run.

use rustc_hash::FxHashMap;

use crate::classify::Meanings;
use crate::host::self_times;
use crate::host::steps::{self, Step, StepOf};
use crate::sweep;
use crate::trace::{Category, Info, Name, Names, Trace, TrackKind};

/// Durations of steps and of their contents. Times are nanoseconds.
#[derive(Debug)]
pub struct Rollups {
    /// Metadata of the trace.
    pub info: Info,
    /// Interned strings.
    pub names: Names,
    /// Steps in order of time. Empty for a trace without steps.
    pub steps: Vec<StepSum>,
    /// Stages of the steps.
    pub stages: Vec<StageSum>,
    /// Sums by step, category and name.
    pub ops: Vec<OpSum>,
    /// Sums by step and module.
    pub modules: Vec<ModuleSum>,
}

/// Times of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepSum {
    /// Step number.
    pub number: u64,
    /// Start in nanoseconds of the trace's own time.
    pub start: i64,
    /// Duration in nanoseconds without recording pauses.
    pub duration: i64,
    /// Time in which the loop waited for data, in nanoseconds.
    pub waiting_for_data: i64,
}

/// Sum of all calls of an action directly inside a step. The stages of a step add up to the step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StageSum {
    /// Step number.
    pub step: u64,
    /// Position of the action's first call among the actions of the step.
    pub order: u64,
    /// Name of the action. Empty for the rest of the step.
    pub action: Name,
    /// Duration of all calls in nanoseconds.
    pub duration: i64,
}

/// Sum of all slices of one category and name that began in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpSum {
    /// Step number. `None` outside all steps.
    pub step: Option<u64>,
    /// Category of the slices.
    pub category: Category,
    /// Name of the slices.
    pub name: Name,
    /// Number of slices.
    pub count: i64,
    /// Inclusive time in nanoseconds. Slices nested in a slice of the same name count once.
    pub total: i64,
    /// Self time in nanoseconds.
    pub own: i64,
    /// Shortest duration in nanoseconds.
    pub min: i64,
    /// Longest duration in nanoseconds.
    pub max: i64,
    /// Device time in nanoseconds of work launched in an op and in no deeper op. 0 for slices that
    /// are not ops.
    pub device: i64,
}

/// Sum of all slices of a model's module that began in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleSum {
    /// Step number. `None` outside all steps.
    pub step: Option<u64>,
    /// Name of the module.
    pub module: Name,
    /// Number of forward calls.
    pub calls: i64,
    /// Self time on threads in nanoseconds, including backward ops.
    pub own: i64,
    /// Device time of the launched work in nanoseconds.
    pub device: i64,
}

impl Rollups {
    /// Computes the sums of a trace. *Cost*: about 0.2 µs per slice.
    pub fn of(trace: &Trace) -> Self {
        let meanings = Meanings::of(trace);
        let steps = steps::find(trace, &meanings);
        Self::of_steps(trace, &meanings, &steps)
    }

    pub(crate) fn of_steps(trace: &Trace, meanings: &Meanings, steps: &[Step]) -> Self {
        let mut names = Renamed { trace, names: Names::default(), known: FxHashMap::default() };
        let of = StepOf::new(steps);
        let ops = ops(trace, meanings, &of, &mut names);
        let modules = modules(trace, meanings, &of, &mut names);
        let stages = stages(trace, meanings, steps, &mut names);
        let sums = steps.iter().filter_map(|step| {
            Some(StepSum {
                number: step.number?,
                start: step.start(),
                duration: step.duration(),
                waiting_for_data: steps::waiting_for_data(trace, meanings, step),
            })
        });
        let steps = sums.collect();
        Self { info: trace.info.clone(), names: names.names, steps, stages, ops, modules }
    }

    /// Returns the text of a name.
    pub fn name(&self, name: Name) -> &str {
        self.names.text(name)
    }
}

/// Interner that gives strings of a trace new numbers.
struct Renamed<'a> {
    trace: &'a Trace,
    names: Names,
    known: FxHashMap<Name, Name>,
}

impl Renamed<'_> {
    fn name(&mut self, name: Name) -> Name {
        let Self { trace, names, known } = self;
        *known.entry(name).or_insert_with(|| names.intern(trace.names.text(name)))
    }
}

fn ops(
    trace: &Trace,
    meanings: &Meanings,
    step_of: &StepOf,
    names: &mut Renamed<'_>,
) -> Vec<OpSum> {
    let is_inside = self_times::inside_their_likes(trace);
    let mut sums: FxHashMap<(Option<u64>, Category, Name), OpSum> = FxHashMap::default();
    for (place, slice) in trace.slices.iter().enumerate() {
        let (step, category, name) = (step_of.number(slice.start), slice.category, slice.name);
        let track = &trace.tracks[slice.track as usize];
        let is_again = track.overlaps.is_some() && track.kind != TrackKind::Thread;
        let of = sums.entry((step, category, name)).or_insert_with(|| OpSum {
            step,
            category,
            name: names.name(name),
            count: 0,
            total: 0,
            own: 0,
            min: i64::MAX,
            max: 0,
            device: 0,
        });
        of.count += 1;
        if !is_inside[place] {
            of.total += slice.duration;
        }
        of.own += if is_again { 0 } else { slice.self_duration };
        (of.min, of.max) = (of.min.min(slice.duration), of.max.max(slice.duration));
    }
    for (call, time) in self_times::device_times(trace, &trace.correlations()) {
        let Some(op) = meanings.op(call).map(|op| &trace.slices[op]) else { continue };
        let key = (step_of.number(op.start), op.category, op.name);
        if let Some(of) = sums.get_mut(&key) {
            of.device += time;
        }
    }
    let mut rows: Vec<OpSum> = sums.into_values().collect();
    rows.sort_unstable_by_key(|row| (row.step, row.category, row.name));
    rows
}

fn modules(
    trace: &Trace,
    meanings: &Meanings,
    step_of: &StepOf,
    names: &mut Renamed<'_>,
) -> Vec<ModuleSum> {
    let mut sums: FxHashMap<(Option<u64>, Name), ModuleSum> = FxHashMap::default();
    let mut add = |place: usize, module: Name, add: &dyn Fn(&mut ModuleSum)| {
        let step = step_of.number(trace.slices[place].start);
        let new = || {
            let module = names.name(module);
            ModuleSum { step, module, calls: 0, own: 0, device: 0 }
        };
        add(sums.entry((step, module)).or_insert_with(new));
    };
    for (place, slice) in self_times::on_threads(trace) {
        let Some(module) = meanings.module(place) else { continue };
        add(place, module, &|of| {
            of.calls += i64::from(meanings.is_module(slice));
            of.own += slice.self_duration;
        });
    }
    for (call, time) in self_times::device_times(trace, &trace.correlations()) {
        if let Some(module) = meanings.module(call) {
            add(call, module, &|of| of.device += time);
        }
    }
    let mut rows: Vec<ModuleSum> = sums.into_values().collect();
    rows.sort_unstable_by_key(|row| (row.step, row.module));
    rows
}

/// Returns the actions directly inside each step in order of first occurrence, followed by the
/// rest. They add up to the step.
fn stages(
    trace: &Trace,
    meanings: &Meanings,
    steps: &[Step],
    names: &mut Renamed<'_>,
) -> Vec<StageSum> {
    let mut rows = Vec::new();
    for step in steps {
        let Some(number) = step.number else { continue };
        let mut sums: Vec<(Name, i64)> = Vec::new();
        let mut known: FxHashMap<Name, usize> = FxHashMap::default();
        let mut outermost = OutermostActions { trace, meanings, step, of: FxHashMap::default() };
        let mut rest = 0;
        let mut add = |start: i64, end: i64, innermost: Option<usize>| {
            let Some(action) = innermost.and_then(|place| outermost.of(place)) else {
                rest += end - start;
                return;
            };
            let place = *known.entry(action).or_insert(sums.len());
            match sums.get_mut(place) {
                Some((_, sum)) => *sum += end - start,
                None => sums.push((action, end - start)),
            }
        };
        for part in &step.parts {
            sweep::innermost(trace, step.track, *part, &mut add);
        }
        let all = sums.into_iter().chain([(Name::EMPTY, rest)]);
        rows.extend((0..).zip(all).map(|(order, (action, duration))| StageSum {
            step: number,
            order,
            action: names.name(action),
            duration,
        }));
    }
    rows
}

/// Lookup of the outermost action inside a step.
struct OutermostActions<'a> {
    trace: &'a Trace,
    meanings: &'a Meanings,
    step: &'a Step,
    /// Cached results by slice index, so that each slice is visited once.
    of: FxHashMap<usize, Option<Name>>,
}

impl OutermostActions<'_> {
    /// Returns the outermost action around a slice, or the slice itself. An action that crosses the
    /// step is not a part of it.
    fn of(&mut self, place: usize) -> Option<Name> {
        let Self { trace, meanings, step, of } = self;
        let is_inside = |place: &usize| {
            let slice = &trace.slices[*place];
            slice.start >= step.start() && slice.end() <= step.end()
        };
        let around = std::iter::successors(Some(place), |place| trace.slices[*place].parent());
        let unknown: Vec<usize> =
            around.take_while(|place| is_inside(place) && !of.contains_key(place)).collect();
        for place in unknown.into_iter().rev() {
            let around = trace.slices[place].parent();
            let outermost = around.and_then(|around| *of.get(&around)?);
            let is_action = meanings.action(place) == Some(place);
            let own = is_action.then(|| trace.slices[place].name);
            of.insert(place, outermost.or(own));
        }
        *of.get(&place)?
    }
}
