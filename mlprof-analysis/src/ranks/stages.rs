//! Breakdown of steps into the stages that all ranks run one after the other.

use mlprof_events::names::{self, waits_for_other_ranks};
use mlprof_report::ranks::{Stage, step_stages};
use rustc_hash::FxHashSet;

use super::device::Activity as DeviceActivity;
use crate::answers::Activity;
use crate::classify::Meanings;
use crate::device::union::Union;
use crate::device::work::DeviceWork;
use crate::host::steps::Step;
use crate::host::waits::Waits;
use crate::sweep;
use crate::trace::{Category, FlowKind, Slice, Trace, TrackKind};

/// Number of stages.
pub(crate) const COUNT: usize = 7;
const DATA: usize = 0;
const FORWARD: usize = 1;
const BACKWARD: usize = 2;
/// Device work that the host waited for in a call outside all other stages.
const DEVICE: usize = 3;
const COLLECTIVES: usize = 4;
const OPTIMIZER: usize = 5;
const OTHER: usize = 6;

/// Returns the stages in order of execution: those of reports, and device work.
pub(crate) fn stages() -> Vec<Stage> {
    let mut stages = step_stages();
    stages.insert(DEVICE, Stage { name: "device work".to_owned(), waits_for_others: false });
    stages
}

/// Returns `true` for the device work stage, which is zero in traces without devices.
pub(crate) fn is_of_devices(stage: &Stage) -> bool {
    stage.name == "device work"
}

/// Returns the number and the stage durations of each step. The durations add up to the step's
/// duration. Empty for a trace without steps.
pub(crate) fn of_steps(
    trace: &Trace,
    meanings: &Meanings,
    steps: &[Step],
) -> Vec<(u64, [i64; COUNT])> {
    if steps.iter().all(|step| step.number.is_none()) {
        return Vec::new();
    }
    let stages = of_threads(trace, meanings);
    let device = DeviceActivity::of(trace, meanings);
    let correlations = trace.correlations();
    let work = DeviceWork::of(trace, &correlations);
    let waits = Waits::new(trace, meanings, &correlations, &work);
    // Copies of pageable memory and launches into a full queue also wait.
    let has_waited = |place: usize| {
        let call = &trace.slices[place];
        meanings.waits_for_device(call) || waits.of_call(call, call.end()).is_some()
    };
    let autograd = autograd(trace);
    let mut found: Vec<(u64, [i64; COUNT])> = Vec::new();
    for step in steps {
        let Some(number) = step.number else { continue };
        let mut durations = [0; COUNT];
        for part in &step.parts {
            sweep::innermost(trace, step.track, *part, |start, end, innermost| {
                let stage = innermost.and_then(|place| stages[place]).unwrap_or(OTHER);
                let activity = meanings.activity(trace, innermost);
                let mut add = |stage: usize, duration: i64| durations[stage] += duration;
                match activity {
                    Activity::WaitingForDevice | Activity::Runtime
                        if stage != DATA
                            && stage != COLLECTIVES
                            && innermost.is_some_and(has_waited) =>
                    {
                        let (working, communicating) = device.within((start, end));
                        let is_told = matches!(stage, FORWARD | BACKWARD);
                        add(if is_told { stage } else { DEVICE }, working);
                        add(COLLECTIVES, communicating);
                        add(stage, end - start - working - communicating);
                    }
                    // A thread without work of its own runs the backward pass on another thread.
                    Activity::Nothing | Activity::Annotation | Activity::Python
                        if stage == OTHER =>
                    {
                        let span = autograd.within(&Union::of(vec![(start, end)])).span();
                        let backward = span.map_or(0, |(first, last)| last - first);
                        add(BACKWARD, backward);
                        add(stage, end - start - backward);
                    }
                    _ => add(stage, end - start),
                }
            });
        }
        found.push((number, durations));
    }
    found
}

/// Returns the times in which autograd threads worked.
fn autograd(trace: &Trace) -> Union {
    let is_autograd = trace.names.map(is_autograd);
    let threads = trace.tracks.iter().filter(|track| track.kind == TrackKind::Thread);
    let slices = threads.flat_map(|track| trace.of_track(track));
    let slices = slices.filter(|slice| is_autograd[slice.name]);
    Union::of(slices.map(|slice| (slice.start, slice.end())).collect())
}

fn is_autograd(name: &str) -> bool {
    name.starts_with("autograd::engine")
}

/// Returns the stage of each slice of a thread, if known. The innermost enclosing slice that
/// determines a stage counts. Otherwise, modules and ops with a backward op belong to the forward
/// pass.
fn of_threads(trace: &Trace, meanings: &Meanings) -> Vec<Option<usize>> {
    let with_backward: FxHashSet<u32> = trace
        .flows
        .iter()
        .filter(|flow| flow.kind == FlowKind::ForwardBackward)
        .map(|flow| flow.from)
        .collect();
    let mut stages = vec![None; trace.slices.len()];
    for place in trace.parents_first() {
        let slice = &trace.slices[place];
        let is_forward = || {
            meanings.is_module(slice) || with_backward.contains(&(place as u32)) // fewer than 2^32
        };
        stages[place] = match meanings.is_in_data(place) {
            true => Some(DATA),
            false => own_stage(trace, meanings, slice)
                .or_else(|| slice.parent().and_then(|around| stages[around]))
                .or_else(|| is_forward().then_some(FORWARD)),
        };
    }
    stages
}

/// Returns the stage that a slice itself determines.
fn own_stage(trace: &Trace, meanings: &Meanings, slice: &Slice) -> Option<usize> {
    let is_action = slice.category == Category::UserAnnotation && !meanings.is_module(slice);
    let is_collective = trace.details(slice).is_some_and(|details| details.collective.is_some());
    let is_python = slice.category == Category::PythonFunction;
    match trace.name(slice) {
        _ if is_collective => Some(COLLECTIVES),
        name if is_action => stage_told_by(name),
        // These are the threads and ops of autograd.
        name if is_autograd(name) => Some(BACKWARD),
        // Matches `<built-in method run_backward of torch._C._EngineBase object at 0x7f>`.
        name if is_python && name.contains("run_backward") => Some(BACKWARD),
        _ => None,
    }
}

/// Returns the stage of each slice, if known, as an index into [`stages`]. Device work belongs to
/// the stage that launched it.
#[cfg(feature = "parquet")]
pub(crate) fn of_slices(trace: &Trace, meanings: &Meanings) -> Vec<Option<usize>> {
    let mut stages = of_threads(trace, meanings);
    for of in trace.correlations().into_values() {
        let Some(launched_in) = of.call.and_then(|call| stages[call as usize]) else { continue };
        of.device.iter().for_each(|place| stages[*place as usize] = Some(launched_in));
    }
    stages
}

/// Returns the stage of an action from its name. Recognised names are those of mlprof, Lightning
/// and PyTorch, and common names that users give their passes.
fn stage_told_by(name: &str) -> Option<usize> {
    // Matches `## backward ##`.
    let name = name.trim_matches(['#', ' ']);
    if waits_for_other_ranks(name) {
        return Some(COLLECTIVES);
    }
    let hook = name.rsplit_once('.').map_or(name, |(_, hook)| hook).trim_end_matches("()");
    match hook.to_ascii_lowercase().as_str() {
        names::BACKWARD | "backward_pass" | "bwd" => Some(BACKWARD),
        names::OPTIMIZER_STEP | "step" | "optimizer" => Some(OPTIMIZER),
        "training_step" | "forward" | "forward_pass" | "fwd" => Some(FORWARD),
        // Matches `Optimizer.step#SGD.step`.
        _ if name.starts_with("Optimizer.step#") => Some(OPTIMIZER),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::synthetic_trace::{SyntheticTrace, made};

    fn told(trace: &Trace) -> Vec<(u64, [i64; COUNT])> {
        let meanings = Meanings::of(trace);
        of_steps(trace, &meanings, &crate::host::steps::find(trace, &meanings))
    }

    /// Checks a step that a validation interrupted.
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
        assert_eq!(told(&trace), [(0, [0, 20_000, 40_000, 0, 0, 0, 20_000])]);
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
        let trace = made(SyntheticTrace { steps: &[step, step], ..SyntheticTrace::rank(0) });
        assert_eq!(told(&trace), [(0, [5, 20, 40, 0, 7, 3, 2]), (1, [5, 20, 40, 0, 7, 3, 2])]);
        assert_eq!(told(&made(SyntheticTrace { ends: &[10, 20], ..SyntheticTrace::rank(0) })), []);
    }
}
