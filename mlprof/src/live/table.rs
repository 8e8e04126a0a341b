//! Formats the state of processes, as a table or in one line.

use std::collections::BTreeMap;

use mlprof_events::live::{ProcessState, TrainingState};

use super::listed::Listed;

/// Column headings, each with a flag that is `true` for numeric columns.
const COLUMNS: [(&str, bool); 8] = [
    ("PID", true),
    ("PROGRAM", false),
    ("STAGE", false),
    ("EPOCH", true),
    ("STEP", true),
    ("STEPS/S", true),
    ("PROFILER", false),
    ("RANK", true),
];

/// Formats a table with one row per training. A process without a running training also has one
/// row.
pub(super) fn table(all: &[Listed]) -> String {
    let head = COLUMNS.map(|(name, _)| name.to_owned());
    let mut rows = vec![head];
    for listed in all {
        let trainings = &listed.state.trainings;
        if trainings.is_empty() {
            rows.push(row(listed, None));
        }
        rows.extend(trainings.iter().map(|training| row(listed, Some(training))));
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..COLUMNS.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).zip(COLUMNS).map(|((cell, width), (_, is_number))| {
            if is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn row(listed: &Listed, training: Option<&TrainingState>) -> [String; 8] {
    let Listed { name, state, unanswered } = listed;
    let of = |text: fn(&TrainingState) -> Option<String>| {
        training.and_then(text).unwrap_or_else(|| "-".to_owned())
    };
    let mut profilers = state.profilers.join("+");
    if profilers.is_empty() {
        profilers.push_str(if unanswered.is_none() { "none" } else { "-" });
    }
    let idle = || unanswered.clone().unwrap_or_else(|| "-".to_owned());
    [
        name.to_string(),
        state.program.clone(),
        training.map_or_else(idle, stage),
        of(epoch),
        of(|training| Some(training.steps.to_string())),
        of(|training| training.steps_per_second().map(|rate| format!("{rate:.1}"))),
        profilers,
        of(|training| Some(format!("{}/{}", training.rank, training.world_size))),
    ]
}

pub(super) fn stage(training: &TrainingState) -> String {
    training.stage.map_or("-", |stage| stage.as_str()).to_owned()
}

/// Returns the epoch counted from 1, as trainers print it.
pub(super) fn epoch(training: &TrainingState) -> Option<String> {
    let epoch = training.epoch?.saturating_add(1);
    Some(training.epochs.map_or_else(|| epoch.to_string(), |of| format!("{epoch}/{of}")))
}

/// Formats the current state of a process in one line.
pub(super) fn line(state: &ProcessState) -> String {
    if state.trainings.is_empty() {
        return "no stage is running; a loop of your own begins one with Session::begin".to_owned();
    }
    let mut parts: Vec<String> = state.trainings.iter().map(of_training).collect();
    if let Some(memory) = state.memory {
        parts.push(format!("{:.0} MiB", memory.resident_bytes as f64 / f64::from(1 << 20)));
    }
    parts.extend(devices(state));
    if state.is_recording {
        parts.push("recording".to_owned());
    }
    parts.join("; ")
}

/// Returns the known utilisation, memory and power of each device, for example `GPU 0 87% 3072 MiB
/// 300 W`.
pub(super) fn devices(state: &ProcessState) -> Vec<String> {
    let mut devices: BTreeMap<u32, String> = BTreeMap::new();
    for shown in state.activity.iter().flat_map(|activity| &activity.counters) {
        let value = shown.value;
        let text = match shown.counter.as_str() {
            "utilization" => format!("{value:.0}%"),
            "memory used" => format!("{:.0} MiB", value / f64::from(1 << 20)),
            "power" => format!("{value:.0} W"),
            // Other counters are only in the JSON output.
            _ => continue,
        };
        let device = devices.entry(shown.device).or_insert_with(|| format!("GPU {}", shown.device));
        *device += &format!(" {text}");
    }
    devices.into_values().collect()
}

fn of_training(training: &TrainingState) -> String {
    let mut text = stage(training);
    if let Some(epoch) = epoch(training) {
        text += &format!(", epoch {epoch}");
    }
    text += &format!(", step {}", training.steps);
    if let Some(rate) = training.steps_per_second() {
        text += &format!(", {rate:.1} steps/s");
    }
    if let Some(rate) = training.samples_per_second {
        text += &format!(", {rate:.0} samples/s");
    }
    if let (Some(median), Some(slow)) = (training.quantile(0.5), training.quantile(0.99)) {
        text += &format!(", p50 {:.3} ms, p99 {:.3} ms", median * 1e3, slow * 1e3);
    }
    if let Some(loss) = training.loss {
        text += &format!(", loss {}", number(loss));
    }
    if let Some(share) = training.waiting_for_data {
        text += &format!(", {:.0}% waiting for data", share * 1e2);
    }
    if let Some(seconds) = training.seconds_left() {
        text += &format!(", {} left", clock(seconds));
    }
    if training.is_paused {
        text += ", validating";
    }
    text
}

/// Formats a number with four decimals, or in scientific notation if it is very small or large.
/// `NaN` and `inf` are supported.
pub(super) fn number(number: f64) -> String {
    match number.abs() {
        size if size == 0.0 || (1e-3..1e4).contains(&size) || !size.is_finite() => {
            format!("{number:.4}")
        }
        _ => format!("{number:.3e}"),
    }
}

/// Formats a duration like a clock: `0:07`, `12:34`, `3:05:09`.
pub(super) fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use mlprof_events::Stage;
    use mlprof_events::live::{Activity, CounterState, MemoryState, VERSION};

    use super::*;

    fn states() -> Vec<ProcessState> {
        let training = TrainingState {
            stage: Some(Stage::Fit),
            rank: 1,
            world_size: 2,
            epoch: Some(2),
            epochs: Some(10),
            steps: 1203,
            seconds: 60.0,
            is_paused: true,
            last_steps: vec![0.02, 0.03, 0.04],
            epoch_step: Some(3),
            epoch_steps: Some(400),
            samples_per_second: Some(1066.4),
            waiting_for_data: Some(0.123),
            loss: Some(0.125),
        };
        let trains = ProcessState {
            version: VERSION,
            process: 4711,
            namespace: None,
            program: "digits".into(),
            profilers: vec!["simple".into(), "tensor".into()],
            is_recording: true,
            trainings: vec![training],
            memory: Some(MemoryState { resident_bytes: 300 << 20, peak_bytes: 400 << 20 }),
            activity: None,
            parent: None,
            launch: None,
        };
        let idle = ProcessState {
            process: 12,
            profilers: Vec::new(),
            trainings: Vec::new(),
            is_recording: false,
            ..trains.clone()
        };
        vec![idle, trains]
    }

    fn listed() -> Vec<Listed> {
        states().into_iter().map(|it| Listed::answered(it.process.into(), it)).collect()
    }

    #[test]
    fn one_that_does_not_answer_is_listed_with_the_reason() {
        let name = "1@4026532201".parse().expect("a name");
        let stopped = Listed::unanswered(name, Some("digits".into()), "stopped".into());
        let expected = "\
\x20        PID  PROGRAM  STAGE    EPOCH  STEP  STEPS/S  PROFILER  RANK
1@4026532201  digits   stopped      -     -        -  -            -
";
        assert_eq!(table(&[stopped]), expected);
    }

    #[test]
    fn columns_are_aligned_and_what_is_not_known_is_a_dash() {
        let expected = "\
\x20PID  PROGRAM  STAGE  EPOCH  STEP  STEPS/S  PROFILER       RANK
  12  digits   -          -     -        -  none              -
4711  digits   fit     3/10  1203     33.3  simple+tensor   1/2
";
        assert_eq!(table(&listed()), expected);
    }

    #[test]
    fn devices_are_shown_in_their_order() {
        let counter = |device, counter: &str, value, unit: &str| CounterState {
            device,
            counter: counter.into(),
            value,
            unit: unit.into(),
        };
        let counters = vec![
            counter(1, "utilization", 3.0, "%"),
            counter(0, "utilization", 87.4, "%"),
            counter(0, "temperature", 60.0, "°C"),
            counter(0, "memory used", f64::from(3 << 20), "bytes"),
            counter(0, "power", 299.9, "W"),
        ];
        let activity = Some(Activity { counters, ..Activity::default() });
        let mut state = states().remove(1);
        assert_eq!(devices(&state), [""; 0], "nobody follows");
        state.activity = activity;
        assert_eq!(devices(&state), ["GPU 0 87% 3 MiB 300 W", "GPU 1 3%"]);
        assert!(line(&state).ends_with("; 300 MiB; GPU 0 87% 3 MiB 300 W; GPU 1 3%; recording"));
    }

    #[test]
    fn times_are_shown_as_clocks_do() {
        assert_eq!([6.6, 754.0, 11_109.0].map(clock), ["0:07", "12:34", "3:05:09"]);
    }

    #[test]
    fn a_line_says_what_a_process_does() {
        let [idle, trains] = &states()[..] else { panic!("two") };
        assert!(line(idle).starts_with("no stage is running; "), "{}", line(idle));
        let expected = "fit, epoch 3/10, step 1203, 33.3 steps/s, 1066 samples/s, p50 30.000 ms, p99 40.000 ms, loss 0.1250, 12% waiting for data, 2:39 left, \
            validating; 300 MiB; recording";
        assert_eq!(line(trains), expected);
    }
}
