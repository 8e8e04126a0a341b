//! False-alarm rate of comparisons of equal runs. `cargo xtask bench verdicts` measures it with
//! many more runs.

use super::*;

/// Pseudorandom number generator with a fixed seed.
struct Chance(u64);

impl Chance {
    fn part(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        let (one, other) = (self.part(), self.part());
        (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
    }

    /// Returns step durations. Each step correlates with the one before it by `correlation`.
    fn steps(&mut self, count: usize, correlation: f64, deviation: f64) -> Vec<f64> {
        let mut state = self.normal();
        let own = (1.0 - correlation * correlation).sqrt();
        let one = |_| {
            state = correlation * state + own * self.normal();
            (deviation * state).exp()
        };
        (0..count).map(one).collect()
    }

    fn run(&mut self, rows: usize, count: usize, correlation: f64, times: f64) -> SteppedRun {
        let row = |index| SteppedRow {
            subject: Subject::Ops,
            name: format!("op {index}"),
            seconds: self.steps(count, correlation, 0.2).iter().map(|it| times * it).collect(),
        };
        let mut rows: Vec<SteppedRow> = (0..rows).map(row).collect();
        let step = rows[0].seconds.iter().map(|it| 50.0 * it).collect();
        rows.push(SteppedRow { subject: Subject::Steps, name: "step".to_owned(), seconds: step });
        SteppedRun {
            stage: None,
            rank: None,
            world_size: 1,
            started_ns: 0,
            wall_seconds: 1.0,
            steps: count as u64,
            rows,
        }
    }
}

/// Checks that comparisons of equal runs with 60 rows each report at most one false alarm. The rule
/// allows false alarms in 1 % of the comparisons.
#[test]
fn equal_runs_of_many_rows_are_equal() {
    let mut chance = Chance(11);
    let mut alarms = Vec::new();
    for (count, correlation) in [(8, 0.0), (8, 0.5), (12, 0.9), (60, 0.5), (300, 0.9)] {
        for index in 0..30 {
            let [before, after] = [(); 2].map(|()| [chance.run(60, count, correlation, 1.0)]);
            let comparison = compare_steps(&before, &after).expect("of one program");
            assert!(comparison.is_judged() || count < 20, "{count} {correlation}");
            if !comparison.regressions(0.0).is_empty() {
                alarms.push((count, correlation, index));
            }
        }
    }
    assert!(alarms.len() <= 1, "{alarms:?}");
}

/// Checks runs that differ by 3 % and contain only means.
#[test]
fn three_equal_runs_of_each_side_are_equal() {
    let mut chance = Chance(12);
    let mut alarms = 0;
    for _ in 0..60 {
        let mut side = || {
            [(); 3].map(|()| {
                let each = |index| {
                    let mut row =
                        row(&format!("action {index}"), 100, 0.02 * (0.03 * chance.normal()).exp());
                    row.rest = None;
                    row.first_seconds = row.total_seconds;
                    row
                };
                run(0.002, (0..60).map(each).collect())
            })
        };
        let (before, after) = (side(), side());
        alarms += usize::from(!of(&before, &after).regressions(0.0).is_empty());
    }
    assert!(alarms <= 1, "{alarms} of 60");
}

/// Checks that rows with few calls are not called equal. In a comparison with this number of rows,
/// not even a doubling would be significant.
#[test]
fn too_few_calls_for_so_many_rows_are_said_to_be() {
    let mut chance = Chance(14);
    let [before, after] = [(); 2].map(|()| [chance.run(300, 8, 0.9, 1.0)]);
    let comparison = compare_steps(&before, &after).expect("of one program");
    assert!(!comparison.is_judged());
    assert_eq!(find(&comparison, Subject::Ops, "op 7").verdict, Verdict::TooFew);
}

/// Checks that a sufficiently large difference is found even among many rows.
#[test]
fn slower_rows_are_found_among_many() {
    let mut chance = Chance(13);
    for (count, times) in [(100, 2.0), (300, 1.5), (4_000, 1.1)] {
        let (before, after) =
            ([chance.run(60, count, 0.0, 1.0)], [chance.run(60, count, 0.0, times)]);
        let comparison = compare_steps(&before, &after).expect("of one program");
        let found = comparison.regressions(0.0).len();
        assert!(found >= 55, "{found} of 61, {count} steps");
    }
}

/// Checks that the threshold applies to the sure change and not to the measured change.
#[test]
fn a_threshold_is_compared_with_the_sure_change() {
    let side = |load: f64| [run(load, vec![])];
    let comparison = of(&side(0.002), &side(0.003));
    let load = find(&comparison, Subject::Actions, "load");
    let (change, sure) = (load.change.expect("both"), load.sure_change.expect("it is sure"));
    assert!(0.05 < sure && sure < change, "{load:?}");
    let count = |threshold: f64| comparison.regressions(threshold).len();
    assert_eq!((count(0.99 * sure), count(1.01 * sure), count(0.99 * change)), (1, 0, 0));
}
