//! Rows that got significantly worse by more than a threshold.

use std::fmt::{self, Display, Formatter};

use super::series::TRACE;
use super::verdict::LEAST_SHARE;
use super::{Comparison, Measured, Subject, Verdict};
use crate::label;
use crate::number::share;
use crate::table::Unit;

/// A row that got significantly worse. Its `Display` form is one line.
#[derive(Debug, Clone, PartialEq)]
pub struct Regression {
    /// Title of the report that contains the row: `Simple, fit`.
    pub report: String,
    /// Kind of object that the row describes.
    pub subject: Subject,
    /// Name of the row.
    pub name: String,
    /// Value before the change.
    pub before: Measured,
    /// Value after the change.
    pub after: Measured,
    /// Relative change: 0.05 means 5 % more than before.
    pub change: f64,
    /// Smallest relative change that is beyond the normal variation.
    pub sure_change: f64,
    /// Share of the run, 0 to 1.
    pub share: f64,
    /// `true` if the row comes from a trace, so that its numbers are of steps and not of calls.
    pub is_of_trace: bool,
}

impl Comparison {
    /// Returns the rows that got slower or take more memory by more than `threshold` beyond the
    /// normal variation. `threshold` is relative to the value before: 0.05 means 5 %. Rows below
    /// [`LEAST_SHARE`] of the run are left out. Of a hundred comparisons of equal runs, at most one
    /// has any regression.
    pub fn regressions(&self, threshold: f64) -> Vec<Regression> {
        let mut regressions = Vec::new();
        for part in &self.parts {
            let rows = part
                .tables
                .iter()
                .flat_map(|table| table.rows.iter().map(move |row| (table.subject, row)));
            for (subject, row) in rows {
                let (Some(before), Some(after)) = (row.before, row.after) else { continue };
                let Some((change, sure_change)) = row.change.zip(row.sure_change) else { continue };
                let is_worse = row.verdict == Verdict::Worse;
                if is_worse && sure_change > threshold && row.share >= LEAST_SHARE {
                    let (report, name) = (part.title(), row.name.clone());
                    let share = row.share;
                    let is_of_trace = part.profiler == TRACE;
                    regressions.push(Regression {
                        report,
                        subject,
                        name,
                        before,
                        after,
                        change,
                        sure_change,
                        share,
                        is_of_trace,
                    });
                }
            }
        }
        regressions
    }

    /// Returns `true` if any row with at least [`LEAST_SHARE`] of the run has a verdict. Otherwise
    /// an empty list of regressions has no meaning.
    pub fn is_judged(&self) -> bool {
        let rows = self.parts.iter().flat_map(|part| &part.tables).flat_map(|table| &table.rows);
        rows.filter(|row| row.share >= LEAST_SHARE).any(|row| match row.verdict {
            Verdict::Worse | Verdict::Better | Verdict::Same => true,
            Verdict::OnlyAfter | Verdict::OnlyBefore | Verdict::TooFew | Verdict::Unknown => false,
        })
    }
}

impl Display for Regression {
    fn fmt(&self, text: &mut Formatter<'_>) -> fmt::Result {
        let Self { report, subject, name, before, after, share: part, is_of_trace, .. } = self;
        let unit = subject.unit();
        let word = Verdict::Worse.word(unit);
        let name = label::shown(name);
        let title = subject.title();
        let (earlier, later) = (unit.write(before.value), unit.write(after.value));
        let [change, least] = [self.change, self.sure_change].map(|it| Unit::Change.write_text(it));
        write!(
            text,
            "{report}: {title}: {name}: {word}, {change} (at least {least}): {earlier} before, \
             {later} after"
        )?;
        if before.calls != after.calls && !is_of_trace {
            write!(text, ", called {} times instead of {}", after.calls, before.calls)?;
        }
        write!(text, "; {} of the run", share(*part, 1.0))
    }
}
