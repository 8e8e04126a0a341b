//! What the numbers of two sides mean.

use std::cmp::Ordering;

use super::spread::{Sample, Spread};
use super::{ComparedRow, Measured, Unit, Verdict};

impl ComparedRow {
    /// Of the runs of both sides that have it. `counts_calls`: how often it was called is part of what it
    /// costs.
    pub(super) fn of(
        name: String,
        unit: Unit,
        [before, after]: [&[Sample]; 2],
        counts_calls: bool,
    ) -> Self {
        let share = before.iter().chain(after).map(|run| run.share).fold(0.0, f64::max);
        let has_too_few = before.iter().chain(after).any(|run| run.spread == Spread::TooFew);
        let (before, after) = (Measured::of(before, unit), Measured::of(after, unit));
        let mut row = Self {
            name,
            before,
            after,
            change: None,
            sure_change: None,
            share,
            verdict: match (before, after) {
                (Some(_), None) => Verdict::OnlyBefore,
                _ => Verdict::OnlyAfter,
            },
        };
        if let (Some(before), Some(after)) = (before, after) {
            let times = match counts_calls && before.calls > 0.0 && after.calls > 0.0 {
                true => after.calls / before.calls,
                false => 1.0,
            };
            let after = after.times(times);
            row.change = change(before.value, after.value);
            row.judge(&before, &after, has_too_few);
        }
        row
    }

    fn judge(&mut self, before: &Measured, after: &Measured, has_too_few: bool) {
        let (Some(earlier), Some(later)) = (before.limits, after.limits) else {
            self.verdict = if has_too_few { Verdict::TooFew } else { Verdict::Unknown };
            return;
        };
        let (verdict, sure) = if later.low > earlier.high {
            (Verdict::Worse, change(earlier.high, later.low))
        } else if later.high < earlier.low {
            (Verdict::Better, change(earlier.low, later.high))
        } else {
            (Verdict::Same, Some(0.0))
        };
        (self.verdict, self.sure_change) = (verdict, sure);
    }

    /// What got worse comes first, and of that what costs most.
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

    /// Which part of the run the difference is.
    fn weight(&self) -> f64 {
        match (self.verdict, self.change) {
            (Verdict::Worse, Some(change)) => self.share * change / (1.0 + change),
            (Verdict::Better, Some(change)) => self.share * change.abs(),
            _ => self.share,
        }
    }
}

/// How much more, as a part of what it was; `None` where it was nothing.
fn change(before: f64, after: f64) -> Option<f64> {
    (before > 0.0).then(|| after / before - 1.0)
}
