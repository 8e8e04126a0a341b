//! Header of the screen: the training, its progress, the durations of its steps, and memory.

use mlprof_events::live::{ActionState, Activity, ProcessState, TrainingState};
use mlprof_events::{Action, Direction, Stage};
use mlprof_report::internals::{StepPart, shown_within};
use mlprof_report::number::{bytes, duration, grouped, percent};

use super::super::super::table::{clock, devices, number, stage};
use super::super::view::{Watched, is_also_inside};

/// Width of the labels at the beginning of lines.
const LABEL: usize = 12;
/// Space between two facts in a line.
const GAP: &str = "   ";

/// Returns the lines of the header. No line is wider than `width`.
pub(super) fn header(watched: &Watched, width: usize) -> Vec<String> {
    let state = &watched.state;
    let mut lines = flow("", identity(watched), width);
    match state.trainings.first() {
        Some(training) => {
            lines.extend(flow("progress", progress(training), width));
            lines.extend(flow("step time", step_time(training), width));
            let split = split(training, state.activity.as_ref());
            lines.extend(flow("step split", split, width));
        }
        None => {
            let waits = "no stage is running: numbers appear when a training, validation or test \
                         begins (in a loop of your own: Session::begin)";
            let words = waits.split(' ').map(str::to_owned);
            lines.extend(flow_with("progress", words, " ", width));
        }
    }
    lines.extend(flow("memory", memory(state), width));
    lines
}

/// Distributes facts over lines of at most `width` columns. A fact is not divided, unless it is
/// wider than a line.
fn flow(label: &str, facts: impl IntoIterator<Item = String>, width: usize) -> Vec<String> {
    flow_with(label, facts, GAP, width)
}

fn flow_with(
    label: &str,
    facts: impl IntoIterator<Item = String>,
    gap: &str,
    width: usize,
) -> Vec<String> {
    let length = |text: &str| text.chars().count();
    let indent = if label.is_empty() || width < 3 * LABEL { 0 } else { LABEL };
    let mut lines: Vec<String> = Vec::new();
    for fact in facts {
        let fact = shown_within(&fact, width.saturating_sub(indent).max(1));
        match lines.last_mut() {
            Some(line) if length(line) + length(gap) + length(&fact) <= width => {
                *line += gap;
                *line += &fact;
            }
            _ => {
                let label = if lines.is_empty() && indent > 0 { label } else { "" };
                lines.push(format!("{label:<indent$}{fact}"));
            }
        }
    }
    lines
}

/// Returns the program, its process, its stage and its profilers.
fn identity(watched: &Watched) -> Vec<String> {
    let state = &watched.state;
    let training = state.trainings.first();
    let rank = training.filter(|it| it.world_size > 1);
    let rank =
        rank.map_or_else(String::new, |it| format!(", rank {} of {}", it.rank, it.world_size));
    let mut facts = vec![format!("{} (process {}{rank})", state.program, watched.name)];
    if watched.has_ended {
        facts.push("ended: last known state".to_owned());
    } else if watched.is_silent {
        facts.push("not answering: last known state".to_owned());
    } else if state.is_recording {
        facts.push("recording".to_owned());
    }
    facts.extend(training.filter(|it| it.stage.is_some()).map(stage));
    facts.push(match &state.profilers[..] {
        [] => "no profiler".to_owned(),
        [one] => format!("profiler: {one}"),
        several => format!("profilers: {}", several.join(", ")),
    });
    facts
}

fn progress(training: &TrainingState) -> Vec<String> {
    let of =
        |whole: Option<u64>| whole.map_or_else(String::new, |it| format!(" of {}", grouped(it)));
    let mut facts = Vec::new();
    if let Some(epoch) = training.epoch {
        facts.push(format!("epoch {}{}", epoch.saturating_add(1), of(training.epochs)));
    }
    facts.push(match training.epoch_step {
        Some(step) => format!("step {}{}", grouped(step), of(training.epoch_steps)),
        None => format!("step {}", grouped(training.steps)),
    });
    facts.extend(training.seconds_left().map(|seconds| format!("{} left", clock(seconds))));
    facts.extend(training.loss.map(|loss| format!("loss {}", number(loss))));
    facts.extend(training.is_paused.then(|| "validating".to_owned()));
    facts
}

fn step_time(training: &TrainingState) -> Vec<String> {
    let (Some(median), Some(slow)) = (training.quantile(0.5), training.quantile(0.99)) else {
        return vec!["no step has ended yet".to_owned()];
    };
    let mut facts =
        vec![format!("median {}", duration(median)), format!("99 % below {}", duration(slow))];
    facts.extend(training.steps_per_second().map(|rate| format!("{rate:.1} steps/s")));
    let samples = training.samples_per_second;
    facts.extend(samples.map(|rate| format!("{} samples/s", grouped(rate.round() as u64))));
    facts
}

fn memory(state: &ProcessState) -> Vec<String> {
    let memory = state
        .memory
        .map(|memory| [bytes(memory.resident_bytes), format!("peak {}", bytes(memory.peak_bytes))]);
    memory.into_iter().flatten().chain(devices(state)).collect()
}

/// Parts of a step in their order in a step.
const PARTS: [(StepPart, &str); 5] = [
    (StepPart::Data, "waiting for data"),
    (StepPart::Forward, "forward"),
    (StepPart::Backward, "backward"),
    (StepPart::Collective, "waiting for other ranks"),
    (StepPart::Optimizer, "optimizer"),
];

/// Returns the shares of the parts in the time of the last steps. Parts below half a percent are
/// part of the rest, except the wait for data.
fn split(training: &TrainingState, activity: Option<&Activity>) -> Vec<String> {
    let in_words = |name: &str, share: f64| format!("{name} {}", percent(share));
    let mut shares = activity.map_or([0.0; PARTS.len()], |activity| shares(training, activity));
    if let Some(waiting) = training.waiting_for_data {
        shares[0] = waiting;
    }
    // Actions and steps are counted over windows that differ by a step, so the sum may exceed 1.
    let sum = shares.iter().map(|share| share.max(0.0)).sum::<f64>().max(1.0);
    let mut facts = Vec::new();
    let mut rest = 1.0;
    for (share, (part, name)) in shares.into_iter().zip(PARTS) {
        let share = (share / sum).clamp(0.0, rest);
        let is_known = part == StepPart::Data && training.waiting_for_data.is_some();
        if share >= 0.005 || is_known {
            rest -= share;
            facts.push(in_words(name, share));
        }
    }
    if !facts.is_empty() {
        facts.push(in_words("other", rest));
    }
    facts
}

/// Returns the share of each part in the time of the last steps. A part inside another part counts
/// only as the inner one.
fn shares(training: &TrainingState, activity: &Activity) -> [f64; PARTS.len()] {
    let mut shares = [0.0; PARTS.len()];
    let Some(of) = seconds_of_steps(training, activity) else { return shares };
    let actions = &activity.actions;
    let part = |row: &ActionState| {
        let action = Action::of_kind(row.kind, &row.name, None);
        let part = StepPart::of_action(action, Direction::Forward);
        PARTS.iter().position(|(known, _)| Some(*known) == part)
    };
    let is_evaluation = |row: &ActionState| {
        let ends = ["validation_step", "test_step", "predict_step"];
        training.stage == Some(Stage::Fit) && ends.iter().any(|end| row.name.ends_with(end))
    };
    for (index, row) in actions.iter().enumerate() {
        let around = || outer_actions(actions, index);
        let Some(own) = part(row) else { continue };
        let outer = around().find_map(part);
        let is_counted = outer == Some(own) || outer == Some(0) || is_also_inside(activity, row);
        if is_counted || is_evaluation(row) || around().any(is_evaluation) {
            continue;
        }
        shares[own] += row.seconds / of;
        if let Some(outer) = outer {
            shares[outer] -= row.seconds / of;
        }
    }
    shares
}

/// Returns the actions around one action, innermost first. Each comes earlier in the list.
fn outer_actions(actions: &[ActionState], index: usize) -> impl Iterator<Item = &ActionState> {
    let outer = |index: usize| actions[index].around.filter(|outer| *outer < index);
    std::iter::successors(outer(index), move |index| outer(*index)).map(|index| &actions[index])
}

/// Returns the total duration of the steps that the activity covers, in seconds.
pub(super) fn seconds_of_steps(training: &TrainingState, activity: &Activity) -> Option<f64> {
    let last = training.last_steps.iter().rev().take(activity.steps as usize);
    Some(last.sum::<f64>()).filter(|seconds| *seconds > 0.0)
}
