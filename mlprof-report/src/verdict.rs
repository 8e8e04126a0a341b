//! One sentence about the time of a run: which part bounds it, and how a step's time is divided.

use crate::number::{duration, percent};
use crate::steps::{PARTS, StepSeries};
use crate::tensor::DeviceIdle;
use crate::{Report, ReportHeader};

/// Share of step time that waits for data above which a training is called data-bound.
const DATA_BOUND: f64 = 0.2;
/// Share of step time in collectives above which a training is called communication-bound.
const COMMUNICATION_BOUND: f64 = 0.3;
/// Share of step time in forward, backward and optimizer above which a training is called
/// compute-bound.
const COMPUTE_BOUND: f64 = 0.5;
/// Busy share of a device above which a training is called device-bound.
const DEVICE_BOUND: f64 = 0.8;

/// Names of the parts of a step that compute.
const COMPUTE: [&str; 3] = ["forward", "backward", "optimizer"];

impl Report {
    /// Returns one sentence about the time of the run: which part bounds it, and how a step's time
    /// is divided. Reports begin with it. Returns `None` if the profiler records no steps, or if
    /// there were none.
    ///
    /// *Shares*: those of all steps except the first one, on the thread of the training loop. The
    /// first step includes compilation and other start-up work.
    ///
    /// *Devices*: if a device's own clock measured the device time, its busy and idle times decide
    /// what bounds the run. If a device was not measured, the sentence does not name a bound.
    ///
    /// # Examples
    ///
    /// ```
    /// use mlprof_core::{Profiler, SimpleProfiler};
    ///
    /// let profiler = SimpleProfiler::new();
    /// let report = profiler.report().expect("a Simple report");
    /// assert_eq!(report.verdict(), None); // there were no steps
    /// ```
    pub fn verdict(&self) -> Option<String> {
        sentence(self)
    }
}

fn sentence(report: &Report) -> Option<String> {
    let header = report.header();
    let mut all = report.step_series().iter();
    let series = all.find(|series| series.stage == header.stage && !series.entries.is_empty())?;
    let steps = series.steady();
    let shares = Shares::of(&steps)?;
    let median = duration(steps.quantile(0.5)?);
    let devices = match report {
        Report::Tensor(report) => &report.device_idle[..],
        _ => &[],
    };
    Some(match devices_in_words(devices) {
        Some((bound, devices)) => {
            format!("{bound}: {devices}. Host: {}; median step {median}.", shares.in_words())
        }
        // The host only launches the work of a device, so its times do not show what bounds it.
        None if has_devices(header) => {
            format!("Host time of a step: {}; median step {median}.", shares.in_words())
        }
        None => format!("{}: {}; median step {median}.", shares.bound(), shares.in_words()),
    })
}

fn has_devices(header: &ReportHeader) -> bool {
    header.machine.as_ref().is_some_and(|machine| !machine.devices.is_empty())
}

/// Shares of a step's time, 0 to 1, in the order of [`PARTS`].
struct Shares([f64; PARTS.len()]);

impl Shares {
    /// Returns `None` if the steps took no time.
    fn of(series: &StepSeries) -> Option<Self> {
        let whole: f64 = series.entries.iter().map(|entry| entry.seconds).sum();
        let share =
            |(_, part): (&str, fn(&_) -> f64)| series.entries.iter().map(part).sum::<f64>() / whole;
        (whole > 0.0).then(|| Self(PARTS.map(share).map(|share| share.max(0.0))))
    }

    fn named(&self) -> impl Iterator<Item = (&'static str, f64)> {
        PARTS.iter().map(|(name, _)| *name).zip(self.0)
    }

    fn part(&self, name: &str) -> f64 {
        self.named().filter(|(part, _)| *part == name).map(|(_, share)| share).sum()
    }

    fn compute(&self) -> f64 {
        COMPUTE.iter().map(|name| self.part(name)).sum()
    }

    fn bound(&self) -> &'static str {
        let (data, communication) = (self.part("data"), self.part("collectives"));
        if data >= DATA_BOUND && data >= communication {
            "Data-bound"
        } else if communication >= COMMUNICATION_BOUND {
            "Communication-bound"
        } else if self.compute() >= COMPUTE_BOUND {
            "Compute-bound"
        } else {
            "Bound by other work of the training loop"
        }
    }

    /// Returns the shares as text: `81 % of a step in forward (31 %) and backward (50 %), 3 %
    /// waiting for data, 16 % other`.
    fn in_words(&self) -> String {
        let compute = self.named().filter(|(name, _)| COMPUTE.contains(name));
        let compute: Vec<_> = compute
            .filter(|(_, share)| is_shown(*share))
            .map(|(name, share)| format!("{name} ({})", percent(share)))
            .collect();
        let compute = match &compute[..] {
            [] => "0 % of a step in forward, backward and optimizer".to_owned(),
            [first @ .., last] if !first.is_empty() => {
                format!("{} of a step in {} and {last}", percent(self.compute()), first.join(", "))
            }
            [only, ..] => format!("{} of a step in {only}", percent(self.compute())),
        };
        let communication = self.part("collectives");
        let communication = if is_shown(communication) {
            format!(", {} in collectives", percent(communication))
        } else {
            String::new()
        };
        format!(
            "{compute}, {} waiting for data{communication}, {} other",
            percent(self.part("data")),
            percent(self.part("other"))
        )
    }
}

/// Returns `true` if a share is at least 1 % after rounding.
fn is_shown(share: f64) -> bool {
    share >= 0.005
}

/// Returns what bounds the training, and the busy and idle shares of all devices together. Returns
/// `None` if no device was timed by its own clock.
fn devices_in_words(devices: &[DeviceIdle]) -> Option<(&'static str, String)> {
    let whole: Vec<_> = devices.iter().filter(|device| device.stream.is_none()).collect();
    let sum = |seconds: fn(&DeviceIdle) -> f64| whole.iter().map(|it| seconds(it)).sum::<f64>();
    let window = sum(|device| device.window_seconds);
    if window <= 0.0 {
        return None;
    }
    let busy = sum(|device| device.busy_seconds) / window;
    let late = sum(|device| device.host_wait.seconds) / window;
    let launch = sum(|device| device.launch.seconds) / window;
    let bound = if busy >= DEVICE_BOUND {
        "Device-bound"
    } else if launch > late {
        "Launch-bound"
    } else if late >= (1.0 - busy) / 2.0 {
        "Host-bound"
    } else {
        "Bound by waits between device work"
    };
    let subject = match &whole[..] {
        [only] => format!("device {} works", only.device),
        _ => format!("{} devices work", whole.len()),
    };
    let waits = [("waiting for the host", late), ("in launch gaps", launch)];
    let waits: Vec<_> = waits
        .iter()
        .filter(|(_, share)| is_shown(*share))
        .map(|(cause, share)| format!(", {} {cause}", percent(*share)))
        .collect();
    Some((bound, format!("{subject} {} of the time{}", percent(busy), waits.concat())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::samples;
    use crate::steps::StepEntry;
    use crate::tensor::IdleGaps;

    fn entry(number: u64, [data, forward, backward, other]: [f64; 4]) -> StepEntry {
        StepEntry {
            number,
            count: 1,
            seconds: data + forward + backward + other,
            data_seconds: data,
            forward_seconds: forward,
            backward_seconds: backward,
            other_seconds: other,
            ..StepEntry::default()
        }
    }

    fn with_steps(parts: [f64; 4]) -> Report {
        let mut report = samples::steps(3, 1.0);
        let mut entries = vec![entry(0, [100.0; 4])];
        entries.extend((1..4).map(|number| entry(number, parts)));
        let stage = report.header.stage;
        report.step_series = vec![StepSeries { stage, steps: 4, entries, durations: None }];
        Report::Simple(report)
    }

    #[test]
    fn the_largest_part_names_the_bound_and_the_first_step_is_left_out() {
        let sentence = |parts| sentence(&with_steps(parts)).expect("steps");
        assert_eq!(
            sentence([0.03, 0.31, 0.50, 0.16]),
            "Compute-bound: 81 % of a step in forward (31 %) and backward (50 %), 3 % waiting for \
             data, 16 % other; median step 1.00 s."
        );
        assert_eq!(
            sentence([0.25, 0.0, 0.50, 0.25]),
            "Data-bound: 50 % of a step in backward (50 %), 25 % waiting for data, 25 % other; \
             median step 1.00 s."
        );
        assert!(sentence([0.0, 0.2, 0.2, 0.6]).starts_with("Bound by other work"));
    }

    #[test]
    fn ranks_that_wait_for_each_other_are_communication_bound() {
        let mut report = samples::rank(0, 2, 0.005);
        report.step_series[0].entries.truncate(3);
        let sentence = sentence(&Report::Simple(report)).expect("steps");
        let words = "Communication-bound: 20 % of a step in forward (20 %), 10 % waiting for data, \
                     70 % in collectives, 0 % other; median step 50.0 ms.";
        assert_eq!(sentence, words);
    }

    #[test]
    fn devices_decide_where_their_clock_timed_them() {
        let gaps = |seconds| IdleGaps { count: 1, seconds, longest_seconds: seconds };
        let device = |busy_seconds, late, launch| DeviceIdle {
            window_seconds: 10.0,
            busy_seconds,
            host_wait: gaps(late),
            launch: gaps(launch),
            ..DeviceIdle::default()
        };
        let words = |device| devices_in_words(&[device]).expect("a device");
        assert_eq!(words(device(9.0, 1.0, 0.0)).0, "Device-bound");
        let (bound, sentence) = words(device(4.0, 5.0, 1.0));
        assert_eq!(bound, "Host-bound");
        assert_eq!(
            sentence,
            "device 0 works 40 % of the time, 50 % waiting for the host, 10 % in launch gaps"
        );
        assert_eq!(words(device(4.0, 1.0, 5.0)).0, "Launch-bound");
        assert_eq!(devices_in_words(&[]), None);
    }

    #[test]
    fn reports_without_steps_have_no_sentence() {
        assert_eq!(sentence(&Report::Simple(samples::steps(3, 1.0))), None);
    }
}
