//! Exposed time: how long each stage of a step delays all ranks, and the rank that causes the
//! delay.
//!
//! In each step, every rank runs through the same stages in order. The **frontier** at stage *k* is
//! the time when the last rank completes stage *k*. It is the largest sum over all stages up to
//! *k*. The **exposed time** of a stage is the amount by which it advances the frontier.
//!
//! The exposed times are additive: their sum is exactly the slowest rank's step, in nanoseconds.
//! The clocks of several machines need not agree. A rank that waits for another one is not blamed,
//! because its waiting does not advance the frontier. The method follows *StageFrontier*, arXiv
//! 2606.06751.

use std::collections::BTreeMap;

use serde::Serialize;

/// A stage of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Stage {
    /// Name of the stage.
    pub name: String,
    /// `true` if ranks wait for each other in this stage.
    pub waits_for_others: bool,
}

/// Durations of each stage, per rank and step, in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct StageTable {
    /// Stages in execution order.
    pub stages: Vec<Stage>,
    /// Numbers of the ranks.
    pub ranks: Vec<u32>,
    /// Numbers of the steps that all ranks have.
    pub steps: Vec<u64>,
    /// Durations in nanoseconds, ordered by step, then rank, then stage.
    durations: Vec<i64>,
}

/// Exposed time of a stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Exposed {
    /// The stage.
    pub stage: Stage,
    /// Exposed time summed over all steps, in nanoseconds. Never negative.
    pub exposed_ns: i64,
    /// Rank that most often completed the stage last, and the number of these steps.
    pub last: Option<(u32, usize)>,
}

impl StageTable {
    /// Creates a table without steps.
    pub fn new(stages: Vec<Stage>, ranks: Vec<u32>) -> Self {
        Self { stages, ranks, steps: Vec::new(), durations: Vec::new() }
    }

    /// Creates a table of the steps that all ranks have. For each rank, `ranks` contains the
    /// durations of the stages by step key. `number` returns the step number of a key.
    pub fn of_common_steps<Key: Ord, const STAGES: usize>(
        stages: Vec<Stage>,
        ranks: &BTreeMap<u32, BTreeMap<Key, [i64; STAGES]>>,
        number: impl Fn(&Key) -> u64,
    ) -> Self {
        let mut table = Self::new(stages, ranks.keys().copied().collect());
        let Some(first) = ranks.values().next() else { return table };
        for step in first.keys() {
            let of_all = ranks.values().map(|steps| steps.get(step).copied());
            if let Some(rows) = of_all.collect::<Option<Vec<_>>>() {
                table.push(number(step), &rows.concat());
            }
        }
        table
    }

    /// Adds a step with the durations of all ranks and stages. Returns `false` and adds no step if
    /// the number of durations is wrong.
    pub fn push(&mut self, step: u64, durations: &[i64]) -> bool {
        let is_whole = durations.len() == self.ranks.len() * self.stages.len();
        if is_whole {
            self.steps.push(step);
            self.durations.extend_from_slice(durations);
        }
        is_whole
    }

    /// Returns the stage durations of one rank in one step, both given by index.
    pub fn row(&self, step: usize, rank: usize) -> &[i64] {
        let first = (step * self.ranks.len() + rank) * self.stages.len();
        &self.durations[first..first + self.stages.len()]
    }

    /// Returns `true` if any rank ever waited for others, as far as this is recorded. Otherwise a
    /// rank's own work is unknown.
    pub fn has_waits(&self) -> bool {
        let waits = self.stages.iter().position(|stage| stage.waits_for_others);
        let ranks = self.ranks.len();
        let places =
            || (0..self.steps.len()).flat_map(|step| (0..ranks).map(move |rank| (step, rank)));
        waits.is_some_and(|waits| places().any(|(step, rank)| self.row(step, rank)[waits] > 0))
    }

    /// Returns the exposed time of each stage, in the order of the stages. Their sum is
    /// [`length`](Self::length).
    pub fn exposed(&self) -> Vec<Exposed> {
        let mut exposed = vec![0; self.stages.len()];
        let mut times_last = vec![vec![0_usize; self.ranks.len()]; self.stages.len()];
        for step in 0..self.steps.len() {
            let mut through = vec![0_i64; self.ranks.len()];
            let mut before = 0;
            for stage in 0..self.stages.len() {
                for (rank, through) in through.iter_mut().enumerate() {
                    *through = through.saturating_add(self.row(step, rank)[stage]);
                }
                let frontier = through.iter().copied().max().unwrap_or(0);
                exposed[stage] = saturating_sum([exposed[stage], frontier.saturating_sub(before)]);
                before = frontier;
                // If several ranks complete a stage at the same time, no single rank is last.
                let mut last = (0..through.len()).filter(|rank| through[*rank] == frontier);
                if let (Some(rank), None) = (last.next(), last.next()) {
                    times_last[stage][rank] += 1;
                }
            }
        }
        let stages = self.stages.iter().zip(exposed).zip(times_last);
        let stages = stages.map(|((stage, exposed_ns), times)| {
            let most = times.iter().copied().max().filter(|times| *times > 0);
            let rank = most.and_then(|most| times.iter().position(|times| *times == most));
            let last = rank.map(|rank| (self.ranks[rank], times[rank]));
            Exposed { stage: stage.clone(), exposed_ns, last }
        });
        stages.collect()
    }

    /// Returns the duration of all steps in nanoseconds. Each step counts with its slowest rank.
    pub fn length(&self) -> i64 {
        let longest = |step: usize| {
            let ranks = 0..self.ranks.len();
            let sum = |rank| saturating_sum(self.row(step, rank).iter().copied());
            ranks.map(sum).max().unwrap_or(0)
        };
        saturating_sum((0..self.steps.len()).map(longest))
    }
}

/// Returns the saturating sum of durations. A damaged file may contain arbitrary values.
pub(super) fn saturating_sum(durations: impl IntoIterator<Item = i64>) -> i64 {
    durations.into_iter().fold(0, i64::saturating_add)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn stages() -> Vec<Stage> {
        let stage =
            |name: &str| Stage { name: name.to_owned(), waits_for_others: name == "all_reduce" };
        ["data", "forward", "backward", "all_reduce", "optimizer"].map(stage).into()
    }

    /// Checks that ranks that wait in `all_reduce` are not blamed for rank 2, which waits 30 ms
    /// longer for its data.
    #[test]
    fn waiting_ranks_are_not_blamed() {
        let mut table = StageTable::new(stages(), vec![0, 1, 2, 3]);
        let own = |data: i64| [data, 20, 60, 66 - data, 10];
        let step: Vec<i64> = [5, 6, 36, 5].into_iter().flat_map(own).collect();
        assert!(table.push(0, &step) && table.push(1, &step));
        assert!(!table.push(2, &step[1..]));
        let exposed = table.exposed();
        let by_hand =
            [(72, Some((2, 2))), (40, Some((2, 2))), (120, Some((2, 2))), (60, None), (20, None)];
        for (exposed, (nanoseconds, last)) in exposed.iter().zip(by_hand) {
            assert_eq!((exposed.exposed_ns, exposed.last), (nanoseconds, last), "{exposed:?}");
        }
        assert_eq!(table.length(), 2 * 156);
    }

    proptest! {
        #[test]
        fn parts_add_up_to_the_longest_ranks_steps(
            durations in proptest::collection::vec(0_i64..1_000_000_000, 3 * 4 * 5)
        ) {
            let mut table = StageTable::new(stages(), vec![0, 1, 2, 7]);
            for (step, row) in (0..).zip(durations.chunks(4 * 5)) {
                prop_assert!(table.push(step, row));
            }
            let exposed = table.exposed();
            prop_assert!(exposed.iter().all(|part| part.exposed_ns >= 0));
            prop_assert_eq!(exposed.iter().map(|part| part.exposed_ns).sum::<i64>(), table.length());
        }
    }
}
