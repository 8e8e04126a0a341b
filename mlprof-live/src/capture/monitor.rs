//! Reports step times to clients that want numbers instead of a trace.

use std::fmt::Write;

use mlprof_events::live::{ProcessState, TrainingState};

use super::messages::{MonitorResponse, MonitorResult};

/// Returns the step times between two states of the process.
pub(super) fn response(
    before: &ProcessState,
    after: &ProcessState,
    time: Option<&str>,
) -> MonitorResponse {
    let mut data = String::new();
    if let Some(time) = time {
        line(&mut data, format_args!("Timestamp: {time}"));
    }
    line(&mut data, format_args!("Process: {}, {}", after.process, after.program));
    if after.trainings.is_empty() {
        line(&mut data, format_args!("No training is running"));
    }
    let mut all = Vec::new();
    for training in &after.trainings {
        let steps = new_steps(&before.trainings, training);
        tell(&mut data, training, steps);
        all.extend_from_slice(steps);
    }
    if after.is_recording {
        line(&mut data, format_args!("A recording is in progress"));
    }
    MonitorResponse { data, monitor_result: Times::of(&all).map(Times::result) }
}

/// Returns the durations in seconds of the steps that ended between the two states. Steps beyond
/// the stored history are missing.
fn new_steps<'after>(before: &[TrainingState], after: &'after TrainingState) -> &'after [f64] {
    let is_same = |old: &&TrainingState| {
        (old.stage, old.rank) == (after.stage, after.rank)
            && old.seconds <= after.seconds
            && old.steps <= after.steps
    };
    let known = before.iter().find(is_same).map_or(0, |old| old.steps);
    let new = usize::try_from(after.steps - known).unwrap_or(usize::MAX);
    let steps = &after.last_steps[..];
    &steps[steps.len().saturating_sub(new)..]
}

fn tell(data: &mut String, training: &TrainingState, steps: &[f64]) {
    let TrainingState { stage, rank, world_size, epoch, epochs, .. } = training;
    let stage = stage.map_or("training", |stage| stage.as_str());
    let mut about = format!("Stage: {stage}, {} steps", training.steps);
    if let Some(epoch) = epoch {
        about += &format!(", epoch {epoch}");
        about += &epochs.map_or(String::new(), |epochs| format!(" of {epochs}"));
    }
    if *world_size > 1 {
        about += &format!(", rank {rank} of {world_size}");
    }
    if training.is_paused {
        about += ", interrupted by a validation";
    }
    line(data, format_args!("{about}"));
    match Times::of(steps) {
        Some(Times { mean, least, most }) => line(
            data,
            format_args!(
                "Step time (ms): {mean:.3} (avg), {least:.3} (min), {most:.3} (max), of {} steps",
                steps.len()
            ),
        ),
        None => line(data, format_args!("Step time (ms): no step ended in this interval")),
    }
}

fn line(data: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(data, "{text}");
}

/// Step times in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Times {
    mean: f64,
    least: f64,
    most: f64,
}

impl Times {
    /// Returns the step times, or `None` if there are no steps.
    fn of(seconds: &[f64]) -> Option<Self> {
        let mean = 1e3 * seconds.iter().sum::<f64>() / seconds.len() as f64;
        let least = seconds.iter().copied().reduce(f64::min)? * 1e3;
        let most = seconds.iter().copied().reduce(f64::max)? * 1e3;
        Some(Self { mean, least, most })
    }

    fn result(self) -> MonitorResult {
        let Self { mean, least, most } = self;
        MonitorResult { step_time_ms_avg: mean, step_time_ms_min: least, step_time_ms_max: most }
    }
}

#[cfg(test)]
mod tests {
    use mlprof_events::Stage;

    use super::*;

    fn state(trainings: Vec<TrainingState>) -> ProcessState {
        ProcessState {
            version: 1,
            process: 4711,
            namespace: None,
            program: "digits".to_owned(),
            profilers: Vec::new(),
            is_recording: false,
            trainings,
            memory: None,
            activity: None,
            parent: None,
            launch: None,
        }
    }

    fn training(steps: u64, last_steps: &[f64]) -> TrainingState {
        TrainingState {
            stage: Some(Stage::Fit),
            rank: 0,
            world_size: 1,
            epoch: Some(3),
            epochs: Some(10),
            epoch_step: None,
            epoch_steps: None,
            samples_per_second: None,
            waiting_for_data: None,
            loss: None,
            steps,
            seconds: steps as f64,
            is_paused: false,
            last_steps: last_steps.to_vec(),
        }
    }

    #[test]
    fn only_steps_that_ended_meanwhile_count() {
        let before = state(vec![training(2, &[9.0, 9.0])]);
        let after = state(vec![training(5, &[9.0, 9.0, 0.125, 0.25, 0.75])]);
        let response = response(&before, &after, Some("12:00:00 UTC"));
        let expected = "Timestamp: 12:00:00 UTC\nProcess: 4711, digits\nStage: fit, 5 steps, epoch 3 of 10\n\
                        Step time (ms): 375.000 (avg), 125.000 (min), 750.000 (max), of 3 steps\n";
        assert_eq!(response.data, expected);
        let result = response.monitor_result.expect("there were steps");
        let times = [result.step_time_ms_avg, result.step_time_ms_min, result.step_time_ms_max];
        assert_eq!(times, [375.0, 125.0, 750.0]);
    }

    #[test]
    fn unknown_values_are_omitted() {
        let none = response(&state(Vec::new()), &state(Vec::new()), None);
        assert_eq!(none.data, "Process: 4711, digits\nNo training is running\n");
        assert_eq!(none.monitor_result, None);
        let same = state(vec![training(2, &[9.0, 9.0])]);
        let idle = response(&same, &same, None);
        assert!(idle.data.ends_with("no step ended in this interval\n"), "{}", idle.data);
        assert_eq!(idle.monitor_result, None);
        // This stage began between the two states, so only its last steps are known.
        let begun = response(&state(Vec::new()), &state(vec![training(500, &[1.0, 3.0])]), None);
        assert!(
            begun.data.ends_with("2000.000 (avg), 1000.000 (min), 3000.000 (max), of 2 steps\n")
        );
    }
}
