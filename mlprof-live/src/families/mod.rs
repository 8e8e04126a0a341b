//! Metrics of a training as a common model. The Prometheus endpoint and the OpenTelemetry push each
//! write it in their own format.

mod devices;
pub(crate) mod family;
mod process;

use std::sync::OnceLock;

use mlprof_core::ActionDurations;
use mlprof_core::RunContext;
use mlprof_core::watcher::devices_now;
use mlprof_events::live::TrainingState;
use mlprof_events::names::OWN_TRAIN_DATALOADER_NEXT;
use mlprof_events::program_name;
use mlprof_events::progress;

use crate::durations::Durations;
use crate::watcher::Watcher;
use family::{Family, Kind, Value};

/// Maximum number of actions with a histogram; the slowest ones are kept. Each histogram has 28
/// series as text.
const MOST_ACTIONS: usize = 100;

type Labels = Vec<(&'static str, String)>;

/// Program name and rank of this process, read when an endpoint is opened. Background threads do
/// not read the environment.
static OWN: OnceLock<(String, u32)> = OnceLock::new();

/// Reads the program name and the rank. Must be called where reading the environment is safe.
pub(crate) fn remember() {
    own();
}

fn own() -> &'static (String, u32) {
    OWN.get_or_init(|| (program_name().unwrap_or_default(), RunContext::from_environment().rank))
}

/// Returns all metrics of the process. *Cost*: that of a Simple profiler's report, and reading some
/// system files.
pub(crate) fn families(watcher: &Watcher) -> Vec<Family> {
    let (program, own_rank) = own();
    let of_rank = |rank: u32| vec![("program", program.clone()), ("rank", rank.to_string())];
    let of_stage = |rank: u32, stage: &str| {
        let mut labels = of_rank(rank);
        labels.push(("stage", stage.to_owned()));
        labels
    };
    let (states, is_recording) = watcher.states();
    let mut all = Vec::from(steps(watcher, of_stage));
    all.extend(samples(progress::samples(), &of_rank(*own_rank)));
    all.extend(trainings(&states, of_stage));
    let recording = Family::new(
        "mlprof_recording",
        Kind::Gauge,
        "1 if an on-demand recording is active, otherwise 0.",
    );
    all.push(recording.number(of_rank(*own_rank), f64::from(u8::from(is_recording))));
    all.extend(actions(watcher.durations(), &of_rank(*own_rank)));
    all.extend(process::families());
    all
}

/// Returns all metrics of the process and its devices. *Cost*: up to one second, in which the
/// devices are queried.
pub(crate) fn families_and_devices(watcher: &Watcher) -> Vec<Family> {
    let (program, rank) = own();
    let labels = vec![("program", program.clone()), ("rank", rank.to_string())];
    let mut all = families(watcher);
    all.extend(devices::families(&devices_now(), &labels));
    all
}

/// Returns the step counters and durations, which accumulate over all stages of the process.
fn steps(watcher: &Watcher, labels: impl Fn(u32, &str) -> Labels) -> [Family; 2] {
    let help = "Number of finished training and evaluation steps.";
    let mut counts = Family::new("mlprof_steps_total", Kind::Counter, help);
    let help = "Duration of steps without interruptions.";
    let mut seconds = Family::new("mlprof_step_seconds", Kind::Histogram, help);
    for ((stage, rank), durations) in watcher.step_durations() {
        let labels = labels(rank, &stage);
        counts.add(labels.clone(), Value::Number(durations.count as f64));
        seconds.add(labels, Value::Durations(Box::new(durations)));
    }
    [counts, seconds]
}

/// Returns the number of samples processed by training steps, if a trainer reports batch sizes.
fn samples(all: u64, labels: &Labels) -> Option<Family> {
    let help = "Number of samples processed by training steps.";
    let family = Family::new("mlprof_samples_total", Kind::Counter, help);
    (all > 0).then(|| family.number(labels.clone(), all as f64))
}

/// Returns the current values of the running stages.
fn trainings(states: &[TrainingState], labels: impl Fn(u32, &str) -> Labels) -> Vec<Family> {
    let gauge = |name, help| Family::new(name, Kind::Gauge, help);
    let mut running = gauge("mlprof_stage_seconds", "Running time of the current stage.");
    let mut paused = gauge(
        "mlprof_stage_paused",
        "1 if a validation interrupts the steps of the stage, otherwise 0.",
    );
    let mut epoch = gauge("mlprof_epoch", "Current epoch, counted from 0.");
    let mut epochs = gauge("mlprof_epochs", "Total number of epochs.");
    let mut loss = gauge("mlprof_loss", "Last loss that the trainer read.");
    for state in states {
        let stage = state.stage.map_or_else(|| "none".to_owned(), |stage| stage.to_string());
        let add = |family: &mut Family, value: Option<f64>| {
            if let Some(value) = value {
                family.add(labels(state.rank, &stage), Value::Number(value));
            }
        };
        add(&mut running, Some(state.seconds));
        add(&mut paused, Some(f64::from(u8::from(state.is_paused))));
        add(&mut epoch, state.epoch.map(|epoch| epoch as f64));
        add(&mut epochs, state.epochs.map(|epochs| epochs as f64));
        add(&mut loss, state.loss);
    }
    vec![running, paused, epoch, epochs, loss]
}

fn actions(mut all: Vec<ActionDurations>, labels: &Labels) -> [Family; 4] {
    let help = "Time in which training waited for its next batch, in actions that end in \
                train_dataloader_next.";
    let waiting = Family::new("mlprof_data_wait_seconds_total", Kind::Counter, help)
        .number(labels.clone(), data_wait(&all));
    all.sort_by(|one, other| {
        other.seconds.total_cmp(&one.seconds).then(one.action.cmp(other.action))
    });
    let left_out = all.split_off(all.len().min(MOST_ACTIONS));
    let help = "Duration of calls, for the actions with the longest total time.";
    let mut seconds = Family::new("mlprof_action_seconds", Kind::Histogram, help);
    for action in &all {
        let mut durations = Durations::default();
        action.buckets.iter().for_each(|(middle, count)| durations.count_at(*middle, *count));
        durations.sum = action.seconds;
        let mut labels = labels.clone();
        labels.push(("action", action.action.to_owned()));
        seconds.add(labels, Value::Durations(Box::new(durations)));
    }
    let help = "Number of actions that mlprof_action_seconds leaves out.";
    let others = Family::new("mlprof_actions_left_out", Kind::Gauge, help)
        .number(labels.clone(), left_out.len() as f64);
    let help = "Time in actions that mlprof_action_seconds leaves out.";
    let time = left_out.iter().map(|action| action.seconds).sum();
    let others_seconds = Family::new("mlprof_actions_left_out_seconds", Kind::Gauge, help)
        .number(labels.clone(), time);
    [waiting, seconds, others, others_seconds]
}

/// Returns the seconds spent waiting for data. A user's own action may enclose the trainer's, so it
/// is counted only if the trainer has none.
fn data_wait(all: &[ActionDurations]) -> f64 {
    let sum = |is_own: bool| {
        let named = all.iter().filter(|it| it.action.ends_with(OWN_TRAIN_DATALOADER_NEXT));
        let of_kind = named.filter(|it| (it.action == OWN_TRAIN_DATALOADER_NEXT) == is_own);
        of_kind.map(|action| action.seconds).reduce(|sum, next| sum + next)
    };
    sum(false).or_else(|| sum(true)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(action: &'static str, seconds: f64) -> ActionDurations {
        ActionDurations { action, seconds, buckets: vec![(seconds / 2.0, 2)] }
    }

    fn value(family: &Family) -> f64 {
        let [metric] = &family.metrics[..] else { panic!("{family:?}") };
        let Value::Number(number) = metric.value else { panic!("{family:?}") };
        number
    }

    #[test]
    fn actions_are_bounded_and_what_is_left_out_is_counted() {
        let names: Vec<String> = (0..MOST_ACTIONS + 7).map(|number| format!("a{number}")).collect();
        let all = names.iter().enumerate();
        let all = all.map(|(index, name)| action(String::leak(name.clone()), (index + 1) as f64));
        let [_, seconds, others, others_seconds] = actions(all.collect(), &Vec::new());
        assert_eq!((seconds.metrics.len(), value(&others)), (MOST_ACTIONS, 7.0));
        assert_eq!(value(&others_seconds), 28.0, "the shortest seven");
        assert_eq!(seconds.metrics[0].labels, [("action", "a106".to_owned())]);
        let Value::Durations(longest) = &seconds.metrics[0].value else { panic!("{seconds:?}") };
        assert_eq!((longest.count, longest.sum), (2, 107.0));
    }

    #[test]
    fn samples_are_told_where_somebody_says_them() {
        assert!(samples(0, &Vec::new()).is_none());
        assert_eq!(samples(640, &Vec::new()).as_ref().map(value), Some(640.0));
    }

    #[test]
    fn waiting_for_data_is_counted_once() {
        let own = action(OWN_TRAIN_DATALOADER_NEXT, 3.0);
        assert_eq!(data_wait(&[own.clone(), action("x", 9.0)]), 3.0);
        let trainers = action("[_TrainingEpochLoop].train_dataloader_next", 2.0);
        assert_eq!(data_wait(&[own, trainers]), 2.0);
        assert_eq!(data_wait(&[]), 0.0);
    }

    #[test]
    fn two_trainings_of_one_stage_are_one_series() {
        let mut state = TrainingState {
            stage: None,
            rank: 0,
            world_size: 1,
            epoch: None,
            epochs: None,
            epoch_step: None,
            epoch_steps: None,
            samples_per_second: None,
            waiting_for_data: None,
            loss: None,
            steps: 0,
            seconds: 1.0,
            is_paused: false,
            last_steps: Vec::new(),
        };
        let one = state.clone();
        (state.seconds, state.loss) = (5.0, Some(f64::NAN));
        let families = trainings(&[one, state], |_, stage| vec![("stage", stage.to_owned())]);
        assert_eq!(value(&families[0]), 5.0);
        assert!(families[2].metrics.is_empty(), "nobody has said an epoch");
        assert!(value(&families[4]).is_nan(), "a loss can be");
    }
}
