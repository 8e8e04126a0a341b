//! Several ranks' traces on one time line: by how much each one's time differs from that of the first rank.
//!
//! | how | when | error |
//! |---|---|---|
//! | by the machine's own clock | both ran on the same machine since it was started | of the readings: below a µs |
//! | by collectives | at least three that both took part in: all ranks are through them at the same time | how much the differences differ (median absolute deviation) |
//! | by the wall clock | else | that of NTP, which nobody knows |

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::RankFacts;
use super::meetings::Meeting;
use crate::trace::ClockReading;
use profiler_report::number::grouped;
use profiler_report::ranks::median;

/// Fewer collectives tell nothing.
const FEWEST_MEETINGS: usize = 3;
/// As many are needed to see a clock drift.
const FEWEST_FOR_DRIFT: usize = 30;

/// How an offset was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// It is what the others are related to.
    Reference,
    /// By the monotonic clock of the machine that both ran on.
    MachineClock,
    /// By the ends of collectives.
    Collectives,
    /// By nothing but the wall clocks of two machines.
    WallClock,
}

/// What must be added to times of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Offset {
    /// In nanoseconds, at [`at_ns`](Self::at_ns).
    pub nanoseconds: i64,
    /// By how much it may be wrong; `None` where nobody knows.
    pub error_ns: Option<i64>,
    /// How it was found.
    pub method: Method,
    /// Collectives that it was found by.
    pub meetings: usize,
    /// By how much the offset grows in a nanosecond; 0 where clocks run alike as far as can be seen.
    pub drift: f64,
    /// Nanoseconds of Unix time on the rank's own clock at which it is right.
    pub at_ns: i64,
}

impl Offset {
    /// How it was found, in words.
    pub(crate) fn found_by(&self) -> String {
        match self.method {
            Method::Reference => "what the others are related to".to_owned(),
            Method::MachineClock => "the machine's clock".to_owned(),
            Method::Collectives => format!("{} collectives", grouped(self.meetings as u64)),
            Method::WallClock => "wall clocks, which may differ".to_owned(),
        }
    }

    const REFERENCE: Self = Self {
        nanoseconds: 0,
        error_ns: Some(0),
        method: Method::Reference,
        meetings: 0,
        drift: 0.0,
        at_ns: 0,
    };

    /// A moment of the rank's own clock on that of the reference; both in nanoseconds of Unix time.
    pub fn apply(&self, time: i64) -> i64 {
        let drifted = (time - self.at_ns) as f64 * self.drift;
        time + self.nanoseconds + drifted.round() as i64
    }
}

/// What relates each trace to the first one.
pub(super) fn offsets(traces: &[&RankFacts]) -> Vec<Offset> {
    let Some((reference, others)) = traces.split_first() else { return Vec::new() };
    let mut known = None;
    let others = others.iter().map(|other| {
        if let Some(offset) = by_machine_clock(reference, other) {
            return offset;
        }
        let of_reference = known.get_or_insert_with(|| by_number(&reference.meetings));
        by_collectives(of_reference, &other.meetings).unwrap_or(Offset {
            error_ns: None,
            method: Method::WallClock,
            ..Offset::REFERENCE
        })
    });
    let others: Vec<_> = others.collect();
    std::iter::once(Offset::REFERENCE).chain(others).collect()
}

/// What must be added to a trace's time for it to be the machine's clock, and how wrong that may be.
fn to_machine_clock(trace: &RankFacts) -> Option<(i64, i64)> {
    let difference = |reading: &ClockReading| Some(reading.monotonic? - reading.time);
    let known: Vec<i64> = trace.info.clocks.iter().filter_map(difference).collect();
    let (least, most) = (*known.iter().min()?, *known.iter().max()?);
    let error = trace.info.clocks.iter().map(|reading| reading.error).max()?;
    // Between the readings at both ends the trace's own rate may be a little wrong.
    Some((least + (most - least) / 2, error + (most - least + 1) / 2))
}

fn by_machine_clock(reference: &RankFacts, other: &RankFacts) -> Option<Offset> {
    let is_same = reference.info.boot_id.is_some() && reference.info.boot_id == other.info.boot_id;
    if !is_same {
        return None;
    }
    let (of_reference, first_error) = to_machine_clock(reference)?;
    let (of_other, second_error) = to_machine_clock(other)?;
    let bases = reference.info.base_ns - other.info.base_ns;
    Some(Offset {
        nanoseconds: of_other - of_reference + bases,
        error_ns: Some(first_error + second_error),
        method: Method::MachineClock,
        ..Offset::REFERENCE
    })
}

fn by_number(meetings: &[Meeting]) -> FxHashMap<&Meeting, i64> {
    meetings.iter().map(|meeting| (meeting, meeting.end)).collect()
}

fn by_collectives(reference: &FxHashMap<&Meeting, i64>, other: &[Meeting]) -> Option<Offset> {
    let mut differences: Vec<(i64, i64)> = other
        .iter()
        .filter_map(|meeting| Some((meeting.end, reference.get(meeting)? - meeting.end)))
        .collect();
    if differences.len() < FEWEST_MEETINGS {
        return None;
    }
    differences.sort_unstable();
    let middle = |of: &[(i64, i64)]| median(of.iter().map(|(_, difference)| *difference).collect());
    let spread_around = |nanoseconds: i64, drift: f64, at: i64| {
        let left = differences.iter().map(|(time, difference)| {
            let expected = nanoseconds + ((time - at) as f64 * drift).round() as i64;
            (difference - expected).abs()
        });
        median(left.collect())
    };
    let nanoseconds = middle(&differences);
    let at_ns = differences[differences.len() / 2].0;
    let constant = Offset {
        nanoseconds,
        error_ns: Some(spread_around(nanoseconds, 0.0, at_ns)),
        method: Method::Collectives,
        meetings: differences.len(),
        drift: 0.0,
        at_ns,
    };
    let third = differences.len() / 3;
    let (first, last) = (&differences[..third], &differences[differences.len() - third..]);
    let passed = |first: &[(i64, i64)], last: &[(i64, i64)]| last[third / 2].0 - first[third / 2].0;
    if differences.len() < FEWEST_FOR_DRIFT || passed(first, last) <= 0 {
        return Some(constant);
    }
    let drift = (middle(last) - middle(first)) as f64 / passed(first, last) as f64;
    let error = spread_around(nanoseconds, drift, at_ns);
    // What explains less than half of the differences is chance.
    let is_drift = Some(2 * error) < constant.error_ns;
    let drifting = Offset { drift, error_ns: Some(error), ..constant };
    Some(if is_drift { drifting } else { constant })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::made::{Made, made};

    fn facts(of: Made<'_>) -> RankFacts {
        RankFacts::of("a file", &made(of))
    }

    #[test]
    fn on_one_machine_its_clock_decides() {
        // What both read at the same moment, 1 ms of the machine's clock: their own times differ by 400 ns.
        let first = facts(Made {
            base: 1_000,
            clocks: &[(500, 1_000_000, 20), (10_500, 1_010_000, 20)],
            ..Made::rank(0)
        });
        let second = facts(Made {
            base: 2_000,
            clocks: &[(100, 1_001_000, 30), (10_110, 1_011_000, 30)],
            ..Made::rank(1)
        });
        let found = offsets(&[&first, &second]);
        assert_eq!(found[0], Offset::REFERENCE);
        // The machine's 1_001_000 is 1_500 of the first trace (2_500 of Unix time), 100 to 110 of the second
        // (2_100 to 2_110).
        assert_eq!((found[1].nanoseconds, found[1].method), (395, Method::MachineClock));
        assert_eq!(found[1].error_ns, Some(20 + 30 + 5));
        assert_eq!(found[1].apply(2_105), 2_500);
    }

    #[test]
    fn on_two_machines_collectives_do() {
        let ends =
            |add: i64| (0..9).map(|step| 1_000_000 * step + add + step % 3).collect::<Vec<_>>();
        let first = facts(Made { boot: "one", ends: &ends(7_000), ..Made::rank(0) });
        let second = facts(Made { boot: "two", ends: &ends(2_000), ..Made::rank(1) });
        let third = facts(Made { boot: "three", ends: &[5, 6], ..Made::rank(2) });
        let found = offsets(&[&first, &second, &third]);
        assert_eq!((found[1].nanoseconds, found[1].method), (5_000, Method::Collectives));
        assert_eq!((found[1].meetings, found[1].error_ns, found[1].drift), (9, Some(0), 0.0));
        assert_eq!((found[2].method, found[2].error_ns), (Method::WallClock, None));
    }

    /// A clock that is 100 millionths too slow, through noise of ± 20 µs.
    #[test]
    fn a_clock_that_drifts_is_followed() {
        let moments: Vec<i64> = (0..300).map(|step| step * 100_000_000).collect();
        let noise = |step: i64| (step * 7_919) % 41 * 1_000 - 20_000;
        let drifted: Vec<i64> = moments
            .iter()
            .map(|time| time - 50_000 - time / 10_000 + noise(time / 100_000_000))
            .collect();
        let first = facts(Made { boot: "one", ends: &moments, ..Made::rank(0) });
        let second = facts(Made { boot: "two", ends: &drifted, ..Made::rank(1) });
        let offset = offsets(&[&first, &second])[1];
        assert!((offset.drift - 1e-4).abs() < 2e-6, "{offset:?}");
        for (own, right) in drifted.iter().zip(&moments) {
            assert!((offset.apply(*own) - right).abs() < 60_000, "{own} {right} {offset:?}");
        }
    }
}
