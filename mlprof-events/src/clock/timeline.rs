//! Relation between the counter and the clock, over a time in which the machine may have been
//! suspended.
//!
//! The monotonic clock stops while a machine is suspended. The counter depends on the machine:
//!
//! - it keeps running (suspend to idle, a paused virtual machine)
//! - it stops
//! - it restarts at 0 (suspend to memory)
//!
//! A rate measured over such a span would make every duration too short or too long. So the time
//! line is divided at each reading, and only spans without an interruption count for the rate.

use std::time::{Duration, SystemTime};

use super::interruption::{Interruption, between};
use super::readings::Reading;

/// Shortest duration over which the rate is measured.
pub(super) const MINIMAL_BASE: Duration = Duration::from_millis(200);

/// Number of ticks (some seconds) by which a moment may be later than the last reading. If the
/// counter was set back, a moment before that has a number that is larger by far more.
const SINCE_LAST_READING: u64 = 1 << 32;

/// Maximum number of interruptions stored separately. Later ones are added to the last.
const MOST_INTERRUPTIONS: usize = 64;

/// History of the counter and the clock since the first reading.
#[derive(Debug)]
pub(super) struct Timeline {
    first: Reading,
    last: Reading,
    /// Sum of the ticks over all spans without an interruption. `awake` is the sum of their clock
    /// time.
    ticks: u64,
    awake: Duration,
    /// Seconds per tick as measured after the first interruption; `None` before it.
    fresh: Option<f64>,
    interruptions: Vec<Interruption>,
}

impl Timeline {
    pub(super) fn new(first: Reading) -> Self {
        Self {
            first,
            last: first,
            ticks: 0,
            awake: Duration::ZERO,
            fresh: None,
            // The vector never grows, because the caller may be a tracking allocator.
            interruptions: Vec::with_capacity(MOST_INTERRUPTIONS),
        }
    }

    pub(super) fn first(&self) -> &Reading {
        &self.first
    }

    pub(super) fn last(&self) -> &Reading {
        &self.last
    }

    /// Returns the measured rate in seconds per tick. Returns `None` if the measured time is still
    /// too short and there is no fresh rate.
    pub(super) fn seconds_per_tick(&self) -> Option<f64> {
        let is_enough = self.awake >= MINIMAL_BASE && self.ticks > 0;
        is_enough.then(|| self.awake.as_secs_f64() / self.ticks as f64).or(self.fresh)
    }

    /// Uses this rate, in seconds per tick, until enough time has passed for a measurement.
    pub(super) fn set_fresh_rate(&mut self, seconds_per_tick: f64) {
        self.fresh = Some(seconds_per_tick);
    }

    /// Returns `true` if the rate must be measured again before the span from the last reading to
    /// `now` can be judged.
    pub(super) fn is_in_doubt(&self, now: &Reading, calibrated: f64) -> bool {
        self.fresh.is_none() && between(&self.last, now, calibrated).is_some()
    }

    /// Adds a reading. `calibrated` is the counter's first measured rate, in seconds per tick. That
    /// rate is not affected by spans in which the system corrected its clock.
    pub(super) fn advance(&mut self, now: Reading, calibrated: f64) {
        // Both rates must show the interruption, because either measurement may have been
        // disturbed.
        let by = |rate| between(&self.last, &now, rate);
        let found = by(calibrated).and_then(|found| self.fresh.map_or(Some(found), by));
        let is_full = self.interruptions.len() == MOST_INTERRUPTIONS;
        match (found, self.interruptions.last_mut()) {
            (None, _) => {
                self.ticks += now.ticks.saturating_sub(self.last.ticks);
                self.awake += now.awake.saturating_sub(self.last.awake);
            }
            (Some(found), Some(last)) if is_full => {
                last.time += found.time;
                last.until = found.until;
            }
            (Some(found), _) => self.interruptions.push(found),
        }
        self.last = now;
    }

    /// Returns sentences that describe the interruptions of a run between two moments, given in
    /// ticks.
    pub(super) fn notes(&self, started: u64, ended: u64) -> Vec<String> {
        let mut sums: Vec<Interruption> = Vec::new();
        let is_inside = |it: &&Interruption| {
            let is_set_back = it.until.0 < it.from || ended < started;
            !self.is_before(it, started) && (is_set_back || it.from < ended)
        };
        for interruption in self.interruptions.iter().filter(is_inside) {
            match sums.iter_mut().find(|sum| sum.counter == interruption.counter) {
                Some(sum) => sum.time += interruption.time,
                None => sums.push(*interruption),
            }
        }
        sums.iter().map(Interruption::to_string).collect()
    }

    /// Returns `true` if the interruption was over at `moment`. If the counter was set back, a
    /// moment before that may have a larger number than all moments after it.
    fn is_before(&self, interruption: &Interruption, moment: u64) -> bool {
        let latest = self.last.ticks.saturating_add(SINCE_LAST_READING);
        (interruption.until.0..=latest).contains(&moment)
    }

    /// Returns a counter reading and the wall clock at the same moment, as the base for converting
    /// moments near `ticks`. It is the first reading, or the one after the last interruption that
    /// lost time.
    pub(super) fn anchor_of(&self, ticks: u64) -> (u64, SystemTime) {
        let mut latest_first = self.interruptions.iter().rev();
        let found = latest_first.find(|it| it.counter.loses_time() && self.is_before(it, ticks));
        found.map_or((self.first.ticks, self.first.wall), |interruption| interruption.until)
    }

    /// Returns the seconds between two moments. The result is also correct if the counter was set
    /// back in between.
    pub(super) fn seconds_between(&self, from: u64, to: u64, seconds_per_tick: f64) -> f64 {
        if let Some(ticks) = to.checked_sub(from) {
            return ticks as f64 * seconds_per_tick;
        }
        let is_set_back = |it: &Interruption| it.counter.loses_time();
        if !self.interruptions.iter().any(is_set_back) {
            return 0.0; // the counters of two cores may differ by a few ticks
        }
        let awake = self.last.awake.saturating_sub(self.first.awake).as_secs_f64();
        let before = from.saturating_sub(self.first.ticks) as f64 * seconds_per_tick;
        let after = self.last.ticks.saturating_sub(to) as f64 * seconds_per_tick;
        (awake - before - after).max(0.0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Seconds per tick of a counter of 1 GHz. In these tests the machine had been running for 1000
    /// s at the first reading.
    const RATE: f64 = 1e-9;

    fn reading(ticks: f64, awake: f64, suspended: f64) -> Reading {
        let span = |seconds: f64| Duration::from_nanos((seconds * 1e9).round() as u64);
        let awake = span(1000.0 + awake);
        let total = Some(awake + span(suspended));
        let wall = SystemTime::UNIX_EPOCH + awake + span(suspended);
        Reading { ticks: ((1000.0 + ticks) * 1e9).round() as u64, awake, total, wall }
    }

    /// Builds a time line from readings. Each reading holds three durations in seconds since the
    /// first: the counter's, the clock's, and that of the suspension.
    fn timeline(readings: &[(f64, f64, f64)]) -> Timeline {
        let mut timeline = Timeline::new(reading(0.0, 0.0, 0.0));
        for &(ticks, awake, suspended) in readings {
            timeline.advance(reading(ticks, awake, suspended), RATE);
        }
        timeline
    }

    fn notes_of(readings: &[(f64, f64, f64)]) -> Vec<String> {
        let timeline = timeline(readings);
        timeline.notes(timeline.first.ticks, timeline.last.ticks)
    }

    fn assert_rate(timeline: &Timeline, expected: f64) {
        let rate = timeline.seconds_per_tick().expect("enough time");
        assert!((rate / expected - 1.0).abs() < 1e-9, "{rate} instead of {expected}");
    }

    #[test]
    fn a_rate_is_measured_over_all_time_that_the_machine_was_awake() {
        // The counter runs 50 millionths faster than calibrated.
        let pace = 1.000_05;
        let timeline = timeline(&[
            (60.0 * pace, 60.0, 0.0),
            (60.0 * pace + 30_000.0, 60.0, 28_800.0),
            (7200.0 * pace + 30_000.0, 7200.0, 28_800.0),
        ]);
        assert_rate(&timeline, RATE / pace);
    }

    #[test]
    fn a_suspension_with_a_counter_that_goes_on_is_in_open_actions() {
        let readings = [(60.0, 60.0, 0.0), (363.2, 60.1, 303.1), (400.0, 96.9, 303.1)];
        assert_eq!(
            notes_of(&readings),
            [
                "the machine was suspended for 5 min 3 s during this run: the times of actions that were open then \
                 include it"
            ]
        );
        assert_rate(&timeline(&readings), RATE);
    }

    #[test]
    fn a_suspension_with_a_counter_that_stands_still_is_in_no_action() {
        let readings = [(60.0, 60.0, 0.0), (60.1, 60.1, 303.1), (96.9, 96.9, 303.1)];
        assert_eq!(
            notes_of(&readings),
            [
                "the machine was suspended for 5 min 3 s during this run: the times of actions that were open then \
                 do not include it"
            ]
        );
        let timeline = timeline(&readings);
        assert_rate(&timeline, RATE);
        let seconds_at = |ticks: f64| {
            let ticks = reading(ticks, 0.0, 0.0).ticks;
            let (anchor, wall) = timeline.anchor_of(ticks);
            let since_first = wall.duration_since(timeline.first.wall).expect("not before");
            since_first.as_secs_f64() + (ticks as f64 - anchor as f64) * 1e-9
        };
        assert!((seconds_at(30.0) - 30.0).abs() < 1e-6, "before it");
        assert!((seconds_at(80.0) - 383.1).abs() < 1e-6, "after it: {}", seconds_at(80.0));
    }

    #[test]
    fn a_counter_that_starts_again_is_named_and_no_span_wraps() {
        // The machine had been running for 1000 s when the counter was set to 0, and 40 s pass
        // after that.
        let readings = [(60.0, 60.0, 0.0), (-999.0, 61.0, 3600.0), (-960.0, 100.0, 3600.0)];
        assert_eq!(
            notes_of(&readings),
            [
                "the machine was suspended for 1 h 0 min during this run: the times of actions that were open then \
                 are not reliable, because the processor's counter was changed"
            ]
        );
        let timeline = timeline(&readings);
        assert_rate(&timeline, RATE);
        let between = |from: f64, to: f64| {
            let ticks = |seconds| reading(seconds, 0.0, 0.0).ticks;
            timeline.seconds_between(ticks(from), ticks(to), RATE)
        };
        assert!((between(10.0, -970.0) - 80.0).abs() < 1e-6, "{}", between(10.0, -970.0));
        assert!((between(10.0, 40.0) - 30.0).abs() < 1e-6);
        // The notes of a later run do not mention the suspension.
        let started = reading(-990.0, 0.0, 0.0).ticks;
        assert_eq!(timeline.notes(started, timeline.last.ticks), Vec::<String>::new());
    }

    #[test]
    fn a_paused_virtual_machine_whose_clocks_all_stand_still_is_noticed() {
        let readings = [(60.0, 60.0, 0.0), (180.0, 120.0, 0.0), (240.0, 180.0, 0.0)];
        assert_eq!(
            notes_of(&readings),
            [
                "the processor's counter ran 1 min 0 s ahead of the system's clock during this run, as after a pause of a \
                 virtual machine: the times of actions that were open then include it"
            ]
        );
        assert_rate(&timeline(&readings), RATE);
        let behind = notes_of(&[(60.0, 60.0, 0.0), (61.0, 120.0, 0.0)]);
        assert_eq!(behind.len(), 1);
        assert!(behind[0].contains("fell 59 s behind"), "{behind:?}");
    }

    #[test]
    fn clocks_that_are_corrected_are_not_an_interruption() {
        // NTP corrects the clock by up to 500 millionths, and chrony by some per cent for a while.
        assert_eq!(notes_of(&[(3600.0, 3601.8, 0.0)]), Vec::<String>::new());
        assert_eq!(notes_of(&[(10.0, 10.8, 0.0), (7210.0, 7210.8, 0.0)]), Vec::<String>::new());
        // Small differences between clocks that are read one after the other, or between the
        // counters of two cores, are ignored.
        assert_eq!(notes_of(&[(1.0, 1.0, 0.02), (0.999_999_9, 1.0, 0.02)]), Vec::<String>::new());
    }

    #[test]
    fn a_short_suspension_in_a_long_span_is_unclear_and_changes_no_rate() {
        let readings = [(7200.0, 7200.0, 0.0), (14_402.0, 14_401.0, 1.0)];
        let notes = notes_of(&readings);
        assert!(notes.len() == 1 && notes[0].contains("suspended for 1.0 s"), "{notes:?}");
        assert_rate(&timeline(&readings), RATE);
    }

    #[test]
    fn notes_are_of_one_run_and_add_up() {
        let timeline = timeline(&[
            (10.0, 10.0, 0.0),
            (21.0, 11.0, 10.0),
            (30.0, 20.0, 10.0),
            (51.0, 21.0, 30.0),
            (60.0, 30.0, 30.0),
        ]);
        let notes = |from: f64, to: f64| {
            let ticks = |seconds| reading(seconds, 0.0, 0.0).ticks;
            timeline.notes(ticks(from), ticks(to))
        };
        assert!(notes(0.0, 60.0)[0].contains("suspended for 30 s"), "{:?}", notes(0.0, 60.0));
        assert!(notes(22.0, 60.0)[0].contains("suspended for 20 s"));
        assert!(notes(0.0, 25.0)[0].contains("suspended for 10 s"));
        assert!(notes(22.0, 29.0).is_empty() && notes(52.0, 60.0).is_empty());
    }

    #[test]
    fn interruptions_take_a_bounded_place() {
        let mut timeline = timeline(&[(1.0, 1.0, 0.0)]);
        for night in 1..200_u32 {
            let (awake, asleep) = (f64::from(night) + 1.0, f64::from(night) * 30_000.0);
            timeline.advance(reading(awake + asleep, awake, asleep), RATE);
        }
        assert_eq!(timeline.interruptions.len(), MOST_INTERRUPTIONS);
        let notes = timeline.notes(timeline.first.ticks, timeline.last.ticks);
        assert!(notes[0].contains("suspended for 69 d 2 h"), "{notes:?}");
    }
}
