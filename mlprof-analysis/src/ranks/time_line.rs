//! Common time line of several ranks, which gives the offset of each trace's clock to that of the
//! first rank.
//!
//! | method | used if | error |
//! |---|---|---|
//! | the machine's own clock | both ranks ran on the same machine since its last boot | error of the clock readings, below 1 µs |
//! | collectives, which end at the same time on all ranks | both ranks took part in at least three collectives | spread of the differences (median absolute deviation) |
//! | the wall clock | otherwise | error of NTP, which is unknown |
//!
//! Files of one machine share its clock, so they are placed together by the collectives of all of
//! them. Ranks need not have collectives in common with the first rank. They can be placed by any
//! rank whose offset is known.

use mlprof_report::number::grouped;
use mlprof_report::ranks::median;
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::RankFacts;
use super::fit::{Line, Point};
use super::meetings::{Key, Meeting};
use crate::trace::ClockReading;

/// Minimum number of common collectives for an offset.
const FEWEST_MEETINGS: usize = 3;

/// Method by which an offset was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// The trace is the reference.
    Reference,
    /// The monotonic clock of the common machine.
    MachineClock,
    /// The ends of collectives.
    Collectives,
    /// Only the wall clocks of two machines.
    WallClock,
}

/// Offset that converts the times of a rank to the reference clock.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Offset {
    /// Offset in nanoseconds at [`at_ns`](Self::at_ns).
    pub nanoseconds: i64,
    /// Uncertainty in nanoseconds. `None` if it is unknown.
    pub error_ns: Option<i64>,
    /// Method by which the offset was found.
    pub method: Method,
    /// Number of collectives used.
    pub meetings: usize,
    /// Growth of the offset in nanoseconds per nanosecond. 0 if no drift is observable.
    pub drift: f64,
    /// Time at which the offset is exact, as Unix time in nanoseconds by the rank's own clock.
    pub at_ns: i64,
}

impl Offset {
    /// Returns a description of the method.
    pub(crate) fn found_by(&self) -> String {
        match self.method {
            Method::Reference => "reference trace".to_owned(),
            Method::MachineClock => "machine clock".to_owned(),
            Method::Collectives => format!("{} collectives", grouped(self.meetings as u64)),
            Method::WallClock => "wall clocks, possibly unsynchronised".to_owned(),
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

    /// Converts a time of the rank's own clock to the reference clock. Both are Unix times in
    /// nanoseconds.
    pub fn apply(&self, time: i64) -> i64 {
        let drifted = (time - self.at_ns) as f64 * self.drift;
        time + self.nanoseconds + drifted.round() as i64
    }
}

/// Files that share a clock, as indices in the list of files. The clock's time is that of the first
/// file.
#[derive(Default)]
struct Clock {
    files: Vec<File>,
}

struct File {
    place: usize,
    /// Nanoseconds to add to the file's times for the times of the clock's first file.
    add: i64,
    error: i64,
}

/// End times of collectives by the reference clock, with their uncertainties in nanoseconds.
/// Collectives known only by their order also have the cycle in the key, and the others have 0
/// there.
type Moments<'a> = FxHashMap<(&'a Key, u64), (i64, i64)>;

/// Files whose offsets are known.
#[derive(Default)]
struct Placed<'a> {
    offsets: Vec<Option<Offset>>,
    certain: Moments<'a>,
    by_order: Moments<'a>,
}

/// Returns the offset of each trace to the first one.
pub(super) fn offsets(traces: &[&RankFacts]) -> Vec<Offset> {
    let mut clocks = clocks(traces).into_iter();
    let Some(first) = clocks.next() else { return Vec::new() };
    let mut placed = Placed { offsets: vec![None; traces.len()], ..Placed::default() };
    placed.add(traces, &first, Offset::REFERENCE);
    let mut left: Vec<Clock> = clocks.collect();
    loop {
        let before = left.len();
        let found: Vec<_> = left.iter().map(|clock| placed.by_collectives(traces, clock)).collect();
        let mut found = found.into_iter();
        left.retain(|clock| {
            let offset = found.next().flatten();
            offset.into_iter().for_each(|offset| placed.add(traces, clock, offset));
            offset.is_none()
        });
        if left.len() == before && !placed.add_of_same_rank(traces, &mut left) {
            break;
        }
    }
    let wall_clock = Offset { error_ns: None, method: Method::WallClock, ..Offset::REFERENCE };
    placed.offsets.into_iter().map(|offset| offset.unwrap_or(wall_clock)).collect()
}

/// Returns the clocks of the traces, starting with that of the first trace.
fn clocks(traces: &[&RankFacts]) -> Vec<Clock> {
    let mut clocks: Vec<Clock> = Vec::new();
    // For each machine, these are the index of its clock, and the first file's offset to the
    // machine's clock with its uncertainty.
    let mut machines: FxHashMap<&str, (usize, i64, i64)> = FxHashMap::default();
    for (place, trace) in traces.iter().enumerate() {
        let alone = File { place, add: 0, error: 0 };
        let machine = trace.info.boot_id.as_deref().zip(to_machine_clock(trace));
        let Some((boot_id, (to_machine, error))) = machine else {
            clocks.push(Clock { files: vec![alone] });
            continue;
        };
        let to_machine = to_machine - trace.info.base_ns;
        let (clock, of_first, first_error) =
            *machines.entry(boot_id).or_insert((clocks.len(), to_machine, error));
        match clocks.get_mut(clock) {
            Some(clock) => clock.files.push(File {
                place,
                add: to_machine - of_first,
                error: first_error + error,
            }),
            None => clocks.push(Clock { files: vec![alone] }),
        }
    }
    clocks
}

/// Returns the offset from a trace's time to the machine's clock, and its uncertainty, in
/// nanoseconds.
fn to_machine_clock(trace: &RankFacts) -> Option<(i64, i64)> {
    let difference = |reading: &ClockReading| Some(reading.monotonic? - reading.time);
    let known: Vec<i64> = trace.info.clocks.iter().filter_map(difference).collect();
    let (least, most) = (*known.iter().min()?, *known.iter().max()?);
    let error = trace.info.clocks.iter().map(|reading| reading.error).max()?;
    // Between the first and the last reading, the trace's own clock can run at a slightly different
    // rate.
    Some((least + (most - least) / 2, error + (most - least + 1) / 2))
}

impl<'a> Placed<'a> {
    /// Adds the files of a clock with a known offset.
    fn add(&mut self, traces: &[&'a RankFacts], clock: &Clock, of_clock: Offset) {
        for file in &clock.files {
            let is_reference = of_clock.method == Method::Reference && file.place > 0;
            let offset = Offset {
                nanoseconds: of_clock.nanoseconds + file.add,
                error_ns: of_clock.error_ns.map(|error| error + file.error),
                method: if is_reference { Method::MachineClock } else { of_clock.method },
                at_ns: of_clock.at_ns - file.add,
                ..of_clock
            };
            self.offsets[file.place] = Some(offset);
            let error = offset.error_ns.unwrap_or(0);
            let RankFacts { meetings, info, .. } = traces[file.place];
            let known = [
                (&mut self.certain, &meetings.certain, 0),
                (&mut self.by_order, &meetings.by_order, info.cycle),
            ];
            for (known, meetings, cycle) in known {
                for Meeting { key, end } in meetings {
                    known.entry((key, cycle)).or_insert((offset.apply(*end), error));
                }
            }
        }
    }

    /// Adds files by the wall clock of their machine if another file of the same rank and machine
    /// already has an offset. Returns `true` if there are such files.
    fn add_of_same_rank(&mut self, traces: &[&'a RankFacts], left: &mut Vec<Clock>) -> bool {
        let machine = |place: usize| (traces[place].info.rank, &traces[place].info.host);
        let mut by_machine = FxHashMap::default();
        for (place, offset) in self.offsets.iter().enumerate() {
            if let Some(offset) = offset {
                by_machine.insert(machine(place), *offset);
            }
        }
        let of = |clock: &Clock| {
            let machine = machine(clock.files[0].place);
            Some((machine, *by_machine.get(&machine)?))
        };
        let Some((first, offset)) = left.iter().find_map(of) else { return false };
        let offset = Offset { error_ns: None, method: Method::WallClock, meetings: 0, ..offset };
        left.retain(|clock| {
            let is_of_rank = machine(clock.files[0].place) == first;
            if is_of_rank {
                self.add(traces, clock, offset);
            }
            !is_of_rank
        });
        true
    }

    /// Returns the offset of a clock, computed from collectives that its ranks have in common with
    /// placed ranks.
    fn by_collectives(&self, traces: &[&RankFacts], clock: &Clock) -> Option<Offset> {
        let points = |known: &Moments<'_>, is_certain: bool| -> Vec<Point> {
            let mut points = Vec::new();
            for file in &clock.files {
                let RankFacts { meetings, info, .. } = traces[file.place];
                let (meetings, cycle) = match is_certain {
                    true => (&meetings.certain, 0),
                    false => (&meetings.by_order, info.cycle),
                };
                points.extend(meetings.iter().filter_map(|meeting| {
                    let (moment, error) = *known.get(&(&meeting.key, cycle))?;
                    let time = meeting.end + file.add;
                    Some(Point { time, difference: moment - time, error })
                }));
            }
            points
        };
        let certain = points(&self.certain, true);
        let (mut points, is_certain) = match certain.len() < FEWEST_MEETINGS {
            true => (points(&self.by_order, false), false),
            false => (certain, true),
        };
        if points.len() < FEWEST_MEETINGS {
            return None;
        }
        let line = Line::through(&mut points);
        let gaps = points.windows(2).map(|pair| pair[1].time - pair[0].time);
        // If the files begin with different collectives, the offset is wrong by a whole number of
        // them.
        let shift = if is_certain { 0 } else { median(gaps.collect()) };
        let of_sources = median(points.iter().map(|point| point.error).collect());
        Some(Offset {
            nanoseconds: line.difference,
            error_ns: Some((line.error + of_sources).max(shift)),
            method: Method::Collectives,
            meetings: points.len(),
            drift: line.drift,
            at_ns: line.time,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::synthetic_trace::{SyntheticTrace, made};

    fn facts(of: SyntheticTrace<'_>) -> RankFacts {
        RankFacts::of("a file", &made(of))
    }

    #[test]
    fn on_one_machine_its_clock_decides() {
        // Both traces read the machine's clock at 1 ms. Their own times differ by 400 ns.
        let first = facts(SyntheticTrace {
            base: 1_000,
            clocks: &[(500, 1_000_000, 20), (10_500, 1_010_000, 20)],
            ..SyntheticTrace::rank(0)
        });
        let second = facts(SyntheticTrace {
            base: 2_000,
            clocks: &[(100, 1_001_000, 30), (10_110, 1_011_000, 30)],
            ..SyntheticTrace::rank(1)
        });
        let found = offsets(&[&first, &second]);
        assert_eq!(found[0], Offset::REFERENCE);
        // The machine's time 1_001_000 is 1_500 in the first trace (2_500 in Unix time). In the
        // second trace it is 100 to 110 (2_100 to 2_110).
        assert_eq!((found[1].nanoseconds, found[1].method), (395, Method::MachineClock));
        assert_eq!(found[1].error_ns, Some(20 + 30 + 5));
        assert_eq!(found[1].apply(2_105), 2_500);
    }

    #[test]
    fn on_two_machines_collectives_do() {
        let ends =
            |add: i64| (0..9).map(|step| 1_000_000 * step + add + step % 3).collect::<Vec<_>>();
        let first =
            facts(SyntheticTrace { boot: "one", ends: &ends(7_000), ..SyntheticTrace::rank(0) });
        let second =
            facts(SyntheticTrace { boot: "two", ends: &ends(2_000), ..SyntheticTrace::rank(1) });
        let third =
            facts(SyntheticTrace { boot: "three", ends: &[5, 6], ..SyntheticTrace::rank(2) });
        let found = offsets(&[&first, &second, &third]);
        assert_eq!((found[1].nanoseconds, found[1].method), (5_000, Method::Collectives));
        assert_eq!((found[1].meetings, found[1].error_ns, found[1].drift), (9, Some(0), 0.0));
        assert_eq!((found[2].method, found[2].error_ns), (Method::WallClock, None));
    }

    /// Checks a clock that is 100 millionths too slow, with noise of ± 20 µs.
    #[test]
    fn a_clock_that_drifts_is_followed() {
        let moments: Vec<i64> = (0..300).map(|step| step * 100_000_000).collect();
        let noise = |step: i64| (step * 7_919) % 41 * 1_000 - 20_000;
        let drifted: Vec<i64> = moments
            .iter()
            .map(|time| time - 50_000 - time / 10_000 + noise(time / 100_000_000))
            .collect();
        let first =
            facts(SyntheticTrace { boot: "one", ends: &moments, ..SyntheticTrace::rank(0) });
        let second =
            facts(SyntheticTrace { boot: "two", ends: &drifted, ..SyntheticTrace::rank(1) });
        let offset = offsets(&[&first, &second])[1];
        assert!((offset.drift - 1e-4).abs() < 2e-6, "{offset:?}");
        for (own, right) in drifted.iter().zip(&moments) {
            assert!((offset.apply(*own) - right).abs() < 60_000, "{own} {right} {offset:?}");
        }
    }
}
