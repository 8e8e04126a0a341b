//! What each step of a trace went into: the stages that all ranks go through one after the other.

use profiler_events::names::{self, waits_for_other_ranks};

use crate::host::steps::Step;
use crate::meaning::Meanings;
use crate::sweep;
use crate::trace::{Category, Slice, Trace};

/// The stages of `profiler_report::ranks::step_stages`.
pub(crate) const COUNT: usize = 6;
const DATA: usize = 0;
const FORWARD: usize = 1;
const BACKWARD: usize = 2;
const COLLECTIVES: usize = 3;
const OPTIMIZER: usize = 4;
const OTHER: usize = 5;

/// The number of each step, and what it went into, which adds up to how long it took. Nothing of a trace
/// without steps.
pub(crate) fn of_steps(
    trace: &Trace,
    meanings: &Meanings,
    steps: &[Step],
) -> Vec<(u64, [i64; COUNT])> {
    let mut found = Vec::new();
    for step in steps {
        let Some(number) = step.number else { continue };
        let mut durations = [0; COUNT];
        for part in &step.parts {
            sweep::innermost(trace, step.track, *part, |start, end, innermost| {
                durations[stage_at(trace, meanings, innermost)] += end - start;
            });
        }
        found.push((number, durations));
    }
    found
}

/// The stage that a slice belongs to: that of the innermost thing around it that tells one.
fn stage_at(trace: &Trace, meanings: &Meanings, innermost: Option<usize>) -> usize {
    let Some(place) = innermost else { return OTHER };
    if meanings.is_in_data(place) {
        return DATA;
    }
    let slice = &trace.slices[place];
    let mut around = std::iter::once(slice).chain(trace.around(slice));
    around.find_map(|slice| told_by(trace, meanings, slice)).unwrap_or(OTHER)
}

/// The stage that a slice tells by itself.
fn told_by(trace: &Trace, meanings: &Meanings, slice: &Slice) -> Option<usize> {
    let is_action = slice.category == Category::UserAnnotation && !meanings.is_module(slice);
    let is_collective = trace.details(slice).is_some_and(|details| details.collective.is_some());
    match trace.name(slice) {
        _ if is_collective => Some(COLLECTIVES),
        name if is_action => stage_told_by(name),
        // Autograd's own threads and ops.
        name if name.starts_with("autograd::engine") => Some(BACKWARD),
        _ => None,
    }
}

/// The stage that each slice belongs to, where one is told: a place in `profiler_report::ranks::step_stages`. What a device did is of the
/// stage that launched it.
#[cfg(feature = "parquet")]
pub(crate) fn of_slices(trace: &Trace, meanings: &Meanings) -> Vec<Option<usize>> {
    let mut stages = vec![None; trace.slices.len()];
    for place in trace.parents_first() {
        let slice = &trace.slices[place];
        stages[place] = match meanings.is_in_data(place) {
            true => Some(DATA),
            false => told_by(trace, meanings, slice)
                .or_else(|| slice.parent().and_then(|around| stages[around])),
        };
    }
    for of in trace.correlations().into_values() {
        let Some(launched_in) = of.call.and_then(|call| stages[call as usize]) else { continue };
        of.device.iter().for_each(|place| stages[*place as usize] = Some(launched_in));
    }
    stages
}

/// What the name of an action tells: mlprof's, Lightning's and PyTorch's own.
fn stage_told_by(name: &str) -> Option<usize> {
    if waits_for_other_ranks(name) {
        return Some(COLLECTIVES);
    }
    let hook = name.rsplit_once('.').map_or(name, |(_, hook)| hook);
    match hook {
        names::BACKWARD => Some(BACKWARD),
        names::OPTIMIZER_STEP | "step" => Some(OPTIMIZER),
        "training_step" | "forward" => Some(FORWARD),
        // `Optimizer.step#SGD.step`
        _ if name.starts_with("Optimizer.step#") => Some(OPTIMIZER),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::made::{Made, made};

    fn told(trace: &Trace) -> Vec<(u64, [i64; COUNT])> {
        let meanings = Meanings::of(trace);
        of_steps(trace, &meanings, &crate::host::steps::find(trace, &meanings))
    }

    /// A validation interrupted step 0.
    #[test]
    fn a_step_in_parts_is_one_row() {
        let event = |name: &str, (ts, dur): (u32, u32)| {
            format!(
                r#"{{"ph":"X","cat":"user_annotation","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur}}}"#
            )
        };
        let events = [
            event("ProfilerStep#0", (0, 30)),
            event("Net.training_step", (10, 20)),
            event("ProfilerStep#0", (100, 50)),
            event("Net.backward", (100, 40)),
        ];
        let json = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
        let trace = crate::kineto::read(json.as_bytes()).expect("a trace");
        assert_eq!(told(&trace), [(0, [0, 20_000, 40_000, 0, 0, 20_000])]);
    }

    #[test]
    fn stages_are_told_by_names_and_add_up() {
        let step: &[(&str, i64)] = &[
            ("[_TrainingEpochLoop].train_dataloader_next", 5),
            ("[Strategy]SingleDeviceStrategy.training_step", 20),
            ("[Strategy]SingleDeviceStrategy.backward", 40),
            ("all_reduce_gradients", 7),
            ("[LightningModule]Net.optimizer_step", 3),
            ("[Callback]Logger.on_train_batch_end", 2),
        ];
        let trace = made(Made { steps: &[step, step], ..Made::rank(0) });
        assert_eq!(told(&trace), [(0, [5, 20, 40, 7, 3, 2]), (1, [5, 20, 40, 7, 3, 2])]);
        assert_eq!(told(&made(Made { ends: &[10, 20], ..Made::rank(0) })), []);
    }
}
