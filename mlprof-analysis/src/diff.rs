//! Comparison of step times before and after a change.

use mlprof_events::Stage;
use mlprof_report::Error;
use mlprof_report::comparison::{Comparison, SteppedRow, SteppedRun, Subject, compare_steps};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::classify::is_module;
use crate::rollups::{OpSum, Rollups};
use crate::trace::{Category, Name};

/// Compares the steps before a change with the steps after it. It compares the durations of steps
/// and of their actions, ops, modules and kernels.
///
/// The cycles of one run form one series of steps. Traces of the same stage and rank that repeat a
/// step number belong to different runs.
///
/// If each side has one rank and the ranks differ, they are compared with each other. This compares
/// a slow rank with a healthy one. The decision rule is that of [`mlprof_report::comparison`].
///
/// # Errors
///
/// Returns an error if the two sides have no rows in common.
pub fn compare(before: &[Rollups], after: &[Rollups]) -> Result<Comparison, Error> {
    let (mut before, mut after) = (runs(before), runs(after));
    let ranks = one_rank(&before).zip(one_rank(&after)).filter(|(one, other)| one != other);
    if ranks.is_some() {
        before.iter_mut().chain(&mut after).for_each(|run| run.rank = None);
    }
    let are_single = before.iter().chain(&after).all(|run| run.steps <= 1);
    let mut comparison = compare_steps(&before, &after)?;
    if let Some((before, after)) = ranks {
        comparison.notes.push(format!(
            "the comparison is between rank {before} and rank {after}: ranks process different data, and wait \
             for each other in collectives"
        ));
    }
    if are_single {
        comparison.notes.push(
            "significance is unknown because each side has only one step; record at least eight steps per trace"
                .to_owned(),
        );
    }
    Ok(comparison)
}

/// Returns the rank of all runs if they share one rank of a multi-rank job.
fn one_rank(runs: &[SteppedRun]) -> Option<u32> {
    let rank = runs.first()?.rank?;
    runs.iter().all(|run| run.rank == Some(rank)).then_some(rank)
}

/// Traces of one stage and rank.
type Group<'a> = ((Option<Stage>, u32), Vec<&'a Rollups>);

fn runs(traces: &[Rollups]) -> Vec<SteppedRun> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for trace in traces {
        let key = (stage(trace), trace.info.rank);
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(trace),
            None => groups.push((key, vec![trace])),
        }
    }
    groups.into_iter().flat_map(|(_, group)| runs_of(group)).collect()
}

fn stage(trace: &Rollups) -> Option<Stage> {
    let name = trace.info.stage.as_deref()?;
    [Stage::Fit, Stage::Validate, Stage::Test, Stage::Predict, Stage::SanityCheck]
        .into_iter()
        .find(|stage| stage.as_str() == name)
}

/// Converts a trace time to Unix time in nanoseconds.
fn moment(trace: &Rollups, time: i64) -> i64 {
    trace.info.base_ns.saturating_add(time)
}

fn began(trace: &Rollups) -> i64 {
    moment(trace, trace.steps.first().map_or(0, |step| step.start))
}

fn runs_of(mut traces: Vec<&Rollups>) -> Vec<SteppedRun> {
    traces.sort_by_key(|trace| began(trace));
    let mut runs: Vec<(FxHashSet<u64>, Vec<&Rollups>)> = Vec::new();
    for trace in traces {
        let numbers: FxHashSet<u64> = trace.steps.iter().map(|step| step.number).collect();
        // A trace without steps is a run of its own.
        let has_them = |(known, _): &&mut (FxHashSet<u64>, Vec<&Rollups>)| {
            !numbers.is_empty() && !known.is_empty() && known.is_disjoint(&numbers)
        };
        match runs.iter_mut().find(has_them) {
            Some((known, cycles)) => {
                known.extend(numbers);
                cycles.push(trace);
            }
            None => runs.push((numbers, vec![trace])),
        }
    }
    runs.iter().map(|(_, cycles)| run(cycles)).collect()
}

/// Times in nanoseconds by row and by the index of the step in its run.
type Series<'a> = FxHashMap<(Subject, &'a str), FxHashMap<usize, i64>>;

fn run<'a>(cycles: &[&'a Rollups]) -> SteppedRun {
    let first = cycles[0]; // a run has a cycle
    let mut series = Series::<'a>::default();
    let (mut steps, mut wall) = (0, 0);
    for cycle in cycles {
        // A trace without steps counts as one step.
        let mut places: FxHashMap<Option<u64>, usize> = FxHashMap::default();
        if cycle.steps.is_empty() {
            places.insert(None, steps);
        }
        // A step number that occurs several times counts as one step.
        for step in &cycle.steps {
            let next = steps + places.len();
            places.entry(Some(step.number)).or_insert(next);
        }
        let place = |step: &Option<u64>| places.get(step).copied();
        let mut add = |key: (Subject, &'a str), place: usize, time: i64| {
            if time > 0 {
                *series.entry(key).or_default().entry(place).or_default() += time;
            }
        };
        for step in &cycle.steps {
            let Some(at) = place(&Some(step.number)) else { continue };
            add((Subject::Steps, "step"), at, step.duration);
            add((Subject::Steps, "step, waiting for data"), at, step.waiting_for_data);
        }
        // Triton names its ops after their kernels, which already have rows of their own.
        let kernels = cycle.ops.iter().filter(|op| op.category.is_device_work());
        let kernels: FxHashSet<Name> = kernels.map(|op| op.name).collect();
        for op in &cycle.ops {
            let Some(at) = place(&op.step) else { continue };
            let name = cycle.name(op.name);
            if let Some((subject, time)) = of(cycle, op) {
                add((subject, name), at, time);
            }
            if !kernels.contains(&op.name) {
                add((Subject::Kernels, name), at, op.device);
            }
        }
        for module in &cycle.modules {
            let Some(at) = place(&module.step) else { continue };
            let name = cycle.name(module.module);
            add((Subject::Modules, name), at, module.own);
            add((Subject::ModulesOnDevice, name), at, module.device);
        }
        steps += places.len();
        wall += cycle.steps.iter().map(|step| step.duration).sum::<i64>();
    }
    let rows = series.into_iter().map(|((subject, name), times)| {
        let mut times: Vec<(usize, i64)> = times.into_iter().collect();
        times.sort_unstable();
        let seconds = times.into_iter().map(|(_, time)| time as f64 / 1e9).collect();
        SteppedRow { subject, name: name.to_owned(), seconds }
    });
    let world_size = first.info.world_size.max(1);
    SteppedRun {
        stage: stage(first),
        rank: (world_size > 1).then_some(first.info.rank),
        world_size,
        started_ns: began(first),
        wall_seconds: wall as f64 / 1e9,
        steps: steps as u64,
        rows: rows.collect(),
    }
}

/// Returns the kind of row under which the comparison lists `op`, and the time that it compares.
/// Returns `None` if `op` has no such row, as steps and modules.
fn of(cycle: &Rollups, op: &OpSum) -> Option<(Subject, i64)> {
    let name = cycle.name(op.name);
    match op.category {
        Category::UserAnnotation if name.starts_with(crate::classify::STEP) => None,
        // Modules have rows of their own.
        Category::UserAnnotation | Category::PythonFunction if is_module(name) => None,
        Category::UserAnnotation => Some((Subject::Actions, op.total)),
        Category::PythonFunction => Some((Subject::Functions, op.own)),
        category if category.is_device_work() => Some((Subject::Kernels, op.total)),
        category if category.is_on_device() => None,
        _ => Some((Subject::Ops, op.own)),
    }
}
