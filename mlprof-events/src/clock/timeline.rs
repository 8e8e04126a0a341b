//! The relation of the counter to the clock, over spans in which the machine may have been
//! suspended.
//!
//! While a machine is suspended the monotonic clock stands still. The counter goes on (suspend to
//! idle, a paused virtual machine), stands still, or starts again at 0 (suspend to memory): it
//! depends on the machine. A rate measured over such a span would make every duration too short or
//! too long. So the time line is cut at each reading, and only spans without an interruption count
//! for the rate.

use std::time::{Duration, SystemTime};

use super::interruption::{Interruption, between};
use super::readings::Reading;

/// The shortest span of time that a rate is measured over.
pub(super) const MINIMAL_BASE: Duration = Duration::from_millis(200);

/// A moment may be by so many ticks later than the last reading, some seconds. One before the
/// counter was set back has a number that is larger by far more.
const SINCE_LAST_READING: u64 = 1 << 32;

/// The number of interruptions kept one by one; later ones are added to the last.
const MOST_INTERRUPTIONS: usize = 64;

/// The counter and the clock since the first reading.
#[derive(Debug)]
pub(super) struct Timeline {
    first: Reading,
    last: Reading,
    /// Sums over all spans without an interruption.
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
            // Never grows: a tracking allocator may be what asks.
            interruptions: Vec::with_capacity(MOST_INTERRUPTIONS),
        }
    }

    pub(super) fn first(&self) -> &Reading {
        &self.first
    }

    pub(super) fn last(&self) -> &Reading {
        &self.last
    }

    /// The measured rate; `None` before there is enough time to measure it over.
    pub(super) fn seconds_per_tick(&self) -> Option<f64> {
        let is_enough = self.awake >= MINIMAL_BASE && self.ticks > 0;
        is_enough.then(|| self.awake.as_secs_f64() / self.ticks as f64).or(self.fresh)
    }

    /// Uses this rate, in seconds per tick, until there is enough time to measure it over.
    pub(super) fn set_fresh_rate(&mut self, seconds_per_tick: f64) {
        self.fresh = Some(seconds_per_tick);
    }

    /// Whether the span from the last reading to `now` is to be judged by a rate that is measured
    /// first.
    pub(super) fn is_in_doubt(&self, now: &Reading, calibrated: f64) -> bool {
        self.fresh.is_none() && between(&self.last, now, calibrated).is_some()
    }

    /// Adds a reading. `calibrated` is the counter's rate, in seconds per tick, as it was first
    /// measured: not over spans whose clock may have been under correction.
    pub(super) fn advance(&mut self, now: Reading, calibrated: f64) {
        // By both rates: the first measurement may have been disturbed, and so may the fresh one.
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

    /// The interruptions of a run from one moment to another, in sentences.
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

    /// Whether an interruption was over at a moment. Where the counter was set back, a moment
    /// before that may have a larger number than all moments after it.
    fn is_before(&self, interruption: &Interruption, moment: u64) -> bool {
        let latest = self.last.ticks.saturating_add(SINCE_LAST_READING);
        (interruption.until.0..=latest).contains(&moment)
    }

    /// A moment of the counter and the wall clock for conversions of moments near `ticks`: the
    /// first reading, or the one after the last interruption in which the counter did not go on.
    pub(super) fn anchor_of(&self, ticks: u64) -> (u64, SystemTime) {
        let mut latest_first = self.interruptions.iter().rev();
        let found = latest_first.find(|it| it.counter.loses_time() && self.is_before(it, ticks));
        found.map_or((self.first.ticks, self.first.wall), |interruption| interruption.until)
    }

    /// From one moment to a later one in seconds, also where the counter was set back in between.
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

    /// A counter of a gigahertz, and a machine that was on for 1000 s when the first reading was
    /// taken.
    const RATE: f64 = 1e-9;

    fn reading(ticks: f64, awake: f64, suspended: f64) -> Reading {
        let span = |seconds: f64| Duration::from_nanos((seconds * 1e9).round() as u64);
        let awake = span(1000.0 + awake);
        let total = Some(awake + span(suspended));
        let wall = SystemTime::UNIX_EPOCH + awake + span(suspended);
        Reading { ticks: ((1000.0 + ticks) * 1e9).round() as u64, awake, total, wall }
    }

    /// The time line of readings of which each gives the seconds that the counter went on, those
    /// that the clock did, and those that the machine was suspended, all since the first.
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
        // 50 millionths faster than calibrated.
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
                 contain it"
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
                 do not contain it"
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
        // The machine was on for 1000 s when the counter was set to 0, and 40 s pass after that.
        let readings = [(60.0, 60.0, 0.0), (-999.0, 61.0, 3600.0), (-960.0, 100.0, 3600.0)];
        assert_eq!(
            notes_of(&readings),
            [
                "the machine was suspended for 1 h 0 min during this run: the times of actions that were open then \
                 are not reliable, because the processor's counter was set meanwhile"
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
        // A run after it knows nothing of it.
        let started = reading(-990.0, 0.0, 0.0).ticks;
        assert_eq!(timeline.notes(started, timeline.last.ticks), Vec::<String>::new());
    }

    #[test]
    fn a_paused_virtual_machine_whose_clocks_all_stand_still_is_noticed() {
        let readings = [(60.0, 60.0, 0.0), (180.0, 120.0, 0.0), (240.0, 180.0, 0.0)];
        assert_eq!(
            notes_of(&readings),
            [
                "the processor's counter ran 1 min 0 s further than the system's clock during this run, as when a \
                 virtual machine is paused: the times of actions that were open then contain it"
            ]
        );
        assert_rate(&timeline(&readings), RATE);
        let behind = notes_of(&[(60.0, 60.0, 0.0), (61.0, 120.0, 0.0)]);
        assert_eq!(behind.len(), 1);
        assert!(behind[0].contains("fell 59 s behind"), "{behind:?}");
    }

    #[test]
    fn clocks_that_are_corrected_are_not_an_interruption() {
        // By NTP, 500 millionths; and by chrony, some per cent for a while.
        assert_eq!(notes_of(&[(3600.0, 3601.8, 0.0)]), Vec::<String>::new());
        assert_eq!(notes_of(&[(10.0, 10.8, 0.0), (7210.0, 7210.8, 0.0)]), Vec::<String>::new());
        // Nor are clocks that are read one after the other, or counters of two cores.
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
