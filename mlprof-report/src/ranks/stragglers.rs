//! Stragglers: ranks that the others regularly wait for.
//!
//! The comparison uses each rank's own work, without the stages in which ranks wait for each other.
//! A rank is slow if all of these conditions hold:
//!
//! - The median of its steps is at least 10 % longer than that of the median rank.
//! - At least three quarters of its steps are at least 5 % longer.
//! - With more than two ranks, it is an outlier: 0.6745 · (x − median) / MAD exceeds 3.5, the
//!   criterion that XProf applies to hosts.
//!
//! Healthy ranks are not reported.

use serde::Serialize;

use super::frontier::{StageTable, saturating_sum};
use mlprof_events::OrderExt;

/// Minimum relative excess of a slow rank over the median rank.
const LONGER: f64 = 0.1;
/// Minimum share of steps with at least half of this excess.
const STEPS: f64 = 0.75;
/// Minimum modified z-score of a slow rank.
const SCORE: f64 = 3.5;
/// Minimum number of steps for a verdict.
pub const FEWEST_STEPS: usize = 3;

/// A rank that others wait for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Straggler {
    /// Number of the rank.
    pub rank: u32,
    /// Median own work per step, in nanoseconds.
    pub own_ns: i64,
    /// Median own work per step of the median rank, in nanoseconds.
    pub usual_ns: i64,
    /// Stage with the largest excess.
    pub stage: String,
    /// Median excess in this stage per step, in nanoseconds.
    pub stage_longer_ns: i64,
    /// Total excess of its steps over the median rank, in nanoseconds. This is the maximum delay
    /// that it causes for the others.
    pub longer_ns: i64,
}

/// Own work of each rank.
struct Own<'table> {
    table: &'table StageTable,
    /// Indices of the stages without waiting for others.
    stages: Vec<usize>,
}

impl Own<'_> {
    fn of(&self, step: usize, rank: usize) -> i64 {
        let row = self.table.row(step, rank);
        saturating_sum(self.stages.iter().map(|stage| row[*stage]))
    }

    /// Returns the lower median over all ranks for each step.
    fn middle(&self, value: impl Fn(usize, usize) -> i64) -> Vec<i64> {
        let ranks = 0..self.table.ranks.len();
        let middle = |step| lower_median(ranks.clone().map(|rank| value(step, rank)).collect());
        (0..self.table.steps.len()).map(middle).collect()
    }
}

/// Returns the slow ranks, slowest first. Returns an empty list if the ranks are similar, or with
/// fewer than two ranks or three steps.
pub fn stragglers(table: &StageTable) -> Vec<Straggler> {
    let (ranks, steps) = (table.ranks.len(), table.steps.len());
    let stages = 0..table.stages.len();
    let stages: Vec<usize> =
        stages.filter(|stage| !table.stages[*stage].waits_for_others).collect();
    if ranks < 2 || steps < FEWEST_STEPS || stages.is_empty() {
        return Vec::new();
    }
    let own = Own { table, stages };
    let usual_of_step = own.middle(|step, rank| own.of(step, rank));
    let medians: Vec<i64> = (0..ranks)
        .map(|rank| lower_median((0..steps).map(|step| own.of(step, rank)).collect()))
        .collect();
    let usual = lower_median(medians.clone());
    let deviation = lower_median(
        medians.iter().map(|median| median.saturating_sub(usual).saturating_abs()).collect(),
    );
    let is_slow = |rank: &usize| {
        let longer = medians[*rank].saturating_sub(usual) as f64;
        let is_longer = |step: &usize| {
            let (own, usual) = (own.of(*step, *rank) as f64, usual_of_step[*step] as f64);
            own > usual * (1.0 + LONGER / 2.0)
        };
        let often = (0..steps).filter(is_longer).count() as f64;
        // With two ranks, the normal difference between ranks is unknown.
        let stands_out = ranks < 3 || 0.6745 * longer > SCORE * deviation as f64;
        longer > LONGER * usual as f64 && often >= STEPS * steps as f64 && stands_out
    };
    let mut slow: Vec<Straggler> = (0..ranks)
        .filter(is_slow)
        .map(|rank| {
            let (stage, stage_longer_ns) = where_it_loses(&own, rank);
            let longer =
                (0..steps).map(|step| own.of(step, rank).saturating_sub(usual_of_step[step]));
            Straggler {
                rank: table.ranks[rank],
                own_ns: medians[rank],
                usual_ns: usual,
                stage: table.stages[stage].name.clone(),
                stage_longer_ns,
                longer_ns: saturating_sum(longer.filter(|longer| *longer > 0)),
            }
        })
        .collect();
    slow.order_by_key(|straggler| (std::cmp::Reverse(straggler.own_ns), straggler.rank));
    slow
}

/// Returns the stage with the largest median excess over the median rank, and this excess in
/// nanoseconds.
fn where_it_loses(own: &Own<'_>, rank: usize) -> (usize, i64) {
    let longer = |stage: usize| {
        let usual = own.middle(|step, rank| own.table.row(step, rank)[stage]);
        let longer = usual.iter().enumerate();
        lower_median(
            longer
                .map(|(step, usual)| own.table.row(step, rank)[stage].saturating_sub(*usual))
                .collect(),
        )
    };
    let stages = own.stages.iter().map(|stage| (*stage, longer(*stage)));
    // Of several stages with the same excess, the first one is chosen.
    let worse = |one: (usize, i64), next: (usize, i64)| if next.1 > one.1 { next } else { one };
    stages.reduce(worse).unwrap_or((0, 0))
}

/// Returns the lower median. With two ranks, the faster one is the reference, and not their mean.
fn lower_median(mut values: Vec<i64>) -> i64 {
    let Some(last) = values.len().checked_sub(1) else { return 0 };
    *values.select_nth_unstable(last / 2).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::frontier::Stage;

    /// Pseudorandom numbers with a fixed seed.
    struct Noise(u64);

    impl Noise {
        /// Returns a number from −1 to 1 with a higher probability near 0.
        fn next(&mut self) -> f64 {
            let mut uniform = || {
                self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (self.0 >> 33) as f64 / (1_u64 << 30) as f64 - 1.0
            };
            (uniform() + uniform() + uniform()) / 3.0
        }
    }

    const STAGES: [(&str, f64); 4] =
        [("data", 2e6), ("forward", 10e6), ("backward", 20e6), ("optimizer", 3e6)];

    /// Builds a table in which stages vary by `spread` between steps. Ranks wait for each other
    /// before the optimizer. `factor` scales the usual time of a stage for each rank.
    fn table(ranks: u32, steps: u64, spread: f64, factor: impl Fn(u32, &str) -> f64) -> StageTable {
        let mut noise = Noise(1);
        let mut stages: Vec<Stage> =
            STAGES.map(|(name, _)| Stage { name: name.to_owned(), waits_for_others: false }).into();
        stages.insert(3, Stage { name: "all_reduce".to_owned(), waits_for_others: true });
        let mut table = StageTable::new(stages, (0..ranks).collect());
        for step in 0..steps {
            let own: Vec<[i64; 4]> = (0..ranks)
                .map(|rank| {
                    STAGES.map(|(name, usual)| {
                        (usual * factor(rank, name) * (1.0 + spread * noise.next())) as i64
                    })
                })
                .collect();
            let before = |own: &[i64; 4]| own[..3].iter().sum::<i64>();
            let last = own.iter().map(before).max().unwrap_or(0);
            let row: Vec<i64> = own
                .iter()
                .flat_map(|own| [own[0], own[1], own[2], last - before(own) + 1_000_000, own[3]])
                .collect();
            assert!(table.push(step, &row));
        }
        table
    }

    #[test]
    fn of_healthy_ranks_nobody_is_named() {
        for ranks in [2, 3, 8, 1000] {
            assert_eq!(stragglers(&table(ranks, 20, 0.1, |_, _| 1.0)), [], "{ranks} ranks");
        }
        // A rank that is only slightly slower is not reported, even if it is consistently slower.
        let a_little = |rank, _: &str| if rank == 1 { 1.08 } else { 1.0 };
        assert_eq!(stragglers(&table(8, 20, 0.01, a_little)), []);
        // Steps with a large variation, and tables that are too small, also give no straggler.
        assert_eq!(stragglers(&table(4, 50, 0.5, |_, _| 1.0)), []);
        assert_eq!(stragglers(&table(1, 50, 0.1, |_, _| 1.0)), []);
        assert_eq!(stragglers(&table(4, 2, 0.1, |rank, _| 1.0 + f64::from(rank))), []);
    }

    /// Checks that a rank with 15 % more work in all stages is found among 2, 8 and 10,000 ranks.
    #[test]
    fn a_slow_rank_is_named() {
        for (ranks, slow) in [(2, 1), (8, 3), (10_000, 7_777)] {
            let factor = |rank, _: &str| if rank == slow { 1.15 } else { 1.0 };
            let found = stragglers(&table(ranks, 10, 0.05, factor));
            assert_eq!(found.len(), 1, "{ranks} ranks: {found:?}");
            assert_eq!((found[0].rank, found[0].stage.as_str()), (slow, "backward"));
            let longer = found[0].own_ns as f64 / found[0].usual_ns as f64 - 1.0;
            assert!((longer - 0.15).abs() < 0.03, "{longer}");
        }
    }

    #[test]
    fn a_rank_that_waits_for_its_data_is_named_with_that() {
        let factor = |rank, name: &str| if rank == 2 && name == "data" { 4.0 } else { 1.0 };
        let table = table(4, 20, 0.05, factor);
        let found = stragglers(&table);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].rank, found[0].stage.as_str()), (2, "data"));
        assert!((found[0].stage_longer_ns - 6_000_000).abs() < 500_000, "{found:?}");
        // The rank loses 6 ms in each of 20 steps, and the others wait for it.
        assert!((found[0].longer_ns - 120_000_000).abs() < 10_000_000, "{found:?}");
    }

    /// Checks that a rank with one slow step in ten is not reported.
    #[test]
    fn occasionally_slow_ranks_are_not_named() {
        let mut slow_once = table(4, 20, 0.05, |_, _| 1.0);
        let once = table(4, 2, 0.05, |rank, _| if rank == 1 { 3.0 } else { 1.0 });
        for step in 0..2 {
            let row: Vec<i64> = (0..4).flat_map(|rank| once.row(step, rank).to_vec()).collect();
            assert!(slow_once.push(20 + step as u64, &row));
        }
        assert_eq!(stragglers(&slow_once), []);
    }

    /// Checks that a rank is not reported if its median step is slow but two in five steps are not.
    #[test]
    fn ranks_slow_in_about_half_of_their_steps_are_not_named() {
        let mut now_and_then = table(4, 12, 0.05, |rank, _| if rank == 1 { 1.5 } else { 1.0 });
        let usual = table(4, 8, 0.05, |_, _| 1.0);
        assert_eq!(stragglers(&now_and_then).len(), 1, "in all of its steps");
        for step in 0..8 {
            let row: Vec<i64> = (0..4).flat_map(|rank| usual.row(step, rank).to_vec()).collect();
            assert!(now_and_then.push(12 + step as u64, &row));
        }
        assert_eq!(stragglers(&now_and_then), []);
    }

    /// Checks that no rank is reported if all ranks differ. The slowest is not further from the
    /// median than others.
    #[test]
    fn where_all_ranks_differ_the_last_one_is_not_named() {
        let found = stragglers(&table(8, 20, 0.01, |rank, _| 1.0 + 0.05 * f64::from(rank)));
        assert_eq!(found, []);
    }
}
