//! Gaps between a device's kernels, grouped by cause.
//!
//! The causes are those of HolisticTraceAnalysis. A gap is caused by the host if the work after it
//! was launched after the previous work had ended. Otherwise it is launch overhead if it is short.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::cycle::{Cycle, clock_shifts};
use mlprof_events::OrderExt;
use mlprof_events::{ActionKind, TimingMethod};
use mlprof_report::tensor::{DeviceIdle, IdleGaps};

/// Length in nanoseconds below which a gap counts as launch overhead.
const LAUNCH: u64 = 30_000;
/// Maximum number of streams with separate sums.
const MOST_STREAMS: usize = 64;

/// A device with one of its streams, or with `None` for all of them.
type Queue = (u32, Option<u32>);

/// Sums over all cycles, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct IdleSums(BTreeMap<Queue, Sums>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Sums {
    events: u64,
    window: u64,
    busy: u64,
    host_wait: Gaps,
    launch: Gaps,
    other: Gaps,
    unknown: Gaps,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Gaps {
    count: u64,
    sum: u64,
    longest: u64,
}

/// Work of a device, in nanoseconds since the beginning of the cycle.
#[derive(Debug, Clone, Copy)]
struct Work {
    stream: u32,
    start: i64,
    end: i64,
    /// Start of its launch, if known.
    launched: Option<i64>,
}

impl Gaps {
    fn add(&mut self, gap: u64) {
        self.count += 1;
        self.sum += gap;
        self.longest = self.longest.max(gap);
    }

    fn in_seconds(self) -> IdleGaps {
        IdleGaps {
            count: self.count,
            seconds: seconds(self.sum),
            longest_seconds: seconds(self.longest),
        }
    }
}

impl Sums {
    /// Adds work, sorted by start time. `pauses` are times in which recording was paused, which do
    /// not count as gaps.
    fn add(&mut self, work: impl IntoIterator<Item = Work>, pauses: &[(i64, i64)]) {
        let mut busy_until: Option<i64> = None;
        for work in work {
            self.events += 1;
            let until = busy_until.unwrap_or(work.start);
            if work.start > until {
                let gap = without(pauses, until, work.start);
                self.window += gap;
                if gap > 0 {
                    self.gaps_before(&work, until, gap).add(gap);
                }
            }
            let busy = (work.end - work.start.max(until)).max(0).cast_unsigned();
            self.busy += busy;
            self.window += busy;
            busy_until = Some(until.max(work.end));
        }
    }

    /// Returns the group to which the gap before this work belongs. The previous work ended at
    /// `until`.
    fn gaps_before(&mut self, work: &Work, until: i64, gap: u64) -> &mut Gaps {
        match work.launched {
            None => &mut self.unknown,
            Some(launched) if launched > until => &mut self.host_wait,
            Some(_) if gap < LAUNCH => &mut self.launch,
            Some(_) => &mut self.other,
        }
    }
}

impl IdleSums {
    /// Adds the device work of `cycle`. *Cost*: none if no work was timed, otherwise a pass over
    /// the events of all threads.
    pub(super) fn add(&mut self, cycle: &Cycle) {
        let since_start = |time| cycle.nanoseconds_since_start(time);
        let pauses: Vec<(i64, i64)> =
            cycle.pauses.iter().map(|(from, to)| (since_start(*from), since_start(*to))).collect();
        for (device, mut work) in work_of(cycle) {
            work.order_by_key(|work| (work.start, work.end));
            self.sums((device, None)).add(work.iter().copied(), &pauses);
            let mut streams: Vec<u32> = work.iter().map(|work| work.stream).collect();
            streams.order();
            streams.dedup();
            for stream in streams {
                if self.0.len() < MOST_STREAMS || self.0.contains_key(&(device, Some(stream))) {
                    let own = work.iter().filter(|work| work.stream == stream);
                    self.sums((device, Some(stream))).add(own.copied(), &pauses);
                }
            }
        }
    }

    fn sums(&mut self, queue: Queue) -> &mut Sums {
        self.0.entry(queue).or_default()
    }

    /// Returns the statistics of each device, followed by those of its streams if there are
    /// several.
    pub(super) fn statistics(&self) -> Vec<DeviceIdle> {
        let streams = |device| self.0.keys().filter(|queue| queue.0 == device).count() - 1;
        let is_shown = |queue: &Queue| queue.1.is_none() || streams(queue.0) > 1;
        let shown = self.0.iter().filter(|(queue, _)| is_shown(queue));
        let statistics = shown.map(|((device, stream), sums)| DeviceIdle {
            device: *device,
            stream: *stream,
            events: sums.events,
            window_seconds: seconds(sums.window),
            busy_seconds: seconds(sums.busy),
            host_wait: sums.host_wait.in_seconds(),
            launch: sums.launch.in_seconds(),
            other: sums.other.in_seconds(),
            unknown: sums.unknown.in_seconds(),
        });
        statistics.collect()
    }
}

/// Returns the duration between two moments without the pauses.
fn without(pauses: &[(i64, i64)], from: i64, to: i64) -> u64 {
    let first = pauses.partition_point(|(_, end)| *end <= from);
    let inside = pauses[first..].iter().take_while(|(start, _)| *start < to);
    let paused: i64 = inside.map(|(start, end)| (*end).min(to) - (*start).max(from)).sum();
    (to - from - paused).max(0).cast_unsigned()
}

/// Returns the work of all devices, timed by their own clocks.
fn work_of(cycle: &Cycle) -> BTreeMap<u32, Vec<Work>> {
    let is_timed = |method| matches!(method, TimingMethod::Device | TimingMethod::Driver);
    let timed = || {
        let events = cycle.device_events.iter();
        events.filter(move |event| event.activity.is_device_work() && is_timed(event.method))
    };
    let mut work: BTreeMap<u32, Vec<Work>> = BTreeMap::new();
    if timed().next().is_none() {
        return work;
    }
    let launches = launches(cycle);
    let launched = |correlation: u32| match correlation {
        0 => None,
        correlation => launches.get(&correlation).copied(),
    };
    let shifts = clock_shifts(cycle, |event| launched(event.correlation));
    for event in timed() {
        let shift = shifts.get(&event.device).copied().unwrap_or(0);
        let start = cycle.nanoseconds_since_start(event.start) + shift;
        let end = (cycle.nanoseconds_since_start(event.end) + shift).max(start);
        let launched = launched(event.correlation);
        let one = Work { stream: event.stream, start, end, launched };
        work.entry(event.device).or_default().push(one);
    }
    work
}

/// Returns the start of each launch, by its correlation number.
fn launches(cycle: &Cycle) -> FxHashMap<u32, i64> {
    let events = cycle.tracks().iter().flat_map(|track| track.events());
    let launches = events
        .filter(|event| event.sequence != 0 && event.action.kind() == ActionKind::Launch)
        .map(|event| (event.sequence, cycle.nanoseconds_since_start(event.start)));
    launches.collect()
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 * 1e-9
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn work(start: i64, end: i64, launched: Option<i64>) -> Work {
        Work { stream: 0, start, end, launched }
    }

    fn sums(all: &[Work]) -> Sums {
        let mut sums = Sums::default();
        sums.add(all.iter().copied(), &[]);
        sums
    }

    #[test]
    fn pauses_of_the_recording_are_no_gaps() {
        let all = [work(0, 10, Some(0)), work(110, 120, Some(90)), work(400, 410, Some(0))];
        let mut sums = Sums::default();
        sums.add(all, &[(20, 70), (120, 400)]);
        // Of the 100 ns between the first two, 50 are left. The next gap is completely paused.
        assert_eq!((sums.window, sums.busy, sums.host_wait), (80, 30, gap(50)));
        assert_eq!((sums.launch, sums.other), (Gaps::default(), Gaps::default()));
    }

    fn gap(sum: u64) -> Gaps {
        Gaps { count: 1, sum, longest: sum }
    }

    #[test]
    fn a_gap_is_the_hosts_the_launchs_or_anothers() {
        let sums = sums(&[
            work(1_000, 11_000, None),             // no gap before the first work
            work(16_000, 20_000, Some(500)),       // launched early, short gap
            work(120_000, 130_000, Some(20_001)),  // launched after the gap began
            work(230_000, 240_000, Some(125_000)), // launched early, long gap
            work(240_000, 250_000, Some(245_000)), // no gap
            work(300_000, 310_000, None),
        ]);
        let expected = Sums {
            events: 6,
            window: 309_000,
            busy: 54_000,
            launch: gap(5_000),
            host_wait: gap(100_000),
            other: gap(100_000),
            unknown: gap(50_000),
        };
        assert_eq!(sums, expected);
    }

    #[test]
    fn parallel_kernels_count_once_as_busy() {
        let sums = sums(&[
            work(0, 100_000, None),
            work(20_000, 50_000, Some(0)),  // inside the first work
            work(90_000, 120_000, Some(0)), // overlaps the end of the first work
            work(130_000, 140_000, Some(0)),
        ]);
        assert_eq!((sums.window, sums.busy), (140_000, 130_000));
        assert_eq!(sums.launch, gap(10_000));
    }

    proptest! {
        /// Checks that busy time and the gaps of all causes add up to the window, to the
        /// nanosecond.
        #[test]
        fn causes_add_up_to_the_idle_time(
            mut all in prop::collection::vec((0..2_000_000_i64, 0..60_000_i64, prop::option::of(0..2_000_000_i64)), 1..60),
        ) {
            all.sort_unstable();
            let all: Vec<_> =
                all.into_iter().map(|(start, length, launched)| work(start, start + length, launched)).collect();
            let sums = sums(&all);
            let gaps = [sums.host_wait, sums.launch, sums.other, sums.unknown];
            let idle: u64 = gaps.iter().map(|gaps| gaps.sum).sum();
            let last = all.iter().map(|work| work.end).max().unwrap_or(0);
            prop_assert_eq!(sums.window, (last - all[0].start).cast_unsigned());
            prop_assert_eq!(sums.busy + idle, sums.window);
        }
    }
}
