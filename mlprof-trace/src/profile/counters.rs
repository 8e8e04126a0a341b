//! Values of device counters during each action.
//!
//! The samples of a cycle become one [`Series`] per device and counter. For a span of time, it
//! returns the number, the sum and the maximum of the samples in O(log n). After a cycle, one
//! [`Sum`] per action, device and counter is kept.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::kinds::Kinds;
use crate::cycle::Cycle;
use mlprof_events::OrderExt;
use mlprof_events::clock::Rate;
use mlprof_events::{Action, ActionKind, CounterSample, DeviceCounter, device_memory};
use mlprof_report::tensor::{ActionDeviceCounters, CounterStatistics, DeviceCounterStatistics};

/// A device and one of its counters.
type Key = (u32, DeviceCounter);

/// Aggregated samples.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sum {
    count: u64,
    sum: f64,
    max: f64,
}

impl Sum {
    const NONE: Self = Self { count: 0, sum: 0.0, max: f64::NEG_INFINITY };

    fn add(&mut self, other: Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    fn statistics(&self, counter: DeviceCounter) -> CounterStatistics {
        let mean = self.sum / self.count.max(1) as f64;
        CounterStatistics { counter, samples: self.count, mean, max: self.max }
    }
}

/// Samples of one counter of one device in one cycle, in chronological order.
struct Series {
    times: Vec<u64>,
    /// Prefix sums: the sum of all values before each sample, and the total.
    sums: Vec<f64>,
    /// Binary tree of maxima. The values are its leaves, in the second half; each other element is
    /// the maximum of its two children.
    maxima: Vec<f64>,
}

impl Series {
    fn new(mut samples: Vec<(u64, f64)>) -> Self {
        samples.order_by_key(|(time, _)| *time);
        let count = samples.len();
        let mut sums = Vec::with_capacity(count + 1);
        let mut maxima = vec![f64::NEG_INFINITY; 2 * count];
        let mut sum = 0.0;
        sums.push(sum);
        for (index, (_, value)) in samples.iter().enumerate() {
            sum += value;
            sums.push(sum);
            maxima[count + index] = *value;
        }
        for place in (1..count).rev() {
            maxima[place] = maxima[2 * place].max(maxima[2 * place + 1]);
        }
        Self { times: samples.into_iter().map(|(time, _)| time).collect(), sums, maxima }
    }

    /// Returns the aggregate of the samples from `start` to `end`, both inclusive.
    fn between(&self, start: u64, end: u64) -> Sum {
        let first = self.times.partition_point(|time| *time < start);
        let past = self.times.partition_point(|time| *time <= end);
        if first >= past {
            return Sum::NONE;
        }
        let (mut left, mut right) = (first + self.times.len(), past + self.times.len());
        let mut max = f64::NEG_INFINITY;
        while left < right {
            if left % 2 == 1 {
                max = max.max(self.maxima[left]);
                left += 1;
            }
            if right % 2 == 1 {
                right -= 1;
                max = max.max(self.maxima[right]);
            }
            (left, right) = (left / 2, right / 2);
        }
        Sum { count: (past - first) as u64, sum: self.sums[past] - self.sums[first], max }
    }

    fn span(&self) -> u64 {
        self.times.last().zip(self.times.first()).map_or(0, |(last, first)| last - first)
    }
}

/// Sums over all calls of one action.
#[derive(Debug, Default)]
struct ActionSums {
    calls: u64,
    ticks: u64,
    counters: BTreeMap<Key, Sum>,
}

/// Numbers of readings of a device, over all cycles.
#[derive(Debug, Clone, Copy, Default)]
struct Rounds {
    count: u64,
    /// Number of intervals between consecutive readings of the same cycle. `ticks` is their total
    /// duration.
    gaps: u64,
    ticks: u64,
}

/// Values of counters over all cycles with samples. The memory depends on the number of different
/// actions and devices.
#[derive(Debug, Default)]
pub(super) struct CounterSums {
    /// Total duration of these cycles in ticks.
    ticks: u64,
    recording: BTreeMap<Key, Sum>,
    rounds: BTreeMap<u32, Rounds>,
    actions: FxHashMap<Action, ActionSums>,
}

impl CounterSums {
    /// Adds the samples of a cycle. *Cost*: none without samples. Otherwise it visits every event,
    /// with two binary searches per device and counter for each event of an action.
    pub(super) fn add(&mut self, cycle: &Cycle) {
        if cycle.device_counters.is_empty() {
            return;
        }
        let spans = cycle.tracks().iter().flat_map(|track| track.events());
        let spans = spans.map(|event| (event.action, event.start.ticks(), event.end.ticks()));
        let ticks = cycle.ended.ticks().saturating_sub(cycle.started.ticks());
        self.add_spans(&cycle.device_counters, spans, ticks);
    }

    /// Adds samples, the spans of actions in the same time, and its duration in ticks.
    fn add_spans(
        &mut self,
        samples: &[CounterSample],
        spans: impl Iterator<Item = (Action, u64, u64)>,
        ticks: u64,
    ) {
        let series = series(samples);
        self.ticks += ticks;
        self.note(&series);
        let mut kinds = Kinds::default();
        for (action, start, end) in spans.filter(|span| kinds.of(span.0).is_action()) {
            let sums = self.actions.entry(action).or_default();
            sums.calls += 1;
            sums.ticks += end.saturating_sub(start);
            for (key, series) in &series {
                let sum = series.between(start, end);
                if sum.count > 0 {
                    sums.counters.entry(*key).or_insert(Sum::NONE).add(sum);
                }
            }
        }
    }

    fn note(&mut self, series: &BTreeMap<Key, Series>) {
        let mut longest: BTreeMap<u32, &Series> = BTreeMap::new();
        for (key, series) in series {
            let all = series.between(0, u64::MAX);
            self.recording.entry(*key).or_insert(Sum::NONE).add(all);
            let known = longest.entry(key.0).or_insert(series);
            if series.times.len() > known.times.len() {
                *known = series;
            }
        }
        for (device, series) in longest {
            let rounds = self.rounds.entry(device).or_default();
            let count = series.times.len() as u64;
            rounds.count += count;
            rounds.gaps += count.saturating_sub(1);
            rounds.ticks += series.span();
        }
    }

    /// Returns the statistics of every device.
    pub(super) fn statistics(&self, rate: Rate) -> Vec<DeviceCounterStatistics> {
        let device = |(device, rounds): (&u32, &Rounds)| DeviceCounterStatistics {
            device: *device,
            samples: rounds.count,
            interval_seconds: (rounds.gaps > 0)
                .then(|| rate.seconds(rounds.ticks) / rounds.gaps as f64),
            recorded_seconds: rate.seconds(self.ticks),
            memory_bytes: device_memory(*device),
            recording: of_device(*device, &self.recording),
            actions: self.actions_on(*device, rate),
        };
        self.rounds.iter().map(device).collect()
    }

    fn actions_on(&self, device: u32, rate: Rate) -> Vec<ActionDeviceCounters> {
        let action = |(action, sums): (&Action, &ActionSums)| {
            let kind = action.kind();
            let name = if kind == ActionKind::Step { "ProfilerStep*" } else { action.name() };
            ActionDeviceCounters {
                name: name.to_owned(),
                kind,
                calls: sums.calls,
                total_seconds: rate.seconds(sums.ticks),
                counters: of_device(device, &sums.counters),
            }
        };
        let mut actions: Vec<_> = self.actions.iter().map(action).collect();
        actions.order_by(|one, other| {
            let longest_first = other.total_seconds.total_cmp(&one.total_seconds);
            longest_first.then_with(|| one.name.cmp(&other.name))
        });
        actions
    }
}

fn of_device(device: u32, sums: &BTreeMap<Key, Sum>) -> Vec<CounterStatistics> {
    let own = sums.iter().filter(|((of, _), _)| *of == device);
    own.map(|((_, counter), sum)| sum.statistics(*counter)).collect()
}

fn series(samples: &[CounterSample]) -> BTreeMap<Key, Series> {
    let mut values: BTreeMap<Key, Vec<(u64, f64)>> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.value.is_finite()) {
        let key = (sample.device, sample.counter);
        values.entry(key).or_default().push((sample.time.ticks(), sample.value));
    }
    values.into_iter().map(|(key, values)| (key, Series::new(values))).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use mlprof_events::Timestamp;

    fn sample(time: u64, device: u32, counter: DeviceCounter, value: f64) -> CounterSample {
        CounterSample { time: Timestamp::from_ticks(time), device, counter, value }
    }

    proptest! {
        #[test]
        fn a_span_has_what_was_sampled_in_it_and_nothing_else(
            samples in proptest::collection::vec((0..50_u64, 0..100_u32), 0..40),
            start in 0..60_u64,
            length in 0..60_u64,
        ) {
            let end = start + length;
            let values: Vec<_> =
                samples.iter().map(|(time, value)| (*time, f64::from(*value))).collect();
            let inside: Vec<f64> = values
                .iter()
                .filter(|(time, _)| (start..=end).contains(time))
                .map(|(_, value)| *value)
                .collect();
            let sum = Series::new(values).between(start, end);
            prop_assert_eq!(sum.count, inside.len() as u64);
            prop_assert_eq!(sum.sum, inside.iter().fold(0.0, |sum, value| sum + value));
            prop_assert_eq!(sum.max, inside.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        }
    }

    #[test]
    fn means_are_over_all_calls_of_all_cycles_and_per_device() {
        use DeviceCounter::{GpuUtilization, Power};
        let (long, short) = (Action::new("counters_long"), Action::new("counters_short"));
        let (op, step) = (Action::op("aten::none"), Action::of_kind(ActionKind::Step, "S", None));
        let mut sums = CounterSums::default();
        for cycle in 0..2_u64 {
            let base = 10_000 * cycle;
            let value = |time: u64| (time / 10 + 100 * cycle) as f64;
            let times = [10, 20, 30, 40];
            let samples = times.iter().flat_map(|time| {
                let power = sample(base + time, 1, Power, 7.0);
                [sample(base + time, 0, GpuUtilization, value(*time)), power]
            });
            // A sample that is not a number is ignored.
            let nothing = sample(base + 20, 0, GpuUtilization, f64::NAN);
            let samples: Vec<_> = samples.chain([nothing]).collect();
            let span = |action, start: u64, end: u64| (action, base + start, base + end);
            let spans = [
                span(long, 5, 15),
                span(long, 25, 40),
                span(short, 11, 19),
                span(op, 0, 50),
                span(step, 0, 50),
            ];
            sums.add_spans(&samples, spans.into_iter(), 50);
        }
        let statistics = sums.statistics(Rate::now());
        assert_eq!(statistics.iter().map(|one| one.device).collect::<Vec<_>>(), [0, 1]);
        let first = &statistics[0];
        assert_eq!(first.samples, 8);
        let interval = first.interval_seconds.expect("more than one");
        assert!((interval / Rate::now().seconds(10) - 1.0).abs() < 1e-3, "{interval}");
        let all = CounterStatistics { counter: GpuUtilization, samples: 8, mean: 52.5, max: 104.0 };
        assert_eq!(first.recording, [all]);
        let names: Vec<_> = first.actions.iter().map(|action| action.name.as_str()).collect();
        assert_eq!(names, ["ProfilerStep*", "counters_long", "counters_short"]);
        assert_eq!(first.actions[0].counters, [all]);
        assert_eq!((first.actions[1].calls, first.actions[2].calls), (4, 2));
        // The values are 1, 3 and 4 in the first cycle, and 101, 103 and 104 in the second.
        let mean = (1.0 + 3.0 + 4.0 + 101.0 + 103.0 + 104.0) / 6.0;
        assert_eq!(
            first.actions[1].counters,
            [CounterStatistics { counter: GpuUtilization, samples: 6, mean, max: 104.0 }]
        );
        assert_eq!(first.actions[2].counters, []);
        let power = CounterStatistics { counter: Power, samples: 8, mean: 7.0, max: 7.0 };
        assert_eq!(statistics[1].recording, [power]);
    }

    #[test]
    fn one_sample_has_no_interval() {
        let mut sums = CounterSums::default();
        assert_eq!(sums.statistics(Rate::now()), []);
        let one = sample(3, 2, DeviceCounter::Temperature, 40.0);
        sums.add_spans(&[one], std::iter::empty(), 10);
        let statistics = sums.statistics(Rate::now());
        assert_eq!((statistics[0].device, statistics[0].interval_seconds), (2, None));
    }
}
