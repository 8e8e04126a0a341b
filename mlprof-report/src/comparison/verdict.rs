//! Verdicts on the difference between two sides.

use std::cmp::Ordering;

use super::side::Side;
use super::spread::Sample;
use super::uncertainty::{combined_freedom, errors};
use super::{ComparedRow, Unit, Verdict};

/// Minimum share of the run for a regression: 1 %. Rows with a smaller share on both sides are not
/// listed.
pub const LEAST_SHARE: f64 = 0.01;

/// Maximum rate of false alarms in comparisons of equal runs. It applies once to all rows with at
/// least [`LEAST_SHARE`] of the run, and once to all other rows.
const FALSE_ALARMS: f64 = 0.01;
/// Largest difference by chance that allows a verdict, as a logarithm. If calls alone can double a
/// value by chance, there are too few of them.
const MOST_BY_CHANCE: f64 = std::f64::consts::LN_2;

/// Number of rows that a comparison judges, over all of its parts. With more rows, chance makes one
/// of them differ more often.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Judged {
    large: usize,
    small: usize,
}

impl Judged {
    pub(super) fn count(&mut self, row: &PendingRow) {
        let is_judged = row.evidence.as_ref().is_some_and(|evidence| evidence.varies);
        match is_judged {
            true if row.is_large() => self.large += 1,
            true => self.small += 1,
            false => {}
        }
    }

    /// Returns the false-alarm probability of one row in one direction.
    fn tail(self, is_large: bool) -> f64 {
        let rows = if is_large { self.large } else { self.small };
        0.5 * FALSE_ALARMS / rows.max(1) as f64
    }
}

/// A row that has no verdict yet.
#[derive(Debug)]
pub(super) struct PendingRow {
    row: ComparedRow,
    evidence: Option<Evidence>,
}

/// Statistics that decide if two sides differ.
#[derive(Debug)]
struct Evidence {
    before: Side,
    after: Side,
    /// Ratio of the number of calls after the change to that before.
    times: f64,
    /// `true` if the value varies by chance, and not only within the tolerance of counts.
    varies: bool,
}

impl PendingRow {
    /// Builds the row from the runs of both sides that have it. With `counts_calls`, the number of
    /// calls is part of the cost.
    pub(super) fn of(
        name: String,
        unit: Unit,
        [before, after]: [&[Sample]; 2],
        counts_calls: bool,
    ) -> Self {
        let share = before.iter().chain(after).map(|run| run.share).fold(0.0, f64::max);
        let (before, after) = (Side::of(before, unit), Side::of(after, unit));
        let measured = |side: &Option<Side>| side.as_ref().map(|side| side.measured);
        let mut row = ComparedRow {
            name,
            before: measured(&before),
            after: measured(&after),
            change: None,
            sure_change: None,
            share,
            verdict: match (&before, &after) {
                (Some(_), None) => Verdict::OnlyBefore,
                _ => Verdict::OnlyAfter,
            },
        };
        let (Some(before), Some(after)) = (before, after) else {
            return Self { row, evidence: None };
        };
        let (one, other) = (before.measured, after.measured);
        let times = match counts_calls && one.calls > 0.0 && other.calls > 0.0 {
            true => other.calls / one.calls,
            false => 1.0,
        };
        row.change = (one.value > 0.0).then(|| times * other.value / one.value - 1.0);
        let are_several = before.are_several() && after.are_several();
        let is_known = before.within.is_some() && after.within.is_some();
        let is_of_few_calls = before.is_of_few_calls || after.is_of_few_calls;
        if is_of_few_calls || !are_several && !is_known {
            let has_too_few = is_of_few_calls || before.has_too_few || after.has_too_few;
            row.verdict = if has_too_few { Verdict::TooFew } else { Verdict::Unknown };
            return Self { row, evidence: None };
        }
        let varies = unit == Unit::Seconds || before.varies() || after.varies();
        Self { row, evidence: Some(Evidence { before, after, times, varies }) }
    }

    fn is_large(&self) -> bool {
        self.row.share >= LEAST_SHARE
    }

    /// Returns the row with its verdict. `judged` contains the number of rows that share the
    /// false-alarm rate.
    pub(super) fn judge(self, judged: Judged) -> ComparedRow {
        let tail = judged.tail(self.is_large());
        let Self { mut row, evidence } = self;
        if let Some(evidence) = evidence {
            (row.verdict, row.sure_change) = evidence.verdict(tail, row.change);
        }
        row
    }
}

impl Evidence {
    fn verdict(&self, tail: f64, change: Option<f64>) -> (Verdict, Option<f64>) {
        let are_several = self.before.are_several() && self.after.are_several();
        let Some(difference) = self.difference() else {
            // If most calls do not have this cost, one run may have it by chance.
            let is_sure = are_several || !self.varies;
            return match (self.before.is_nothing(), self.after.is_nothing()) {
                (true, false) if is_sure && self.after.is_positive() => (Verdict::Worse, None),
                (false, true) if is_sure && self.before.is_positive() => {
                    (Verdict::Better, Some(-1.0))
                }
                _ => (Verdict::Same, Some(0.0)),
            };
        };
        let change = change.unwrap_or(0.0);
        let sure = match difference > 0.0 {
            true => (difference - self.chance(tail, true)).exp_m1().min(change).max(0.0),
            false => (difference + self.chance(tail, false)).exp_m1().max(change).min(0.0),
        };
        let verdict = match sure {
            more if more > 0.0 => Verdict::Worse,
            less if less < 0.0 => Verdict::Better,
            // Neither "same" nor "different" can be justified here.
            _ if !are_several && self.by_calls(tail, true) > MOST_BY_CHANCE => {
                return (Verdict::TooFew, None);
            }
            _ => Verdict::Same,
        };
        (verdict, Some(if verdict == Verdict::Same { 0.0 } else { sure }))
    }

    /// Returns the logarithm of the ratio of after to before. Returns `None` if a run of either
    /// side has the value 0.
    fn difference(&self) -> Option<f64> {
        let (before, after) = (&self.before, &self.after);
        if !before.is_positive() || !after.is_positive() {
            return None;
        }
        let ratio = match before.are_several() && after.are_several() {
            true => after.mean - before.mean,
            false => (after.measured.value / before.measured.value).ln(),
        };
        Some(ratio + self.times.ln())
    }

    /// Returns the side with the larger value, and the one with the smaller value.
    fn sides(&self, is_more: bool) -> (&Side, &Side) {
        match is_more {
            true => (&self.after, &self.before),
            false => (&self.before, &self.after),
        }
    }

    /// Returns the largest difference that the calls can cause by chance, as a logarithm. `is_more`
    /// is `true` for an increase and `false` for a decrease.
    fn by_calls(&self, tail: f64, is_more: bool) -> f64 {
        let (lower, upper) = self.sides(is_more);
        lower.within.zip(upper.within).map_or(0.0, |(lower, upper)| {
            let freedom = [(lower.below, lower.freedom), (upper.above, upper.freedom)];
            let freedom = combined_freedom(freedom.into_iter());
            errors(tail, freedom, lower.below.hypot(upper.above))
        })
    }

    /// Returns the largest difference that is attributed to chance, as a logarithm. `is_more` is
    /// `true` for an increase and `false` for a decrease.
    fn chance(&self, tail: f64, is_more: bool) -> f64 {
        let (lower, upper) = self.sides(is_more);
        let by_calls = self.by_calls(tail, is_more);
        if lower.are_several() && upper.are_several() {
            let (error, freedom) = lower.error_with(upper);
            return self.no_less(by_calls.max(errors(tail, freedom, error)));
        }
        // With too few runs, the variation between runs is unknown. The ranges and the drifts of
        // the existing runs replace it.
        let within = lower.within.zip(upper.within);
        let drift = within.map_or(0.0, |(lower, upper)| lower.drift_below + upper.drift_above);
        self.no_less(by_calls + drift + lower.range + upper.range)
    }

    /// Raises `chance` to the minimum uncertainty of both sides.
    fn no_less(&self, chance: f64) -> f64 {
        let (before, after) = (self.before.least, self.after.least);
        chance.max(before.ln_1p() - (-after).ln_1p())
    }
}

impl ComparedRow {
    /// Orders rows that got worse first, and within each group by their effect on the run.
    pub(super) fn compare(&self, other: &Self) -> Ordering {
        let group = |row: &Self| match row.verdict {
            Verdict::Worse => 0,
            Verdict::Better => 1,
            Verdict::OnlyAfter | Verdict::OnlyBefore => 2,
            Verdict::Same | Verdict::TooFew | Verdict::Unknown => 3,
        };
        let by_weight = other.weight().total_cmp(&self.weight());
        group(self).cmp(&group(other)).then(by_weight).then_with(|| self.name.cmp(&other.name))
    }

    /// Returns the share of the run that the difference represents.
    fn weight(&self) -> f64 {
        match (self.verdict, self.change) {
            (Verdict::Worse, Some(change)) => self.share * change / (1.0 + change),
            (Verdict::Better, Some(change)) => self.share * change.abs(),
            _ => self.share,
        }
    }
}
